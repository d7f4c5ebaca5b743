//! Writes as Kubernetes makes them: transactions that compare a key's mod_revision
//! (k8s.io/apiserver `storage/etcd3`: `Create`, `GuaranteedUpdate`, `Delete`; KEP-4743's interface
//! names the same three).

use bytes::Bytes;
use etcd_api::proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use etcd_api::proto::etcdserverpb::request_op::Request;
use etcd_api::proto::etcdserverpb::response_op::Response;
use etcd_api::proto::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest, TxnResponse,
};
use prost::Message as _;

/// The outcome of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Whether the comparison held, so that the transaction wrote.
    pub(super) succeeded: bool,
    /// The store's revision.
    pub(super) revision: i64,
    /// The key's own revision if the transaction did not write; 0 if the key does not exist.
    pub(super) found: i64,
}

/// Returns a transaction that writes a key that does not exist.
pub(super) fn create(key: Bytes, value: Bytes) -> TxnRequest {
    TxnRequest {
        compare: vec![is_at(key.clone(), 0)],
        success: vec![put(key, value)],
        failure: Vec::new(),
    }
}

/// Returns a transaction that writes a key that is at this revision, and reads it if it is at
/// another.
pub(super) fn update(key: Bytes, value: Bytes, revision: i64) -> TxnRequest {
    TxnRequest {
        compare: vec![is_at(key.clone(), revision)],
        success: vec![put(key.clone(), value)],
        failure: vec![get(key)],
    }
}

/// Returns a transaction that deletes a key that is at this revision, or that exists at all if
/// `revision` is 0, and reads it otherwise.
pub(super) fn delete(key: Bytes, revision: i64) -> TxnRequest {
    let compare = match revision {
        0 => Compare {
            result: CompareResult::Greater.into(),
            ..is_at(key.clone(), 0)
        },
        _ => is_at(key.clone(), revision),
    };
    TxnRequest {
        compare: vec![compare],
        success: vec![op(Request::RequestDeleteRange(DeleteRangeRequest {
            key: key.clone(),
            ..DeleteRangeRequest::default()
        }))],
        failure: vec![get(key)],
    }
}

/// Decodes a response; `None` if it is malformed.
pub(super) fn outcome(message: &[u8]) -> Option<Outcome> {
    let response = TxnResponse::decode(message).ok()?;
    let read = response
        .responses
        .first()
        .and_then(|op| match &op.response {
            Some(Response::ResponseRange(range)) => range.kvs.first(),
            _ => None,
        });
    Some(Outcome {
        succeeded: response.succeeded,
        revision: response.header?.revision,
        found: read.map_or(0, |kv| kv.mod_revision),
    })
}

fn is_at(key: Bytes, revision: i64) -> Compare {
    Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Mod.into(),
        key,
        range_end: Bytes::new(),
        target_union: Some(TargetUnion::ModRevision(revision)),
    }
}

fn put(key: Bytes, value: Bytes) -> RequestOp {
    op(Request::RequestPut(PutRequest {
        key,
        value,
        ..PutRequest::default()
    }))
}

fn get(key: Bytes) -> RequestOp {
    op(Request::RequestRange(RangeRequest {
        key,
        ..RangeRequest::default()
    }))
}

fn op(request: Request) -> RequestOp {
    RequestOp {
        request: Some(request),
    }
}
