//! A latency histogram.

use std::time::Duration;

use hdrhistogram::Histogram;

/// The largest latency that is recorded. Longer ones are counted as this one: a list that takes an
/// hour is a failure, not a measurement.
const HIGHEST_NS: u64 = 3_600_000_000_000;
/// The number of significant decimal digits of a value.
const DIGITS: u8 = 3;

/// The latencies of one worker, in nanoseconds with three significant digits, up to an hour.
///
/// Each worker owns one, and [`LatencyHistogram::add`] merges them, so that nothing is shared while
/// load runs. The size grows with the largest value: 88 KiB at a millisecond, 260 KiB at an hour.
#[derive(Debug, Clone)]
pub struct LatencyHistogram {
    histogram_ns: Histogram<u64>,
    clamped: u64,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        let mut histogram_ns = Histogram::new_with_bounds(1, 2, DIGITS)
            .expect("1 to 2 at three digits are valid bounds");
        histogram_ns.auto(true);
        Self {
            histogram_ns,
            clamped: 0,
        }
    }
}

impl LatencyHistogram {
    /// Records one latency. Counts one above an hour at that bound, and as clamped. Costs some
    /// nanoseconds. Allocates only when the value is larger than all before it.
    pub fn record(&mut self, latency: Duration) {
        let latency_ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        if latency_ns > HIGHEST_NS {
            self.clamped += 1;
        }
        // Not `saturating_record`, which saturates at the present size instead of growing.
        self.histogram_ns
            .record(latency_ns.clamp(1, HIGHEST_NS))
            .expect("an auto-resizing histogram takes any value");
    }

    /// Adds another worker's values.
    pub fn add(&mut self, other: &Self) {
        self.histogram_ns
            .add(&other.histogram_ns)
            .expect("an auto-resizing histogram takes any other of its precision");
        self.clamped += other.clamped;
    }

    /// Returns the number of values.
    #[must_use]
    pub fn n(&self) -> u64 {
        self.histogram_ns.len()
    }

    /// Returns the values, in nanoseconds.
    #[must_use]
    pub fn histogram_ns(&self) -> &Histogram<u64> {
        &self.histogram_ns
    }

    /// Returns how many of the values were above an hour.
    #[must_use]
    pub fn clamped(&self) -> u64 {
        self.clamped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_ms(values: impl IntoIterator<Item = u64>) -> LatencyHistogram {
        let mut histogram = LatencyHistogram::default();
        for ms in values {
            histogram.record(Duration::from_millis(ms));
        }
        histogram
    }

    #[test]
    fn workers_merge_into_what_one_would_have_seen() {
        let mut merged = of_ms(1..=500);
        merged.add(&of_ms(501..=1_000));
        let whole = of_ms(1..=1_000);
        assert_eq!(merged.n(), 1_000);
        assert_eq!(merged.histogram_ns(), whole.histogram_ns());
    }

    #[test]
    fn values_beyond_the_bound_are_kept_and_counted() {
        let mut histogram = of_ms([1]);
        histogram.record(Duration::from_secs(7_200));
        assert_eq!((histogram.n(), histogram.clamped()), (2, 1));
        let max = histogram.histogram_ns().max();
        assert_eq!(max.abs_diff(HIGHEST_NS) / (HIGHEST_NS / 1_000), 0, "{max}");
    }
}
