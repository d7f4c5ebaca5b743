//! The rate and the latency of each load over time, for the result: one interval a second, or as
//! many seconds as keep a long case below [`MAX_INTERVALS`].
//!
//! A separate task reads the counters of the loads, as that of the status lines does.

use std::time::Duration;

use report::result::load_intervals::LoadInterval;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::live::{LiveLoad, LoadReader};

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

async fn record(
    case: String,
    loads: Vec<LiveLoad>,
    every: Duration,
    mut ended: oneshot::Receiver<()>,
) -> Vec<LoadInterval> {
    let begun = Instant::now();
    let loads = loads.into_iter();
    let mut loads: Vec<LoadReader> = loads.map(|load| LoadReader::new(load, begun)).collect();
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
        if is_over
            && now - before < MIN_INTERVAL
            && let Some(last) = intervals.len().checked_sub(loads.len())
        {
            for (load, interval) in loads.iter_mut().zip(&mut intervals[last..]) {
                extend(interval, &next_interval(load, now));
                interval.elapsed_s = thousandths((now - begun).as_secs_f64());
                interval.seconds = thousandths(interval.seconds + (now - before).as_secs_f64());
            }
            return intervals;
        }
        for load in &mut loads {
            let read = next_interval(load, now);
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

/// Returns what a load did since the interval before.
fn next_interval(load: &mut LoadReader, now: Instant) -> LoadInterval {
    let (new, due) = load.read(now);
    let ms = |time: Option<Duration>| time.map(|time| thousandths(time.as_secs_f64() * 1e3));
    LoadInterval {
        load: load.name().to_owned(),
        due: due.map(thousandths),
        answered: new.ended(),
        errors: new.errors(),
        events: new.events(),
        p50_ms: ms(new.quantile(0.5)),
        p99_ms: ms(new.quantile(0.99)),
        max_ms: ms(new.longest()),
        ..LoadInterval::default()
    }
}

/// Adds what came after an interval to it. Its quantiles stay as they are.
fn extend(interval: &mut LoadInterval, rest: &LoadInterval) {
    interval.answered += rest.answered;
    interval.errors += rest.errors;
    interval.events += rest.events;
    interval.due = interval.due.map(|due| due + rest.due.unwrap_or(0.0));
    interval.max_ms = match (interval.max_ms, rest.max_ms) {
        (Some(max), Some(rest)) => Some(max.max(rest)),
        (max, rest) => max.or(rest),
    };
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
        let (a, b) = (load("a"), load("b"));
        let loads = vec![a, b.clone()];
        let hours = Duration::from_secs(2 * 3_600);
        let recorder = IntervalRecorder::start("case".to_owned(), loads, hours);
        sleep(Duration::from_millis(4_005)).await;
        // The last list of a case ends after its last second.
        b.counts().ended(Duration::from_secs(3));
        sleep(Duration::from_millis(5)).await;
        let intervals = recorder.finish().await;
        let shown: Vec<_> = intervals
            .iter()
            .map(|one| (&*one.load, one.elapsed_s, one.due))
            .collect();
        let expected = [
            ("a", 2.0, None),
            ("b", 2.0, None),
            ("a", 4.01, None),
            ("b", 4.01, None),
        ];
        assert_eq!(shown, expected);
        let answered: Vec<_> = intervals.iter().map(|one| one.answered).collect();
        assert_eq!(answered, [0, 0, 0, 1]);
        assert!(intervals[3].max_ms.is_some());
    }
}
