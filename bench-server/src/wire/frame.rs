//! The body's data type: a rope of stored records and copied runs, written with one `writev`.
//!
//! HTTP/2 costs per frame, not per byte, so objects are gathered into frames of exactly
//! [`TARGET_BYTES`]: a frame of a few bytes more would be split by HTTP/2 into a large and a tiny
//! one, and cost twice. Within a frame, records below [`COPY_BELOW_BYTES`] are copied into runs (a
//! vectored write shows 16 slices a call, so many small slices cost more than the copy), larger
//! ones are pointed at where the store keeps them; one that straddles two frames is in both.
//! Measured in `docs/performance.md`.

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

use bytes::{Buf, Bytes};

use super::in_flight::{self, InFlight};
use super::part::Part;
use super::run::Run;
use super::stopwatch::Stopwatch;
use crate::admission::Admitted;
use crate::listen::{Rest, Rope};
use crate::store::{Record, Shown};

/// Bytes a frame is filled to. More than most receivers allow in one DATA frame; HTTP/2 splits it to
/// what the receiver allows, and every size allowed in practice divides it.
pub const TARGET_BYTES: usize = 256 * 1024;

/// Records smaller than this are copied, larger ones are pointed at.
pub const COPY_BELOW_BYTES: usize = 4 * 1024;

/// A run of bytes that a frame holds.
#[derive(Debug, Clone)]
enum Piece {
    /// Copied or made for this response.
    Run(Bytes),
    /// A part of a shared buffer.
    Part(Arc<[u8]>, Range<usize>),
    /// Where the store keeps it.
    Stored(Record),
    /// The second piece of a stored record that has two.
    StoredTail(Record),
}

impl Piece {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Run(bytes) => bytes,
            Self::Part(buffer, range) => &buffer[range.clone()],
            Self::Stored(record) => record.wire()[0],
            Self::StoredTail(record) => record.wire()[1],
        }
    }
}

/// The pieces of a frame; they stay until the frame is dropped.
#[derive(Debug, Clone, Default)]
enum Pieces {
    #[default]
    None,
    /// Small responses: no allocation.
    One(Piece),
    /// Shared with [`RestOfFrame`].
    Many(Arc<[Piece]>),
}

impl Pieces {
    fn as_slice(&self) -> &[Piece] {
        match self {
            Self::None => &[],
            Self::One(piece) => std::slice::from_ref(piece),
            Self::Many(pieces) => pieces,
        }
    }
}

/// One DATA frame's worth of a response body. Dropping it frees the copied runs only.
#[derive(Debug, Default)]
pub struct Frame {
    pieces: Pieces,
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

impl Frame {
    /// Counts the frame until its connection has taken it. Called as the frame is handed over.
    pub(crate) fn count_in_flight(&mut self) {
        self.in_flight = in_flight::begin(self.remaining);
    }

    /// Keeps `admitted` until the connection has taken the frame.
    pub(crate) fn hold(&mut self, admitted: Option<Admitted>) {
        self.admitted = admitted;
    }

    /// Stops `stopwatch` when HTTP/2 hands down the frame's first byte.
    pub(super) fn time_first_write(&mut self, stopwatch: Stopwatch) {
        self.stopwatch = Some(stopwatch);
    }

    /// The pieces that are not consumed.
    fn left(&self) -> &[Piece] {
        self.pieces.as_slice().get(self.next..).unwrap_or_default()
    }
}

impl From<Bytes> for Frame {
    fn from(bytes: Bytes) -> Self {
        Self {
            remaining: bytes.len(),
            pieces: Pieces::One(Piece::Run(bytes)),
            ..Self::default()
        }
    }
}

impl Buf for Frame {
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
            NOT_SHOWN.set(Some(RestOfFrame {
                shown_last: last.as_ptr_range(),
                pieces: pieces.clone(),
                next: self.next + filled,
                bytes: left,
            }));
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

thread_local! {
    /// What the thread's latest vectored read of a frame had no room to show.
    static NOT_SHOWN: Cell<Option<RestOfFrame>> = const { Cell::new(None) };
}

/// The pieces of a frame behind those that a vectored read has shown.
#[derive(Debug)]
pub struct RestOfFrame {
    /// Where the last slice lies that was shown. Compared, never followed.
    shown_last: Range<*const u8>,
    pieces: Arc<[Piece]>,
    next: usize,
    bytes: usize,
}

impl Rope for Frame {
    type Rest = RestOfFrame;

