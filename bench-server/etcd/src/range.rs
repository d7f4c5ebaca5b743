//! Unary Range, in two encodings.
//!
//! `buffered` costs what etcd's costs: the whole message in memory before its first byte is sent.
//! `incremental` sends the message while it is being read: its length prefix needs only the sum of
//! the sizes, which the index holds. Filtered, sorted and keys-only ranges have no such sum and
//! are always buffered; those that look at many keys are answered off the connection's thread.

use bytes::Bytes;
use etcd_api::error::Refusal;
use etcd_api::keys::KeyRange;
use etcd_api::proto::etcdserverpb::RangeRequest;
use memory::open_lists::OpenList;
use store::range::{Plan, Selection};
use store::{Cursor, Record, Shown, Snapshot};
use tonic::Status;
use wire::body::FrameSource;
use wire::frame::TARGET_BYTES;
use wire::{grpc, proto};

use super::Node;
use super::busy::too_many_requests;
use super::flags::RangeEncoding;
use super::frames::{Frame, FrameBuilder, PutRecord, RecordPiece, ResponseBody};

/// Messages above this are gathered off the connection's thread, so that other connections there
/// are still served.
const INLINE_BYTES: u64 = 1024 * 1024;

/// The same for answers that look at more keys than this, whatever comes of it.
const INLINE_KEYS: u64 = 2048;

/// Answers one Range.
///
/// # Errors
/// The request checks, Compacted, FutureRevision; `ResourceExhausted` for a message above 2 GiB.
pub async fn range(node: &Node, request: RangeRequest) -> Result<ResponseBody, Status> {
    let plan = Plan::of(&request)?;
    if plan.is_plain() && !request.keys_only && !request.count_only {
        let answer = Answer::plain(node, &request)?;
        return answer.send(node).await;
    }
    let snapshot = node.store.snapshot_at(request.revision)?;
    let header = proto::header_field(&node.header(snapshot.head_revision()));
    let range = KeyRange::new(&request.key, &request.range_end);
    let looked_at = plan.looks_at(snapshot.count(range), request.limit);
    if request.count_only || looked_at <= INLINE_KEYS {
        let answer = Answer::chosen(&snapshot, &request, header)?;
        return answer.send(node).await;
    }
    let choose = move || Answer::chosen(&snapshot, &request, header);
    let answer = off_thread(node, choose).await??;
    answer.send(node).await
}

/// Does what takes long where no connection waits for it. It goes on when the request is cancelled, so only so much of
/// it is done at a time.
async fn off_thread<T: Send + 'static>(
    node: &Node,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Status> {
    let scan = node.admission.admit_scan().await;
    let working = tokio::task::spawn_blocking(move || {
        let _until_done = scan;
        work()
    });
    working
        .await
        .map_err(|e| Status::internal(format!("gathering the answer failed: {e}")))
}

/// Where an answer's keys come from.
enum Keys {
    /// Straight from the index.
    Index { cursor: Cursor, left: u64 },
    /// Chosen one by one (a filter, a sort, keys only).
    Chosen(std::vec::IntoIter<Record>),
}

impl Keys {
    /// Shows the next record to `take`, borrowed from where it is; false when there is none.
    fn next(&mut self, take: impl FnOnce(&Record)) -> bool {
        match self {
            Self::Index { cursor, left } => match left.checked_sub(1) {
                Some(rest) => {
                    *left = rest;
                    cursor.next_ref().map(take).is_some()
                }
                None => false,
            },
            Self::Chosen(records) => records.next().as_ref().map(take).is_some(),
        }
    }
}

/// A unary answer whose size is known and whose keys are not yet read.
struct Answer {
    header: Vec<u8>,
    keys: Keys,
    shown: Shown,
    keys_bytes: u64,
    tail: Vec<u8>,
    /// What the keys are still to be read from; `None` where they were chosen, and reading them lazily saves nothing.
    unread: Option<Snapshot>,
}

