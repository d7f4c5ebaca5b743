//! The compactions of a history: the revisions that were compacted, or may have been, by a time.

use crate::record::{Call, History, Nanoseconds, Operation, Outcome};

/// The compactions of a history that were not refused: each with its revision and whether it was
/// acknowledged.
pub(crate) struct Compactions<'a>(Vec<(&'a Operation, i64, bool)>);

impl<'a> Compactions<'a> {
    /// Collects the compactions of a history.
    pub(crate) fn new(history: &'a History) -> Self {
        let all = history.operations.iter();
        let accepted = all.filter_map(|one| match one.call {
            Call::Compact(revision, Outcome::Done(_)) => Some((one, revision, true)),
            Call::Compact(revision, Outcome::Unknown) => Some((one, revision, false)),
            _ => None,
        });
        Self(accepted.collect())
    }

    /// Returns the highest revision whose compaction was acknowledged before a time; 0 for none.
    pub(crate) fn done_before(&self, time: Nanoseconds) -> i64 {
        let done = self
            .0
            .iter()
            .filter(|(one, _, done)| *done && one.returned < time);
        done.map(|(_, revision, _)| *revision).max().unwrap_or(0)
    }

    /// Returns the highest revision whose compaction was called before a time; 0 for none.
    pub(crate) fn asked_before(&self, time: Nanoseconds) -> i64 {
        let asked = self.0.iter().filter(|(one, ..)| one.called < time);
        asked.map(|(_, revision, _)| *revision).max().unwrap_or(0)
    }

    /// Returns whether another compaction, to at least `revision`, may precede the refused one.
    pub(crate) fn may_precede(&self, refused: &Operation, revision: i64) -> bool {
        let mut all = self.0.iter();
        all.any(|(one, asked, _)| one.called < refused.returned && *asked >= revision)
    }
}