    fn take_rest() -> Option<RestOfFrame> {
        NOT_SHOWN.take()
    }
}

impl Rest for RestOfFrame {
    fn is_behind(&self, last: &[u8]) -> bool {
        last.as_ptr_range() == self.shown_last
    }

    fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let mut left = self.bytes;
        self.pieces[self.next..].iter().map(move |piece| {
            let slice = piece.as_slice();
            let slice = &slice[..slice.len().min(left)];
            left -= slice.len();
            slice
        })
    }
}

/// Gathers header bytes and records into frames.
#[derive(Debug)]
pub struct FrameBuilder {
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that belong to the frame before.
    consumed: usize,
    /// Bytes gathered.
    len: usize,
    run: Run,
    /// A record that is shown in part, on its way into the run.
    part: Vec<u8>,
    /// Bytes that all runs together may come to hold.
    expected: usize,
    /// Bytes of a full frame.
    full: usize,
    /// Bytes that this frame is filled to: fewer where the client does not take what it has.
    target: usize,
}

impl FrameBuilder {
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
            part: Vec::new(),
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

    /// Appends a stored record: copied when small, pointed at when large.
    pub fn put_record(&mut self, record: &Record) {
        let [head, tail] = record.wire();
        let len = head.len() + tail.len();
        if len < COPY_BELOW_BYTES {
            self.put(head);
            self.put(tail);
            return;
        }
        self.close_run();
        self.len += len;
        self.pieces.push_back(Piece::Stored(record.clone()));
        if !tail.is_empty() {
            let tail = Piece::StoredTail(record.clone());
            self.pieces.push_back(tail);
        }
    }

    /// Appends what is to be shown of a stored record.
    pub fn put_shown(&mut self, record: &Record, shown: Shown) {
        if shown == Shown::Everything {
            return self.put_record(record);
        }
        let mut part = std::mem::take(&mut self.part);
        part.clear();
        shown.put_wire(record, &mut part);
        self.put(&part);
        self.part = part;
    }

    /// Appends a buffer that is shared, not copied.
    pub fn put_shared(&mut self, bytes: Bytes) {
        if bytes.len() < COPY_BELOW_BYTES {
            self.put(&bytes);
        } else {
            self.point_at(Piece::Run(bytes));
        }
    }

    /// Appends a part of a buffer: copied when small, pointed at when large.
    pub fn put_part(&mut self, part: Part<'_>) {
        if part.len() < COPY_BELOW_BYTES {
            self.put(&part);
        } else {
            self.point_at(Piece::Part(part.buffer.clone(), part.range));
        }
    }

    fn point_at(&mut self, piece: Piece) {
        self.close_run();
        self.len += piece.as_slice().len();
        self.pieces.push_back(piece);
    }

    /// A frame of exactly the target's size when that much is there, else all there is; what is
    /// beyond stays for the next one.
    pub fn take_frame(&mut self) -> Frame {
        self.close_run();
        let frame = self.cut(self.target);
        self.target = in_flight::frame_bytes(self.full);
        frame
    }

    /// All that is there as one frame, ready to send.
    pub fn finish(mut self) -> Frame {
        self.close_run();
        self.cut(usize::MAX)
    }

    /// Makes a frame of the first `most` bytes. A piece that straddles the cut is shared with the next frame.
    fn cut(&mut self, most: usize) -> Frame {
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
            (_, None) => Pieces::Many(self.pieces.drain(..whole).collect()),
            (_, shared) => Pieces::Many(self.pieces.drain(..whole).chain(shared).collect()),
        };
        Frame {
            pieces,
            consumed,
            remaining,
            ..Frame::default()
        }
    }

    fn close_run(&mut self) {
        if self.run.is_empty() {
            return;
        }
        let run = std::mem::take(&mut self.run);
        self.pieces.push_back(Piece::Run(run.freeze()));
    }
}
