//! The body's data type: a rope of stored records and copied runs, written with one `writev`.
//!
//! HTTP/2 costs per frame, not per byte, so objects are gathered into frames of exactly
//! [`TARGET_BYTES`]: a frame of a few bytes more would be split by HTTP/2 into a large and a tiny
//! one, and cost twice. Within a frame, records below [`COPY_BELOW_BYTES`] are copied into runs,
//! since many small slices cost more than the copy; larger ones are pointed at where the store
//! keeps them; one that straddles two frames is in both. HTTP/2 shows 16 slices at a time; those
//! beyond leave in the same write by `listen/src/rope.rs`.
//! Measured in `docs/performance.md`.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt;
use std::io::IoSlice;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use listen::{NotShown, Slices};
use memory::admission::Admitted;
use memory::in_flight::{self, InFlight};

use super::buffer_pool::Run;
use super::first_byte_metric::Stopwatch;
use super::part::{Part, SharedPart};
pub use super::sizes::{COPY_BELOW_BYTES, TARGET_BYTES};

/// What a frame points at where somebody keeps it. Clones are cheap and show the same bytes; the bytes never change.
pub trait Shared: AsRef<[u8]> + Clone + fmt::Debug + Send + Sync + Unpin + 'static {}

impl<T: AsRef<[u8]> + Clone + fmt::Debug + Send + Sync + Unpin + 'static> Shared for T {}

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

/// The pieces of a frame; they stay until the frame is dropped.
#[derive(Debug)]
enum Pieces<S> {
    None,
    /// Small responses: no allocation.
    One(Piece<S>),
    /// Shared with what writes them.
    Many(Arc<List<S>>),
}

impl<S: Shared> Pieces<S> {
    fn as_slice(&self) -> &[Piece<S>] {
        match self {
            Self::None => &[],
            Self::One(piece) => std::slice::from_ref(piece),
            Self::Many(list) => &list.0,
        }
    }
}

/// Two pieces and more.
#[derive(Debug)]
struct List<S>(Vec<Piece<S>>);

impl<S: Shared> Slices for List<S> {
    fn slice(&self, number: usize) -> Option<&[u8]> {
        self.0.get(number).map(Piece::as_slice)
    }
}

/// One DATA frame's worth of a response body, which points at what an `S` shows. Dropping it frees the copied runs only.
#[derive(Debug)]
pub struct Frame<S = SharedPart> {
    pieces: Pieces<S>,
    /// The piece that is read next.
    next: usize,
    /// Bytes of that piece that are already consumed, or belong to the frame before.
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

impl<S> Frame<S> {
    fn new(pieces: Pieces<S>, consumed: usize, remaining: usize) -> Self {
        Self {
            pieces,
            next: 0,
            consumed,
            remaining,
            stopwatch: None,
            in_flight: None,
            admitted: None,
        }
    }
}

impl<S> Default for Frame<S> {
    fn default() -> Self {
        Self::new(Pieces::None, 0, 0)
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

    /// The pieces that are not consumed.
    fn left(&self) -> &[Piece<S>] {
        self.pieces.as_slice().get(self.next..).unwrap_or_default()
    }
}

impl<S> From<Bytes> for Frame<S> {
    fn from(bytes: Bytes) -> Self {
        let remaining = bytes.len();
        Self::new(Pieces::One(Piece::Run(bytes)), 0, remaining)
    }
}

impl<S: Shared> Buf for Frame<S> {
    fn remaining(&self) -> usize {
        self.remaining
    }

