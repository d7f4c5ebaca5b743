//! The counts of loads while they run, and how much of each schedule was due.
//!
//! Progress lines, `/metrics` and the series of loads over time are made from them; all other
//! figures of a result are not. [`metrics`] encodes them for Prometheus, [`http`] serves them.

pub mod http;
pub mod metrics;

use std::sync::Arc;
use std::time::Duration;

use load::record::{Counts, Live};
use parking_lot::Mutex;
use tokio::time::Instant;
use workloads::Profile;

/// The labels that identify a load among all of this process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    /// The scenario.
    pub scenario: String,
    /// The data set.
    pub data_set: String,
    /// The target.
    pub target: String,
    /// The case that the load is part of.
    pub case: String,
    /// The load's name in the case.
    pub load: String,
    /// The load's operation.
    pub operation: String,
}

/// A load that has begun. Clones share its counts.
#[derive(Debug, Clone)]
pub struct LiveLoad {
    labels: Arc<Labels>,
    counts: Arc<Live>,
    due: Arc<Mutex<Due>>,
}

/// The number of requests that were due by a load's schedules.
#[derive(Debug, Default)]
struct Due {
    /// Requests due by schedules that have ended.
    before: f64,
    now: Option<Schedule>,
}

/// The current schedule of a load.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// The rate over time.
    pub profile: Profile,
    /// This generator's fraction of the rate; 1 if it is the only one.
    pub part: f64,
    /// The earliest time at which a request may be due.
    pub begun: Instant,
    /// The duration of the schedule.
    pub lasts: Duration,
}

impl Schedule {
    /// Returns the average number of requests that are due by `now`.
    fn due_by(&self, now: Instant) -> f64 {
        let elapsed = now.saturating_duration_since(self.begun);
        self.profile.due_by(elapsed.min(self.lasts)) * self.part
    }
}

impl LiveLoad {
    /// Returns the labels.
    #[must_use]
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Returns the counts that its clients increment.
    #[must_use]
    pub fn counts(&self) -> &Arc<Live> {
        &self.counts
    }

    /// Begins a schedule, which ends an earlier one.
    pub fn keep_to(&self, schedule: Schedule) {
        let mut due = self.due.lock();
        due.before = due.by(Instant::now()).unwrap_or(0.0);
        due.now = Some(schedule);
    }

    /// Returns the number of requests that were due by `now`; `None` if the load never had a
    /// schedule.
    #[must_use]
    pub fn due_by(&self, now: Instant) -> Option<f64> {
        self.due.lock().by(now)
    }
}

/// A load whose counters are read again and again.
#[derive(Debug)]
pub struct LoadReader {
    load: LiveLoad,
    /// The counts, and the due requests, when they were read last.
    counts: Counts,
    due: f64,
}

impl LoadReader {
    /// Returns a reader that has read the counters at `now`.
    #[must_use]
    pub fn new(load: LiveLoad, now: Instant) -> Self {
        Self {
            counts: load.counts().read(),
            due: load.due_by(now).unwrap_or(0.0),
            load,
        }
    }

    /// Returns the load's name in its case.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.load.labels.load
    }

    /// Returns what was counted, and how many requests were due, since the counters were read last;
    /// no due requests if the load never had a schedule.
    pub fn read(&mut self, now: Instant) -> (Counts, Option<f64>) {
        let (counts, due) = (self.load.counts().read(), self.load.due_by(now));
        let new = counts.since(&self.counts);
        let due_since = due.map(|due| due - self.due);
        self.counts = counts;
        self.due = due.unwrap_or(0.0);
        (new, due_since)
    }
}

impl Due {
    fn by(&self, now: Instant) -> Option<f64> {
        let schedule = self.now.as_ref()?;
        Some(self.before + schedule.due_by(now))
    }
}

/// The loads of this process, in the order in which they began. Clones share the list.
#[derive(Debug, Clone, Default)]
pub struct LiveLoads(Arc<Mutex<Vec<LiveLoad>>>);

impl LiveLoads {
    /// Adds a load. A load with the same labels, as when a case is measured again, continues
    /// counting.
    #[must_use]
    pub fn add(&self, labels: Labels) -> LiveLoad {
        let mut loads = self.0.lock();
        if let Some(known) = loads.iter().find(|load| *load.labels == labels) {
            return known.clone();
        }
        let load = LiveLoad {
            labels: Arc::new(labels),
            counts: Arc::default(),
            due: Arc::default(),
        };
        loads.push(load.clone());
        load
    }

    /// Returns all loads.
    #[must_use]
    pub fn all(&self) -> Vec<LiveLoad> {
        self.0.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_due_grows_with_time_until_the_schedule_ends_and_adds_up() {
        let loads = LiveLoads::default();
        let load = loads.add(Labels::default());
        assert_eq!(load.due_by(Instant::now()), None, "a closed loop");
        let schedule = || Schedule {
            profile: Profile::Constant(200.0),
            part: 0.5,
            begun: Instant::now(),
            lasts: Duration::from_secs(10),
        };
        load.keep_to(schedule());
        tokio::time::advance(Duration::from_secs(4)).await;
        assert_eq!(load.due_by(Instant::now()), Some(400.0));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(load.due_by(Instant::now()), Some(1_000.0));
        // The same case again, on a newly started server.
        let again = loads.add(Labels::default());
        again.keep_to(schedule());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(load.due_by(Instant::now()), Some(1_100.0));
        assert_eq!(loads.all().len(), 1);
    }
}
