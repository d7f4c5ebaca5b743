//! The body's data type: a rope of stored records and copied runs, written with one `writev`.
//!
//! HTTP/2 costs per frame, not per byte, so objects are gathered into frames of
//! [`TARGET_BYTES`]. Within a frame, records below [`COPY_BELOW_BYTES`] are copied into runs (a
//! vectored write shows 16 slices a call, so many small slices cost more than the copy), larger
//! ones are pointed at where the store keeps them. Measured in `docs/performance.md`.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes};

use crate::store::Record;

/// Bytes a frame is filled to, unless a single object is larger. More than most receivers allow in
/// one DATA frame; HTTP/2 splits it to what the receiver allows.
pub const TARGET_BYTES: usize = 256 * 1024;

/// Records smaller than this are copied, larger ones are pointed at.
pub const COPY_BELOW_BYTES: usize = 4 * 1024;

/// A run of bytes that a frame holds.
#[derive(Debug, Clone)]
enum Piece {
    /// Copied or made for this response.
    Run(Bytes),
    /// Where the store keeps it.
    Stored(Record),
}

impl Piece {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Run(bytes) => bytes,
            Self::Stored(record) => record.wire(),
        }
    }
}

/// One DATA frame's worth of a response body. Dropping it frees the copied runs only.
#[derive(Debug, Default)]
pub struct Frame {
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that are already consumed.
    consumed: usize,
    /// Bytes left in all pieces.
    remaining: usize,
}

impl From<Bytes> for Frame {
    fn from(bytes: Bytes) -> Self {
        let remaining = bytes.len();
        Self {
            pieces: VecDeque::from([Piece::Run(bytes)]),
            consumed: 0,
            remaining,
        }
    }
}

impl Buf for Frame {
    fn remaining(&self) -> usize {
        self.remaining
    }

    fn chunk(&self) -> &[u8] {
        match self.pieces.front() {
            Some(piece) => &piece.as_slice()[self.consumed..],
            None => &[],
        }
    }

    fn chunks_vectored<'a>(&'a self, dst: &mut [IoSlice<'a>]) -> usize {
        let mut skip = self.consumed;
        let mut filled = 0;
        for (slot, piece) in dst.iter_mut().zip(&self.pieces) {
            *slot = IoSlice::new(&piece.as_slice()[skip..]);
            skip = 0;
            filled += 1;
        }
        filled
    }

    fn advance(&mut self, mut count: usize) {
        assert!(
            count <= self.remaining,
            "cannot advance {count} bytes, {} remain",
            self.remaining
        );
        self.remaining -= count;
        while let Some(piece) = self.pieces.front() {
            let left = piece.as_slice().len() - self.consumed;
            if count < left {
                self.consumed += count;
                return;
            }
            count -= left;
            self.consumed = 0;
            self.pieces.pop_front();
        }
    }
}

/// Gathers header bytes and records into one [`Frame`].
#[derive(Debug)]
pub struct FrameBuilder {
    frame: Frame,
    run: Vec<u8>,
    /// Bytes that the next run is given room for.
    run_capacity: usize,
}

impl FrameBuilder {
    /// An empty frame; `expected_bytes` sizes its first copied run, so that a short answer does
    /// not take a whole frame's memory.
    pub fn new(expected_bytes: usize) -> Self {
        Self {
            frame: Frame::default(),
            run: Vec::new(),
            run_capacity: expected_bytes.min(TARGET_BYTES),
        }
    }

    /// Bytes gathered so far.
    pub fn len(&self) -> usize {
        self.frame.remaining
    }

    /// Whether nothing was gathered.
    pub fn is_empty(&self) -> bool {
        self.frame.remaining == 0
    }

    /// Whether the frame has reached [`TARGET_BYTES`].
    pub fn is_full(&self) -> bool {
        self.frame.remaining >= TARGET_BYTES
    }

    /// Bytes until the frame is full.
    fn room(&self) -> usize {
        TARGET_BYTES.saturating_sub(self.frame.remaining)
    }

    /// Appends bytes that were made for this response.
    pub fn put(&mut self, bytes: &[u8]) {
        if self.run.capacity() == 0 {
            self.run.reserve_exact(self.run_capacity.max(bytes.len()));
        }
        self.run.extend_from_slice(bytes);
        self.frame.remaining += bytes.len();
    }

    /// Appends a stored record: copied when small, pointed at when large.
    pub fn put_record(&mut self, record: &Record) {
        let wire = record.wire();
        if wire.len() < COPY_BELOW_BYTES {
            self.put(wire);
        } else {
            self.close_run();
            self.frame.remaining += wire.len();
            self.frame.pieces.push_back(Piece::Stored(record.clone()));
        }
    }

    /// Appends a buffer that is shared, not copied.
    pub fn put_shared(&mut self, bytes: Bytes) {
        if bytes.len() < COPY_BELOW_BYTES {
            self.put(&bytes);
        } else {
            self.close_run();
            self.frame.remaining += bytes.len();
            self.frame.pieces.push_back(Piece::Run(bytes));
        }
    }

    /// The frame, ready to send.
    pub fn finish(mut self) -> Frame {
        self.close_run();
        self.frame
    }

    fn close_run(&mut self) {
        if self.run.is_empty() {
            return;
        }
        // A run between two large records is a few bytes; the next one gets what is left.
        self.run_capacity = self.room().min(COPY_BELOW_BYTES);
        let run = std::mem::take(&mut self.run);
        self.frame.pieces.push_back(Piece::Run(Bytes::from(run)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain_vectored(mut frame: Frame, step: usize) -> Vec<u8> {
        let mut out = Vec::new();
        while frame.has_remaining() {
            let mut slices = [IoSlice::new(&[]); 4];
            let filled = frame.chunks_vectored(&mut slices);
            let seen = slices[..filled].iter().flat_map(|s| s.iter().copied());
            let before = out.len();
            out.extend(seen.take(step));
            let take = out.len() - before;
            frame.advance(take);
        }
        out
    }

    #[test]
    fn a_rope_reads_as_the_bytes_it_was_built_from() {
        for step in [1, 7, 4096, 1 << 20] {
            let mut builder = FrameBuilder::new(64);
            let mut expected = Vec::new();
            for (i, len) in [10usize, 5_000, 3, 70_000, 1, 4_096, 2]
                .into_iter()
                .enumerate()
            {
                let bytes = vec![i as u8; len];
                expected.extend_from_slice(&bytes);
                builder.put_shared(Bytes::from(bytes));
            }
            assert_eq!(builder.len(), expected.len());
            assert_eq!(
                drain_vectored(builder.finish(), step),
                expected,
                "step {step}"
            );
        }
    }

    #[test]
    #[should_panic(expected = "cannot advance")]
    fn advancing_past_the_end_is_a_bug() {
        Frame::from(Bytes::from_static(b"ab")).advance(3);
    }
}
