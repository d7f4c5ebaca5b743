//! Writes that are accepted but not published.

use std::collections::{HashMap, VecDeque};

use index::Tree;

use super::entry::{Change, Entry};
use crate::Record;
use crate::history::Event;

/// The pending writes, which later writes see and readers do not. Guarded by the writer's lock.
pub(crate) struct Pending {
    /// Revision of the last accepted write.
    revision: i64,
    /// Revision of the last accepted compaction.
    compacted: i64,
    /// In the order that they were accepted.
    entries: VecDeque<Entry>,
    /// The number of entries that the log's thread has taken.
    taken: usize,
    /// The latest record of each key in `entries`.
    latest: HashMap<Box<[u8]>, Record>,
}

impl Pending {
    pub(super) fn new(revision: i64, compacted: i64) -> Self {
        Self {
            revision,
            compacted,
            entries: VecDeque::new(),
            taken: 0,
            latest: HashMap::new(),
        }
    }

    pub(crate) fn revision(&self) -> i64 {
        self.revision
    }

    pub(crate) fn compacted(&self) -> i64 {
        self.compacted
    }

    pub(super) fn push(&mut self, entry: Entry) {
        if let Some(commit) = &entry.commit {
            self.revision += 1;
            for event in commit.iter() {
                let key = event.record.key().into();
                self.latest.insert(key, event.record.clone());
            }
        }
        if let Some(Change::Compacted(revision)) = entry.change {
            self.compacted = revision;
        }
        self.entries.push_back(entry);
    }

    /// Returns the latest pending record of a key; a tombstone for a delete.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Record> {
        self.latest.get(key)
    }

    /// Applies the pending writes to a copy of the published index.
    pub(crate) fn apply(&self, tree: &mut Tree<Record>) {
        let events = self
            .entries
            .iter()
            .filter_map(|entry| entry.commit.as_ref());
        events
            .flat_map(|commit| commit.iter())
            .for_each(|event| event.redo(tree));
    }

    /// Returns the entries that the log's thread has not taken yet, and marks them as taken.
    pub(super) fn take(&mut self) -> Vec<Entry> {
        let taken = self.entries.iter().skip(self.taken).cloned().collect();
        self.taken = self.entries.len();
        taken
    }

    /// Removes the oldest entry, which is now published.
    pub(super) fn published(&mut self) {
        let Some(entry) = self.entries.pop_front() else {
            return;
        };
        self.taken -= 1;
        let written = |event: &Event| event.record.mod_revision();
        for event in entry.commit.iter().flat_map(|commit| commit.iter()) {
            let key = event.record.key();
            if self
                .latest
                .get(key)
                .is_some_and(|latest| latest.mod_revision() == written(event))
            {
                self.latest.remove(key);
            }
        }
    }
}