    fn chunk(&self) -> &[u8] {
        match self.left().first() {
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
        for (slot, piece) in dst.iter_mut().zip(self.left()) {
            let slice = &piece.as_slice()[skip..];
            let slice = &slice[..slice.len().min(left)];
            *slot = IoSlice::new(slice);
            left -= slice.len();
            skip = 0;
            filled += 1;
        }
        if left > 0
            && let Some(last) = dst[..filled].last()
            && let Pieces::Many(pieces) = &self.pieces
        {
            NotShown::behind(last, pieces.clone(), self.next + filled, left).remember();
        } else {
            NotShown::forget();
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
        while let Some(piece) = self.left().first() {
            let left = piece.as_slice().len() - self.consumed;
            if count < left {
                self.consumed += count;
                return;
            }
            count -= left;
            self.consumed = 0;
            self.next += 1;
        }
    }
}

/// Gathers header bytes and records into frames.
#[derive(Debug)]
pub struct FrameBuilder<S = SharedPart> {
    pieces: VecDeque<Piece<S>>,
    /// Bytes of the first piece that belong to the frame before.
    consumed: usize,
    /// Bytes gathered.
    len: usize,
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
    fn with_target(expected_bytes: usize, target: usize) -> Self {
        Self {
            pieces: VecDeque::new(),
            consumed: 0,
            len: 0,
            run: Run::default(),
            encoded: Vec::new(),
            expected: expected_bytes,
            full: target,
            target: in_flight::frame_bytes(target),
        }
    }

    /// Bytes gathered so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was gathered.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether a whole frame is there.
    pub fn is_full(&self) -> bool {
        self.len >= self.target
    }

    /// Appends bytes that were made for this response.
    pub fn put(&mut self, bytes: &[u8]) {
        self.run.put(bytes, self.expected, self.target);
        self.len += bytes.len();
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
        self.len += len;
        for (number, piece) in pieces.into_iter().enumerate() {
            if !piece.is_empty() {
                let shared = share(number);
                debug_assert_eq!(shared.as_ref().len(), piece.len(), "piece {number}");
                self.pieces.push_back(Piece::Shared(shared));
            }
        }
    }

    /// Appends a buffer that is shared, not copied.
    pub fn put_shared(&mut self, bytes: Bytes) {
        if bytes.len() < COPY_BELOW_BYTES {
            self.put(&bytes);
        } else {
            self.close_run();
            self.len += bytes.len();
            self.pieces.push_back(Piece::Run(bytes));
        }
    }

    /// A frame of exactly the target's size when that much is there, else all there is; what is
    /// beyond stays for the next one.
    pub fn take_frame(&mut self) -> Frame<S> {
        self.close_run();
        let frame = self.cut(self.target);
        self.target = in_flight::frame_bytes(self.full);
        frame
    }

    /// All that is there as one frame, ready to send.
    pub fn finish(mut self) -> Frame<S> {
        self.close_run();
        self.cut(usize::MAX)
    }

    /// Makes a frame of the first `most` bytes. A piece that straddles the cut is shared with the next frame.
    fn cut(&mut self, most: usize) -> Frame<S> {
        let remaining = self.len.min(most);
        let consumed = self.consumed;
        let mut whole = 0;
        // Where the cut lies in the first piece that the frame does not have all of.
        let mut straddled = consumed + remaining;
        while let Some(piece) = self.pieces.get(whole) {
            let len = piece.as_slice().len();
            if straddled < len {
                break;
            }
            straddled -= len;
            whole += 1;
        }
        self.consumed = straddled;
        self.len -= remaining;
        let shared = match straddled {
            0 => None,
            _ => self.pieces.get(whole).cloned(),
        };
        let pieces = match (whole, shared) {
            (0, None) => Pieces::None,
            (0, Some(piece)) => Pieces::One(piece),
            (1, None) => self.pieces.pop_front().map_or(Pieces::None, Pieces::One),
            (_, shared) => {
                let pieces = self.pieces.drain(..whole).chain(shared);
                Pieces::Many(Arc::new(List(pieces.collect())))
            }
        };
        Frame::new(pieces, consumed, remaining)
    }

    fn close_run(&mut self) {
        if self.run.is_empty() {
            return;
        }
        let run = std::mem::take(&mut self.run);
        self.pieces.push_back(Piece::Run(run.freeze()));
    }
}

impl FrameBuilder {
    /// Appends a part of a buffer: copied when small, pointed at when large.
    pub fn put_part(&mut self, part: Part<'_>) {
        self.put_pieces([&part], |_| part.share());
    }
}
