//! The body's data type: a rope of stored records and copied runs, written with one `writev`.
//!
//! HTTP/2 costs per frame, not per byte, so objects are gathered into frames of exactly
//! [`TARGET_BYTES`]: a frame of a few bytes more would be split by HTTP/2 into a large and a tiny
//! one, and cost twice. Within a frame, records below [`COPY_BELOW_BYTES`] are copied into runs (a
//! vectored write shows 16 slices a call, so many small slices cost more than the copy), larger
//! ones are pointed at where the store keeps them; one that straddles two frames is in both.
//! Measured in `docs/performance.md`.

use std::collections::VecDeque;
use std::fmt;
use std::io::IoSlice;

use bytes::{Buf, Bytes};
use memory::admission::Admitted;
use memory::in_flight::{self, InFlight};

use super::part::{Part, SharedPart};
use super::run::Run;
pub use super::sizes::{COPY_BELOW_BYTES, TARGET_BYTES};
use super::stopwatch::Stopwatch;

/// What a frame points at where somebody keeps it. Clones are cheap and show the same bytes; the bytes never change.
pub trait Shared: AsRef<[u8]> + Clone + fmt::Debug + Send + Unpin + 'static {}

impl<T: AsRef<[u8]> + Clone + fmt::Debug + Send + Unpin + 'static> Shared for T {}

/// A run of bytes that a frame holds.
#[derive(Debug, Clone)]
enum Piece<S> {
    /// Copied or made for this response.
    Run(Bytes),
    /// Where it is kept.
    Shared(S),
}

impl<S: Shared> Piece<S> {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Run(bytes) => bytes,
            Self::Shared(shared) => shared.as_ref(),
        }
    }
}

/// One DATA frame's worth of a response body, which points at what an `S` shows. Dropping it frees the copied runs only.
#[derive(Debug)]
pub struct Frame<S = SharedPart> {
    pieces: VecDeque<Piece<S>>,
    /// Bytes of the first piece that are already consumed, or belong to the frame before.
    consumed: usize,
    /// Bytes left; those of the last piece beyond them belong to the next frame.
    remaining: usize,
    /// Waits for the first byte to be handed down.
    stopwatch: Option<Stopwatch>,
    /// Counts it among what its client has not taken.
    in_flight: Option<InFlight>,
    /// Room for a response that was gathered as a whole.
    admitted: Option<Admitted>,
}

impl<S> Default for Frame<S> {
    fn default() -> Self {
        Self {
            pieces: VecDeque::new(),
            consumed: 0,
            remaining: 0,
            stopwatch: None,
            in_flight: None,
            admitted: None,
        }
    }
}

impl<S: Shared> Frame<S> {
    /// Counts the frame until its connection has taken it. Called as the frame is handed over.
    pub fn count_in_flight(&mut self) {
        self.in_flight = in_flight::begin(self.remaining);
    }

    /// Keeps `admitted` until the connection has taken the frame.
    pub fn hold(&mut self, admitted: Option<Admitted>) {
        self.admitted = admitted;
    }

    /// Stops `stopwatch` when HTTP/2 hands down the frame's first byte.
    pub(super) fn time_first_write(&mut self, stopwatch: Stopwatch) {
        self.stopwatch = Some(stopwatch);
    }

    /// Cuts everything from byte `at` on off into a frame of its own; a piece that straddles the
    /// cut is shared by both.
    fn split_off(&mut self, at: usize) -> Self {
        let mut over = self.remaining.saturating_sub(at);
        let mut rest = Self {
            remaining: over,
            ..Self::default()
        };
        self.remaining -= over;
        while over > 0 {
            let Some(last) = self.pieces.pop_back() else {
                unreachable!("pieces hold what remaining says");
            };
            let len = last.as_slice().len();
            let skipped = if self.pieces.is_empty() {
                self.consumed
            } else {
                0
            };
            if len - skipped <= over {
                over -= len - skipped;
                rest.consumed = skipped;
                rest.pieces.push_front(last);
            } else {
                rest.consumed = len - over;
                rest.pieces.push_front(last.clone());
                self.pieces.push_back(last);
                over = 0;
            }
        }
        rest
    }
}

impl<S> From<Bytes> for Frame<S> {
    fn from(bytes: Bytes) -> Self {
        let remaining = bytes.len();
        Self {
            pieces: VecDeque::from([Piece::Run(bytes)]),
            consumed: 0,
            remaining,
            ..Self::default()
        }
    }
}

impl<S: Shared> Buf for Frame<S> {
    fn remaining(&self) -> usize {
        self.remaining
    }

    fn chunk(&self) -> &[u8] {
        match self.pieces.front() {
            Some(piece) => {
                let rest = &piece.as_slice()[self.consumed..];
                &rest[..rest.len().min(self.remaining)]
            }
            None => &[],
        }
    }

