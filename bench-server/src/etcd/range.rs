//! Unary Range, in two encodings.
//!
//! `buffered` costs what etcd's costs: the whole message in memory before its first byte is sent.
//! `incremental` sends the message while it is being read: its length prefix needs only the sum of
//! the sizes, which the index holds. Filtered, sorted and keys-only ranges have no such sum and
//! are always buffered.

use bytes::Bytes;
use etcd_api::error::Refusal;
use etcd_api::keys::KeyRange;
use etcd_api::proto::etcdserverpb::RangeRequest;
use etcd_api::proto::etcdserverpb::range_request::SortTarget;
use tonic::Status;

use super::Node;
use crate::flags::RangeEncoding;
use crate::store::range::{Plan, Selection};
use crate::store::{Cursor, Fields, Record, Value};
use crate::wire::body::{FrameSource, ResponseBody};
use crate::wire::frame::{Frame, FrameBuilder, TARGET_BYTES};
use crate::wire::{grpc, proto};

/// Messages above this are gathered off the connection's thread, so that other connections there
/// are still served.
const INLINE_BYTES: u64 = 1024 * 1024;

/// The record as a keys-only answer has it. etcd 3.7 answers from its key index and so leaves the
/// lease out too, except where it had to read values to sort by them.
pub fn keys_only(record: &Record, sorted_by_value: bool) -> Record {
    let fields = record.fields();
    Record::new(Fields {
        value: Value::default(),
        lease: if sorted_by_value { fields.lease } else { 0 },
        ..fields
    })
}

/// Answers one Range.
///
/// # Errors
/// The request checks, Compacted, FutureRevision; `ResourceExhausted` for a message above 2 GiB.
pub async fn range(node: &Node, request: RangeRequest) -> Result<ResponseBody, Status> {
    let answer = Answer::plan(node, &request)?;
    // The size is checked before any work, also for an incremental answer.
    let prefix = grpc::message_prefix(answer.message_bytes())?;
    let total = grpc::PREFIX_BYTES as u64 + answer.message_bytes();
    if total <= TARGET_BYTES as u64 {
        return Ok(ResponseBody::unary(answer.into_frame(prefix)));
    }
    if node.range_encoding == RangeEncoding::Incremental && answer.streams {
        return Ok(ResponseBody::pulled(UnarySource::new(prefix, answer)));
    }
    let whole = if total <= INLINE_BYTES {
        answer.into_message(prefix)
    } else {
        tokio::task::spawn_blocking(move || answer.into_message(prefix))
            .await
            .map_err(|e| Status::internal(format!("gathering the answer failed: {e}")))?
    };
    Ok(ResponseBody::unary(Frame::from(whole)))
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
    keys_bytes: u64,
    tail: Vec<u8>,
    /// Whether reading the keys lazily saves anything.
    streams: bool,
}

impl Answer {
    fn plan(node: &Node, request: &RangeRequest) -> Result<Self, Refusal> {
        let plan = Plan::of(request)?;
        let range = KeyRange::new(&request.key, &request.range_end);
        let header = |head| proto::header_field(&node.header(head));
        let plain = plan.is_plain() && !request.keys_only && !request.count_only;
        if let (KeyRange::One(key), true) = (range, plain) {
            let (found, head) = node.store.get_at(key, request.revision)?;
            let count = i64::from(found.is_some());
            return Ok(Self::chosen(
                header(head),
                found.into_iter().collect(),
                false,
                count,
            ));
        }
        let snapshot = node.store.snapshot_at(request.revision)?;
        let header = header(snapshot.head_revision());
        if !plain {
            let mut selection = snapshot.select(request)?;
            if request.keys_only {
                let by_value = request.sort_target() == SortTarget::Value;
                for record in &mut selection.records {
                    *record = keys_only(record, by_value);
                }
            }
            let Selection {
                records,
                more,
                count,
            } = selection;
            return Ok(Self::chosen(header, records, more, count));
        }
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
                tail: proto::tail_fields(false, totals.count as i64),
                streams: true,
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
            tail: proto::tail_fields(true, totals.count as i64),
            streams: true,
        })
    }

    fn chosen(header: Vec<u8>, records: Vec<Record>, more: bool, count: i64) -> Self {
        Self {
            header,
            keys_bytes: records.iter().map(|r| r.wire_len() as u64).sum(),
            keys: Keys::Chosen(records.into_iter()),
            tail: proto::tail_fields(more, count),
            streams: false,
        }
    }

    fn message_bytes(&self) -> u64 {
        self.header.len() as u64 + self.keys_bytes + self.tail.len() as u64
    }

    /// The whole message in one exact allocation.
    fn into_message(mut self, prefix: [u8; grpc::PREFIX_BYTES]) -> Bytes {
        let total = prefix.len() + self.message_bytes() as usize;
        let mut out = Vec::with_capacity(total);
        out.extend_from_slice(&prefix);
        out.extend_from_slice(&self.header);
        while self.keys.next(|r| {
            r.wire()
                .into_iter()
                .for_each(|piece| out.extend_from_slice(piece))
        }) {}
        out.extend_from_slice(&self.tail);
        debug_assert_eq!(
            out.len(),
            total,
            "byte sum of the index disagrees with its records"
        );
        out.into()
    }

    /// A short message as one frame.
    fn into_frame(mut self, prefix: [u8; grpc::PREFIX_BYTES]) -> Frame {
        let mut frame = FrameBuilder::new(prefix.len() + self.message_bytes() as usize);
        frame.put(&prefix);
        frame.put(&self.header);
        while self.keys.next(|r| frame.put_record(r)) {}
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
}

impl UnarySource {
    fn new(prefix: [u8; grpc::PREFIX_BYTES], answer: Answer) -> Self {
        let mut frames = FrameBuilder::new(usize::MAX);
        frames.put(&prefix);
        frames.put(&answer.header);
        Self {
            frames,
            keys: answer.keys,
            unread_bytes: answer.keys_bytes + answer.tail.len() as u64,
            tail: answer.tail,
        }
    }
}

impl FrameSource for UnarySource {
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
