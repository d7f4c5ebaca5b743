//! What is compared: a number of a case, and the sample behind it.

use std::fmt;

use clap::ValueEnum;

use super::significance::{mann_whitney, quantile_interval, size};
use crate::quantity::Quantity;
use crate::result::{Case, Quantiles, SavedResult};

/// How sure a difference must be: the probability of seeing it by chance. Five values on each side can reach it, four cannot.
const SURE: f64 = 0.01;
/// Peaks closer than this differ by an allocator's slab or a thread's stack, not by how a list is served.
const MEMORY_FLOOR_BYTES: f64 = 1_048_576.0;

/// A number that can be compared. Smaller is better in all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Metric {
    /// Median time of a whole list.
    P50,
    /// 90th percentile of it.
    P90,
    /// 99th percentile of it.
    P99,
    /// Median time to the first chunk.
    FirstChunkP50,
    /// 99th percentile of it.
    FirstChunkP99,
    /// Peak memory of the server above idle.
    PeakMemory,
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

/// A case's number and, in counted form, the values that it was taken from.
pub(super) struct Measured {
    pub(super) value: f64,
    sample: Vec<(f64, u64)>,
}

/// What the samples say about a difference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Evidence {
    /// Probability that chance alone does this.
    Chance(f64),
    /// Whether the confidence intervals of the two quantiles are apart.
    Intervals { apart: bool },
    /// A sample is too small to say anything.
    TooFew { base: u64, new: u64 },
    /// The values are closer than what the measure can tell.
    BelowFloor,
}

impl Evidence {
    pub(super) fn is_sure(self) -> bool {
        match self {
            Self::Chance(p) => p < SURE,
            Self::Intervals { apart } => apart,
            Self::TooFew { .. } | Self::BelowFloor => false,
        }
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chance(p) if *p < 0.001 => f.write_str("p < 0.001"),
            Self::Chance(p) => write!(f, "p = {p:.3}"),
            Self::Intervals { apart: true } => f.write_str("95 % intervals apart"),
            Self::Intervals { apart: false } => f.write_str("95 % intervals overlap"),
            Self::TooFew { base, new } => write!(f, "too few values: {base} and {new}"),
            Self::BelowFloor => f.write_str("less than 1 MiB apart"),
        }
    }
}

impl Metric {
    /// The case's number, where it has one.
    pub(super) fn of(self, result: &SavedResult, case: &Case) -> Option<Measured> {
        let quantile = |quantiles: &Option<Quantiles>, pick: fn(&Quantiles) -> Option<f64>| {
            quantiles.as_ref().and_then(pick)
        };
        let value = match self {
            Self::P50 => quantile(&case.latency_ms, |q| q.p50),
            Self::P90 => quantile(&case.latency_ms, |q| q.p90),
            Self::P99 => quantile(&case.latency_ms, |q| q.p99),
            Self::FirstChunkP50 => quantile(&case.first_chunk_ms, |q| q.p50),
            Self::FirstChunkP99 => quantile(&case.first_chunk_ms, |q| q.p99),
            Self::PeakMemory => case
                .server
                .as_ref()
                .map(|server| server.peak_above_idle as f64),
        }?;
        let sample = match self {
            Self::P50 | Self::P90 | Self::P99 => histogram(result, "latency", case),
            Self::FirstChunkP50 | Self::FirstChunkP99 => histogram(result, "first_chunk", case),
            Self::PeakMemory => {
                let mut peaks = case
                    .server
                    .as_ref()
                    .map(|server| server.peaks_above_idle.clone())
                    .unwrap_or_default();
                peaks.sort_unstable();
                peaks
                    .chunk_by(|a, b| a == b)
                    .map(|equal| (equal[0] as f64, equal.len() as u64))
                    .collect()
            }
        };
        Some(Measured { value, sample })
    }

    /// The number in words.
    pub(super) fn quantity(self, value: f64) -> Quantity {
        match self {
            Self::PeakMemory => Quantity::Bytes(value),
            _ => Quantity::Milliseconds(value),
        }
    }

    /// What the two samples say: ranks for medians and memory, confidence intervals for the quantiles above.
    pub(super) fn evidence(self, base: &Measured, new: &Measured) -> Evidence {
        let too_few = Evidence::TooFew {
            base: size(&base.sample),
            new: size(&new.sample),
        };
        let upper = match self {
            Self::P90 => 0.9,
            Self::P99 | Self::FirstChunkP99 => 0.99,
            Self::PeakMemory if (base.value - new.value).abs() < MEMORY_FLOOR_BYTES => {
                return Evidence::BelowFloor;
            }
            Self::P50 | Self::FirstChunkP50 | Self::PeakMemory => {
                // Where even the clearest difference would not be sure, a probability would look like an answer.
                return match mann_whitney(&base.sample, &new.sample) {
                    Some(p) if clearest(size(&base.sample), size(&new.sample)) < SURE => {
                        Evidence::Chance(p)
                    }
                    _ => too_few,
                };
            }
        };
        match (
            quantile_interval(&base.sample, upper),
            quantile_interval(&new.sample, upper),
        ) {
            (Some(base), Some(new)) => Evidence::Intervals {
                apart: base.1 < new.0 || new.1 < base.0,
            },
            _ => too_few,
        }
    }
}

/// The probability of complete separation by chance.
fn clearest(n_a: u64, n_b: u64) -> f64 {
    // 2 / (n_a + n_b over n_a), multiplied out before it can overflow.
    (1..=n_a).fold(2.0, |p, k| p * k as f64 / (n_b + k) as f64)
}

fn histogram(result: &SavedResult, measure: &str, case: &Case) -> Vec<(f64, u64)> {
    result
        .histogram(measure, case)
        .map(|histogram| histogram.counted_ms().collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_values_on_each_side_can_be_sure_and_four_cannot() {
        assert!(clearest(5, 5) < SURE);
        assert!(clearest(4, 4) > SURE);
        assert!(clearest(1_000_000, 1_000_000) < SURE);
    }

    #[test]
    fn metrics_are_called_as_on_the_command_line() {
        assert_eq!(Metric::PeakMemory.to_string(), "peak_memory");
        assert_eq!(
            Metric::from_str("first_chunk_p99", false),
            Ok(Metric::FirstChunkP99)
        );
    }
}
