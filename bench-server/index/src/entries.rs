//! The entries of a node: how many there may be, and how one is inserted.

/// Most items of a leaf, and most children of a branch. A leaf of 64 records is 1.5 KiB, a branch
/// 3 KiB: what an update copies on its way down while a snapshot is held.
pub(super) const FANOUT: usize = 64;

/// Inserts without the doubling that `Vec` would do: a copied node has no spare room, and a full
/// node must not hold twice what it can ever use.
pub(super) fn insert_at<E>(entries: &mut Vec<E>, at: usize, entry: E) {
    if entries.len() == entries.capacity() {
        entries.reserve_exact(FANOUT / 8);
    }
    entries.insert(at, entry);
}
