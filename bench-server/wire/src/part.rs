//! A part of a buffer that is shared: whoever keeps it clones the buffer's reference count.

use std::ops::{Deref, Range};
use std::sync::Arc;

/// Borrowed, so that a part that is copied costs no count.
#[derive(Debug, Clone)]
pub struct Part<'b> {
    buffer: &'b Arc<[u8]>,
    range: Range<usize>,
}

/// A [`Part`] that is kept.
#[derive(Debug, Clone)]
pub struct SharedPart {
    buffer: Arc<[u8]>,
    range: Range<usize>,
}

impl<'b> Part<'b> {
    /// The bytes of `buffer` in `range`.
    ///
    /// # Panics
    /// When it is read, where `range` is not in `buffer`.
    #[inline]
    pub fn new(buffer: &'b Arc<[u8]>, range: Range<usize>) -> Self {
        Self { buffer, range }
    }

    /// The part for whoever keeps it.
    #[inline]
    pub fn share(&self) -> SharedPart {
        SharedPart {
            buffer: self.buffer.clone(),
            range: self.range.clone(),
        }
    }
}

impl Deref for Part<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }
}

impl AsRef<[u8]> for SharedPart {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }
}
