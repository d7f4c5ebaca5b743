//! The progress of a load, for progress lines and `/metrics` while it runs.
//!
//! The results come from [`LatencyHistogram`](super::LatencyHistogram). Other threads read these
//! counters during the run, so they are atomic, and their buckets are coarser: twenty for each
//! power of ten, 12 % apart. Every tenth bound is a bound of the classic Prometheus buckets, so one
//! set of counters serves both.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The number of buckets for each power of ten.
const PER_DECADE: usize = 20;
/// The number of bounds, from a microsecond to 1,000 s.
const BOUNDS: usize = 9 * PER_DECADE + 1;
/// The bounds that are exported to Prometheus, in seconds: from 100 µs to 100 s, a factor of √10
/// apart.
const SHOWN_S: [f64; 13] = [
    0.000_1, 0.000_316, 0.001, 0.003_16, 0.01, 0.031_6, 0.1, 0.316, 1.0, 3.16, 10.0, 31.6, 100.0,
];
/// The index of the first of these among the bounds.
const FIRST_SHOWN: usize = 2 * PER_DECADE;
/// The distance from one of these to the next among the bounds.
const SHOWN_STEP: usize = PER_DECADE / 2;

/// The bounds in nanoseconds, inclusive.
static BOUNDS_NS: LazyLock<[u64; BOUNDS]> = LazyLock::new(|| {
    std::array::from_fn(|nth| {
        let decades = nth as f64 / PER_DECADE as f64;
        (1e3 * 10_f64.powf(decades)).round() as u64
    })
});

/// The counters of one load, written by its clients and read by other threads.
#[derive(Debug)]
pub struct Live {
    /// The number of latencies in each bucket: above the previous bound, and within the bound with
    /// the same index. The last bucket is above all bounds.
    counts: [AtomicU64; BOUNDS + 1],
    sum_ns: AtomicU64,
    errors: AtomicU64,
    events: AtomicU64,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
            sum_ns: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            events: AtomicU64::new(0),
        }
    }
}

impl Live {
    /// Counts a request with a right response. Costs some nanoseconds and never blocks.
    pub fn ended(&self, latency: Duration) {
        let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_NS.partition_point(|bound| *bound < ns);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// Counts requests that failed, or had a wrong response or none.
    pub fn failed(&self, requests: u64) {
        self.errors.fetch_add(requests, Ordering::Relaxed);
    }

    /// Counts events that reached watchers. Their latencies are not known yet.
    pub fn delivered(&self, events: u64) {
        self.events.fetch_add(events, Ordering::Relaxed);
    }

    /// Reads the counters. A request that ends meanwhile may be in some of them and not in others.
    #[must_use]
    pub fn read(&self) -> Counts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            counts: self.counts.iter().map(read).collect(),
            sum_ns: read(&self.sum_ns),
            errors: read(&self.errors),
            events: read(&self.events),
        }
    }
}

/// The values of the counters at one time, or the difference between two times.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    counts: Vec<u64>,
    sum_ns: u64,
    errors: u64,
    events: u64,
}

