//! The body's data type: references to stored records and copied bytes, written with one `writev`.
//!
//! HTTP/2's cost is per frame, not per byte, so objects are collected into frames of exactly
//! [`TARGET_BYTES`]. HTTP/2 would split a slightly larger frame into a large and a tiny one, for
//! twice the cost. Within a frame, records below [`COPY_BELOW_BYTES`] are copied, because many
//! small slices cost more than the copy; larger ones are referenced where the store keeps them. A
//! record that straddles two frames is referenced by both. HTTP/2 exposes 16 slices at a time;
//! `listen/src/extra_slices.rs` adds the others to the same write. Measurements are in
//! `docs/performance.md`.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt;
use std::io::IoSlice;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use listen::{ExtraSlices, Slices};
use memory::admission::Admitted;
use memory::in_flight::{self, InFlight};

use super::buffer_pool::CopyBuffer;
use super::buffer_slice::{BufferSlice, SharedSlice};
use super::first_byte_metric::FirstByteTimer;
pub use super::sizes::{COPY_BELOW_BYTES, TARGET_BYTES};

/// Bytes that a frame references where they are stored. Clones are cheap and have the same bytes.
/// The bytes never change.
pub trait SharedBytes: AsRef<[u8]> + Clone + fmt::Debug + Send + Sync + Unpin + 'static {}

impl<T: AsRef<[u8]> + Clone + fmt::Debug + Send + Sync + Unpin + 'static> SharedBytes for T {}

/// Consecutive bytes of a frame.
#[derive(Debug, Clone)]
enum Piece<S> {
    /// Copied or generated for this response.
    Owned(Bytes),
    /// Referenced where they are stored.
    Shared(S),
}

impl<S: SharedBytes> Piece<S> {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Owned(bytes) => bytes,
            Self::Shared(shared) => shared.as_ref(),
        }
    }
}

/// The pieces of a frame, which are kept until the frame is dropped.
#[derive(Debug)]
enum Pieces<S> {
    None,
    /// A small response, without an allocation.
    One(Piece<S>),
    /// Two or more pieces, shared with the write of extra slices.
    Many(Arc<PieceList<S>>),
}

impl<S: SharedBytes> Pieces<S> {
    fn as_slice(&self) -> &[Piece<S>] {
        match self {
            Self::None => &[],
            Self::One(piece) => std::slice::from_ref(piece),
            Self::Many(list) => &list.0,
        }
    }
}

/// Two or more pieces.
#[derive(Debug)]
struct PieceList<S>(Vec<Piece<S>>);

impl<S: SharedBytes> Slices for PieceList<S> {
    fn slice(&self, number: usize) -> Option<&[u8]> {
        self.0.get(number).map(Piece::as_slice)
    }
}

/// The content of one DATA frame of a response body, with references to stored bytes (`S`).
/// Dropping it frees only the copied bytes.
#[derive(Debug)]
pub struct Frame<S = SharedSlice> {
    pieces: Pieces<S>,
    /// Index of the piece that is read next.
    next: usize,
    /// Bytes of that piece that are consumed or belong to the previous frame.
    consumed: usize,
    /// Remaining bytes of the frame. Further bytes of the last piece belong to the next frame.
    remaining: usize,
    /// The timer that stops when the first byte is passed on.
    timer: Option<FirstByteTimer>,
    /// The counter of this frame in flight.
    in_flight: Option<InFlight>,
    /// The admission of a response that was buffered whole.
    admitted: Option<Admitted>,
}

