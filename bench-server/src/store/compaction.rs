//! Automatic compaction as a state machine: told the time and the revision, it says what to compact.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How often the revision mode looks, as etcd's.
const REVISION_INTERVAL: Duration = Duration::from_secs(5 * 60);
/// The periodic mode samples the revision this often per retention, as etcd's.
const SAMPLES_PER_RETENTION: u32 = 10;

/// What of the history is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retention {
    /// The revisions of the last span of time.
    Time(Duration),
    /// So many of the last revisions.
    Revisions(i64),
}

/// Decides when to compact what. Ticked from outside, each [`AutoCompaction::interval`].
#[derive(Debug)]
pub struct AutoCompaction {
    retention: Retention,
    /// Revisions seen and when, oldest first: at most the samples of one retention and one more.
    seen: VecDeque<(Instant, i64)>,
    compacted: i64,
}

impl AutoCompaction {
    /// Starts with an empty memory: the first compaction comes one retention later.
    pub fn new(retention: Retention) -> Self {
        Self {
            retention,
            seen: VecDeque::new(),
            compacted: 0,
        }
    }

    /// Time between ticks.
    pub fn interval(&self) -> Duration {
        match self.retention {
            Retention::Time(span) => (span / SAMPLES_PER_RETENTION).max(Duration::from_millis(10)),
            Retention::Revisions(_) => REVISION_INTERVAL,
        }
    }

    /// The revision to compact now, if there is a new one.
    pub fn tick(&mut self, now: Instant, revision: i64) -> Option<i64> {
        let target = match self.retention {
            Retention::Revisions(kept) => revision - kept,
            Retention::Time(span) => {
                self.seen.push_back((now, revision));
                let mut old = None;
                while let Some((at, seen)) = self.seen.front()
                    && now.duration_since(*at) >= span
                {
                    old = Some(*seen);
                    self.seen.pop_front();
                }
                old?
            }
        };
        if target <= self.compacted {
            return None;
        }
        self.compacted = target;
        Some(target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periodic_compacts_what_was_current_one_retention_ago() {
        let mut auto = AutoCompaction::new(Retention::Time(Duration::from_secs(100)));
        let start = Instant::now();
        assert_eq!(auto.interval(), Duration::from_secs(10));
        let at = |s| start + Duration::from_secs(s);
        for tick in 0..10 {
            assert_eq!(auto.tick(at(tick * 10), 5 + tick as i64), None);
        }
        assert_eq!(auto.tick(at(100), 50), Some(5));
        assert_eq!(auto.tick(at(105), 50), None, "nothing new is old enough");
        assert_eq!(
            auto.tick(at(130), 50),
            Some(8),
            "late ticks catch up at once"
        );
    }

    #[test]
    fn by_revision_keeps_the_last_ones() {
        let mut auto = AutoCompaction::new(Retention::Revisions(1000));
        let now = Instant::now();
        assert_eq!(auto.tick(now, 900), None);
        assert_eq!(auto.tick(now, 1500), Some(500));
        assert_eq!(auto.tick(now, 1500), None, "an idle store is left alone");
    }
}
