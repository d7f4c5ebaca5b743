//! Builds indexes while the cache serves requests.

use std::sync::Arc;

use index::Tree;

use super::{LabelIndex, NewIndex};
use crate::cache::event::Event;
use crate::cache::{RequestedIndexes, Snapshot, WatchCache};
use crate::resource::object::Object;
use crate::shard::uid_index::UidIndex;

/// The number of changes that are applied to a new index before the task yields to others. The last
/// changes, fewer than this number, are applied while the state is locked.
const CHANGES: usize = 256;

impl WatchCache {
    /// Requests an index: `ask` records which.
    pub(in crate::cache) fn request_index(&self, ask: impl FnOnce(&mut RequestedIndexes)) {
        ask(&mut self.requested_indexes.lock());
        self.index_requested.notify_one();
    }

    /// Builds the requested indexes, for as long as the cache runs.
    pub(in crate::cache) async fn build_indexes(&self) {
        loop {
            self.index_requested.notified().await;
            let RequestedIndexes { label, uids } =
                std::mem::take(&mut *self.requested_indexes.lock());
            if let Some(label) = label {
                let build = move |objects: &_| NewIndex::Label(LabelIndex::build(&label, objects));
                self.build_index(build).await;
            }
            if uids && self.snapshot().indexes.uids().is_none() {
                self.build_index(|objects| NewIndex::Uids(UidIndex::build(objects)))
                    .await;
            }
        }
    }

    /// Builds an index of the cache's objects, and applies the changes made meanwhile.
    pub(super) async fn build_index(
        &self,
        build: impl FnOnce(&Tree<Object>) -> NewIndex + Send + 'static,
    ) {
        let snapshot = self.snapshot();
        let objects = snapshot.tree.clone();
        let index = run_blocking(move || build(&objects)).await;
        self.add_index(index, &snapshot).await;
    }

    /// Applies the changes since `snapshot` to an index of that snapshot, then adds the index to
    /// the others. If the history no longer has these changes, or there has been another initial
    /// list, the index is discarded. The next list that would use it requests it again.
    pub(crate) async fn add_index(&self, mut index: NewIndex, snapshot: &Snapshot) {
        let mut revision = snapshot.revision;
        loop {
            let changes = {
                let mut state = self.state.lock();
                if state.generation != snapshot.generation {
                    return;
                }
                let Ok(changes) = state.history.after(revision, CHANGES) else {
                    return;
                };
                if changes.len() < CHANGES {
                    apply(&mut index, &changes);
                    if let (NewIndex::Uids(uids), true) =
                        (&index, self.gates.list_from_cache_snapshot)
                    {
                        state.past_snapshots.index_latest(uids);
                    }
                    Arc::make_mut(&mut state.indexes).add(index);
                    return;
                }
                changes
            };
            revision = apply(&mut index, &changes).unwrap_or(revision);
            tokio::task::yield_now().await;
        }
    }
}

/// Runs a computation on a thread for blocking work: indexing 150,000 objects takes 0.2 s, which
/// would delay every other task of this thread.
pub(in crate::cache) async fn run_blocking<T: Send + 'static>(
    compute: impl FnOnce() -> T + Send + 'static,
) -> T {
    match tokio::task::spawn_blocking(compute).await {
        Ok(computed) => computed,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The runtime is shutting down, and this task with it.
        Err(_) => std::future::pending().await,
    }
}

/// Applies these changes; returns the revision of the last one.
fn apply(index: &mut NewIndex, changes: &[Arc<Event>]) -> Option<i64> {
    for event in changes {
        index.change(event.old(), event.new_object());
    }
    changes.last().map(|event| event.revision())
}
