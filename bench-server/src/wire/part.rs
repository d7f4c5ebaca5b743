//! A part of a buffer that is shared: whoever keeps it clones the buffer's reference count.

use std::ops::{Deref, Range};
use std::sync::Arc;

/// Borrowed, so that a part that is copied costs no count.
#[derive(Debug, Clone)]
pub struct Part<'b> {
    pub(super) buffer: &'b Arc<[u8]>,
    pub(super) range: Range<usize>,
}

impl<'b> Part<'b> {
    /// The bytes of `buffer` in `range`.
    ///
    /// # Panics
    /// When it is read, where `range` is not in `buffer`.
    pub fn new(buffer: &'b Arc<[u8]>, range: Range<usize>) -> Self {
        Self { buffer, range }
    }
}

impl Deref for Part<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }
}
