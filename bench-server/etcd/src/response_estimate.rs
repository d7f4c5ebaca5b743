//! Estimates the response of a write before it is made: the response is buffered whole, and a
//! completed write can no longer be rejected.

use etcd_api::keys::KeyRange;
use etcd_api::proto::etcdserverpb::request_op::Request;
use etcd_api::proto::etcdserverpb::{DeleteRangeRequest, RangeRequest, RequestOp, TxnRequest};
use memory::admission::Admitted;
use store::{Snapshot, Store};
use tonic::Status;
use wire::frame::TARGET_BYTES;

use super::Node;
use super::overload::too_many_requests;

/// The size of a request's ranges. Single keys do not count: a request has few, and each is
/// bounded.
pub(super) struct ResponseEstimate<'a> {
    store: &'a Store,
    /// Taken for the first range.
    snapshot: Option<Snapshot>,
    bytes: u64,
}

impl<'a> ResponseEstimate<'a> {
    pub(super) fn of(store: &'a Store) -> Self {
        Self {
            store,
            snapshot: None,
            bytes: 0,
        }
    }

    /// Adds the larger branch of a transaction.
    pub(super) fn txn(&mut self, request: &TxnRequest) {
        let before = self.bytes;
        self.branch(&request.success);
        let success = std::mem::replace(&mut self.bytes, before);
        self.branch(&request.failure);
        self.bytes = self.bytes.max(success);
    }

    fn branch(&mut self, operations: &[RequestOp]) {
        for operation in operations {
            match &operation.request {
                Some(Request::RequestRange(range)) => self.range(range),
                Some(Request::RequestDeleteRange(delete)) => self.delete(delete),
                Some(Request::RequestTxn(txn)) => self.txn(txn),
                Some(Request::RequestPut(_)) | None => {}
            }
        }
    }

    fn range(&mut self, request: &RangeRequest) {
        if !request.count_only {
            self.add(&request.key, &request.range_end, request.limit);
        }
    }

    /// Adds the previous values that a deletion returns.
    pub(super) fn delete(&mut self, request: &DeleteRangeRequest) {
        if request.prev_kv {
            self.add(&request.key, &request.range_end, 0);
        }
    }

    fn add(&mut self, key: &[u8], range_end: &[u8], limit: i64) {
        if range_end.is_empty() {
            return;
        }
        let snapshot = self.snapshot.get_or_insert_with(|| self.store.snapshot());
        let totals = snapshot.totals(KeyRange::new(key, range_end));
        let shown = match u64::try_from(limit) {
            Ok(limit @ 1..) => limit.min(totals.count),
            _ => totals.count,
        };
        let mean = totals.weight.div_ceil(totals.count.max(1));
        self.bytes += totals.weight.min(shown.saturating_mul(mean));
    }

    /// Waits for memory, if the response is large.
    ///
    /// # Errors
    /// `ResourceExhausted` after the timeout.
    pub(super) async fn admit(self, node: &Node) -> Result<Option<Admitted>, Status> {
        let bytes = self.bytes;
        drop(self);
        if bytes <= TARGET_BYTES as u64 {
            return Ok(None);
        }
        let admitted = node.admission.admit(bytes).await;
        admitted.map(Some).map_err(|_| too_many_requests())
    }
}

#[cfg(test)]
mod tests {
    use etcd_api::proto::etcdserverpb::PutRequest;

    use super::*;
    use store::Config;

    fn range(limit: i64) -> RangeRequest {
        RangeRequest {
            key: b"a".to_vec().into(),
            range_end: b"b".to_vec().into(),
            limit,
            ..Default::default()
        }
    }

    fn operation(request: Request) -> RequestOp {
        RequestOp {
            request: Some(request),
        }
    }

    #[test]
    fn the_larger_branch_counts_and_single_keys_do_not() {
        let store = Store::new(Config::default());
        for i in 0..10 {
            let put = PutRequest {
                key: format!("a{i}").into(),
                value: vec![7; 1_000].into(),
                ..Default::default()
            };
            store.put(&put).expect("a plain put");
        }
        let whole = store.snapshot().totals(KeyRange::new(b"a", b"b")).weight;
        let one = RangeRequest {
            key: b"a1".to_vec().into(),
            ..Default::default()
        };
        let bytes = |success: Vec<Request>, failure: Vec<Request>| {
            let mut sum = ResponseEstimate::of(&store);
            sum.txn(&TxnRequest {
                success: success.into_iter().map(operation).collect(),
                failure: failure.into_iter().map(operation).collect(),
                ..Default::default()
            });
            sum.bytes
        };
        let all = || Request::RequestRange(range(0));
        assert_eq!(bytes(vec![Request::RequestRange(one)], vec![]), 0);
        assert_eq!(bytes(vec![all()], vec![all(), all()]), 2 * whole);
        let few = Request::RequestRange(range(2));
        assert_eq!(bytes(vec![few], vec![]), 2 * whole.div_ceil(10));
        let nested = TxnRequest {
            success: vec![operation(all())],
            ..Default::default()
        };
        let both = vec![all(), Request::RequestTxn(nested)];
        assert_eq!(bytes(both, vec![]), 2 * whole);
    }
}
