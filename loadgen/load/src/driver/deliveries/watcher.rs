//! The events that one watcher received, and those that it must have received.

use std::time::Instant;

use super::DeliveryError;
use crate::driver::run::AcknowledgedWrite;

/// One watcher and what it received.
#[derive(Debug, Default)]
pub(super) struct Watcher {
    pub(super) number: u32,
    /// The revision up to which the watcher has everything, as events or by a list.
    pub(super) reached: i64,
    pub(super) ledger: Ledger,
    pub(super) events: Vec<Event>,
    /// The revisions whose events it missed by listing again.
    pub(super) gaps: Vec<Gap>,
}

/// A range of revisions that a watcher knows only from a list: those after `after`, up to `until`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gap {
    pub(super) after: i64,
    pub(super) until: i64,
}

/// A summary of one watcher's events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Ledger {
    pub(super) events: u64,
    /// The sum of their revisions, modulo 2⁶⁴.
    pub(super) sum: u64,
    pub(super) last: i64,
}

/// One event at one watcher.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    pub(super) revision: i64,
    pub(super) at: Instant,
}

/// The revision that all watchers read up to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Last {
    pub(super) revision: i64,
    /// The deadline after which the watchers stop waiting, whatever else arrives.
    pub(super) by: tokio::time::Instant,
}

impl Watcher {
    /// Returns a watcher of the events after a revision.
    pub(super) fn behind(number: u32, revision: i64) -> Self {
        Self {
            number,
            reached: revision,
            ..Self::default()
        }
    }

    /// Records an event received at `at`.
    ///
    /// # Errors
    /// [`DeliveryError::Order`] if its revision is not above those before.
    pub(super) fn note(&mut self, revision: i64, at: Instant) -> Result<(), DeliveryError> {
        let before = self.reached;
        if revision <= before {
            return Err(DeliveryError::Order { revision, before });
        }
        self.reached = revision;
        self.ledger.note(revision);
        self.events.push(Event { revision, at });
        Ok(())
    }

    /// Records a list of this revision, after which the watcher resumes.
    pub(super) fn listed(&mut self, revision: i64) {
        let after = self.reached;
        self.gaps.push(Gap {
            after,
            until: revision.max(after),
        });
        self.reached = revision.max(after);
    }

    /// Returns whether the watcher has everything up to `last`; false while `last` is not known.
    pub(super) fn has(&self, last: Option<Last>) -> bool {
        last.is_some_and(|last| self.reached >= last.revision)
    }

    /// Returns whether the watcher missed this revision's event by listing again.
    pub(super) fn missed(&self, revision: i64) -> bool {
        // The gaps are in order and do not overlap.
        let first = self.gaps.partition_point(|gap| gap.until < revision);
        self.gaps.get(first).is_some_and(|gap| gap.after < revision)
    }
}

impl Ledger {
    pub(super) fn note(&mut self, revision: i64) {
        self.events += 1;
        self.sum = self.sum.wrapping_add(revision.cast_unsigned());
        self.last = revision;
    }
}

/// Returns the ledger of a watcher that received all of these writes, given in the order of their
/// revisions.
pub(super) fn ledger_of<'a>(writes: impl IntoIterator<Item = &'a AcknowledgedWrite>) -> Ledger {
    let mut ledger = Ledger::default();
    for write in writes {
        ledger.note(write.revision);
    }
    ledger
}

/// Returns the ledger of those `events` that belong to these writes.
pub(super) fn ledger_among(events: &[Event], writes: &[AcknowledgedWrite]) -> Ledger {
    let mut ledger = Ledger::default();
    for event in events {
        if writes
            .binary_search_by_key(&event.revision, |w| w.revision)
            .is_ok()
        {
            ledger.note(event.revision);
        }
    }
    ledger
}
