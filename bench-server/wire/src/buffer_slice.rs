//! Slices of reference-counted buffers.

use std::ops::{Deref, Range};
use std::sync::Arc;

/// A borrowed slice, which costs no reference count.
#[derive(Debug, Clone)]
pub struct BufferSlice<'b> {
    buffer: &'b Arc<[u8]>,
    range: Range<usize>,
}

/// An owned [`BufferSlice`].
#[derive(Debug, Clone)]
pub struct SharedSlice {
    buffer: Arc<[u8]>,
    range: Range<usize>,
}

impl<'b> BufferSlice<'b> {
    /// Returns the slice of `buffer` in `range`.
    ///
    /// # Panics
    /// Reading it panics when `range` is not in `buffer`.
    #[inline]
    pub fn new(buffer: &'b Arc<[u8]>, range: Range<usize>) -> Self {
        Self { buffer, range }
    }

    /// Returns an owned slice.
    #[inline]
    pub fn share(&self) -> SharedSlice {
        SharedSlice {
            buffer: self.buffer.clone(),
            range: self.range.clone(),
        }
    }
}

impl Deref for BufferSlice<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }
}

impl AsRef<[u8]> for SharedSlice {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }
}