impl Counts {
    /// Returns the difference from `before`, earlier values of the same load.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let pairs = self.counts.iter().zip(&before.counts);
        Self {
            counts: pairs.map(|(now, before)| now - before).collect(),
            sum_ns: self.sum_ns - before.sum_ns,
            errors: self.errors - before.errors,
            events: self.events - before.events,
        }
    }

    /// Returns the number of requests with a right response.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the number of requests that failed.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.errors
    }

    /// Returns the number of events that reached watchers.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Returns the sum of all latencies, in seconds.
    #[must_use]
    pub fn sum_s(&self) -> f64 {
        self.sum_ns as f64 / 1e9
    }

    /// Returns the latency within which the fraction `quantile` of the requests ended, rounded up
    /// to the next bound, which is up to 12 % more. Returns `None` if there are too few requests:
    /// the median needs 3, a higher quantile 10/(1 − `quantile`).
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        let ended = self.ended();
        let least = if quantile <= 0.5 {
            3.0
        } else {
            10.0 / (1.0 - quantile)
        };
        if (ended as f64) < least.round() {
            return None;
        }
        let wanted = (quantile * ended as f64).ceil() as u64;
        let mut reached = 0;
        let bucket = self.counts.iter().position(|count| {
            reached += count;
            reached >= wanted
        })?;
        Some(bound(bucket))
    }

    /// Returns the longest latency, rounded up to the next bound, which is up to 12 % more; `None`
    /// if no request has ended.
    #[must_use]
    pub fn longest(&self) -> Option<Duration> {
        let bucket = self.counts.iter().rposition(|count| *count > 0)?;
        Some(bound(bucket))
    }

    /// Returns the classic buckets of Prometheus: the upper bound of each in seconds, the last
    /// infinite, and the number of latencies within that bound and above the previous one.
    #[must_use]
    pub fn buckets(&self) -> Vec<(f64, u64)> {
        let mut counts = self.counts.iter();
        let mut next = |buckets: usize| counts.by_ref().take(buckets).sum();
        let mut shown = Vec::with_capacity(SHOWN_S.len() + 1);
        for (nth, bound_s) in SHOWN_S.into_iter().enumerate() {
            let buckets = if nth == 0 {
                FIRST_SHOWN + 1
            } else {
                SHOWN_STEP
            };
            shown.push((bound_s, next(buckets)));
        }
        shown.push((f64::INFINITY, next(usize::MAX)));
        shown
    }
}

/// Returns the upper bound of a bucket.
fn bound(bucket: usize) -> Duration {
    let ns = BOUNDS_NS.get(bucket).copied();
    ns.map_or(Duration::MAX, Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(latencies: impl IntoIterator<Item = Duration>) -> Counts {
        let live = Live::default();
        latencies
            .into_iter()
            .for_each(|latency| live.ended(latency));
        live.read()
    }

    #[test]
    fn a_latency_is_in_the_bucket_whose_bound_it_does_not_exceed() {
        let us = Duration::from_micros;
        let counted = counts([us(100), us(101), us(1_000), Duration::from_secs(2_000)]);
        let buckets = counted.buckets();
        assert_eq!(buckets.len(), 14);
        assert_eq!(buckets[0], (0.0001, 1));
        assert_eq!(buckets[1], (0.000_316, 1));
        assert_eq!(buckets[2], (0.001, 1));
        assert_eq!(buckets[12], (100.0, 0));
        assert_eq!(buckets[13], (f64::INFINITY, 1));
        let sum: u64 = buckets.iter().map(|(_, count)| count).sum();
        assert_eq!((sum, counted.ended()), (4, 4));
    }

    #[test]
    fn a_quantile_is_known_within_a_bucket_and_needs_enough_requests() {
        let all = counts((1..=1_000).map(Duration::from_millis));
        let ms = |quantile| all.quantile(quantile).map(|time| time.as_secs_f64() * 1e3);
        let near = |found: Option<f64>, exact: f64| {
            found.is_some_and(|found| (exact..=exact * 1.1221).contains(&found))
        };
        assert!(near(ms(0.5), 500.0), "{:?}", ms(0.5));
        assert!(near(ms(0.99), 990.0), "{:?}", ms(0.99));
        assert_eq!(ms(0.999), None, "it takes 10,000");
        let two = counts([Duration::from_millis(1); 2]);
        assert_eq!(two.quantile(0.5), None);
        assert!(near(
            all.longest().map(|time| time.as_secs_f64() * 1e3),
            1_000.0
        ));
        assert_eq!(Counts::default().longest(), None);
    }

    #[test]
    fn what_came_between_two_moments_is_their_difference() {
        let live = Live::default();
        live.ended(Duration::from_millis(2));
        live.failed(1);
        let before = live.read();
        live.ended(Duration::from_millis(3));
        live.failed(4);
        live.delivered(7);
        let between = live.read().since(&before);
        assert_eq!((between.ended(), between.errors()), (1, 4));
        assert_eq!(between.events(), 7);
        assert!((between.sum_s() - 0.003).abs() < 1e-9);
    }
}
