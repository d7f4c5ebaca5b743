//! Converts requests and responses between the history's types and etcd's messages.

use etcd_api::error::Refusal as EtcdRefusal;
use etcd_api::proto::etcdserverpb as pb;
use etcd_api::proto::mvccpb;
use history::{
    Change, Compare, Event, KeyRange, KeyValue, Message, OpResponse, Outcome, RangeRequest,
    RangeResponse, Refusal, Txn, TxnResponse,
};
use pb::compare::{CompareResult, CompareTarget, TargetUnion};
use pb::request_op::Request;
use pb::response_op::Response;
use tonic::{Code, Status};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the end of a range for etcd: empty for a single key.
fn range_end(range: &KeyRange) -> String {
    match range.end == KeyRange::one(&range.from).end {
        true => String::new(),
        false => range.end.clone(),
    }
}

fn key_value(kv: &mvccpb::KeyValue) -> KeyValue {
    KeyValue {
        key: text(&kv.key),
        value: text(&kv.value),
        create_revision: kv.create_revision,
        mod_revision: kv.mod_revision,
        version: kv.version,
        lease: kv.lease,
    }
}

fn key_values(kvs: &[mvccpb::KeyValue]) -> Vec<KeyValue> {
    kvs.iter().map(key_value).collect()
}

pub(crate) fn revision(header: Option<&pb::ResponseHeader>) -> i64 {
    header.map_or(0, |header| header.revision)
}

/// Returns etcd's request for a range.
pub(crate) fn range_request(request: &RangeRequest) -> pb::RangeRequest {
    pb::RangeRequest {
        key: request.range.from.clone().into(),
        range_end: range_end(&request.range).into(),
        revision: request.revision,
        limit: i64::try_from(request.limit).expect("a small limit"),
        count_only: request.count_only,
        ..pb::RangeRequest::default()
    }
}

/// Returns the history's response of a range.
pub(crate) fn range_response(response: &pb::RangeResponse) -> RangeResponse {
    RangeResponse {
        revision: revision(response.header.as_ref()),
        kvs: key_values(&response.kvs),
        count: response.count,
        more: response.more,
    }
}

/// Returns etcd's request for a put.
pub(crate) fn put(key: &str, value: &str, lease: i64) -> pb::PutRequest {
    pb::PutRequest {
        key: key.to_owned().into(),
        value: value.to_owned().into(),
        lease,
        prev_kv: true,
        ..pb::PutRequest::default()
    }
}

/// Returns etcd's request for a deletion.
pub(crate) fn delete(range: &KeyRange) -> pb::DeleteRangeRequest {
    pb::DeleteRangeRequest {
        key: range.from.clone().into(),
        range_end: range_end(range).into(),
        prev_kv: true,
    }
}

fn op(change: &Change) -> pb::RequestOp {
    let request = match change {
        Change::Put(key, value, lease) => Request::RequestPut(put(key, value, *lease)),
        Change::Delete(range) => Request::RequestDeleteRange(delete(range)),
        Change::Revoke(_) => unreachable!("a lease is revoked by an RPC of its own"),
        Change::Get(range) => {
            let range = range.clone();
            let request = RangeRequest {
                range,
                ..RangeRequest::default()
            };
            Request::RequestRange(range_request(&request))
        }
    };
    pb::RequestOp {
        request: Some(request),
    }
}

fn compare(compare: &Compare) -> pb::Compare {
    pb::Compare {
        key: compare.key.clone().into(),
        result: CompareResult::Equal.into(),
        target: CompareTarget::Mod.into(),
        target_union: Some(TargetUnion::ModRevision(compare.mod_revision)),
        ..pb::Compare::default()
    }
}

/// Returns etcd's request for a transaction.
pub(crate) fn txn(txn: &Txn) -> pb::TxnRequest {
    pb::TxnRequest {
        compare: txn.compares.iter().map(compare).collect(),
        success: txn.success.iter().map(op).collect(),
        failure: txn.failure.iter().map(op).collect(),
    }
}

pub(crate) fn put_response(response: &pb::PutResponse) -> OpResponse {
    OpResponse::Put(response.prev_kv.as_ref().map(key_value))
}

/// Returns the deleted keys. If the server's count differs from the number of keys that it
/// returned, a key without a name is added, which the check reports as a violation.
pub(crate) fn delete_response(response: &pb::DeleteRangeResponse) -> OpResponse {
    let mut deleted = key_values(&response.prev_kvs);
    if deleted.len() as i64 != response.deleted {
        deleted.push(KeyValue::default());
    }
    OpResponse::Delete(deleted)
}

/// Returns the history's response of a transaction.
pub(crate) fn txn_response(response: &pb::TxnResponse) -> TxnResponse {
    let all = response.responses.iter();
    let responses = all.filter_map(|one| match one.response.as_ref()? {
        Response::ResponsePut(put) => Some(put_response(put)),
        Response::ResponseDeleteRange(delete) => Some(delete_response(delete)),
        Response::ResponseRange(range) => Some(OpResponse::Get(key_values(&range.kvs))),
        Response::ResponseTxn(_) => None,
    });
    TxnResponse {
        revision: revision(response.header.as_ref()),
        succeeded: response.succeeded,
        responses: responses.collect(),
    }
}

/// Returns the outcome of a request that failed: only etcd's own errors prove that the request had
/// no effect.
pub(crate) fn refused<T>(status: &Status) -> Outcome<T> {
    let refusal = EtcdRefusal::from_text(status.message());
    let is_final = matches!(
        status.code(),
        Code::InvalidArgument | Code::OutOfRange | Code::FailedPrecondition | Code::NotFound
    );
    match refusal {
        Some(EtcdRefusal::Compacted) => Outcome::Refused(Refusal::Compacted),
        Some(EtcdRefusal::FutureRevision) => Outcome::Refused(Refusal::FutureRevision),
        Some(other) if is_final => Outcome::Refused(Refusal::Other(other.text().to_owned())),
        _ => Outcome::Unknown,
    }
}

/// Returns the message of a watch response, or `None` if the response only confirms the creation of
/// the watch.
pub(crate) fn message(response: &pb::WatchResponse) -> Option<Message> {
    if response.canceled {
        return (response.compact_revision > 0)
            .then_some(Message::Compacted(response.compact_revision));
    }
    let event = |event: &mvccpb::Event| Event {
        kv: event.kv.as_ref().map(key_value).unwrap_or_default(),
        previous: event.prev_kv.as_ref().map(key_value),
    };
    match (response.created, response.events.is_empty()) {
        (true, true) => None,
        (false, true) => Some(Message::Progress(revision(response.header.as_ref()))),
        (_, false) => Some(Message::Events(response.events.iter().map(event).collect())),
    }
}
