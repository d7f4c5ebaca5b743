//! The history of revisions in memory: one commit per revision.
//!
//! Every write makes one commit: its events, each with the new record and the previous one. Commits
//! are dense (commit *i* has revision *first + i*), so a record's mod revision locates the event
//! that wrote it, and this event has the previous version. The versions of a key are thus a chain
//! without any pointers of its own. [`past_roots`](super::past_roots) builds whole past indexes
//! from the commits.

use std::collections::VecDeque;
use std::sync::Arc;

use etcd_api::error::Refusal;
use index::Tree;
use parking_lot::RwLock;

use super::Record;

/// One change of one key.
#[derive(Debug, Clone)]
pub struct Event {
    /// The new record; a tombstone for a delete.
    pub record: Record,
    /// The previous record, if the key existed and that version is not compacted.
    pub prev: Option<Record>,
}

impl Event {
    /// Changes `tree` from the state before this event to the state after it.
    pub(super) fn redo(&self, tree: &mut Tree<Record>) {
        if self.record.is_tombstone() {
            tree.remove(self.record.key());
        } else {
            tree.insert(self.record.clone());
        }
    }

    /// Changes `tree` from the state after this event to the state before it.
    pub(super) fn undo(&self, tree: &mut Tree<Record>) {
        match &self.prev {
            Some(prev) => tree.insert(prev.clone()),
            None => tree.remove(self.record.key()),
        };
    }

    /// Returns the bytes of history that this event holds in addition to the current keys.
    fn history_bytes(&self) -> u64 {
        let tombstone = match self.record.is_tombstone() {
            true => self.record.wire_len(),
            false => 0,
        };
        let prev = self.prev.as_ref().map_or(0, |prev| prev.wire_len());
        (tombstone + prev) as u64
    }
}

/// The events of one revision, in the order of the writes; never empty.
pub type Commit = Arc<[Event]>;

/// The writes of a transaction.
#[derive(Default)]
pub(super) enum Edits {
    /// No write.
    #[default]
    None,
    /// One event, not applied to any index yet.
    One(Event),
    /// Several events, applied to a copy of the index.
    Many {
        tree: Tree<Record>,
        events: Vec<Event>,
    },
}

impl Edits {
    /// Returns the events without the index that they may have been applied to; `None` if there are
    /// none.
    pub(super) fn into_commit(self) -> Option<Commit> {
        match self {
            Self::One(event) => Some(Arc::new([event])),
            Self::Many { events, .. } if !events.is_empty() => Some(events.into()),
            _ => None,
        }
    }
}

/// Commits by revision, without gaps.
#[derive(Debug)]
struct Log {
    /// Revision of the first commit.
    first: i64,
    commits: VecDeque<Logged>,
    /// Bytes of all commits ever appended.
    pushed: u64,
    /// The part of `pushed` that was dropped by compactions.
    dropped: u64,
}

#[derive(Debug)]
struct Logged {
    commit: Commit,
    /// Bytes of all commits before this one. They give the log's size after a trim without a pass
    /// over the trimmed commits.
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

    /// Returns up to `limit` commits from revision `from` on.
    fn slice(&self, from: i64, limit: usize) -> Vec<Commit> {
        let at = usize::try_from(from - self.first).unwrap_or(0);
        let commits = self.commits.iter().skip(at).take(limit);
        commits.map(|logged| logged.commit.clone()).collect()
    }

    /// Removes the commits that a compaction at `revision` makes unreadable, and returns them to be
    /// freed. The commit at `revision` stays, without previous records, for watchers that start
    /// there.
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

/// The state that readers see: the current keys and the history.
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

/// Memory to free, which the caller drops after the locks are released.
#[derive(Default)]
pub(super) struct Garbage {
    _tree: Option<Tree<Record>>,
    _commits: Vec<Logged>,
    pub(super) _roots: Vec<Tree<Record>>,
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

    /// Returns the bytes of history held in addition to the current keys.
    pub(super) fn history_bytes(&self) -> u64 {
        self.log.bytes()
    }

    /// Returns the bytes of history of all commits ever made up to `revision`. Exact for revisions
    /// that are not compacted; for older ones it is [`Self::forgotten_bytes`].
    pub(super) fn history_bytes_until(&self, revision: i64) -> u64 {
        let at = usize::try_from(revision + 1 - self.log.first);
        match at.map(|at| self.log.commits.get(at)) {
            Ok(Some(next)) => next.before,
            Ok(None) => self.log.pushed,
            Err(_) => self.log.dropped,
        }
    }

    /// Returns the bytes of history that compactions have dropped.
    pub(super) fn forgotten_bytes(&self) -> u64 {
        self.log.dropped
    }

