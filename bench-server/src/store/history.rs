//! The log of revisions, and the index as it was at any of them.
//!
//! Every write makes one commit: its events, each with the record written and the one before it.
//! The log is dense (commit *i* has revision *first + i*), so a record's mod revision leads to the
//! event that wrote it, and that event to the version before: a version chain without any pointer
//! of its own. The index of a past revision is rebuilt from the nearest root that is at hand, by
//! undoing or redoing the commits between.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use etcd_api::error::Refusal;
use parking_lot::{Mutex, RwLock};

use super::Record;
use super::draft::Edits;
use super::index::Tree;

/// Past roots that are held at a time. Each pins at most the nodes that changed since.
const HELD_ROOTS: usize = 16;

/// One change of one key.
#[derive(Debug, Clone)]
pub struct Event {
    /// What was written; a tombstone for a delete.
    pub record: Record,
    /// The key before, when it existed and is not compacted away.
    pub prev: Option<Record>,
}

impl Event {
    /// Makes `tree` what it was after this event.
    pub(super) fn redo(&self, tree: &mut Tree<Record>) {
        if self.record.is_tombstone() {
            tree.remove(self.record.key());
        } else {
            tree.insert(self.record.clone());
        }
    }

    /// Makes `tree` what it was before this event.
    fn undo(&self, tree: &mut Tree<Record>) {
        match &self.prev {
            Some(prev) => tree.insert(prev.clone()),
            None => tree.remove(self.record.key()),
        };
    }

    /// Bytes of history that this event keeps beside the current keys.
    fn history_bytes(&self) -> u64 {
        let tombstone = match self.record.is_tombstone() {
            true => self.record.wire_len(),
            false => 0,
        };
        let prev = self.prev.as_ref().map_or(0, |prev| prev.wire_len());
        (tombstone + prev) as u64
    }
}

/// The events of one revision, in the order they were made; never empty.
pub type Commit = Arc<[Event]>;

/// Commits by revision, without gaps.
#[derive(Debug)]
struct Log {
    /// Revision of the first commit.
    first: i64,
    commits: VecDeque<Logged>,
    /// Bytes of all commits ever pushed.
    pushed: u64,
    /// How many of them are gone.
    dropped: u64,
}

#[derive(Debug)]
struct Logged {
    commit: Commit,
    /// Bytes of all commits before this one: the log's size after a trim is then known without
    /// looking at what was trimmed.
    before: u64,
}

impl Log {
    fn push(&mut self, commit: Commit) {
        let before = self.pushed;
        self.pushed += history_bytes(&commit);
        self.commits.push_back(Logged { commit, before });
    }

    fn bytes(&self) -> u64 {
        self.pushed - self.dropped
    }

    fn get(&self, revision: i64) -> Option<&Commit> {
        let at = usize::try_from(revision - self.first).ok()?;
        self.commits.get(at).map(|logged| &logged.commit)
    }

    /// Up to `limit` commits from `from` on.
    fn slice(&self, from: i64, limit: usize) -> Vec<Commit> {
        let at = usize::try_from(from - self.first).unwrap_or(0);
        let commits = self.commits.iter().skip(at).take(limit);
        commits.map(|logged| logged.commit.clone()).collect()
    }

    /// Forgets what compaction at `revision` makes unreadable and returns it to be freed. The
    /// commit at `revision` stays, for those who watch from there, but without previous versions.
    fn trim(&mut self, revision: i64) -> Vec<Logged> {
        let below = usize::try_from(revision - self.first).unwrap_or(0);
        let below = below.min(self.commits.len());
        let mut trimmed: Vec<Logged> = self.commits.drain(..below).collect();
        self.first += below as i64;
        let Some(front) = self.commits.front_mut() else {
            self.dropped = self.pushed;
            return trimmed;
        };
        self.dropped = front.before;
        if self.first == revision {
            let stripped = front.commit.iter().map(|event| Event {
                record: event.record.clone(),
                prev: None,
            });
            let stripped: Commit = stripped.collect();
            self.dropped += history_bytes(&front.commit) - history_bytes(&stripped);
            let commit = std::mem::replace(&mut front.commit, stripped);
            let before = front.before;
            trimmed.push(Logged { commit, before });
        }
        trimmed
    }
}

fn history_bytes(commit: &Commit) -> u64 {
    commit.iter().map(Event::history_bytes).sum()
}

/// What readers see: the current keys and the log.
#[derive(Debug)]
pub(super) struct State {
    tree: Tree<Record>,
    revision: i64,
    compacted: i64,
    log: Log,
}

