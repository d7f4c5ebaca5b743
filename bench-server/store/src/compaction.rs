//! Automatic compaction as a state machine: given the time and the revision, it returns the
//! revision to compact.
//!
//! Source: etcd's `v3compactor`, periodic and by revision.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The time between ticks in the revision mode.
const REVISION_INTERVAL: Duration = Duration::from_secs(5 * 60);
/// The maximum time between two compactions in the periodic mode, which otherwise compacts once per
/// retention.
const MAX_PERIOD: Duration = Duration::from_secs(60 * 60);
/// The number of times that the periodic mode samples the revision between two compactions.
const SAMPLES_PER_PERIOD: u32 = 10;

/// The part of the history that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retention {
    /// The revisions within this time.
    Time(Duration),
    /// This number of the latest revisions.
    Revisions(i64),
}

/// Decides when to compact which revision. The caller ticks it after [`AutoCompaction::first_tick`]
/// and then every [`AutoCompaction::interval`].
#[derive(Debug)]
pub struct AutoCompaction {
    retention: Retention,
    /// Revisions at the latest ticks, oldest first: those within one retention, and one more.
    seen: VecDeque<i64>,
    /// The earliest time of the next compaction; set by the first tick.
    due: Option<Instant>,
    compacted: i64,
}

impl AutoCompaction {
    /// Returns a state machine without samples: the first compaction by time comes one retention
    /// later.
    pub fn new(retention: Retention) -> Self {
        Self {
            retention,
            seen: VecDeque::new(),
            due: None,
            compacted: 0,
        }
    }

    /// Returns the time until the first tick. In the revision mode it is an interval, so that after
    /// a restart clients still find what they could read before.
    pub fn first_tick(&self) -> Duration {
        match self.retention {
            Retention::Time(_) => Duration::ZERO,
            Retention::Revisions(_) => self.interval(),
        }
    }

    /// Returns the time between ticks.
    pub fn interval(&self) -> Duration {
        match self.retention {
            Retention::Time(span) => {
                (period(span) / SAMPLES_PER_PERIOD).max(Duration::from_millis(10))
            }
            Retention::Revisions(_) => REVISION_INTERVAL,
        }
    }

    /// Returns the revision to compact now, if there is a new one.
    pub fn tick(&mut self, now: Instant, revision: i64) -> Option<i64> {
        let target = match self.retention {
            Retention::Revisions(kept) => revision - kept,
            Retention::Time(span) => self.oldest(now, revision, span)?,
        };
        if target <= self.compacted {
            return None;
        }
        if let Retention::Time(span) = self.retention {
            self.due = Some(now + period(span));
        }
        self.compacted = target;
        Some(target)
    }

    /// Records a sample of the revision. Returns the oldest earlier sample, if a compaction is due.
    fn oldest(&mut self, now: Instant, revision: i64, span: Duration) -> Option<i64> {
        let oldest = self.seen.front().copied();
        self.seen.push_back(revision);
        let most = span.as_nanos() / self.interval().as_nanos() + 1;
        if self.seen.len() as u128 > most {
            self.seen.pop_front();
        }
        let due = *self.due.get_or_insert(now + span);
        oldest.filter(|_| now >= due)
    }
}

/// Returns the time between two compactions for a retention of `span`.
fn period(span: Duration) -> Duration {
    span.min(MAX_PERIOD)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ticks this number of times, with a revision that counts the ticks from 1 on. Returns the
    /// compactions: the number of the tick and the compacted revision.
    fn compactions(span: Duration, ticks: u32) -> Vec<(u32, i64)> {
        let mut auto = AutoCompaction::new(Retention::Time(span));
        let (start, interval) = (Instant::now(), auto.interval());
        let mut tick = |n| auto.tick(start + interval * n, 1 + i64::from(n));
        (0..ticks).filter_map(|n| Some((n, tick(n)?))).collect()
    }

    #[test]
    fn a_short_retention_is_compacted_once_per_retention() {
        let span = Duration::from_secs(100);
        let auto = AutoCompaction::new(Retention::Time(span));
        assert_eq!(auto.interval(), Duration::from_secs(10));
        // The revision of one retention ago and, from the second compaction on, of one sample
        // earlier, as in etcd.
        assert_eq!(compactions(span, 35), [(10, 1), (20, 10), (30, 20)]);
    }

    #[test]
    fn a_long_retention_is_compacted_once_an_hour() {
        let span = Duration::from_secs(3 * 3600);
        let auto = AutoCompaction::new(Retention::Time(span));
        assert_eq!(auto.interval(), Duration::from_secs(360));
        assert_eq!(compactions(span, 55), [(30, 1), (40, 10), (50, 20)]);
    }

    #[test]
    fn an_idle_store_is_compacted_once() {
        let mut auto = AutoCompaction::new(Retention::Time(Duration::from_secs(100)));
        let start = Instant::now();
        let ticks = (0..50).filter_map(|n| auto.tick(start + Duration::from_secs(10) * n, 7));
        assert_eq!(ticks.collect::<Vec<_>>(), [7]);
    }

    #[test]
    fn by_revision_keeps_the_last_ones() {
        let mut auto = AutoCompaction::new(Retention::Revisions(1000));
        assert_eq!(
            auto.first_tick(),
            auto.interval(),
            "not right after a start"
        );
        let now = Instant::now();
        assert_eq!(auto.tick(now, 900), None);
        assert_eq!(auto.tick(now, 1500), Some(500));
        assert_eq!(auto.tick(now, 1500), None, "an idle store is left alone");
    }
}
