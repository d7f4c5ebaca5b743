//! Estimates the response of a write before the write is made, because the response is buffered
//! whole, and a completed write can no longer be rejected.

use etcd_api::keys::KeyRange;
use etcd_api::proto::etcdserverpb::request_op::Request;
use etcd_api::proto::etcdserverpb::{
    DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
};
use memory::admission::Admitted;
use prost::Message;
use store::range::RangePlan;
use store::{Snapshot, Store, Totals};
use tonic::Status;
use wire::frame::TARGET_BYTES;
use wire::grpc;

use super::Node;
use super::frames::ResponseBody;
use super::long_work::{INLINE_BYTES, INLINE_KEYS, on_blocking_thread};
use super::overload::too_many_requests;

/// The number of keys that a request reads or deletes, and the size of the keys and values in its
/// response. The first single key is not looked up, which saves the time for most transactions: its
/// size is bounded, and is known before the response is encoded.
pub(super) struct ResponseEstimate<'a> {
    store: &'a Store,
    /// The snapshot for look-ups, taken at the first one.
    snapshot: Option<Snapshot>,
    size: Size,
    /// Number of single keys so far, of both branches.
    single_keys: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Size {
    /// Size of keys and values in the response.
    bytes: u64,
    /// Number of keys to be read or deleted.
    keys: u64,
}

impl<'a> ResponseEstimate<'a> {
    pub(super) fn of(store: &'a Store) -> Self {
        Self {
            store,
            snapshot: None,
            size: Size::default(),
            single_keys: 0,
        }
    }

    /// Adds a transaction: the larger number of bytes, and the larger number of keys, of its two
    /// branches.
    pub(super) fn txn(&mut self, request: &TxnRequest) {
        let before = self.size;
        self.branch(&request.success);
        let success = std::mem::replace(&mut self.size, before);
        self.branch(&request.failure);
        self.size.bytes = self.size.bytes.max(success.bytes);
        self.size.keys = self.size.keys.max(success.keys);
    }

    fn branch(&mut self, operations: &[RequestOp]) {
        for operation in operations {
            match &operation.request {
                Some(Request::RequestRange(range)) => self.range(range),
                Some(Request::RequestDeleteRange(delete)) => self.delete(delete),
                Some(Request::RequestTxn(txn)) => self.txn(txn),
                Some(Request::RequestPut(put)) => self.put(put),
                None => {}
            }
        }
    }

    fn range(&mut self, request: &RangeRequest) {
        if request.count_only {
            return;
        }
        let Some(totals) = self.look_up(&request.key, &request.range_end) else {
            return;
        };
        let shown = match u64::try_from(request.limit) {
            Ok(limit @ 1..) => limit.min(totals.count),
            _ => totals.count,
        };
        let read = match RangePlan::of(request) {
            Ok(plan) => plan.keys_to_read(totals.count, request.limit),
            // The store will refuse the request.
            Err(_) => return,
        };
        let mean = totals.weight.div_ceil(totals.count.max(1));
        self.size.bytes += totals.weight.min(shown.saturating_mul(mean));
        self.size.keys += read;
    }

    fn put(&mut self, request: &PutRequest) {
        if request.prev_kv
            && let Some(totals) = self.look_up(&request.key, &[])
        {
            self.size.bytes += totals.weight;
        }
    }

    /// Adds a deletion, and the previous values in its response.
    pub(super) fn delete(&mut self, request: &DeleteRangeRequest) {
        let is_single = request.range_end.is_empty();
        if is_single && !request.prev_kv {
            return;
        }
        if let Some(totals) = self.look_up(&request.key, &request.range_end) {
            self.size.keys += totals.count;
            if request.prev_kv {
                self.size.bytes += totals.weight;
            }
        }
    }

    /// Returns the totals of an interval; `None` for the first single key.
    fn look_up(&mut self, key: &[u8], range_end: &[u8]) -> Option<Totals> {
        if range_end.is_empty() {
            self.single_keys += 1;
            if self.single_keys == 1 {
                return None;
            }
        }
        let snapshot = self.snapshot.get_or_insert_with(|| self.store.snapshot());
        Some(snapshot.totals(KeyRange::new(key, range_end)))
    }

