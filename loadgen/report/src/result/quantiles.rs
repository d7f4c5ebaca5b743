//! The quantiles of a distribution, as saved in results.

use serde::{Deserialize, Serialize};

/// A distribution in milliseconds, from a histogram with three significant digits.
///
/// A quantile is null when the sample is too small to support it: the median needs 3 values, a
/// higher quantile q needs 10/(1−q). Minimum and maximum are exact within the histogram's
/// resolution and null only when `n` is 0.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Quantiles {
    /// Number of values.
    pub n: u64,
    /// Values above the histogram's upper bound, which were counted at that bound.
    pub clamped: u64,
    /// Smallest value.
    pub min: Option<f64>,
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Median, from n = 3.
    pub p50: Option<f64>,
    /// 90th percentile, from n = 100.
    pub p90: Option<f64>,
    /// 99th percentile, from n = 1,000.
    pub p99: Option<f64>,
    /// 99.9th percentile, from n = 10,000.
    pub p999: Option<f64>,
    /// Largest value.
    pub max: Option<f64>,
}
