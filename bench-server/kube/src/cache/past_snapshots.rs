//! Snapshots of the cache at earlier revisions, for pages and exact lists (KEP-4988).

use std::collections::VecDeque;
use std::time::Duration;

use index::Tree;
use tokio::time::Instant;

use crate::resource::object::Object;
use crate::shard::uid_index::UidIndex;

/// The minimum time for which a snapshot is kept, unless there are more than [`MAX_SNAPSHOTS`].
const KEEP: Duration = Duration::from_secs(75);
/// The number of snapshots that are kept regardless of their age.
const MIN_SNAPSHOTS: usize = 100;
/// The maximum number of snapshots. Each keeps the tree nodes that later writes have replaced, a
/// few KiB.
const MAX_SNAPSHOTS: usize = 4_096;

/// The content of the cache after a revision.
#[derive(Debug, Clone, Default)]
pub(crate) struct PastSnapshot {
    pub(crate) objects: Tree<Object>,
    /// The index that shards are read from, if it existed then. Other indexes are kept for the
    /// latest state only.
    pub(crate) uids: Option<UidIndex>,
    /// The total bytes of all objects that had been replaced or deleted by then.
    pub(crate) replaced_bytes: u64,
}

/// The snapshots after each revision, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct PastSnapshots {
    states: VecDeque<(i64, Instant, PastSnapshot)>,
}

impl PastSnapshots {
    /// Replaces all snapshots by the state at `revision`.
    pub(crate) fn reset(&mut self, revision: i64, state: PastSnapshot) {
        self.states.clear();
        self.states.push_back((revision, Instant::now(), state));
    }

    /// Adds the state after `revision`, which must be higher than all earlier ones.
    pub(crate) fn push(&mut self, revision: i64, state: PastSnapshot) {
        let now = Instant::now();
        self.states.push_back((revision, now, state));
        while self.states.len() > MAX_SNAPSHOTS
            || self.states.len() > MIN_SNAPSHOTS && self.states[0].1 + KEEP < now
        {
            self.states.pop_front();
        }
    }

    /// Adds an index that was built for the latest snapshot.
    pub(crate) fn index_latest(&mut self, uids: &UidIndex) {
        if let Some((.., latest)) = self.states.back_mut() {
            latest.uids = Some(uids.clone());
        }
    }

    /// Returns the snapshot at `revision`: the newest whose revision is not higher. `None` if it is
    /// no longer kept. The caller ensures that the cache has reached `revision`.
    pub(crate) fn at(&self, revision: i64) -> Option<&PastSnapshot> {
        let after = self.states.partition_point(|(kept, ..)| *kept <= revision);
        self.states
            .get(after.checked_sub(1)?)
            .map(|(.., state)| state)
    }

    /// Drops the snapshots from before `revision`, to which storage has been compacted. The latest
    /// snapshot is kept.
    pub(crate) fn compact(&mut self, revision: i64) {
        while self.states.len() > 1 && self.states[0].0 < revision {
            self.states.pop_front();
        }
    }

    /// Returns the oldest snapshot.
    pub(crate) fn oldest(&self) -> Option<&PastSnapshot> {
        self.states.front().map(|(.., state)| state)
    }

    /// Returns how many snapshots are kept.
    pub(crate) fn len(&self) -> usize {
        self.states.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_newest_state_not_newer_is_found() {
        let mut snapshots = PastSnapshots::default();
        snapshots.reset(10, PastSnapshot::default());
        snapshots.push(12, PastSnapshot::default());
        assert!(
            snapshots.at(9).is_none(),
            "before the first list nothing is known"
        );
        assert!(
            [10, 11, 12, 20]
                .iter()
                .all(|revision| snapshots.at(*revision).is_some())
        );
        snapshots.compact(12);
        assert!(snapshots.at(11).is_none());
        snapshots.compact(100);
        assert!(
            snapshots.at(12).is_some(),
            "the latest state is the cache itself"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn old_states_go_when_there_are_many() {
        let mut snapshots = PastSnapshots::default();
        snapshots.reset(1, PastSnapshot::default());
        for revision in 2..=200 {
            snapshots.push(revision, PastSnapshot::default());
        }
        assert_eq!(snapshots.len(), 200, "all are young");
        tokio::time::advance(KEEP + Duration::from_secs(1)).await;
        snapshots.push(201, PastSnapshot::default());
        assert_eq!(snapshots.len(), MIN_SNAPSHOTS);
        assert!(snapshots.at(101).is_none() && snapshots.at(102).is_some());
        for revision in 202..=2 * MAX_SNAPSHOTS as i64 {
            snapshots.push(revision, PastSnapshot::default());
        }
        assert_eq!(snapshots.len(), MAX_SNAPSHOTS);
    }
}
