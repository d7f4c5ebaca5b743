//! RangeStream (KEP-5966): a list in chunks, each a gRPC message.
//!
//! Layout and chunk sizes are those of etcd 3.7.3. Intermediate chunks have only keys; the last
//! one, which may also be the first, has header, `more` and `count`; an empty result is one
//! message. The number of keys in a chunk starts at [`FIRST_CHUNK_KEYS`], doubles while chunks are
//! below half of the target, and is halved when one is above twice the target. Three differences
//! correct errors of etcd:
//!
//! - A negative revision is the latest one *for all chunks*; chunks of etcd may have different
//!   revisions.
//! - A sort target with order NONE is ignored. etcd sorts each chunk and continues after the wrong
//!   key, so it loses and repeats keys.
//! - A chunk ends at twice the target (after at least one object). etcd has no limit, so ten
//!   objects of 1 MiB make a first message of 10 MiB.
//!
//! A frame is filled when HTTP/2 can take it, so a slow reader or a cancelled call causes no
//! further work. Frames are filled across chunks, but the first chunk never waits for the second.
//! Compaction and the call's deadline are checked before each chunk.

use etcd_api::error::Refusal;
use etcd_api::keys::KeyRange;
use etcd_api::proto::etcdserverpb::{
    RangeRequest, RangeResponse, RangeStreamResponse, ResponseHeader,
};
use memory::open_lists::OpenList;
use store::range::RangePlan;
use store::{Cursor, Projection, Snapshot};
use tokio::time::Instant;
use tonic::Status;
use wire::body::FrameSource;
use wire::{grpc, proto};

use super::Node;
use super::call_checks::deadline_exceeded;
use super::frames::{Frame, FrameBuilder, PutRecord, RecordPiece, ResponseBody};

/// Number of keys in the first chunk.
const FIRST_CHUNK_KEYS: u64 = 10;

/// Serves one RangeStream.
///
/// # Errors
/// Before any message: errors of the request checks of etcd's RangeStream in its order, then
/// Compacted or FutureRevision.
pub fn range_stream(
    node: &Node,
    request: &RangeRequest,
    deadline: Option<Instant>,
) -> Result<ResponseBody, Status> {
    let plan = RangePlan::of(request)?;
    if !plan.fetches_in_key_order() {
        return Err(Refusal::StreamSortUnsupported.into());
    }
    if plan.is_filtered() {
        return Err(Refusal::StreamFilterUnsupported.into());
    }
    let snapshot = node.store.snapshot_at(request.revision)?;
    let keys = KeyRange::new(&request.key, &request.range_end);
    if request.count_only {
        let message = RangeStreamResponse {
            range_response: Some(RangeResponse {
                header: Some(node.header(snapshot.head_revision())),
                count: snapshot.count(keys) as i64,
                ..RangeResponse::default()
            }),
        };
        return Ok(ResponseBody::unary(grpc::message_frame(&message)?));
    }
    Ok(ResponseBody::pulled(ChunkSource::new(
        node, snapshot, request, deadline,
    )))
}

/// Produces the chunks of one list while they are sent.
///
/// A chunk's length is sent before its keys, so a second cursor runs ahead and sums their sizes.
/// Sizes are in the index's leaves, so this reads no record.
struct ChunkSource {
    snapshot: Snapshot,
    /// The next key to size.
    ahead: Cursor,
    /// The next key to send.
    cursor: Cursor,
    deadline: Option<Instant>,
    /// Encoded header field of the last chunk.
    header: Vec<u8>,
    /// Length of a header field with nothing but the revision, which etcd counts when it sizes
    /// chunks.
    revision_bytes: usize,
    projection: Projection,
    sizing: ChunkSizing,
    /// Number of keys left of the request's limit; `u64::MAX` without a limit.
    wanted: u64,
    /// Number of keys of all chunks started so far.
    begun: u64,
    /// Number of keys of the range that are in none of them.
    rest: u64,
    /// Number of unsent keys of the current chunk.
    chunk: u64,
    /// Encoded fields that end the last chunk.
    tail: Vec<u8>,
    /// Whether the current chunk is the last.
    last: bool,
    /// Whether the first frame was sent.
    started: bool,
    frames: FrameBuilder,
    _open: OpenList,
}

impl ChunkSource {
    fn new(
        node: &Node,
        snapshot: Snapshot,
        request: &RangeRequest,
        deadline: Option<Instant>,
    ) -> Self {
        let keys = KeyRange::new(&request.key, &request.range_end);
        let cursor = snapshot.cursor(keys);
        let revision = snapshot.head_revision();
        Self {
            ahead: cursor.clone(),
            cursor,
            deadline,
            header: proto::header_field(&node.header(revision)),
            revision_bytes: proto::header_field(&ResponseHeader {
                revision,
                ..ResponseHeader::default()
            })
            .len(),
            projection: Projection::of(request),
            sizing: ChunkSizing::new(node.max_request_bytes),
            wanted: u64::try_from(request.limit)
                .ok()
                .filter(|&limit| limit > 0)
                .unwrap_or(u64::MAX),
            begun: 0,
            rest: snapshot.count(keys),
            chunk: 0,
            tail: Vec::new(),
            last: false,
            started: false,
            frames: FrameBuilder::new(usize::MAX),
            _open: snapshot.open_list(),
            snapshot,
        }
    }

