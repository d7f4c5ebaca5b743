//! An immutable view of the store at one revision.

use etcd_api::error::Refusal;
use etcd_api::keys::KeyRange;
use index::{Totals, Tree};
use memory::open_lists::OpenList;

use super::{Cursor, Record, Store};

/// The keys at one revision. Created and cloned in constant time; holding it blocks no writer, but
/// keeps its data in memory.
#[derive(Clone)]
pub struct Snapshot {
    store: Store,
    tree: Tree<Record>,
    revision: i64,
    head: i64,
}

impl Snapshot {
    pub(super) fn new(store: Store, tree: Tree<Record>, revision: i64, head: i64) -> Self {
        Self {
            store,
            tree,
            revision,
            head,
        }
    }

    pub(super) fn tree(&self) -> &Tree<Record> {
        &self.tree
    }

    /// Returns its revision.
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// Returns the store's latest revision when the snapshot was taken, which is the response's
    /// `header.revision`.
    pub fn head_revision(&self) -> i64 {
        self.head
    }

    /// Checks that the revision is still readable by etcd's rules. The snapshot itself stays valid.
    ///
    /// # Errors
    /// [`Refusal::Compacted`] when its revision was compacted.
    pub fn check(&self) -> Result<(), Refusal> {
        match self.revision < self.store.compact_revision() {
            true => Err(Refusal::Compacted),
            false => Ok(()),
        }
    }

    /// Counts a list of this snapshot as being sent ([`Store::pinned`]) until the returned value is
    /// dropped.
    pub fn open_list(&self) -> OpenList {
        self.store.open_list(self.revision)
    }

    /// Returns one key. O(log n).
    pub fn get(&self, key: &[u8]) -> Option<Record> {
        self.tree.get(key).cloned()
    }

    /// Returns the number of keys in an interval. O(log n).
    pub fn count(&self, range: KeyRange<'_>) -> u64 {
        self.totals(range).count
    }

    /// Returns the number of keys in an interval and, as weight, the sum of their encoded sizes
    /// ([`Record::wire`]): the size of `RangeResponse.kvs`, bytes. O(log n).
    pub fn totals(&self, range: KeyRange<'_>) -> Totals {
        self.tree.totals(range)
    }

    /// Returns a cursor over the records of an interval in key order. O(log n), then amortised O(1)
    /// per record.
    pub fn cursor(&self, range: KeyRange<'_>) -> Cursor {
        self.tree.cursor(range)
    }
}
