//! Transactions of the small etcd.

use std::time::Duration;

use etcd_api::error::Refusal;
use etcd_api::proto::etcdserverpb as pb;
use pb::request_op::Request as Op;
use pb::response_op::Response as Answer;
use tonic::{Response, Status};

use super::{Fault, Service};

/// Maximum number of operations of a transaction with [`Fault::FewOps`].
const MAX_OPS: usize = 16;
/// Delay of puts with [`Fault::LatePuts`].
pub(super) const LATE: Duration = Duration::from_millis(500);

/// Returns whether a transaction puts anything.
pub(super) fn puts(request: &pb::TxnRequest) -> bool {
    let mut ops = request.success.iter();
    ops.any(|op| matches!(op.request, Some(Op::RequestPut(_))))
}

impl Service {
    /// Executes all operations of a transaction without checking its conditions.
    pub(super) fn transact(
        &self,
        request: pb::TxnRequest,
    ) -> Result<Response<pb::TxnResponse>, Status> {
        if self.fault == Fault::FewOps && request.success.len() > MAX_OPS {
            return Err(Refusal::TooManyOps.into());
        }
        let mut state = self.state.lock().expect("no panic holds it");
        let mut responses = Vec::new();
        let mut before = None;
        if self.fault == Fault::RefuseWrites {
            return Err(Status::unavailable("etcdserver: no leader"));
        }
        for op in request.success {
            let answer = match op.request {
                Some(Op::RequestPut(put)) => {
                    before.get_or_insert_with(|| state.keys.clone());
                    state.put(&put);
                    Answer::ResponsePut(pb::PutResponse::default())
                }
                Some(Op::RequestDeleteRange(delete))
                    if self.fault == Fault::KeepKeys
                        && state.keys.contains_key(&delete.key[..]) =>
                {
                    return Err(Status::permission_denied("etcdserver: permission denied"));
                }
                Some(Op::RequestDeleteRange(delete)) => {
                    state.writes += 1;
                    let deleted = match self.fault {
                        Fault::LoseDeletes => state.keys.contains_key(&delete.key[..]),
                        _ => state.keys.remove(&delete.key[..]).is_some(),
                    };
                    let deleted = i64::from(deleted);
                    Answer::ResponseDeleteRange(pb::DeleteRangeResponse {
                        deleted,
                        ..pb::DeleteRangeResponse::default()
                    })
                }
                Some(Op::RequestRange(range)) => {
                    let found = state.keys.get(&range.key[..]).cloned();
                    Answer::ResponseRange(pb::RangeResponse {
                        kvs: found.into_iter().collect(),
                        ..pb::RangeResponse::default()
                    })
                }
                other => return Err(Status::unimplemented(format!("{other:?}"))),
            };
            responses.push(pb::ResponseOp {
                response: Some(answer),
            });
        }
        if let Some(before) = before {
            state.before = before;
            state.commit();
        }
        Ok(Response::new(pb::TxnResponse {
            header: state.header(),
            succeeded: true,
            responses,
        }))
    }
}