impl Default for State {
    fn default() -> Self {
        Self {
            tree: Tree::default(),
            revision: 1,
            compacted: -1,
            log: Log {
                first: 2,
                commits: VecDeque::new(),
                pushed: 0,
                dropped: 0,
            },
        }
    }
}

/// Dropped by the caller once the locks are released.
#[derive(Default)]
pub(super) struct Garbage {
    _tree: Option<Tree<Record>>,
    _commits: Vec<Logged>,
    _roots: Vec<Tree<Record>>,
}

impl State {
    pub(super) fn tree(&self) -> &Tree<Record> {
        &self.tree
    }

    pub(super) fn revision(&self) -> i64 {
        self.revision
    }

    pub(super) fn compacted(&self) -> i64 {
        self.compacted
    }

    /// Bytes of history kept beside the current keys.
    pub(super) fn history_bytes(&self) -> u64 {
        self.log.bytes()
    }

    /// The first revision at or after `from` that is in the log, and commits from there on, at most
    /// `limit`.
    pub(super) fn commits(&self, from: i64, limit: usize) -> (i64, Vec<Commit>) {
        let from = from.max(self.log.first);
        (from, self.log.slice(from, limit))
    }

    /// Publishes the writes of one revision. A single one changes the index in place; many come
    /// with an index of their own, and the old root is returned to be freed. Nothing written,
    /// no commit.
    pub(super) fn commit(&mut self, edits: Edits) -> (Option<Commit>, Garbage) {
        let mut garbage = Garbage::default();
        let commit: Commit = match edits {
            Edits::None => return (None, garbage),
            Edits::One(event) => {
                event.redo(&mut self.tree);
                Arc::new([event])
            }
            Edits::Many { events, .. } if events.is_empty() => return (None, garbage),
            Edits::Many { tree, events } => {
                garbage._tree = Some(std::mem::replace(&mut self.tree, tree));
                events.into()
            }
        };
        self.revision += 1;
        self.log.push(commit.clone());
        (Some(commit), garbage)
    }

    /// One key at a revision, by its chain of versions; `None` when the chain does not tell.
    pub(super) fn get_at(
        &self,
        key: &[u8],
        rev: i64,
    ) -> Result<Option<(Option<Record>, i64)>, Refusal> {
        self.check(rev)?;
        let mut version = self.tree.get(key);
        if rev > 0 && rev < self.revision {
            // A key that is not there now may have been there then.
            let Some(mut found) = version else {
                return Ok(None);
            };
            while found.mod_revision() > rev {
                let Some(older) = self.before(found) else {
                    return Ok(None);
                };
                found = older;
            }
            version = Some(found);
        }
        Ok(Some((version.cloned(), self.revision)))
    }

    /// The version of a key before `record`, in the same life of the key.
    fn before(&self, record: &Record) -> Option<&Record> {
        let commit = self.log.get(record.mod_revision())?;
        let event = commit.iter().find(|e| e.record.key() == record.key())?;
        event.prev.as_ref()
    }

    /// Whether `rev` can be read; `rev <= 0` is the latest.
    pub(super) fn check(&self, rev: i64) -> Result<(), Refusal> {
        if rev > self.revision {
            Err(Refusal::FutureRevision)
        } else if rev > 0 && rev < self.compacted {
            Err(Refusal::Compacted)
        } else {
            Ok(())
        }
    }

    /// Forgets what is older than `revision`, by etcd's rules.
    pub(super) fn compact(&mut self, revision: i64) -> Result<Garbage, Refusal> {
        if revision <= self.compacted {
            return Err(Refusal::Compacted);
        }
        if revision > self.revision {
            return Err(Refusal::FutureRevision);
        }
        self.compacted = revision;
        Ok(Garbage {
            _commits: self.log.trim(revision),
            ..Garbage::default()
        })
    }
}

/// Roots of past revisions, the least recently used dropped first.
#[derive(Debug, Default)]
pub(super) struct HeldRoots {
    roots: BTreeMap<i64, (Tree<Record>, u64)>,
    clock: u64,
}

impl HeldRoots {
    pub(super) fn insert(&mut self, revision: i64, tree: Tree<Record>) {
        self.clock += 1;
        self.roots.insert(revision, (tree, self.clock));
        if self.roots.len() > HELD_ROOTS {
            let oldest = self.roots.iter().min_by_key(|(_, (_, used))| *used);
            if let Some(oldest) = oldest.map(|(revision, _)| *revision) {
                self.roots.remove(&oldest);
            }
        }
    }

    fn get(&mut self, revision: i64) -> Option<Tree<Record>> {
        self.clock += 1;
        let (tree, used) = self.roots.get_mut(&revision)?;
        *used = self.clock;
        Some(tree.clone())
    }