impl<S> Frame<S> {
    fn new(pieces: Pieces<S>, consumed: usize, remaining: usize) -> Self {
        Self {
            pieces,
            next: 0,
            consumed,
            remaining,
            timer: None,
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

impl<S: SharedBytes> Frame<S> {
    /// Counts the frame as in flight until its connection has sent it. Must be called when the
    /// frame is passed on.
    pub fn count_in_flight(&mut self) {
        self.in_flight = in_flight::count_frame(self.remaining);
    }

    /// Keeps `admitted` until the connection has taken the frame.
    pub fn hold(&mut self, admitted: Option<Admitted>) {
        self.admitted = admitted;
    }

    /// Stops `timer` when HTTP/2 passes the frame's first byte on.
    pub(super) fn time_first_write(&mut self, timer: FirstByteTimer) {
        self.timer = Some(timer);
    }

    /// Returns the pieces that are not consumed.
    fn unread_pieces(&self) -> &[Piece<S>] {
        self.pieces.as_slice().get(self.next..).unwrap_or_default()
    }
}

impl<S> From<Bytes> for Frame<S> {
    fn from(bytes: Bytes) -> Self {
        let remaining = bytes.len();
        Self::new(Pieces::One(Piece::Owned(bytes)), 0, remaining)
    }
}

impl<S: SharedBytes> Buf for Frame<S> {
    fn remaining(&self) -> usize {
        self.remaining
    }

    fn chunk(&self) -> &[u8] {
        match self.unread_pieces().first() {
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
        for (slot, piece) in dst.iter_mut().zip(self.unread_pieces()) {
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
            ExtraSlices::after(last, pieces.clone(), self.next + filled, left).publish();
        } else {
            ExtraSlices::clear();
        }
        filled
    }

    fn advance(&mut self, mut count: usize) {
        assert!(
            count <= self.remaining,
            "cannot advance {count} bytes, {} remain",
            self.remaining
        );
        if let Some(timer) = self.timer.take_if(|_| count > 0) {
            timer.stop();
        }
        if let Some(in_flight) = &self.in_flight {
            in_flight.record_progress();
        }
        self.remaining -= count;
        while let Some(piece) = self.unread_pieces().first() {
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

/// Collects bytes and records into frames.
#[derive(Debug)]
pub struct FrameBuilder<S = SharedSlice> {
    pieces: VecDeque<Piece<S>>,
    /// Bytes of the first piece that belong to the previous frame.
    consumed: usize,
    /// Number of bytes collected.
    len: usize,
    copies: CopyBuffer,
    /// A buffer for [`Self::put_encoded`], reused.
    encoded: Vec<u8>,
    /// Expected size of all copied bytes.
    expected: usize,
    /// Size of a full frame, bytes.
    full: usize,
    /// Size of the current frame, bytes: smaller if the client reads slowly.
    target: usize,
}

impl<S: SharedBytes> FrameBuilder<S> {
    /// Returns an empty builder. `expected_bytes` is the size of the whole response or of its first
    /// message, so that a short one does not use the memory of a whole frame.
    pub fn new(expected_bytes: usize) -> Self {
        Self::with_target(expected_bytes, TARGET_BYTES)
    }

    /// Returns an empty builder for frames of `target` bytes instead of [`TARGET_BYTES`].
    fn with_target(expected_bytes: usize, target: usize) -> Self {
        Self {
            pieces: VecDeque::new(),
            consumed: 0,
            len: 0,
            copies: CopyBuffer::default(),
            encoded: Vec::new(),
            expected: expected_bytes,
            full: target,
            target: in_flight::frame_bytes(target),
        }
    }

    /// Returns the number of bytes collected so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether no bytes are collected.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns whether there are enough bytes for a whole frame.
    pub fn is_full(&self) -> bool {
        self.len >= self.target
    }

    /// Appends copied bytes.
    pub fn put(&mut self, bytes: &[u8]) {
        self.copies.put(bytes, self.expected, self.target);
        self.len += bytes.len();
    }

    /// Appends what `encode` writes to a reused buffer.
    pub fn put_encoded(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        let mut encoded = std::mem::take(&mut self.encoded);
        encoded.clear();
        encode(&mut encoded);
        self.put(&encoded);
        self.encoded = encoded;
    }

    /// Appends stored `pieces`: copies them if their total is small, otherwise references each
    /// non-empty one by the result of `share` for its index.
    #[inline]
    pub fn put_pieces<const N: usize>(&mut self, pieces: [&[u8]; N], share: impl Fn(usize) -> S) {
        let len: usize = pieces.iter().map(|piece| piece.len()).sum();
        if len < COPY_BELOW_BYTES {
            pieces.into_iter().for_each(|piece| self.put(piece));
            return;
        }
        self.close_copies();
        self.len += len;
        for (number, piece) in pieces.into_iter().enumerate() {
            if !piece.is_empty() {
                let shared = share(number);
                debug_assert_eq!(shared.as_ref().len(), piece.len(), "piece {number}");
                self.pieces.push_back(Piece::Shared(shared));
            }
        }
    }

    /// Appends a buffer: copied when small, referenced when large.
    pub fn put_shared(&mut self, bytes: Bytes) {
        if bytes.len() < COPY_BELOW_BYTES {
            self.put(&bytes);
        } else {
            self.close_copies();
            self.len += bytes.len();
            self.pieces.push_back(Piece::Owned(bytes));
        }
    }

    /// Returns a frame of exactly the target size, or of all bytes if there are fewer. The other
    /// bytes remain for the next frame.
    pub fn take_frame(&mut self) -> Frame<S> {
        self.close_copies();
        let frame = self.split_frame(self.target);
        self.target = in_flight::frame_bytes(self.full);
        frame
    }

    /// Returns all bytes as one frame.
    pub fn finish(mut self) -> Frame<S> {
        self.close_copies();
        self.split_frame(usize::MAX)
    }

    /// Splits off a frame of the first `most` bytes, or of all if there are fewer. A piece that
    /// straddles the end is shared with the next frame.
    fn split_frame(&mut self, most: usize) -> Frame<S> {
        let remaining = self.len.min(most);
        let consumed = self.consumed;
        let mut whole = 0;
        // The offset of the frame's end in the first piece that is not entirely in the frame.
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
                Pieces::Many(Arc::new(PieceList(pieces.collect())))
            }
        };
        Frame::new(pieces, consumed, remaining)
    }

    fn close_copies(&mut self) {
        if self.copies.is_empty() {
            return;
        }
        let copies = std::mem::take(&mut self.copies);
        self.pieces.push_back(Piece::Owned(copies.freeze()));
    }
}

impl FrameBuilder {
    /// Appends a slice of a buffer: copied when small, referenced when large.
    pub fn put_slice(&mut self, slice: BufferSlice<'_>) {
        self.put_pieces([&slice], |_| slice.share());
    }
}
