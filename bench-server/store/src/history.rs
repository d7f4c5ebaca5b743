//! The log of revisions, and the index as it was at any of them.
//!
//! Every write makes one commit: its events, each with the record written and the one before it.
//! The log is dense (commit *i* has revision *first + i*), so a record's mod revision leads to the
//! event that wrote it, and that event to the version before: a version chain without any pointer
//! of its own. [`past_roots`](super::past_roots) makes whole past indexes out of it.

use std::collections::VecDeque;
use std::sync::Arc;

use etcd_api::error::Refusal;
use index::Tree;
use parking_lot::RwLock;

use super::Record;

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
    pub(super) fn undo(&self, tree: &mut Tree<Record>) {
        match &self.prev {
            Some(prev) => tree.insert(prev.clone()),
            None => tree.remove(self.record.key()),
        };
    }

    /// Bytes of history that this event keeps in addition to the current keys.
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

/// What a write transaction has written.
#[derive(Default)]
pub(super) enum Edits {
    /// Nothing.
    #[default]
    None,
    /// One event, not applied to any index yet.
    One(Event),
    /// Several, applied to a copy of the index.
    Many {
        tree: Tree<Record>,
        events: Vec<Event>,
    },
}

impl Edits {
    /// Returns the events, without the index that they may have been applied to; `None` when there
    /// is none.
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

    /// Returns the bytes of history kept in addition to the current keys.
    pub(super) fn history_bytes(&self) -> u64 {
        self.log.bytes()
    }

    /// Returns the bytes of history of all commits that were ever made up to `revision`, as far as
    /// they are not compacted away.
    pub(super) fn history_bytes_until(&self, revision: i64) -> u64 {
        let at = usize::try_from(revision + 1 - self.log.first);
        match at.map(|at| self.log.commits.get(at)) {
            Ok(Some(next)) => next.before,
            Ok(None) => self.log.pushed,
            Err(_) => self.log.dropped,
        }
    }

    /// Returns the bytes of commits that compaction has forgotten.
    pub(super) fn forgotten_bytes(&self) -> u64 {
        self.log.dropped
    }

    /// Returns the first revision at or after `from` that is in the log, and commits from there on,
    /// at most `limit`.
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

    /// Publishes a commit that was prepared on another index; returns the revision after it.
    pub(super) fn apply(&mut self, commit: Commit) -> i64 {
        commit.iter().for_each(|event| event.redo(&mut self.tree));
        self.revision += 1;
        self.log.push(commit);
        self.revision
    }

    /// Makes the next revision of what it wrote, in order.
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

    /// Returns the state at a compacted revision: its keys, and the commit that made it, if it is
    /// still watched.
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

    /// Returns the oldest revision that can be read (1 at least), the commit that made it, if it is
    /// still watched, and the commits since.
    pub(super) fn since_compaction(&self) -> (i64, Option<Commit>, Vec<Commit>) {
        let oldest = self.compacted.max(1);
        let commits = self.log.slice(oldest + 1, usize::MAX);
        (oldest, self.log.get(oldest).cloned(), commits)
    }

    /// Returns the commits after revision `after` up to `upto`; `None` when one of them is
    /// compacted away.
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

/// Returns one key at a revision, by its chain of versions, and the latest revision; `None` when
/// the chain does not tell. `rev <= 0` is the latest. The lock is taken anew for each version: a
/// chain can be as long as the history, and one writer that waits would hold up every reader behind
/// it.
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
    // A key that is not there now may have been there then.
    let Some(mut version) = current else {
        return Ok(None);
    };
    while version.mod_revision() > rev {
        let commit = {
            let state = state.read();
            state.check(rev)?;
            state.log.get(version.mod_revision()).cloned()
        };
        // The version before, in the same life of the key.
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

    /// Returns a state with one key written so many times.
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
