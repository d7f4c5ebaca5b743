//! An immutable view of the store at one revision.

use etcd_api::error::Refusal;
use etcd_api::keys::KeyRange;
use index::{Totals, Tree};
use memory::open_lists::OpenList;

use super::{Cursor, Record, Store};

/// The keys as they were at one revision. Made and cloned in constant time; holding it blocks
/// nobody, but keeps what it shows in memory.
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

    /// The revision that it shows.
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// The store's latest revision when it was taken: `header.revision` of the answer.
    pub fn head_revision(&self) -> i64 {
        self.head
    }

    /// Whether its revision is still readable by etcd's rules. The snapshot itself could go on.
    ///
    /// # Errors
    /// [`Refusal::Compacted`] when its revision was compacted since.
    pub fn check(&self) -> Result<(), Refusal> {
        match self.revision < self.store.compact_revision() {
            true => Err(Refusal::Compacted),
            false => Ok(()),
        }
    }

    /// Counts a list of it among those that are being sent ([`Store::pinned`]), until what this returns is dropped.
    pub fn open_list(&self) -> OpenList {
        self.store.open_list(self.revision)
    }

    /// One key. O(log n).
    pub fn get(&self, key: &[u8]) -> Option<Record> {
        self.tree.get(key).cloned()
    }

    /// Keys in an interval. O(log n).
    pub fn count(&self, range: KeyRange<'_>) -> u64 {
        self.totals(range).count
    }

    /// Sum of the encoded sizes ([`Record::wire`]) of an interval: the bytes that
    /// `RangeResponse.kvs` takes. O(log n).
    pub fn encoded_bytes(&self, range: KeyRange<'_>) -> u64 {
        self.totals(range).weight
    }

    /// Both of the above.
    pub fn totals(&self, range: KeyRange<'_>) -> Totals {
        self.tree.totals(range)
    }

    /// The records of an interval in key order. O(log n) now, amortised O(1) per record.
    pub fn cursor(&self, range: KeyRange<'_>) -> Cursor {
        self.tree.cursor(range)
    }
}
