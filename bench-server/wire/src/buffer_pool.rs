//! Buffers for copied runs of small records, used again by the thread that filled them.
//!
//! A list of small records fills one frame-sized buffer after the other. Fresh from the allocator
//! each costs page faults, so a thread keeps the few that one list has on their way at a time.

use std::cell::RefCell;

use bytes::Bytes;

use super::sizes::{COPY_BELOW_BYTES, TARGET_BYTES};

/// Room of a whole frame, and for the last record of it, which may reach into the next one.
const WHOLE_BYTES: usize = TARGET_BYTES + COPY_BELOW_BYTES;

/// Where a run starts when more is expected than fits: between two large records it stays this small.
const FIRST_BYTES: usize = 512;

/// Whole buffers that a thread keeps: one is filled while HTTP/2 writes the other.
const KEPT: usize = 2;

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// A run being filled.
#[derive(Debug, Default)]
pub(super) struct Run(Vec<u8>);

impl Run {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends `bytes`; `expected` is what an empty run may come to hold in all. An answer that is
    /// short gets just that, everything else moves from a small buffer into a whole one when it must.
    /// `target` is what its frame is filled to: of small frames none takes a whole buffer.
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
        } else if needed <= FIRST_BYTES {
            self.0.reserve_exact(FIRST_BYTES);
        } else if target < TARGET_BYTES {
            let room = needed.max(target + COPY_BELOW_BYTES);
            self.0.reserve_exact(room - self.0.len());
        } else if needed <= WHOLE_BYTES {
            let spare = SPARE.with_borrow_mut(Vec::pop);
            let mut whole = spare.unwrap_or_else(|| Vec::with_capacity(WHOLE_BYTES));
            whole.extend_from_slice(&self.0);
            self.0 = whole;
        } else {
            self.0.reserve(needed - self.0.len());
        }
    }

    /// The run as it will be sent. A whole buffer goes back to the thread that drops it last.
    pub(super) fn freeze(self) -> Bytes {
        if self.0.capacity() == WHOLE_BYTES {
            Bytes::from_owner(Whole(self.0))
        } else {
            Bytes::from(self.0)
        }
    }
}

/// A whole buffer on its way.
struct Whole(Vec<u8>);

impl AsRef<[u8]> for Whole {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        let mut buffer = std::mem::take(&mut self.0);
        // A thread that is ending keeps nothing.
        let _ended = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < KEPT {
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
    fn a_whole_buffer_is_used_again() {
        let fill = || {
            let mut run = Run::default();
            for _ in 0..100 {
                run.put(&[7; 1000], usize::MAX, TARGET_BYTES);
            }
            run.freeze()
        };
        let first = fill();
        let at = first.as_ptr();
        assert_eq!(first.len(), 100_000);
        assert_ne!(fill().as_ptr(), at, "the first is still on its way");
        drop(first);
        assert_eq!(fill().as_ptr(), at, "and now it is not");
    }

    #[test]
    fn a_short_run_takes_no_more_than_it_needs() {
        let mut run = Run::default();
        run.put(&[1; 10], 37, TARGET_BYTES);
        run.put(&[2; 27], 37, TARGET_BYTES);
        assert_eq!((run.0.len(), run.0.capacity()), (37, 37));
        let mut run = Run::default();
        run.put(&[1; 10], 1 << 20, TARGET_BYTES);
        assert_eq!(run.0.capacity(), FIRST_BYTES);
    }
}
