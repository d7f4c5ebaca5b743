//! Unary Range, in two encodings.
//!
//! `buffered` costs as much as in etcd: the whole message is in memory before its first byte is
//! sent. `incremental` sends the message while it is being read: its length prefix needs only the
//! sum of the sizes, which the index has. Filtered, sorted and keys-only ranges have no such sum
//! and are always buffered. Those that scan many keys run on a blocking thread.

use bytes::Bytes;
use etcd_api::error::Refusal;
use etcd_api::keys::KeyRange;
use etcd_api::proto::etcdserverpb::RangeRequest;
use memory::open_lists::OpenList;
use store::range::{RangePlan, Selection};
use store::{Cursor, Projection, Record, Snapshot};
use tonic::Status;
use wire::body::FrameSource;
use wire::frame::TARGET_BYTES;
use wire::{grpc, proto};

use super::Node;
use super::flags::RangeEncoding;
use super::frames::{Frame, FrameBuilder, PutRecord, RecordPiece, ResponseBody};
use super::long_work::{INLINE_BYTES, INLINE_KEYS, on_blocking_thread};
use super::overload::too_many_requests;

/// Serves one Range.
///
/// # Errors
/// Errors of the request checks, Compacted, FutureRevision; `ResourceExhausted` for a message above
/// 2 GiB.
pub async fn range(node: &Node, request: RangeRequest) -> Result<ResponseBody, Status> {
    let plan = RangePlan::of(&request)?;
    if plan.is_plain() && !request.keys_only && !request.count_only {
        let response = UnaryResponse::plain(node, &request)?;
        return response.send(node).await;
    }
    let snapshot = node.store.snapshot_at(request.revision)?;
    let header = proto::header_field(&node.header(snapshot.head_revision()));
    let range = KeyRange::new(&request.key, &request.range_end);
    let scanned = plan.keys_to_read(snapshot.count(range), request.limit);
    if request.count_only || scanned <= INLINE_KEYS {
        let response = UnaryResponse::selected(&snapshot, &request, header)?;
        return response.send(node).await;
    }
    let choose = move || UnaryResponse::selected(&snapshot, &request, header);
    let response = Box::pin(on_blocking_thread(node, choose)).await??;
    response.send(node).await
}

/// The source of a response's keys.
enum Keys {
    /// A cursor of the index.
    Index { cursor: Cursor, left: u64 },
    /// Selected records (by a filter, a sort, or keys only).
    Selected(std::vec::IntoIter<Record>),
}

impl Keys {
    /// Calls `take` with the next record, borrowed. Returns false if there is none.
    fn next(&mut self, take: impl FnOnce(&Record)) -> bool {
        match self {
            Self::Index { cursor, left } => match left.checked_sub(1) {
                Some(rest) => {
                    *left = rest;
                    cursor.next_ref().map(take).is_some()
                }
                None => false,
            },
            Self::Selected(records) => records.next().as_ref().map(take).is_some(),
        }
    }
}

/// A unary response whose size is known and whose keys are not yet read.
struct UnaryResponse {
    header: Vec<u8>,
    keys: Keys,
    projection: Projection,
    keys_bytes: u64,
    tail: Vec<u8>,
    /// The snapshot from which the keys are read. `None` for selected records, where reading lazily
    /// saves nothing.
    unread: Option<Snapshot>,
}