    /// The held root nearest to a revision, on either side.
    fn nearest(&self, revision: i64) -> Option<(i64, &Tree<Record>)> {
        let below = self.roots.range(..revision).next_back();
        let above = self.roots.range(revision..).next();
        let near = below.into_iter().chain(above);
        near.map(|(at, (tree, _))| (*at, tree))
            .min_by_key(|(at, _)| at.abs_diff(revision))
    }

    /// Forgets roots below a compacted revision and returns them to be freed.
    pub(super) fn trim(&mut self, compacted: i64, garbage: &mut Garbage) {
        let kept = self.roots.split_off(&compacted);
        let dropped = std::mem::replace(&mut self.roots, kept);
        garbage
            ._roots
            .extend(dropped.into_values().map(|(tree, _)| tree));
    }
}

/// The index at revision `rev` > 0, and the latest revision. Rebuilding runs outside all locks.
pub(super) fn tree_at(
    state: &RwLock<State>,
    roots: &Mutex<HeldRoots>,
    rev: i64,
) -> Result<(Tree<Record>, i64), Refusal> {
    let (mut tree, base, head, commits) = {
        let mut roots = roots.lock();
        let state = state.read();
        state.check(rev)?;
        if let Some(tree) = roots.get(rev) {
            return Ok((tree, state.revision));
        }
        if rev == state.revision {
            roots.insert(rev, state.tree.clone());
            return Ok((state.tree.clone(), rev));
        }
        let (base, tree) = roots
            .nearest(rev)
            .filter(|(at, _)| at.abs_diff(rev) < state.revision.abs_diff(rev))
            .unwrap_or((state.revision, &state.tree));
        let from = base.min(rev) + 1;
        let commits = state.log.slice(from, base.abs_diff(rev) as usize);
        (tree.clone(), base, state.revision, commits)
    };
    if base > rev {
        for event in commits.iter().rev().flat_map(|commit| commit.iter().rev()) {
            event.undo(&mut tree);
        }
    } else {
        for event in commits.iter().flat_map(|commit| commit.iter()) {
            event.redo(&mut tree);
        }
    }
    // A compaction may have passed in the meantime: its roots stay dropped.
    let mut roots = roots.lock();
    if rev >= state.read().compacted {
        roots.insert(rev, tree.clone());
    }
    Ok((tree, head))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Fields;

    fn record(key: &[u8], revision: i64, value: &[u8]) -> Record {
        Record::new(Fields {
            key,
            create_revision: revision,
            mod_revision: revision,
            version: 1,
            value: value.into(),
            lease: 0,
        })
    }

    /// A state with one key written so many times.
    fn overwritten(times: i64) -> State {
        let mut state = State::default();
        for revision in 2..2 + times {
            let value = vec![0; revision as usize];
            let event = Event {
                record: record(b"k", revision, &value),
                prev: state.tree.get(b"k").cloned(),
            };
            state.commit(Edits::One(event));
        }
        state
    }

    #[test]
    fn the_size_of_history_is_that_of_what_is_kept() {
        for compacted in [0, 1, 2, 3, 7, 10, 11, 12] {
            let mut state = overwritten(10);
            let outcome = state.compact(compacted);
            assert_eq!(outcome.is_ok(), compacted <= 11, "at {compacted}");
            let commits = &state.log.commits;
            let kept: u64 = commits
                .iter()
                .map(|logged| history_bytes(&logged.commit))
                .sum();
            assert_eq!(
                state.history_bytes(),
                kept,
                "after compaction at {compacted}"
            );
        }
    }

    #[test]
    fn a_chain_of_versions_is_followed_without_an_old_index() {
        let state = overwritten(10);
        for rev in 2..=11 {
            let (found, head) = state
                .get_at(b"k", rev)
                .ok()
                .flatten()
                .expect("the chain tells");
            assert_eq!(found.map(|record| record.mod_revision()), Some(rev));
            assert_eq!(head, 11);
        }
        let before_creation = state.get_at(b"k", 1).expect("a readable revision");
        assert!(
            before_creation.is_none(),
            "an earlier life is not on this chain"
        );
    }

    #[test]
    fn the_least_recently_used_root_goes_first() {
        let mut held = HeldRoots::default();
        for revision in 0..HELD_ROOTS as i64 {
            held.insert(revision, Tree::default());
        }
        assert!(held.get(0).is_some());
        held.insert(100, Tree::default());
        assert!(held.get(0).is_some(), "it was used");
        assert!(held.get(1).is_none());
        assert_eq!(held.nearest(60).map(|(at, _)| at), Some(100));
        assert_eq!(
            held.nearest(40).map(|(at, _)| at),
            Some(HELD_ROOTS as i64 - 1)
        );
    }
}
