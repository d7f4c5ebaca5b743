//! Short constructors of requests.

use bytes::Bytes;
use etcd_api::proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use etcd_api::proto::etcdserverpb::request_op::Request;
use etcd_api::proto::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
};

pub(crate) fn range(key: impl Into<Bytes>, range_end: impl Into<Bytes>) -> RangeRequest {
    RangeRequest {
        key: key.into(),
        range_end: range_end.into(),
        ..Default::default()
    }
}

/// Returns a request for all keys.
pub(crate) fn everything() -> RangeRequest {
    range("\0", "\0")
}

pub(crate) fn put(key: impl Into<Bytes>, value: impl Into<Bytes>) -> PutRequest {
    PutRequest {
        key: key.into(),
        value: value.into(),
        ..Default::default()
    }
}

pub(crate) fn delete(key: impl Into<Bytes>, range_end: impl Into<Bytes>) -> DeleteRangeRequest {
    DeleteRangeRequest {
        key: key.into(),
        range_end: range_end.into(),
        ..Default::default()
    }
}

/// Returns a transaction without compares, whose success branch is taken.
pub(crate) fn txn(success: Vec<RequestOp>) -> TxnRequest {
    TxnRequest {
        success,
        ..Default::default()
    }
}

pub(crate) fn op(request: impl Into<Op>) -> RequestOp {
    RequestOp {
        request: Some(request.into().0),
    }
}

/// A request that is allowed in a transaction.
pub(crate) struct Op(Request);

macro_rules! op_from {
    ($($request:ident => $arm:ident),*) => {
        $(impl From<$request> for Op {
            fn from(request: $request) -> Self {
                Self(Request::$arm(request))
            }
        })*
    };
}
op_from!(RangeRequest => RequestRange, PutRequest => RequestPut, DeleteRangeRequest => RequestDeleteRange, TxnRequest => RequestTxn);

/// Returns the compare `target(key) result operand` of one key.
pub(crate) fn compare(
    key: impl Into<Bytes>,
    result: CompareResult,
    operand: TargetUnion,
) -> Compare {
    let target = match operand {
        TargetUnion::Version(_) => CompareTarget::Version,
        TargetUnion::CreateRevision(_) => CompareTarget::Create,
        TargetUnion::ModRevision(_) => CompareTarget::Mod,
        TargetUnion::Value(_) => CompareTarget::Value,
        TargetUnion::Lease(_) => CompareTarget::Lease,
    };
    Compare {
        result: result.into(),
        target: target.into(),
        key: key.into(),
        range_end: Bytes::new(),
        target_union: Some(operand),
    }
}

/// Returns a compare that is true of a key that does not exist.
pub(crate) fn absent(key: impl Into<Bytes>) -> Compare {
    compare(key, CompareResult::Equal, TargetUnion::CreateRevision(0))
}
