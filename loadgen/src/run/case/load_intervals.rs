//! The rate and the latency of each load over time, for the result: one interval a second, or as
//! many seconds as keep a long case below [`MAX_INTERVALS`].
//!
//! A separate task reads the counters of the loads, as that of the status lines does.

use std::time::Duration;

use load::record::Counts;
use report::result::load_intervals::LoadInterval;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::live::LiveLoad;

/// The largest number of intervals of a load: an hour of seconds.
const MAX_INTERVALS: u32 = 3_600;
/// An end of the case that is closer to the end of an interval than this belongs to the interval.
const MIN_INTERVAL: Duration = Duration::from_millis(50);

/// Records intervals of loads until it is finished or dropped.
pub(super) struct IntervalRecorder {
    /// Ends the task when it is dropped.
    end: oneshot::Sender<()>,
    task: JoinHandle<Vec<LoadInterval>>,
}

impl IntervalRecorder {
    /// Starts recording. `lasts` is how long the loads are meant to last.
    pub(super) fn start(case: String, loads: Vec<LiveLoad>, lasts: Duration) -> Self {
        let (end, ended) = oneshot::channel();
        let task = tokio::spawn(record(case, loads, every(lasts), ended));
        Self { end, task }
    }

    /// Returns the intervals until now, the last of which may be shorter, in the order of time.
    pub(super) async fn finish(self) -> Vec<LoadInterval> {
        drop(self.end);
        // It does not panic, and the runtime has not ended.
        self.task.await.unwrap_or_default()
    }
}

/// Returns the length of an interval, in whole seconds.
fn every(lasts: Duration) -> Duration {
    let seconds = lasts.as_secs_f64() / f64::from(MAX_INTERVALS);
    Duration::from_secs(seconds.ceil().max(1.0) as u64)
}

/// A load, and its counts and due requests at the end of the interval before.
struct Counted {
    load: LiveLoad,
    counts: Counts,
    due: f64,
}

async fn record(
    case: String,
    loads: Vec<LiveLoad>,
    every: Duration,
    mut ended: oneshot::Receiver<()>,
) -> Vec<LoadInterval> {
    let begun = Instant::now();
    let loads = loads.into_iter();
    let mut loads: Vec<Counted> = loads
        .map(|load| Counted {
            counts: load.counts().read(),
            due: load.due_by(begun).unwrap_or(0.0),
            load,
        })
        .collect();
    let mut ticks = interval_at(begun + every, every);
    // A late interval is longer, and the next one ends when it was meant to.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut intervals = Vec::new();
    let mut before = begun;
    loop {
        let is_over = tokio::select! {
            _ = ticks.tick() => false,
            _ = &mut ended => true,
        };
        let now = Instant::now();
        if is_over && now - before < MIN_INTERVAL {
            return intervals;
        }
        for counted in &mut loads {
            let read = counted.interval(now);
            intervals.push(LoadInterval {
                case: case.clone(),
                elapsed_s: thousandths((now - begun).as_secs_f64()),
                seconds: thousandths((now - before).as_secs_f64()),
                ..read
            });
        }
        before = now;
        if is_over {
            return intervals;
        }
    }
}

impl Counted {
    /// Returns what the load did since the interval before.
    fn interval(&mut self, now: Instant) -> LoadInterval {
        let counts = self.load.counts().read();
        let due = self.load.due_by(now);
        let new = counts.since(&self.counts);
        let due_now = due.map(|due| thousandths(due - self.due));
        self.counts = counts;
        self.due = due.unwrap_or(0.0);
        let ms = |time: Option<Duration>| time.map(|time| thousandths(time.as_secs_f64() * 1e3));
        LoadInterval {
            load: self.load.labels().load.clone(),
            due: due_now,
            answered: new.ended(),
            errors: new.errors(),
            events: new.events(),
            p50_ms: ms(new.quantile(0.5)),
            p99_ms: ms(new.quantile(0.99)),
            max_ms: ms(new.longest()),
            ..LoadInterval::default()
        }
    }
}

/// Rounds to three decimals: more of them would be noise that does not compress.
fn thousandths(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;
    use workloads::Profile;

    use super::*;
    use crate::live::{Labels, LiveLoads, Schedule};

    fn load(name: &str) -> LiveLoad {
        let load = name.to_owned();
        LiveLoads::default().add(Labels {
            load,
            ..Labels::default()
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_stall_is_in_the_seconds_in_which_it_was() {
        let load = load("gets");
        // What came before is not counted.
        load.counts().ended(Duration::from_secs(9));
        load.keep_to(Schedule {
            profile: Profile::Constant(10.0),
            part: 1.0,
            begun: Instant::now(),
            lasts: Duration::from_secs(3),
        });
        let recorder = IntervalRecorder::start(
            "case".to_owned(),
            vec![load.clone()],
            Duration::from_secs(3),
        );
        // Nothing happens at the ends of intervals.
        sleep(Duration::from_millis(50)).await;
        for tenth in 0..30 {
            sleep(Duration::from_millis(100)).await;
            match tenth {
                10..15 => {}
                15 => (0..6).for_each(|n| load.counts().ended(Duration::from_millis(100 * n + 1))),
                _ => load.counts().ended(Duration::from_millis(1)),
            }
        }
        load.counts().failed(2);
        sleep(Duration::from_millis(450)).await;
        let intervals = recorder.finish().await;
        let shown: Vec<_> = intervals
            .iter()
            .map(|one| (one.elapsed_s, one.answered, one.errors, one.due))
            .collect();
        let expected = [
            (1.0, 9, 0, Some(10.0)),
            (2.0, 10, 0, Some(10.0)),
            (3.0, 10, 0, Some(10.0)),
            (3.5, 1, 2, Some(0.0)),
        ];
        assert_eq!(shown, expected);
        let longest: Vec<bool> = intervals
            .iter()
            .map(|one| one.max_ms.is_some_and(|ms| ms > 500.0))
            .collect();
        assert_eq!(longest, [false, true, false, false]);
        assert!(intervals.iter().all(|one| one.p99_ms.is_none()), "too few");
    }

    #[tokio::test(start_paused = true)]
    async fn long_cases_have_longer_intervals_and_no_empty_one_at_the_end() {
        assert_eq!(every(Duration::from_secs(10)), Duration::from_secs(1));
        assert_eq!(every(Duration::from_secs(3_601)), Duration::from_secs(2));
        let loads = vec![load("a"), load("b")];
        let hours = Duration::from_secs(2 * 3_600);
        let recorder = IntervalRecorder::start("case".to_owned(), loads, hours);
        sleep(Duration::from_millis(4_010)).await;
        let intervals = recorder.finish().await;
        let shown: Vec<_> = intervals
            .iter()
            .map(|one| (&*one.load, one.elapsed_s, one.due))
            .collect();
        let expected = [
            ("a", 2.0, None),
            ("b", 2.0, None),
            ("a", 4.0, None),
            ("b", 4.0, None),
        ];
        assert_eq!(shown, expected);
    }
}
