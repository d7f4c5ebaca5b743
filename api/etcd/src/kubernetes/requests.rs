//! The etcd requests of the interface, as etcd's `clientv3/kubernetes` package sends them. Both
//! implementations build their requests here, so that a store receives the same requests from both.

use bytes::Bytes;

use super::{DeleteOptions, ListOptions, OptimisticResponse, PutOptions, WatchOptions};
use crate::keys::prefix_end;
use crate::proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use crate::proto::etcdserverpb::request_op::Request as Op;
use crate::proto::etcdserverpb::response_op::Response as OpResponse;
use crate::proto::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest, TxnResponse,
    WatchCreateRequest,
};

/// Returns the Range request of a list: from the continue key, if there is one, to the end of the
/// prefix. An empty prefix selects all keys, for which etcd's start key is `\0`.
pub fn list(prefix: &[u8], options: ListOptions) -> RangeRequest {
    RangeRequest {
        key: match options.continue_key {
            key if key.is_empty() => first_key(prefix),
            key => key,
        },
        range_end: prefix_end(prefix).into(),
        limit: options.limit,
        revision: options.revision,
        ..Default::default()
    }
}

/// Returns the compare-and-put transaction for one key.
pub fn optimistic_put(
    key: &[u8],
    value: Bytes,
    expected_revision: i64,
    options: PutOptions,
) -> TxnRequest {
    let key = Bytes::copy_from_slice(key);
    let put = Op::RequestPut(PutRequest {
        key: key.clone(),
        value,
        lease: options.lease_id,
        ..Default::default()
    });
    optimistic(key, expected_revision, put, options.get_on_failure)
}

/// Returns the compare-and-delete transaction for one key.
pub fn optimistic_delete(key: &[u8], expected_revision: i64, options: DeleteOptions) -> TxnRequest {
    let key = Bytes::copy_from_slice(key);
    let delete = Op::RequestDeleteRange(DeleteRangeRequest {
        key: key.clone(),
        ..Default::default()
    });
    optimistic(key, expected_revision, delete, options.get_on_failure)
}

/// Converts the response of an optimistic write.
pub fn optimistic_response(response: TxnResponse) -> OptimisticResponse {
    let read = response.responses.into_iter().next();
    let kv = match read.and_then(|op| op.response) {
        Some(OpResponse::ResponseRange(range)) => range.kvs.into_iter().next(),
        _ => None,
    };
    OptimisticResponse {
        succeeded: response.succeeded,
        kv,
        revision: response.header.map_or(0, |header| header.revision),
    }
}

/// Returns the request to watch a prefix or a single key.
pub fn watch(prefix: &[u8], options: &WatchOptions) -> WatchCreateRequest {
    WatchCreateRequest {
        key: match options.single_key {
            true => Bytes::copy_from_slice(prefix),
            false => first_key(prefix),
        },
        range_end: match options.single_key {
            true => Bytes::new(),
            false => prefix_end(prefix).into(),
        },
        start_revision: options.start_revision,
        progress_notify: options.progress_notify,
        prev_kv: options.prev_kv,
        fragment: true,
        ..Default::default()
    }
}

/// Returns a transaction that executes `write` if the key's mod revision is `expected_revision`,
/// and otherwise reads the key if `get_on_failure`.
fn optimistic(key: Bytes, expected_revision: i64, write: Op, get_on_failure: bool) -> TxnRequest {
    let compare = Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Mod.into(),
        key: key.clone(),
        range_end: Bytes::new(),
        target_union: Some(TargetUnion::ModRevision(expected_revision)),
    };
    let read = Op::RequestRange(RangeRequest {
        key,
        ..Default::default()
    });
    let op = |request| RequestOp {
        request: Some(request),
    };
    TxnRequest {
        compare: vec![compare],
        success: vec![op(write)],
        failure: get_on_failure.then(|| op(read)).into_iter().collect(),
    }
}

fn first_key(prefix: &[u8]) -> Bytes {
    Bytes::copy_from_slice(if prefix.is_empty() { b"\0" } else { prefix })
}