    fn chunks_vectored<'a>(&'a self, dst: &mut [IoSlice<'a>]) -> usize {
        let mut skip = self.consumed;
        let mut left = self.remaining;
        let mut filled = 0;
        for (slot, piece) in dst.iter_mut().zip(&self.pieces) {
            let slice = &piece.as_slice()[skip..];
            let slice = &slice[..slice.len().min(left)];
            *slot = IoSlice::new(slice);
            left -= slice.len();
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
        if let Some(stopwatch) = self.stopwatch.take_if(|_| count > 0) {
            stopwatch.stop();
        }
        if let Some(in_flight) = &self.in_flight {
            in_flight.advanced();
        }
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

/// Gathers header bytes and records into frames.
#[derive(Debug)]
pub struct FrameBuilder<S = SharedPart> {
    frame: Frame<S>,
    run: Run,
    /// What is encoded for this response, on its way into the run.
    encoded: Vec<u8>,
    /// Bytes that all runs together may come to hold.
    expected: usize,
    /// Bytes of a full frame.
    full: usize,
    /// Bytes that this frame is filled to: fewer where the client does not take what it has.
    target: usize,
}

impl<S: Shared> FrameBuilder<S> {
    /// Nothing gathered yet. `expected_bytes` is the size of the whole answer, so that a short one
    /// does not take a whole frame's memory.
    pub fn new(expected_bytes: usize) -> Self {
        Self::with_target(expected_bytes, TARGET_BYTES)
    }

    /// The same for frames of `target` bytes instead of [`TARGET_BYTES`].
    pub fn with_target(expected_bytes: usize, target: usize) -> Self {
        Self {
            frame: Frame::default(),
            run: Run::default(),
            encoded: Vec::new(),
            expected: expected_bytes,
            full: target,
            target: in_flight::frame_bytes(target),
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

    /// Whether a whole frame is there.
    pub fn is_full(&self) -> bool {
        self.frame.remaining >= self.target
    }

    /// Appends bytes that were made for this response.
    pub fn put(&mut self, bytes: &[u8]) {
        self.run.put(bytes, self.expected, self.target);
        self.frame.remaining += bytes.len();
    }

    /// Appends what `encode` appends to a buffer, which is used again.
    pub fn put_encoded(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        let mut encoded = std::mem::take(&mut self.encoded);
        encoded.clear();
        encode(&mut encoded);
        self.put(&encoded);
        self.encoded = encoded;
    }

    /// Appends what is kept in `pieces`: copied when they are small together; when they are large, each that is not empty
    /// is pointed at by what `share` makes of its number.
    #[inline]
    pub fn put_pieces<const N: usize>(&mut self, pieces: [&[u8]; N], share: impl Fn(usize) -> S) {
        let len: usize = pieces.iter().map(|piece| piece.len()).sum();
        if len < COPY_BELOW_BYTES {
            pieces.into_iter().for_each(|piece| self.put(piece));
            return;
        }
        self.close_run();
        self.frame.remaining += len;
        for (number, piece) in pieces.into_iter().enumerate() {
            if !piece.is_empty() {
                let shared = share(number);
                debug_assert_eq!(shared.as_ref().len(), piece.len(), "piece {number}");
                self.frame.pieces.push_back(Piece::Shared(shared));
            }
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

    /// A frame of exactly the target's size when that much is there, else all there is; what is
    /// beyond stays for the next one.
    pub fn take_frame(&mut self) -> Frame<S> {
        self.close_run();
        let rest = self.frame.split_off(self.target);
        self.target = in_flight::frame_bytes(self.full);
        std::mem::replace(&mut self.frame, rest)
    }

    /// All that is there as one frame, ready to send.
    pub fn finish(mut self) -> Frame<S> {
        self.close_run();
        self.frame
    }

    fn close_run(&mut self) {
        if self.run.is_empty() {
            return;
        }
        let run = std::mem::take(&mut self.run);
        self.frame.pieces.push_back(Piece::Run(run.freeze()));
    }
}

impl FrameBuilder {
    /// Appends a part of a buffer: copied when small, pointed at when large.
    pub fn put_part(&mut self, part: Part<'_>) {
        self.put_pieces([&part], |_| part.share());
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
            let mut builder: FrameBuilder = FrameBuilder::new(64);
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
    fn frames_are_cut_exactly_wherever_the_pieces_end() {
        let mut builder = FrameBuilder::with_target(1 << 20, 10_000);
        let mut expected = Vec::new();
        let mut seen = Vec::new();
        for (i, len) in [
            10usize, 50_000, 3, 9_990, 4_096, 4_000, 4_000, 4_000, 25_000,
        ]
        .into_iter()
        .enumerate()
        {
            let bytes = vec![i as u8; len];
            expected.extend_from_slice(&bytes);
            match i % 2 {
                0 => builder.put_shared(Bytes::from(bytes)),
                _ => {
                    // More lies around the part than it shows.
                    let buffer = [&[0xff][..], &bytes, &[0xff]].concat().into();
                    let mut part = Part::new(&buffer, 1..buffer.len());
                    part.truncate(len);
                    builder.put_part(part);
                }
            }
            while builder.is_full() {
                let frame = builder.take_frame();
                assert_eq!(frame.remaining(), 10_000);
                seen.extend(drain_vectored(frame, 777));
            }
        }
        let rest = builder.take_frame();
        assert!(rest.remaining() < 10_000 && builder.is_empty());
        seen.extend(drain_vectored(rest, usize::MAX));
        assert!(seen == expected, "every byte once, in order");
    }

    #[test]
    fn chunks_read_no_further_than_the_frame() {
        let mut builder: FrameBuilder = FrameBuilder::with_target(0, 5_000);
        builder.put_shared(Bytes::from(vec![1; 12_000]));
        for len in [5_000, 5_000, 2_000] {
            let mut frame = builder.take_frame();
            assert_eq!(frame.chunk().len(), len);
            assert_eq!(frame.copy_to_bytes(len), vec![1; len]);
        }
    }

    #[test]
    #[should_panic(expected = "cannot advance")]
    fn advancing_past_the_end_is_a_bug() {
        Frame::<SharedPart>::from(Bytes::from_static(b"ab")).advance(3);
    }
}
