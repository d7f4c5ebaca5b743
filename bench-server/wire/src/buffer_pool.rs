//! Reuses the buffers that small records are copied into, per thread.
//!
//! A list of small records fills one frame-sized buffer after the other. A new buffer costs page
//! faults, so each thread keeps as many as one list has in flight.

use std::cell::RefCell;

use bytes::Bytes;

use super::sizes::{COPY_BELOW_BYTES, TARGET_BYTES};

/// Size of a pooled buffer, bytes: a whole frame, and its last record, which may extend into the
/// next frame.
const BUFFER_BYTES: usize = TARGET_BYTES + COPY_BELOW_BYTES;

/// Initial size of a buffer of unknown final size, bytes. Between two large records a buffer stays
/// this small.
const FIRST_BYTES: usize = 512;

/// Maximum number of spare buffers that a thread keeps: one is filled while HTTP/2 writes the
/// other.
const MAX_SPARE: usize = 2;

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer being filled with copied records.
#[derive(Debug, Default)]
pub(super) struct CopyBuffer(Vec<u8>);

impl CopyBuffer {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends `bytes`. `expected` is the total size that an empty buffer may reach: a short
    /// response gets exactly that, and doubles if it grows beyond; others move from a small buffer
    /// to a pooled one when needed. `target` is the size of the frame: small frames never use a
    /// pooled buffer.
    #[inline]
    pub(super) fn put(&mut self, bytes: &[u8], expected: usize, target: usize) {
        let needed = self.0.len() + bytes.len();
        if needed > self.0.capacity() {
            self.grow(needed, expected, target);
        }
        self.0.extend_from_slice(bytes);
    }

    #[cold]
    fn grow(&mut self, needed: usize, expected: usize, target: usize) {
        if self.0.capacity() == 0 && needed.max(expected) < COPY_BELOW_BYTES {
            self.0.reserve_exact(needed.max(expected));
        } else if expected < COPY_BELOW_BYTES && needed < COPY_BELOW_BYTES {
            self.0.reserve(needed - self.0.len());
        } else if needed <= FIRST_BYTES {
            self.0.reserve_exact(FIRST_BYTES);
        } else if target < TARGET_BYTES {
            let room = needed.max(target + COPY_BELOW_BYTES);
            self.0.reserve_exact(room - self.0.len());
        } else if needed <= BUFFER_BYTES {
            let spare = SPARE.with_borrow_mut(Vec::pop);
            let mut whole = spare.unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES));
            whole.extend_from_slice(&self.0);
            self.0 = whole;
        } else {
            self.0.reserve(needed - self.0.len());
        }
    }

    /// Returns the bytes to send. A pooled buffer returns to the pool of the thread that drops it
    /// last.
    pub(super) fn freeze(self) -> Bytes {
        if self.0.capacity() == BUFFER_BYTES {
            Bytes::from_owner(PooledBuffer(self.0))
        } else {
            Bytes::from(self.0)
        }
    }
}

/// A pooled buffer being sent.
struct PooledBuffer(Vec<u8>);

impl AsRef<[u8]> for PooledBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        let mut buffer = std::mem::take(&mut self.0);
        // Fails in a thread that is ending.
        let _ended = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < MAX_SPARE {
                buffer.clear();
                spare.push(buffer);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pooled_buffer_is_reused() {
        let fill = || {
            let mut copies = CopyBuffer::default();
            for _ in 0..100 {
                copies.put(&[7; 1000], usize::MAX, TARGET_BYTES);
            }
            copies.freeze()
        };
        let first = fill();
        let at = first.as_ptr();
        assert_eq!(first.len(), 100_000);
        assert_ne!(fill().as_ptr(), at, "the first is still in use");
        drop(first);
        assert_eq!(fill().as_ptr(), at, "and now it is not");
    }

    #[test]
    fn a_short_buffer_has_no_spare_capacity() {
        let mut copies = CopyBuffer::default();
        copies.put(&[1; 10], 37, TARGET_BYTES);
        copies.put(&[2; 27], 37, TARGET_BYTES);
        assert_eq!((copies.0.len(), copies.0.capacity()), (37, 37));
        let mut copies = CopyBuffer::default();
        copies.put(&[1; 10], 1 << 20, TARGET_BYTES);
        assert_eq!(copies.0.capacity(), FIRST_BYTES);
    }

    #[test]
    fn a_buffer_that_outgrows_what_was_expected_stays_small_while_it_is() {
        let mut copies = CopyBuffer::default();
        for _ in 0..3 {
            copies.put(&[1; 1000], 1000, TARGET_BYTES);
        }
        assert!(copies.0.capacity() <= COPY_BELOW_BYTES);
        copies.put(&[1; 2000], 1000, TARGET_BYTES);
        assert_eq!(copies.0.capacity(), BUFFER_BYTES);
    }
}
