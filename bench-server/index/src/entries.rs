//! The entries of a node: their maximum number, and insertion.

/// Maximum number of items of a leaf, and of children of a branch. A leaf of 64 records has 1.5
/// KiB, a branch 3 KiB. An update copies this at each level while a snapshot exists.
pub(super) const FANOUT: usize = 64;

/// Inserts without the doubling of `Vec`: a copied node has no spare capacity, and a full node must
/// not have twice the capacity that it can ever use.
pub(super) fn insert_at<E>(entries: &mut Vec<E>, at: usize, entry: E) {
    if entries.len() == entries.capacity() {
        entries.reserve_exact(FANOUT / 8);
    }
    entries.insert(at, entry);
}