    /// Returns the first revision at or after `from` that is in the history, and at most `limit`
    /// commits from there on.
    pub(super) fn commits(&self, from: i64, limit: usize) -> (i64, Vec<Commit>) {
        let from = from.max(self.log.first);
        (from, self.log.slice(from, limit))
    }

    /// Publishes the writes of one revision. A single event changes the index in place. Several
    /// come with an index of their own, which replaces the current one; the old root is returned to
    /// be freed. Without events there is no commit.
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

    /// Publishes a commit that was prepared on another index, and returns its revision.
    pub(super) fn apply(&mut self, commit: Commit) -> i64 {
        commit.iter().for_each(|event| event.redo(&mut self.tree));
        self.revision += 1;
        self.log.push(commit);
        self.revision
    }

    /// Makes the next revision from the records that it wrote, in order.
    pub(super) fn redo(&mut self, records: Vec<Record>) {
        let events = records.into_iter().map(|record| {
            let prev = match record.is_tombstone() {
                true => self.tree.remove(record.key()),
                false => self.tree.insert(record.clone()),
            };
            Event { record, prev }
        });
        let commit: Commit = events.collect();
        self.revision += 1;
        self.log.push(commit);
    }

    /// Returns the state at a compacted revision, from its keys and the commit at this revision, if
    /// watchers may still start there.
    pub(super) fn restored(
        tree: Tree<Record>,
        revision: i64,
        compacted: i64,
        commit: Option<Commit>,
    ) -> Self {
        let mut state = Self {
            tree,
            revision,
            compacted,
            ..Self::default()
        };
        state.log.first = match commit {
            Some(_) => revision,
            None => revision + 1,
        };
        commit.into_iter().for_each(|commit| state.log.push(commit));
        state
    }

    /// Returns the oldest readable revision (at least 1), its commit if watchers may still start
    /// there, and the later commits.
    pub(super) fn since_compaction(&self) -> (i64, Option<Commit>, Vec<Commit>) {
        let oldest = self.compacted.max(1);
        let commits = self.log.slice(oldest + 1, usize::MAX);
        (oldest, self.log.get(oldest).cloned(), commits)
    }

    /// Returns the commits after revision `after` up to and including `upto`; `None` if one of them
    /// is compacted.
    pub(super) fn commits_between(&self, after: i64, upto: i64) -> Option<Vec<Commit>> {
        let kept = after + 1 >= self.log.first;
        let count = usize::try_from(upto - after).unwrap_or(0);
        kept.then(|| self.log.slice(after + 1, count))
    }

    /// Checks that `rev` can be read; `rev <= 0` is the latest.
    pub(super) fn check(&self, rev: i64) -> Result<(), Refusal> {
        if rev > self.revision {
            Err(Refusal::FutureRevision)
        } else if rev > 0 && rev < self.compacted {
            Err(Refusal::Compacted)
        } else {
            Ok(())
        }
    }

    /// Drops history older than `revision`, by etcd's rules.
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

/// Returns one key at a revision, by its chain of versions, and the latest revision; `None` if the
/// chain does not contain the version. `rev <= 0` is the latest. The lock is taken anew for each
/// version: a chain can be as long as the history, and a waiting writer would block every later
/// reader.
///
/// # Errors
/// [`Refusal::FutureRevision`], [`Refusal::Compacted`].
pub(super) fn get_at(
    state: &RwLock<State>,
    key: &[u8],
    rev: i64,
) -> Result<Option<(Option<Record>, i64)>, Refusal> {
    let (current, head) = {
        let state = state.read();
        state.check(rev)?;
        (state.tree.get(key).cloned(), state.revision)
    };
    if rev <= 0 || rev >= head {
        return Ok(Some((current, head)));
    }
    // A key that does not exist now may have existed at `rev`.
    let Some(mut version) = current else {
        return Ok(None);
    };
    while version.mod_revision() > rev {
        let commit = {
            let state = state.read();
            state.check(rev)?;
            state.log.get(version.mod_revision()).cloned()
        };
        // The previous version in the same lifetime of the key.
        let written = commit
            .iter()
            .flat_map(|commit| commit.iter())
            .find(|event| event.record.key() == key);
        let Some(older) = written.and_then(|event| event.prev.clone()) else {
            return Ok(None);
        };
        version = older;
    }
    Ok(Some((Some(version), head)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fields;

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

    /// Returns a state with one key that was written this number of times.
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
        let state = RwLock::new(overwritten(10));
        for rev in 2..=11 {
            let (found, head) = get_at(&state, b"k", rev)
                .ok()
                .flatten()
                .expect("the chain tells");
            assert_eq!(found.map(|record| record.mod_revision()), Some(rev));
            assert_eq!(head, 11);
        }
        let before_creation = get_at(&state, b"k", 1).expect("a readable revision");
        assert!(
            before_creation.is_none(),
            "an earlier life is not on this chain"
        );
    }
}