impl UnaryResponse {
    /// Returns the response of a range in key order, up to the limit.
    fn plain(node: &Node, request: &RangeRequest) -> Result<Self, Refusal> {
        let range = KeyRange::new(&request.key, &request.range_end);
        let header = |head| proto::header_field(&node.header(head));
        if let KeyRange::One(key) = range {
            let (found, head) = node.store.get_at(key, request.revision)?;
            let count = i64::from(found.is_some());
            let records = found.into_iter().collect();
            let selection = Selection {
                records,
                more: false,
                count,
            };
            return Ok(Self::of(header(head), selection, Projection::Everything));
        }
        let snapshot = node.store.snapshot_at(request.revision)?;
        let header = header(snapshot.head_revision());
        let totals = snapshot.totals(range);
        let limit = u64::try_from(request.limit).unwrap_or(0);
        if limit == 0 || limit >= totals.count {
            return Ok(Self {
                header,
                keys_bytes: totals.weight,
                keys: Keys::Index {
                    cursor: snapshot.cursor(range),
                    left: totals.count,
                },
                projection: Projection::Everything,
                tail: proto::tail_fields(false, totals.count as i64),
                unread: Some(snapshot),
            });
        }
        // The requests for the next pages will read this revision.
        node.store.hold(&snapshot);
        let cursor = snapshot.cursor(range);
        let mut ahead = cursor.clone();
        let sizes = (0..limit).map_while(|_| ahead.next_ref().map(|r| r.wire_len() as u64));
        Ok(Self {
            header,
            keys_bytes: sizes.sum(),
            keys: Keys::Index {
                cursor,
                left: limit,
            },
            projection: Projection::Everything,
            tail: proto::tail_fields(true, totals.count as i64),
            unread: Some(snapshot),
        })
    }

    /// Returns the response of a range with a filter or a sort, or of keys only.
    fn selected(
        snapshot: &Snapshot,
        request: &RangeRequest,
        header: Vec<u8>,
    ) -> Result<Self, Refusal> {
        let selection = snapshot.select(request)?;
        Ok(Self::of(header, selection, Projection::of(request)))
    }

    fn of(header: Vec<u8>, selection: Selection, projection: Projection) -> Self {
        let keys_bytes = selection.wire_len(projection);
        let Selection {
            records,
            more,
            count,
        } = selection;
        Self {
            header,
            keys_bytes,
            keys: Keys::Selected(records.into_iter()),
            projection,
            tail: proto::tail_fields(more, count),
            unread: None,
        }
    }

    async fn send(self, node: &Node) -> Result<ResponseBody, Status> {
        // The size is checked before any work, for an incremental response, too.
        let prefix = grpc::message_prefix(self.message_bytes())?;
        let total = grpc::PREFIX_BYTES as u64 + self.message_bytes();
        if total <= TARGET_BYTES as u64 {
            return Ok(ResponseBody::unary(self.into_frame(prefix)));
        }
        if node.range_encoding == RangeEncoding::Incremental
            && let Some(snapshot) = &self.unread
        {
            let open = snapshot.open_list();
            return Ok(ResponseBody::pulled(UnarySource::new(prefix, self, open)));
        }
        Box::pin(self.send_buffered(node, total)).await
    }

    /// Buffers the whole message of `total` bytes, once there is memory for it.
    async fn send_buffered(self, node: &Node, total: u64) -> Result<ResponseBody, Status> {
        let admitted = node.admission.admit(total).await;
        let admitted = admitted.map_err(|_| too_many_requests())?;
        // The admission is kept with the message, even if its request is cancelled.
        let buffer = move || (self.into_message(), admitted);
        let (message, admitted) = match total <= INLINE_BYTES {
            true => buffer(),
            false => on_blocking_thread(node, buffer).await?,
        };
        let mut frame = Frame::from(message?);
        frame.hold(Some(admitted));
        Ok(ResponseBody::unary(frame))
    }

    fn message_bytes(&self) -> u64 {
        self.header.len() as u64 + self.keys_bytes + self.tail.len() as u64
    }

    /// Returns the whole message in one exact allocation.
    fn into_message(mut self) -> Result<Bytes, Status> {
        let prefix = grpc::message_prefix(self.message_bytes())?;
        let total = prefix.len() + self.message_bytes() as usize;
        let mut out = Vec::with_capacity(total);
        out.extend_from_slice(&prefix);
        out.extend_from_slice(&self.header);
        while self.keys.next(|r| self.projection.put_wire(r, &mut out)) {}
        out.extend_from_slice(&self.tail);
        debug_assert_eq!(
            out.len(),
            total,
            "byte sum of the index disagrees with its records"
        );
        Ok(out.into())
    }

    /// Returns a short message as one frame.
    fn into_frame(mut self, prefix: [u8; grpc::PREFIX_BYTES]) -> Frame {
        let mut frame = FrameBuilder::new(prefix.len() + self.message_bytes() as usize);
        frame.put(&prefix);
        frame.put(&self.header);
        while self.keys.next(|r| frame.put_projected(r, self.projection)) {}
        frame.put(&self.tail);
        frame.finish()
    }
}