impl Answer {
    /// The index's own sequence, cut by the limit.
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
            return Ok(Self::of(header(head), selection, Shown::Everything));
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
                shown: Shown::Everything,
                tail: proto::tail_fields(false, totals.count as i64),
                unread: Some(snapshot),
            });
        }
        // The next pages will ask for this revision.
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
            shown: Shown::Everything,
            tail: proto::tail_fields(true, totals.count as i64),
            unread: Some(snapshot),
        })
    }

    /// Keys chosen one by one.
    fn chosen(
        snapshot: &Snapshot,
        request: &RangeRequest,
        header: Vec<u8>,
    ) -> Result<Self, Refusal> {
        let selection = snapshot.select(request)?;
        Ok(Self::of(header, selection, Shown::of(request)))
    }

    fn of(header: Vec<u8>, selection: Selection, shown: Shown) -> Self {
        let Selection {
            records,
            more,
            count,
        } = selection;
        Self {
            header,
            keys_bytes: records.iter().map(|r| shown.wire_len(r) as u64).sum(),
            keys: Keys::Chosen(records.into_iter()),
            shown,
            tail: proto::tail_fields(more, count),
            unread: None,
        }
    }

    async fn send(self, node: &Node) -> Result<ResponseBody, Status> {
        // The size is checked before any work, also for an incremental answer.
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
        let admitted = node.admission.admit(total).await;
        let admitted = admitted.map_err(|_| too_many_requests())?;
        // The room goes along with the message, also with one that nobody waits for any more.
        let gather = move || (self.into_message(), admitted);
        let (message, admitted) = match total <= INLINE_BYTES {
            true => gather(),
            false => off_thread(node, gather).await?,
        };
        let mut frame = Frame::from(message?);
        frame.hold(Some(admitted));
        Ok(ResponseBody::unary(frame))
    }

    fn message_bytes(&self) -> u64 {
        self.header.len() as u64 + self.keys_bytes + self.tail.len() as u64
    }

    /// The whole message in one exact allocation.
    fn into_message(mut self) -> Result<Bytes, Status> {
        let prefix = grpc::message_prefix(self.message_bytes())?;
        let total = prefix.len() + self.message_bytes() as usize;
        let mut out = Vec::with_capacity(total);
        out.extend_from_slice(&prefix);
        out.extend_from_slice(&self.header);
        while self.keys.next(|r| self.shown.put_wire(r, &mut out)) {}
        out.extend_from_slice(&self.tail);
        debug_assert_eq!(
            out.len(),
            total,
            "byte sum of the index disagrees with its records"
        );
        Ok(out.into())
    }

    /// A short message as one frame.
    fn into_frame(mut self, prefix: [u8; grpc::PREFIX_BYTES]) -> Frame {
        let mut frame = FrameBuilder::new(prefix.len() + self.message_bytes() as usize);
        frame.put(&prefix);
        frame.put(&self.header);
        while self.keys.next(|r| frame.put_shown(r, self.shown)) {}
        frame.put(&self.tail);
        frame.finish()
    }
}

/// One message, sent while it is read.
struct UnarySource {
    frames: FrameBuilder,
    keys: Keys,
    /// Bytes of the message that are not in `frames` yet.
    unread_bytes: u64,
    tail: Vec<u8>,
    _open: OpenList,
}

impl UnarySource {
    fn new(prefix: [u8; grpc::PREFIX_BYTES], answer: Answer, open: OpenList) -> Self {
        let mut frames = FrameBuilder::new(usize::MAX);
        frames.put(&prefix);
        frames.put(&answer.header);
        Self {
            frames,
            keys: answer.keys,
            unread_bytes: answer.keys_bytes + answer.tail.len() as u64,
            tail: answer.tail,
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

    /// A filter that lets nothing through has the smallest answer, and reads every key for it.
    #[test]
    fn what_looks_at_many_keys_is_not_answered_on_the_connections_thread() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(1)
            .build();
        runtime.expect("a runtime").block_on(long_answers());
    }

    async fn long_answers() {
        // The only thread for what takes long is taken, so that nothing is answered there before it is looked for.
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
            assert!(at_once.is_some_and(|answer| answer.is_ok()), "{request:?}");
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
