//! Collects events into one chunk of a body, which consists of newly written text and shared
//! buffers.

use bytes::Bytes;
use memory::in_flight;
use wire::buffer_slice::BufferSlice;
use wire::frame::{COPY_BELOW_BYTES, Frame, FrameBuilder, TARGET_BYTES};

use crate::list::body::FRAME_OVERSHOOT_BYTES;

/// A buffer that collects events until the connection sends them.
#[derive(Debug)]
pub(super) struct EventBuffer {
    pieces: FrameBuilder,
    /// The text written since the last shared buffer.
    text: Vec<u8>,
    /// The number of bytes that make the chunk full.
    target: usize,
}

impl EventBuffer {
    pub(super) fn new() -> Self {
        Self {
            pieces: FrameBuilder::new(0),
            text: Vec::new(),
            target: in_flight::frame_bytes(TARGET_BYTES),
        }
    }

    /// Returns a buffer like [`Self::new`], with capacity for a chunk that is all text.
    pub(super) fn with_text_room() -> Self {
        let target = in_flight::frame_bytes(TARGET_BYTES);
        Self {
            pieces: FrameBuilder::new(0),
            text: Vec::with_capacity(target + FRAME_OVERSHOOT_BYTES.min(target / 2)),
            target,
        }
    }

    /// Returns the vector to which text is appended.
    pub(super) fn text(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    /// Appends a buffer. A small one is copied, a large one is shared.
    pub(super) fn shared(&mut self, bytes: Bytes) {
        if let Some(pieces) = self.unless_small(&bytes) {
            pieces.put_shared(bytes);
        }
    }

    /// Appends a part of a buffer. A small one is copied, a large one is shared.
    pub(super) fn part(&mut self, part: BufferSlice<'_>) {
        if let Some(pieces) = self.unless_small(&part) {
            pieces.put_slice(part);
        }
    }

    /// Copies `bytes` if they are few. Otherwise returns the builder to which their buffer is to be
    /// appended.
    fn unless_small(&mut self, bytes: &[u8]) -> Option<&mut FrameBuilder> {
        if bytes.len() < COPY_BELOW_BYTES {
            self.text.extend_from_slice(bytes);
            return None;
        }
        self.close_text();
        Some(&mut self.pieces)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.pieces.is_empty()
    }

    /// Returns whether there are enough bytes for a chunk.
    pub(super) fn is_full(&self) -> bool {
        self.text.len() + self.pieces.len() >= self.target
    }

    pub(super) fn finish(mut self) -> Frame {
        self.close_text();
        self.pieces.finish()
    }

    fn close_text(&mut self) {
        if !self.text.is_empty() {
            self.pieces
                .put_shared(std::mem::take(&mut self.text).into());
        }
    }
}
