//! Past versions of the index: holds the roots of some past revisions, and rebuilds others.
//!
//! A past index is rebuilt from the nearest root (a held one or the current one) by undoing or
//! redoing the commits in between. No root below the compacted revision is held, because the
//! commits after it are gone. A compaction holds the lock of the roots, so under that lock the
//! history and the roots agree.

use std::collections::BTreeMap;

use etcd_api::error::Refusal;
use index::Tree;
use parking_lot::{Mutex, RwLock};

use super::Record;
use super::history::State;

/// Maximum number of held roots. Each holds at most the nodes that have changed since.
const MAX_HELD_ROOTS: usize = 16;

/// Number of commits that are copied from the history under one lock.
const REVISIONS_PER_LOCK: i64 = 1024;

/// Roots of past revisions; the least recently used is dropped first.
#[derive(Debug, Default)]
pub(super) struct HeldRoots {
    roots: BTreeMap<i64, (Tree<Record>, u64)>,
    clock: u64,
}

impl HeldRoots {
    /// Holds a root. Returns the dropped one, to be freed after the lock is released.
    #[must_use]
    pub(super) fn insert(&mut self, revision: i64, tree: Tree<Record>) -> Option<Tree<Record>> {
        self.clock += 1;
        let mut gone = self.roots.insert(revision, (tree, self.clock));
        if self.roots.len() > MAX_HELD_ROOTS {
            let oldest = self.roots.iter().min_by_key(|(_, (_, used))| *used);
            if let Some(oldest) = oldest.map(|(revision, _)| *revision) {
                gone = self.roots.remove(&oldest);
            }
        }
        gone.map(|(tree, _)| tree)
    }

    fn get(&mut self, revision: i64) -> Option<Tree<Record>> {
        self.clock += 1;
        let (tree, used) = self.roots.get_mut(&revision)?;
        *used = self.clock;
        Some(tree.clone())
    }

    /// Returns the held root nearest to a revision, before or after it.
    fn nearest(&self, revision: i64) -> Option<(i64, &Tree<Record>)> {
        let below = self.roots.range(..revision).next_back();
        let above = self.roots.range(revision..).next();
        let near = below.into_iter().chain(above);
        near.map(|(at, (tree, _))| (*at, tree))
            .min_by_key(|(at, _)| at.abs_diff(revision))
    }

    /// Drops roots below a compacted revision; returns them to be freed.
    pub(super) fn trim(&mut self, compacted: i64) -> Vec<Tree<Record>> {
        let kept = self.roots.split_off(&compacted);
        let dropped = std::mem::replace(&mut self.roots, kept);
        dropped.into_values().map(|(tree, _)| tree).collect()
    }
}

/// An index being changed to another revision.
struct RootRebuild {
    tree: Tree<Record>,
    at: i64,
}

/// Returns the index at revision `rev` > 0, and the latest revision. The rebuild holds no lock,
/// except while it copies [`REVISIONS_PER_LOCK`] commits of the history: a waiting writer would
/// block every reader.
///
/// # Errors
/// [`Refusal::FutureRevision`]; [`Refusal::Compacted`], also when `rev` is compacted meanwhile.
pub(super) fn tree_at(
    state: &RwLock<State>,
    roots: &Mutex<HeldRoots>,
    rev: i64,
) -> Result<(Tree<Record>, i64), Refusal> {
    let (mut rebuild, head) = {
        let mut roots = roots.lock();
        let state = state.read();
        state.check(rev)?;
        let head = state.revision();
        if let Some(tree) = roots.get(rev) {
            return Ok((tree, head));
        }
        let (at, tree) = roots
            .nearest(rev)
            .filter(|(at, _)| at.abs_diff(rev) < head.abs_diff(rev))
            .unwrap_or((head, state.tree()));
        let tree = tree.clone();
        (RootRebuild { tree, at }, head)
    };
    while rebuild.at != rev {
        rebuild.advance(state, rev)?;
    }
    let tree = rebuild.tree;
    let mut roots = roots.lock();
    // If the revision was compacted in the meantime, its root must not be held.
    let held = rev >= state.read().compacted();
    let gone = held.then(|| roots.insert(rev, tree.clone()));
    drop(roots);
    drop(gone);
    Ok((tree, head))
}

impl RootRebuild {
    /// Applies one slice of the history in the direction of `rev`.
    fn advance(&mut self, state: &RwLock<State>, rev: i64) -> Result<(), Refusal> {
        let to = rev.clamp(self.at - REVISIONS_PER_LOCK, self.at + REVISIONS_PER_LOCK);
        let commits = {
            let state = state.read();
            state.check(rev)?;
            let commits = state.commits_between(self.at.min(to), self.at.max(to));
            let Some(commits) = commits else {
                // Commits may be compacted while redoing. Undoing from the current root is possible
                // as long as `rev` is readable.
                let tree = state.tree().clone();
                let at = state.revision();
                drop(state);
                *self = Self { tree, at };
                return Ok(());
            };
            commits
        };
        if to < self.at {
            for event in commits.iter().rev().flat_map(|commit| commit.iter().rev()) {
                event.undo(&mut self.tree);
            }
        } else {
            for event in commits.iter().flat_map(|commit| commit.iter()) {
                event.redo(&mut self.tree);
            }
        }
        self.at = to;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use etcd_api::keys::KeyRange;

    use super::*;
    use crate::Fields;
    use crate::history::Edits;
    use crate::history::Event;

    #[test]
    fn the_least_recently_used_root_is_dropped_first() {
        let mut held = HeldRoots::default();
        for revision in 0..MAX_HELD_ROOTS as i64 {
            assert!(held.insert(revision, Tree::default()).is_none());
        }
        assert!(held.get(0).is_some());
        assert!(held.insert(100, Tree::default()).is_some());
        assert!(held.get(0).is_some(), "it was used");
        assert!(held.get(1).is_none());
        assert_eq!(held.nearest(60).map(|(at, _)| at), Some(100));
        assert_eq!(
            held.nearest(40).map(|(at, _)| at),
            Some(MAX_HELD_ROOTS as i64 - 1)
        );
    }
    /// The situation of a reader that had locked the roots during a compaction.
    #[test]
    fn no_rebuild_starts_at_a_root_whose_commits_are_gone() {
        let (mut state, mut roots) = (State::default(), HeldRoots::default());
        for revision in 2..=100 {
            let record = Record::tombstone(format!("{revision}").as_bytes(), revision);
            let record = Record::new(Fields {
                version: 1,
                create_revision: revision,
                ..record.fields()
            });
            state.commit(Edits::One(Event { record, prev: None }));
            if revision == 20 {
                assert!(roots.insert(20, state.tree().clone()).is_none());
            }
        }
        state.compact(45).expect("a revision of the past");
        let (state, roots) = (RwLock::new(state), Mutex::new(roots));
        let (tree, head) = tree_at(&state, &roots, 50).expect("it is kept");
        let keys = tree.cursor(KeyRange::From(b""));
        let mut revisions: Vec<i64> = keys.map(|record| record.mod_revision()).collect();
        revisions.sort_unstable();
        let expected: Vec<i64> = (2..=50).collect();
        assert_eq!((revisions, head), (expected, 100), "one key per revision");
    }
}
