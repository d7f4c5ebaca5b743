//! What one watcher received, and what it must have.

use std::time::Instant;

use super::DeliveryError;
use crate::driver::run::Written;

/// One watcher, and what it received.
#[derive(Debug, Default)]
pub(super) struct Watcher {
    pub(super) number: u32,
    /// It has everything up to this revision: as events, or by a list.
    pub(super) reached: i64,
    pub(super) ledger: Ledger,
    pub(super) events: Vec<Event>,
    /// What it did not see as events, since it listed again.
    pub(super) gaps: Vec<Gap>,
}

/// Revisions of which a watcher knows only what a list shows: those behind `after`, up to `until`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gap {
    pub(super) after: i64,
    pub(super) until: i64,
}

/// One watcher's events.
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

/// What all watchers read up to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Last {
    pub(super) revision: i64,
    /// When they stop waiting for it, whatever else comes meanwhile.
    pub(super) by: tokio::time::Instant,
}

impl Watcher {
    /// Returns one that watches what comes behind a revision.
    pub(super) fn behind(number: u32, revision: i64) -> Self {
        Self {
            number,
            reached: revision,
            ..Self::default()
        }
    }

    /// Notes an event that came at `at`.
    ///
    /// # Errors
    /// [`DeliveryError::Order`] where its revision is not above those before.
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

    /// Notes a list of this revision, behind which it goes on.
    pub(super) fn listed(&mut self, revision: i64) {
        let after = self.reached;
        self.gaps.push(Gap {
            after,
            until: revision.max(after),
        });
        self.reached = revision.max(after);
    }

    /// Returns whether it has everything up to `last`; false as long as that is not known.
    pub(super) fn has(&self, last: Option<Last>) -> bool {
        last.is_some_and(|last| self.reached >= last.revision)
    }

    /// Returns whether a write's event is one that it did not get, since it listed again.
    pub(super) fn missed(&self, revision: i64) -> bool {
        // They are in order and do not overlap.
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

/// Returns what a watcher must have that saw all of these writes, in the order of their revisions.
pub(super) fn ledger_of<'a>(writes: impl IntoIterator<Item = &'a Written>) -> Ledger {
    let mut ledger = Ledger::default();
    for write in writes {
        ledger.note(write.revision);
    }
    ledger
}

/// Returns what a watcher has of these writes, among events of others.
pub(super) fn ledger_among(events: &[Event], writes: &[Written]) -> Ledger {
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