    /// Waits for memory if the response is large.
    ///
    /// # Errors
    /// `ResourceExhausted` after the timeout.
    pub(super) async fn admit(self, node: &Node) -> Result<ResponseRoom, Status> {
        let Size { bytes, keys } = self.size;
        drop(self);
        let is_long = bytes > INLINE_BYTES || keys > INLINE_KEYS;
        if bytes <= TARGET_BYTES as u64 {
            let admitted = None;
            return Ok(ResponseRoom { is_long, admitted });
        }
        let admitted = node.admission.admit(bytes).await;
        let admitted = Some(admitted.map_err(|_| too_many_requests())?);
        Ok(ResponseRoom { is_long, admitted })
    }
}

/// The memory for the response of a write.
#[derive(Debug)]
pub(super) struct ResponseRoom {
    /// Whether the request takes long enough to run on a blocking thread.
    pub(super) is_long: bool,
    /// The admitted memory, if the response may be large.
    admitted: Option<Admitted>,
}

impl ResponseRoom {
    /// Encodes the response, which holds the memory until it is sent. A response that is larger
    /// than estimated waits for memory without a timeout, because the write is already made.
    ///
    /// # Errors
    /// `ResourceExhausted` above 2 GiB.
    pub(super) async fn encode<M>(self, node: &Node, response: M) -> Result<ResponseBody, Status>
    where
        M: Message + 'static,
    {
        let bytes = response.encoded_len() as u64;
        let admitted = match self.admitted {
            None if bytes > TARGET_BYTES as u64 => {
                Some(node.admission.admit_eventually(bytes).await)
            }
            admitted => admitted,
        };
        let mut frame = match bytes > INLINE_BYTES {
            true => on_blocking_thread(node, move || grpc::message_frame(&response)).await??,
            false => grpc::message_frame(&response)?,
        };
        frame.hold(admitted);
        Ok(ResponseBody::unary(frame))
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
    fn the_larger_branch_counts_and_all_single_keys_but_the_first() {
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
        let size = |success: Vec<Request>, failure: Vec<Request>| {
            let mut sum = ResponseEstimate::of(&store);
            sum.txn(&TxnRequest {
                success: success.into_iter().map(operation).collect(),
                failure: failure.into_iter().map(operation).collect(),
                ..Default::default()
            });
            sum.size
        };
        let times = |n: u64, keys: u64| Size {
            bytes: n * whole.div_ceil(10),
            keys,
        };
        let all = || Request::RequestRange(range(0));
        let one = || Request::RequestRange(one.clone());
        assert_eq!(size(vec![one()], vec![]), Size::default());
        assert_eq!(size(vec![one(), one()], vec![one()]), times(1, 1));
        assert_eq!(size(vec![all()], vec![all(), all()]), times(20, 20));
        assert_eq!(
            size(vec![Request::RequestRange(range(2))], vec![]),
            times(2, 3)
        );
        let nested = || {
            let success = vec![operation(all())];
            Request::RequestTxn(TxnRequest {
                success,
                ..Default::default()
            })
        };
        assert_eq!(size(vec![all(), nested()], vec![]), times(20, 20));
        let delete = |prev_kv| {
            Request::RequestDeleteRange(DeleteRangeRequest {
                key: b"a".to_vec().into(),
                range_end: b"b".to_vec().into(),
                prev_kv,
            })
        };
        assert_eq!(size(vec![delete(true)], vec![]), times(10, 10));
        assert_eq!(size(vec![delete(false)], vec![]), times(0, 10));
        let overwrite = |prev_kv| {
            Request::RequestPut(PutRequest {
                key: b"a1".to_vec().into(),
                prev_kv,
                ..Default::default()
            })
        };
        assert_eq!(size(vec![one(), overwrite(true)], vec![]), times(1, 0));
        assert_eq!(size(vec![one(), overwrite(false)], vec![]), Size::default());
    }
}