    /// Sizes the next chunk and writes the bytes before its keys.
    fn begin_chunk(&mut self) -> Result<(), Status> {
        self.snapshot.check()?;
        if self.deadline.is_some_and(|at| at <= Instant::now()) {
            return Err(deadline_exceeded());
        }
        let most_keys = self.sizing.keys.min(self.wanted);
        let mut keys = 0;
        let mut bytes = 0;
        let mut cut = false;
        while keys < most_keys {
            let Some(next) = self.ahead.peek() else {
                break;
            };
            let len = self.projection.wire_len(next);
            if keys > 0 && bytes + len > self.sizing.max_bytes() {
                cut = true;
                break;
            }
            bytes += len;
            keys += 1;
            self.ahead.next_ref();
        }
        // As etcd sizes a chunk: with `more`, and with a count that ends one key after the chunk.
        let fields = self.revision_bytes + proto::tail_fields(true, keys as i64 + 1).len();
        self.sizing.adapt(bytes + fields, cut);
        self.chunk = keys;
        self.begun += keys;
        self.wanted -= keys;
        self.rest -= keys;

        self.last = self.wanted == 0 || self.rest == 0;
        let header: &[u8] = if self.last {
            self.tail = proto::tail_fields(self.rest > 0, (self.begun + self.rest) as i64);
            &self.header
        } else {
            &[]
        };
        let inner = header.len() + bytes + self.tail.len();
        let wrapper = proto::range_stream_wrapper(inner);
        let prefix = grpc::message_prefix((wrapper.len() + inner) as u64)?;
        self.frames.put(&prefix);
        self.frames.put(&wrapper);
        self.frames.put(header);
        Ok(())
    }

    /// Appends keys of the current chunk until the frame is full.
    fn send_keys(&mut self) {
        while self.chunk > 0 && !self.frames.is_full() {
            let Some(record) = self.cursor.next_ref() else {
                unreachable!("the chunk was counted on the same snapshot");
            };
            self.frames.put_projected(record, self.projection);
            self.chunk -= 1;
        }
        if self.chunk == 0 {
            self.frames.put(&std::mem::take(&mut self.tail));
        }
    }
}

impl FrameSource<RecordPiece> for ChunkSource {
    fn next_frame(&mut self) -> Result<Option<Frame>, Status> {
        while !self.frames.is_full() {
            if self.chunk == 0 {
                // The first chunk is sent at once; later ones share frames.
                if self.last || (!self.started && !self.frames.is_empty()) {
                    break;
                }
                match self.begin_chunk() {
                    Ok(()) => {}
                    // Sends the collected bytes first; the next call returns the error.
                    Err(_) if !self.frames.is_empty() => break,
                    Err(status) => return Err(status),
                }
            }
            self.send_keys();
        }
        self.started = true;
        if self.frames.is_empty() {
            return Ok(None);
        }
        Ok(Some(self.frames.take_frame()))
    }
}

/// etcd's adaptive chunk size, in keys.
struct ChunkSizing {
    keys: u64,
    target_bytes: usize,
}

impl ChunkSizing {
    fn new(target_bytes: usize) -> Self {
        Self {
            keys: FIRST_CHUNK_KEYS,
            target_bytes,
        }
    }

    /// Returns the maximum size of a chunk, bytes.
    fn max_bytes(&self) -> usize {
        self.target_bytes.saturating_mul(2)
    }

    /// Adapts the number of keys to a chunk of `bytes`, as etcd sizes it. `cut` is whether the
    /// chunk was cut at the maximum.
    fn adapt(&mut self, bytes: usize, cut: bool) {
        if cut || bytes > self.max_bytes() {
            self.keys = (self.keys / 2).max(1);
        } else if bytes < self.target_bytes / 2 {
            self.keys = self.keys.saturating_mul(2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the chunk lengths, in keys, for `keys` objects that take `object_bytes` each.
    fn chunks(object_bytes: usize, keys: u64) -> Vec<u64> {
        let mut sizing = ChunkSizing::new(1_572_864);
        let mut left = keys;
        let mut out = Vec::new();
        while left > 0 {
            let by_bytes = (sizing.max_bytes() / object_bytes).max(1) as u64;
            let wanted = sizing.keys.min(left);
            let chunk = wanted.min(by_bytes);
            out.push(chunk);
            sizing.adapt(chunk as usize * object_bytes, chunk < wanted);
            left -= chunk;
        }
        out
    }

    #[test]
    fn the_ramp_equals_etcds() {
        let small = chunks(130, 100_000);
        assert_eq!(
            &small[..11],
            [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240]
        );
        assert_eq!(small[11], 10_240, "1.3 MB is within the band");
        assert_eq!(&chunks(10_000, 1_000)[..6], [10, 20, 40, 80, 80, 80]);
        assert_eq!(&chunks(100_000, 100)[..3], [10, 10, 10]);
    }

    #[test]
    fn a_chunk_of_large_objects_is_cut_at_twice_the_target() {
        assert_eq!(&chunks(1_048_576 + 40, 20)[..4], [2, 2, 2, 2]);
        assert_eq!(&chunks(1_000_000, 20)[..4], [3, 3, 2, 2]);
        assert_eq!(&chunks(10_000_000, 3)[..], [1, 1, 1]);
    }
}
