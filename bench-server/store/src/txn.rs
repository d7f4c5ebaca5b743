//! Transactions: evaluates the compares, which determine the branches to run, checks their
//! operations as a whole, and applies them.

pub mod check;
mod compare;
#[cfg(test)]
mod tests;

use etcd_api::error::Refusal;
use etcd_api::proto::etcdserverpb::request_op::Request;
use etcd_api::proto::etcdserverpb::response_op::Response;
use etcd_api::proto::etcdserverpb::{
    PutRequest, RangeRequest, RangeResponse, RequestOp, ResponseOp, TxnRequest, TxnResponse,
};

use super::range::{self, RangePlan};
use super::write_txn::WriteTxn;
use super::{Projection, Store, header};
use compare::{Path, branch};

impl Store {
    /// Runs a transaction: all of its writes in one revision or, on an error, none. A read-only
    /// transaction runs on a snapshot without the writer's lock.
    ///
    /// # Errors
    /// The errors of its operations, [`Refusal::TooManyOps`], [`Refusal::DuplicateKey`],
    /// [`Refusal::ResponseTooLarge`].
    pub fn txn(&self, request: &TxnRequest) -> Result<TxnResponse, Refusal> {
        self.check_txn(request)?;
        if check::is_read_only(request) {
            let mut write_txn = self.read_only_txn();
            return self.run(request, &mut write_txn, |_| true);
        }
        let mut writer = self.writer()?;
        self.reserve(&mut writer, super::quota::txn_cost(request))?;
        let mut write_txn = self.write_txn(&writer);
        let mut response =
            self.run(request, &mut write_txn, |lease| writer.leases.exists(lease))?;
        let edits = write_txn.into_edits();
        response.header = Some(header(self.commit(writer, edits, None)));
        Ok(response)
    }

    /// Checks what can be checked of a transaction without its keys, in etcd's order.
    ///
    /// # Errors
    /// [`Refusal::NoSpace`], [`Refusal::TooManyOps`], [`Refusal::DuplicateKey`], and those of its
    /// operations.
    pub fn check_txn(&self, request: &TxnRequest) -> Result<(), Refusal> {
        self.check_quota(super::quota::txn_cost(request))?;
        check::txn(request, self.inner.config.max_txn_ops)
    }

    fn run(
        &self,
        request: &TxnRequest,
        write_txn: &mut WriteTxn<'_>,
        lease_exists: impl Fn(i64) -> bool,
    ) -> Result<TxnResponse, Refusal> {
        let path = Path::choose(request, write_txn);
        let ops = taken(request, &path);
        self.check_path(&ops, write_txn, lease_exists)?;
        let mut response = self.apply(request, &path, write_txn)?;
        response.header = Some(header(write_txn.revision()));
        Ok(response)
    }

    /// Checks the operations of the chosen branches against the store before the transaction, in
    /// order, as etcd does. The first failure is the error, and then nothing is applied.
    fn check_path(
        &self,
        ops: &[&RequestOp],
        write_txn: &WriteTxn<'_>,
        lease_exists: impl Fn(i64) -> bool,
    ) -> Result<(), Refusal> {
        let (current, compacted) = {
            let state = self.inner.state.read();
            (state.revision(), state.compacted())
        };
        for op in ops {
            match &op.request {
                Some(Request::RequestRange(range)) if range.revision > current => {
                    return Err(Refusal::FutureRevision);
                }
                // In contrast to a separate Range, revisions below 0 are checked, too.
                Some(Request::RequestRange(range))
                    if range.revision != 0 && range.revision < compacted =>
                {
                    return Err(Refusal::Compacted);
                }
                Some(Request::RequestPut(put)) => check_put(put, write_txn, &lease_exists)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Applies the branch that `path` selected.
    fn apply(
        &self,
        request: &TxnRequest,
        path: &Path,
        write_txn: &mut WriteTxn<'_>,
    ) -> Result<TxnResponse, Refusal> {
        let mut nested = path.nested.iter();
        let mut responses = Vec::new();
        for op in branch(request, path.succeeded) {
            let response = match op.request.as_ref().ok_or(Refusal::KeyNotFound)? {
                Request::RequestRange(range) => {
                    Response::ResponseRange(self.range_in(range, write_txn)?)
                }
                Request::RequestPut(put) => {
                    let mut response = write_txn.put(put)?;
                    response.header = Some(header(write_txn.revision()));
                    Response::ResponsePut(response)
                }
                Request::RequestDeleteRange(delete) => {
                    let mut response = write_txn.delete_range(delete)?;
                    response.header = Some(header(write_txn.revision()));
                    Response::ResponseDeleteRange(response)
                }
                Request::RequestTxn(txn) => {
                    let path = nested.next().expect("a path for each nested transaction");
                    let mut response = self.apply(txn, path, write_txn)?;
                    response.header = Some(header(0));
                    Response::ResponseTxn(response)
                }
            };
            responses.push(ResponseOp {
                response: Some(response),
            });
        }
        Ok(TxnResponse {
            header: None,
            succeeded: path.succeeded,
            responses,
        })
    }

    fn range_in(
        &self,
        request: &RangeRequest,
        write_txn: &mut WriteTxn<'_>,
    ) -> Result<RangeResponse, Refusal> {
        let plan = RangePlan::of(request)?;
        let selection = if request.revision > 0 {
            let snapshot = self.snapshot_at(request.revision)?;
            range::select(snapshot.tree(), request, plan)
        } else {
            range::select(&write_txn.tree(), request, plan)
        };
        write_txn.count_in_response(selection.wire_len(Projection::of(request)))?;
        let mut response = range::to_response(selection, request);
        response.header = Some(header(write_txn.revision()));
        Ok(response)
    }
}

/// Returns the operations of the chosen branches in order, with nested transactions replaced by
/// their operations.
fn taken<'a>(request: &'a TxnRequest, path: &Path) -> Vec<&'a RequestOp> {
    let mut nested = path.nested.iter();
    let mut ops = Vec::new();
    for op in branch(request, path.succeeded) {
        if let Some(Request::RequestTxn(txn)) = &op.request {
            let path = nested.next().expect("a path for each nested transaction");
            ops.extend(taken(txn, path));
        } else {
            ops.push(op);
        }
    }
    ops
}

/// Checks that the lease of a put exists and, if the put ignores its value or lease, its key.
fn check_put(
    put: &PutRequest,
    write_txn: &WriteTxn<'_>,
    lease_exists: impl Fn(i64) -> bool,
) -> Result<(), Refusal> {
    if put.lease != 0 && !lease_exists(put.lease) {
        return Err(Refusal::LeaseNotFound);
    }
    if (put.ignore_value || put.ignore_lease) && write_txn.get(&put.key).is_none() {
        return Err(Refusal::KeyNotFound);
    }
    Ok(())
}
