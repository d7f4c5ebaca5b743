//! RangeStream (KEP-5966): a list in chunks, each a message of its own.
//!
//! Layout and chunk sizes are etcd 3.7.1's: intermediate chunks carry only keys; header, `more`
//! and `count` come with the last one, which may also be the first; an empty result is one message.
//! The number of keys in a chunk starts at [`FIRST_CHUNK_KEYS`], doubles while chunks stay below
//! half of the target and halves when one is above twice the target. Three mends:
//!
//! - a negative revision is the latest *and pinned*, where etcd's chunks may come from different
//!   revisions;
//! - a sort target with order NONE is ignored, where etcd sorts each chunk and then continues
//!   after the wrong key, losing and repeating keys;
//! - a chunk is cut at twice the target (at least one object), where etcd's has no cap: its first
//!   ten 1 MiB objects make one message of 10 MiB.
//!
//! Work is pulled: a chunk is gathered (as pointers) when HTTP/2 can take its first frame, so a
//! slow reader or a cancelled call costs nothing more. Compaction is checked before each chunk.

use std::collections::VecDeque;

use bytes::Bytes;
use etcd_api::error::Refusal;
use etcd_api::keys::KeyRange;
use etcd_api::proto::etcdserverpb::{RangeRequest, RangeResponse, RangeStreamResponse};
use tonic::Status;

use super::Node;
use super::range;
use crate::store::range::Plan;
use crate::store::{Cursor, Record, Snapshot};
use crate::wire::body::{FrameSource, ResponseBody};
use crate::wire::frame::{Frame, FrameBuilder};
use crate::wire::{grpc, proto};

/// Keys in the first chunk.
const FIRST_CHUNK_KEYS: u64 = 10;

/// Opens the stream.
///
/// # Errors
/// Before any message: the request checks of etcd's RangeStream in its order, then Compacted or
/// FutureRevision.
pub fn range_stream(node: &Node, request: &RangeRequest) -> Result<ResponseBody, Status> {
    let plan = Plan::of(request)?;
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
        node, snapshot, request,
    )))
}

/// Chunks of one list, produced as they are sent.
struct ChunkSource {
    snapshot: Snapshot,
    cursor: std::iter::Peekable<Cursor>,
    range_end: Bytes,
    /// Encoded header field of the last chunk.
    header: Vec<u8>,
    keys_only: bool,
    sizing: ChunkSizing,
    /// Keys that the client still wants.
    wanted: u64,
    sent: u64,
    /// What is left of the chunk being sent.
    chunk: VecDeque<Record>,
    /// Its bytes.
    chunk_bytes: usize,
    /// Bytes that end the chunk being sent.
    tail: Vec<u8>,
    finished: bool,
}

impl ChunkSource {
    fn new(node: &Node, snapshot: Snapshot, request: &RangeRequest) -> Self {
        let keys = KeyRange::new(&request.key, &request.range_end);
        Self {
            cursor: snapshot.cursor(keys).peekable(),
            range_end: request.range_end.clone(),
            header: proto::header_field(&node.header(snapshot.head_revision())),
            keys_only: request.keys_only,
            sizing: ChunkSizing::new(node.max_request_bytes),
            wanted: u64::try_from(request.limit)
                .ok()
                .filter(|&limit| limit > 0)
                .unwrap_or(u64::MAX),
            sent: 0,
            chunk: VecDeque::new(),
            chunk_bytes: 0,
            tail: Vec::new(),
            finished: false,
            snapshot,
        }
    }

    /// Gathers the next chunk and starts a frame with its message prefix.
    fn start_chunk(&mut self) -> Result<FrameBuilder, Status> {
        self.snapshot.check()?;
        let most_keys = self.sizing.keys.min(self.wanted);
        let mut bytes = 0;
        let mut cut = false;
        while (self.chunk.len() as u64) < most_keys {
            let Some(next) = self.cursor.peek() else {
                break;
            };
            if bytes + next.wire().len() > self.sizing.most_bytes() && !self.chunk.is_empty() {
                cut = true;
                break;
            }
            let record = self.cursor.next().expect("peeked just now");
            let record = if self.keys_only {
                range::keys_only(&record, false)
            } else {
                record
            };
            bytes += record.wire().len();
            self.chunk.push_back(record);
        }
        self.chunk_bytes = bytes;
        let keys = self.chunk.len() as u64;
        self.sent += keys;
        self.wanted -= keys;
        self.sizing.adapt(bytes + self.header.len(), cut);

        let next = self.cursor.peek();
        self.finished = self.wanted == 0 || next.is_none();
        let header: &[u8] = if self.finished {
            let rest = next.map_or(0, |next| {
                let rest = KeyRange::new(next.key(), &self.range_end);
                self.snapshot.count(rest)
            });
            self.tail = proto::tail_fields(rest > 0, (self.sent + rest) as i64);
            &self.header
        } else {
            &[]
        };
        let inner = header.len() + bytes + self.tail.len();
        let wrapper = proto::range_stream_wrapper(inner);
        let mut frame = FrameBuilder::new(grpc::PREFIX_BYTES + wrapper.len() + inner);
        frame.put(&grpc::message_prefix((wrapper.len() + inner) as u64)?);
        frame.put(&wrapper);
        frame.put(header);
        Ok(frame)
    }
}

impl FrameSource for ChunkSource {
    fn next_frame(&mut self) -> Result<Option<Frame>, Status> {
        let mut frame = if !self.chunk.is_empty() {
            FrameBuilder::new(self.chunk_bytes + self.tail.len())
        } else if self.finished {
            return Ok(None);
        } else {
            self.start_chunk()?
        };
        while let Some(record) = self.chunk.pop_front() {
            self.chunk_bytes -= record.wire().len();
            frame.put_record(&record);
            if frame.is_full() {
                break;
            }
        }
        if self.chunk.is_empty() {
            frame.put(&std::mem::take(&mut self.tail));
        }
        Ok(Some(frame.finish()))
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

    /// Bytes at which a chunk is cut.
    fn most_bytes(&self) -> usize {
        self.target_bytes.saturating_mul(2)
    }

    /// Learns from a chunk of `bytes` (keys and header, encoded) that was `cut` or not.
    fn adapt(&mut self, bytes: usize, cut: bool) {
        if cut || bytes > self.most_bytes() {
            self.keys = (self.keys / 2).max(1);
        } else if bytes < self.target_bytes / 2 {
            self.keys = self.keys.saturating_mul(2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chunk lengths, in keys, for `keys` objects that take `object_bytes` each.
    fn chunks(object_bytes: usize, keys: u64) -> Vec<u64> {
        let mut sizing = ChunkSizing::new(1_572_864);
        let mut left = keys;
        let mut out = Vec::new();
        while left > 0 {
            let by_bytes = (sizing.most_bytes() / object_bytes).max(1) as u64;
            let wanted = sizing.keys.min(left);
            let chunk = wanted.min(by_bytes);
            out.push(chunk);
            sizing.adapt(chunk as usize * object_bytes, chunk < wanted);
            left -= chunk;
        }
        out
    }

    #[test]
    fn the_ramp_is_etcds() {
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
