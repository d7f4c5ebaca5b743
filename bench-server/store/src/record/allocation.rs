//! Allocates a record's bytes: in one piece, or in two if the allocator would round one piece up
//! too far.
//!
//! The allocator has four size classes per doubling, so an allocation can be a quarter larger than
//! requested: 10.3 KB take 12 KiB. A head whose size is exactly a size class, and a tail for the
//! small rest, waste almost nothing.

use std::sync::Arc;

/// Minimum size of a record that may be split, bytes. Smaller records stay whole: a list copies
/// them into its frames, and a second piece would be another cache miss.
const SPLIT_FROM_BYTES: usize = 4 * 1024;
/// jemalloc's smallest distance between size classes, bytes.
const QUANTUM_BYTES: usize = 16;
/// jemalloc's largest distance between size classes, a page, bytes.
const PAGE_BYTES: usize = 4 * 1024;
/// Size of the reference counts of an `Arc`, bytes.
const COUNTS_BYTES: usize = 2 * size_of::<usize>();

/// The shared bytes of one record.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Storage {
    Whole(Arc<[u8]>),
    Split(Arc<Pieces>),
}

// The index holds one `Storage` per key.
const _: () = assert!(size_of::<Storage>() == size_of::<Arc<[u8]>>());

#[derive(PartialEq, Eq)]
pub(super) struct Pieces {
    head: Box<[u8]>,
    tail: Box<[u8]>,
}

impl Storage {
    pub(super) fn split(head: Vec<u8>, tail: Vec<u8>) -> Self {
        Self::Split(Arc::new(Pieces {
            head: head.into(),
            tail: tail.into(),
        }))
    }

    /// Returns the bytes of the head, or all.
    pub(super) fn head(&self) -> &[u8] {
        match self {
            Self::Whole(bytes) => bytes,
            Self::Split(pieces) => &pieces.head,
        }
    }

    /// Returns the bytes of head and tail. The tail is usually empty.
    pub(super) fn pieces(&self) -> [&[u8]; 2] {
        match self {
            Self::Whole(bytes) => [bytes, &[]],
            Self::Split(pieces) => [&pieces.head, &pieces.tail],
        }
    }

    /// Returns the size, bytes.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Whole(bytes) => bytes.len(),
            Self::Split(pieces) => pieces.head.len() + pieces.tail.len(),
        }
    }
}

/// Returns where to split a record of `len` bytes with its value at `value`: within the value, and
/// only if that saves a sixteenth of the record.
pub(super) fn cut(len: usize, value_begin: usize, value_end: usize) -> Option<usize> {
    if len < SPLIT_FROM_BYTES {
        return None;
    }
    let head = (len - len % step(len)).min(value_end);
    let whole = allocated(len + COUNTS_BYTES);
    let split = allocated(head) + allocated(len - head) + COUNTS_BYTES + size_of::<Pieces>();
    (head > value_begin && whole >= split + len / 16).then_some(head)
}

/// Returns the allocator's size class for `len` bytes.
fn allocated(len: usize) -> usize {
    len.next_multiple_of(step(len))
}

/// Returns the distance of size classes around `len`: a quarter of the power of two below, within
/// bounds.
fn step(len: usize) -> usize {
    let power = 1 << len.max(1).ilog2();
    (power / 4).clamp(QUANTUM_BYTES, PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_classes_are_the_allocators() {
        let rounded = [0, 1, 48, 100, 128, 129, 1000, 4097, 10_240, 10_241, 33_000];
        let taken = rounded.map(allocated);
        let sizes = [0, 16, 48, 112, 128, 160, 1024, 5120, 10_240, 12_288, 36_864];
        assert_eq!(taken, sizes);
    }

    #[test]
    fn a_large_record_wastes_at_most_a_tenth() {
        for len in (SPLIT_FROM_BYTES..300_000).step_by(7) {
            let taken = match cut(len, 60, len) {
                Some(head) => allocated(head) + allocated(len - head) + 48,
                None => allocated(len + COUNTS_BYTES),
            };
            assert!(taken * 10 <= len * 11, "{len} bytes take {taken}");
        }
    }

    #[test]
    fn a_record_is_split_within_its_value() {
        assert_eq!(cut(10_300, 60, 10_300), Some(10_240));
        assert_eq!(cut(10_245, 60, 10_235), Some(10_235), "a lease stays whole");
        assert_eq!(cut(10_300, 10_280, 10_290), None, "a key stays whole");
        assert_eq!(cut(10_200, 60, 10_200), None, "nothing to gain");
        assert_eq!(cut(1_100, 60, 1_100), None, "it is copied anyway");
    }
}