/// One message, which is sent while it is being read.
struct UnarySource {
    frames: FrameBuilder,
    keys: Keys,
    /// Number of bytes of the message that are not in `frames` yet.
    unread_bytes: u64,
    tail: Vec<u8>,
    _open: OpenList,
}

impl UnarySource {
    fn new(prefix: [u8; grpc::PREFIX_BYTES], response: UnaryResponse, open: OpenList) -> Self {
        let mut frames = FrameBuilder::new(usize::MAX);
        frames.put(&prefix);
        frames.put(&response.header);
        Self {
            frames,
            keys: response.keys,
            unread_bytes: response.keys_bytes + response.tail.len() as u64,
            tail: response.tail,
            _open: open,
        }
    }
}

impl FrameSource<RecordPiece> for UnarySource {
    fn next_frame(&mut self) -> Result<Option<Frame>, Status> {
        let before = self.frames.len() as u64;
        while !self.frames.is_full() {
            if !self.keys.next(|record| self.frames.put_record(record)) {
                self.frames.put(&std::mem::take(&mut self.tail));
                break;
            }
        }
        let read = self.frames.len() as u64 - before;
        let left = self.unread_bytes.checked_sub(read);
        let Some(left) = left.filter(|&left| left == 0 || self.frames.is_full()) else {
            return Err(Status::data_loss(format!(
                "byte sum of the index disagrees with its records ({} left, {read} more read)",
                self.unread_bytes
            )));
        };
        self.unread_bytes = left;
        if self.frames.is_empty() {
            return Ok(None);
        }
        Ok(Some(self.frames.take_frame()))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use etcd_api::proto::etcdserverpb::PutRequest;
    use etcd_api::proto::etcdserverpb::range_request::{SortOrder, SortTarget};
    use futures::FutureExt;

    use super::*;
    use crate::flags::Flags;
    use store::{Config, Store};

    fn node(keys: u64) -> Node {
        let store = Store::new(Config::default());
        for i in 0..keys {
            let key = format!("{i:06}").into();
            let request = PutRequest {
                key,
                ..Default::default()
            };
            store.put(&request).expect("a plain put");
        }
        let flags = Flags::parse_from(["bench-server"]);
        Node::new(store, &flags.etcd, &flags.common, Vec::new())
    }

    /// A filter that no key passes has the smallest response, but reads every key.
    #[test]
    fn a_scan_of_many_keys_runs_on_a_blocking_thread() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(1)
            .build();
        runtime.expect("a runtime").block_on(long_responses());
    }

    async fn long_responses() {
        // The only blocking thread is occupied, so that no request can finish there before the test
        // checks that it is pending.
        let (release, released) = std::sync::mpsc::channel::<()>();
        let taken = tokio::task::spawn_blocking(move || released.recv());
        let everything = || RangeRequest {
            key: vec![0].into(),
            range_end: vec![0].into(),
            ..Default::default()
        };
        let filtered = RangeRequest {
            min_mod_revision: i64::MAX,
            ..everything()
        };
        let sorted = RangeRequest {
            sort_target: SortTarget::Mod.into(),
            sort_order: SortOrder::Descend.into(),
            limit: 1,
            ..everything()
        };
        let keys_only = RangeRequest {
            keys_only: true,
            ..everything()
        };
        let few = node(INLINE_KEYS);
        let many = node(INLINE_KEYS + 1);
        let mut answers = Vec::new();
        for request in [&filtered, &sorted, &keys_only] {
            let at_once = range(&few, request.clone()).now_or_never();
            assert!(
                at_once.is_some_and(|response| response.is_ok()),
                "{request:?}"
            );
            let mut later = Box::pin(range(&many, request.clone()));
            assert!((&mut later).now_or_never().is_none(), "{request:?}");
            answers.push(later);
        }
        let page = RangeRequest {
            limit: 10,
            ..keys_only
        };
        let at_once = range(&many, page).now_or_never();
        assert!(at_once.is_some(), "a page looks at its own keys only");
        drop(release);
        assert!(taken.await.expect("it does not panic").is_err());
        for later in answers {
            assert!(later.await.is_ok());
        }
    }
}
