//! Distributions of latencies, and the rule for which quantiles a sample size supports.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::result::quantiles::Quantiles;

/// The highest value of a histogram, an hour. Higher values are counted as this one.
const HIGHEST_NS: u64 = 3_600_000_000_000;
/// The number of significant decimal digits of recorded values.
pub(crate) const DIGITS: u8 = 3;
const NS_PER_MS: f64 = 1e6;

/// The latencies of a case, or of a part of it, in nanoseconds.
#[derive(Debug, Clone)]
pub struct Latencies {
    histogram_ns: Histogram<u64>,
    clamped: u64,
}

impl Latencies {
    /// Returns the latencies in this histogram. `clamped` of them were above its highest value; a
    /// saved histogram does not contain that number.
    #[must_use]
    pub fn new(histogram_ns: Histogram<u64>, clamped: u64) -> Self {
        Self {
            histogram_ns,
            clamped,
        }
    }

    /// Returns the number of values.
    #[must_use]
    pub fn n(&self) -> u64 {
        self.histogram_ns.len()
    }

    /// Returns the distribution in milliseconds, with null for every quantile that the number of
    /// values does not support.
    #[must_use]
    pub fn quantiles_ms(&self) -> Quantiles {
        self.quantiles_of_ms(self.n())
    }

    /// Returns the distribution of values that come in groups: see [`quantiles_of_ms`].
    #[must_use]
    pub fn quantiles_of_ms(&self, groups: u64) -> Quantiles {
        quantiles_of_ms(&self.histogram_ns, self.clamped, groups)
    }

    /// Returns the sum of both histograms. Both must have the same number of significant digits.
    ///
    /// # Errors
    /// The reason as text, if they cannot be added.
    pub fn added(&self, other: &Self) -> Result<Self, String> {
        let (digits, others) = (self.histogram_ns.sigfig(), other.histogram_ns.sigfig());
        if digits != others {
            return Err(format!(
                "one has {digits} significant digits, the other {others}"
            ));
        }
        let mut histogram_ns = self.histogram_ns.clone();
        histogram_ns.auto(true);
        let added = histogram_ns.add(&other.histogram_ns);
        added.map_err(|error| error.to_string())?;
        Ok(Self::new(histogram_ns, self.clamped + other.clamped))
    }

    /// Returns the values, in nanoseconds.
    #[must_use]
    pub fn histogram_ns(&self) -> &Histogram<u64> {
        &self.histogram_ns
    }
}

/// Records values from a nanosecond to an hour, with three significant digits.
impl FromIterator<Duration> for Latencies {
    fn from_iter<I: IntoIterator<Item = Duration>>(values: I) -> Self {
        let mut histogram = Histogram::new_with_bounds(1, HIGHEST_NS, DIGITS)
            .expect("a nanosecond to an hour at three digits are valid bounds");
        for value in values {
            histogram.saturating_record(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX).max(1));
        }
        Self::new(histogram, 0)
    }
}

/// Returns the distribution in milliseconds of values in nanoseconds, with null for every quantile
/// that the number of values does not support. `clamped` of them were above the highest value of
/// the histogram.
///
/// Values may come in groups, such as the events of one put at all its watchers. A delay of one
/// value of a group also delays the others, so a quantile needs as many groups as it would need
/// independent values.
#[must_use]
pub fn quantiles_of_ms(histogram_ns: &Histogram<u64>, clamped: u64, groups: u64) -> Quantiles {
    let n = histogram_ns.len();
    let quantile = |q: f64| {
        (groups.min(n) >= quantile_needs(q))
            .then(|| histogram_ns.value_at_quantile(q) as f64 / NS_PER_MS)
    };
    let if_any = |value: f64| (n > 0).then_some(value / NS_PER_MS);
    Quantiles {
        n,
        clamped,
        min: if_any(histogram_ns.min() as f64),
        mean: if_any(histogram_ns.mean()),
        p50: quantile(0.5),
        p90: quantile(0.9),
        p99: quantile(0.99),
        p999: quantile(0.999),
        max: if_any(histogram_ns.max() as f64),
    }
}

/// Returns how many values a quantile needs: 3 for the median (which is shown with minimum and
/// maximum), 10/(1−q) above it, so that about ten values lie beyond the quantile.
#[must_use]
pub fn quantile_needs(q: f64) -> u64 {
    if q <= 0.5 {
        return 3;
    }
    // The small subtrahend is there because in binary 1 − 0.999 is not quite a thousandth.
    (10.0 / (1.0 - q) - 1e-6).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: u64 = 3_600_000;

    fn of_ms(values: impl IntoIterator<Item = u64>) -> Latencies {
        values.into_iter().map(Duration::from_millis).collect()
    }

    #[track_caller]
    fn assert_near(found: Option<f64>, expected: f64) {
        let found = found.expect("a value");
        assert!(
            (found - expected).abs() <= expected * 0.001,
            "{found} is not within three digits of {expected}"
        );
    }

    #[test]
    fn values_that_come_together_are_one() {
        let histogram = of_ms(1..=10_000);
        assert!(histogram.quantiles_ms().p99.is_some());
        let of_groups = histogram.quantiles_of_ms(100);
        assert!(
            of_groups.p90.is_some() && of_groups.p99.is_none(),
            "{of_groups:?}"
        );
        assert_eq!(of_groups.n, 10_000);
    }

    #[test]
    fn a_quantile_needs_ten_values_beyond_it() {
        assert_eq!(
            [0.5, 0.9, 0.99, 0.999].map(quantile_needs),
            [3, 100, 1_000, 10_000]
        );
    }

    #[test]
    fn too_few_values_give_null_instead_of_a_guess() {
        let two = of_ms([5, 7]).quantiles_ms();
        assert_eq!((two.n, two.p50), (2, None));
        assert_near(two.min, 5.0);
        assert_near(two.max, 7.0);
        let three = of_ms([5, 900, 7]).quantiles_ms();
        assert_near(three.p50, 7.0);
        assert_eq!((three.p90, three.p99), (None, None));
        assert_eq!(of_ms(1..=99).quantiles_ms().p90, None);
        assert_near(of_ms(1..=100).quantiles_ms().p90, 90.0);
        assert_near(of_ms(1..=1_000).quantiles_ms().p99, 990.0);
    }

    #[test]
    fn nothing_recorded_has_no_extremes() {
        assert_eq!(of_ms([]).quantiles_ms(), Quantiles::default());
    }

    #[test]
    fn clamped_values_are_told() {
        let clamped = Latencies::new(of_ms([1, HOUR_MS]).histogram_ns, 1).quantiles_ms();
        assert_eq!((clamped.n, clamped.clamped), (2, 1));
        assert_near(clamped.max, HOUR_MS as f64);
    }
}
