//! Evaluates the compares of a transaction, which determine the branches to run.

use std::cmp::Ordering;

use etcd_api::keys::KeyRange;
use etcd_api::proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use etcd_api::proto::etcdserverpb::request_op::Request;
use etcd_api::proto::etcdserverpb::{Compare, RequestOp, TxnRequest};

use crate::write_txn::WriteTxn;
use crate::{Fields, Value};

/// The result of the compares: the branch of a transaction to run, and those of its nested
/// transactions, in order.
pub(super) struct Path {
    pub(super) succeeded: bool,
    pub(super) nested: Vec<Path>,
}

impl Path {
    /// Evaluates the compares of the transaction, and of the nested transactions that will run, on
    /// the state before the transaction.
    pub(super) fn choose(request: &TxnRequest, write_txn: &mut WriteTxn<'_>) -> Self {
        let succeeded = request
            .compare
            .iter()
            .all(|compare| holds(compare, write_txn));
        let nested = branch(request, succeeded).iter().filter_map(|op| {
            let Some(Request::RequestTxn(nested)) = &op.request else {
                return None;
            };
            Some(Self::choose(nested, write_txn))
        });
        Self {
            nested: nested.collect(),
            succeeded,
        }
    }
}

/// Returns the operations of the branch to run.
pub(super) fn branch(request: &TxnRequest, succeeded: bool) -> &[RequestOp] {
    match succeeded {
        true => &request.success,
        false => &request.failure,
    }
}

/// Returns whether every key of the compare's interval satisfies it. An empty interval is compared
/// as one key with numbers of 0; a comparison with its value is always false.
fn holds(compare: &Compare, write_txn: &mut WriteTxn<'_>) -> bool {
    let missing =
        || compare.target != CompareTarget::Value as i32 && one(compare, &Fields::default());
    match KeyRange::new(&compare.key, &compare.range_end) {
        KeyRange::One(key) => match write_txn.get(key) {
            Some(record) => one(compare, &record.fields()),
            None => missing(),
        },
        range => {
            let mut cursor = write_txn.tree().cursor(range);
            if cursor.remaining() == 0 {
                return missing();
            }
            while let Some(record) = cursor.next_ref() {
                if !one(compare, &record.fields()) {
                    return false;
                }
            }
            true
        }
    }
}

/// Evaluates the compare for one key. The operand is the one of the target; if the request has
/// another one or none, it is 0 or empty.
fn one(compare: &Compare, fields: &Fields<'_>) -> bool {
    let operand = compare.target_union.as_ref();
    macro_rules! number {
        ($found:expr, $arm:ident) => {
            $found.cmp(&match operand {
                Some(TargetUnion::$arm(number)) => *number,
                _ => 0,
            })
        };
    }
    let ordering = match CompareTarget::try_from(compare.target) {
        Ok(CompareTarget::Version) => number!(fields.version, Version),
        Ok(CompareTarget::Create) => number!(fields.create_revision, CreateRevision),
        Ok(CompareTarget::Mod) => number!(fields.mod_revision, ModRevision),
        Ok(CompareTarget::Lease) => number!(fields.lease, Lease),
        Ok(CompareTarget::Value) => match operand {
            Some(TargetUnion::Value(value)) => fields.value.cmp(&value[..].into()),
            _ => fields.value.cmp(&Value::default()),
        },
        Err(_) => Ordering::Equal,
    };
    match CompareResult::try_from(compare.result) {
        Ok(CompareResult::Equal) => ordering.is_eq(),
        Ok(CompareResult::NotEqual) => ordering.is_ne(),
        Ok(CompareResult::Greater) => ordering.is_gt(),
        Ok(CompareResult::Less) => ordering.is_lt(),
        // etcd accepts an unknown result.
        Err(_) => true,
    }
}
