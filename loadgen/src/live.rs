//! Loads while they run: what each has done so far, and how much of its schedule was due.
//!
//! Progress lines and `/metrics` both read it; results do not. [`metrics`] is how it looks to
//! Prometheus, [`http`] is where it is served.

pub mod http;
pub mod metrics;

use std::sync::Arc;
use std::time::Duration;

use load::record::Live;
use parking_lot::Mutex;
use tokio::time::Instant;
use workloads::Profile;

/// What sets a load apart from all others of this process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    /// The scenario.
    pub scenario: String,
    /// The data set that it is about.
    pub data_set: String,
    /// What is measured.
    pub target: String,
    /// The case that it is part of.
    pub case: String,
    /// Its name in the case.
    pub load: String,
    /// What it does.
    pub operation: String,
}

/// A load that has begun. Clones are of the same load.
#[derive(Debug, Clone)]
pub struct LiveLoad {
    labels: Arc<Labels>,
    counts: Arc<Live>,
    due: Arc<Mutex<Due>>,
}

/// Requests that were due by the schedules of a load.
#[derive(Debug, Default)]
struct Due {
    /// By schedules that have ended.
    before: f64,
    now: Option<Schedule>,
}

/// The schedule that a load keeps at present.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// Its rate over time.
    pub profile: Profile,
    /// The part of it that this generator has; 1 where there is no other.
    pub part: f64,
    /// When its first request may be due.
    pub begun: Instant,
    /// How long it goes on.
    pub lasts: Duration,
}

impl Schedule {
    /// Requests that are due by `now` on average.
    fn due_by(&self, now: Instant) -> f64 {
        let elapsed = now.saturating_duration_since(self.begun);
        self.profile.due_by(elapsed.min(self.lasts)) * self.part
    }
}

impl LiveLoad {
    /// Returns what sets it apart.
    #[must_use]
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Returns where its clients count.
    #[must_use]
    pub fn counts(&self) -> &Arc<Live> {
        &self.counts
    }

    /// Begins a schedule; one that it had before has ended.
    pub fn keep_to(&self, schedule: Schedule) {
        let mut due = self.due.lock();
        due.before = due.by(Instant::now()).unwrap_or(0.0);
        due.now = Some(schedule);
    }

    /// Returns the number of requests that were due by `now`; `None` for a load that never had a
    /// schedule.
    #[must_use]
    pub fn due_by(&self, now: Instant) -> Option<f64> {
        self.due.lock().by(now)
    }
}

impl Due {
    fn by(&self, now: Instant) -> Option<f64> {
        let schedule = self.now.as_ref()?;
        Some(self.before + schedule.due_by(now))
    }
}

/// The loads of this process, in the order in which they began. Clones are of the same list.
#[derive(Debug, Clone, Default)]
pub struct LiveLoads(Arc<Mutex<Vec<LiveLoad>>>);

impl LiveLoads {
    /// Adds a load. One that was there before, as where a case is measured again, goes on counting.
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

    /// Returns all of them.
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
        // The same case again, on a server started anew.
        let again = loads.add(Labels::default());
        again.keep_to(schedule());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(load.due_by(Instant::now()), Some(1_100.0));
        assert_eq!(loads.all().len(), 1);
    }
}
