//! A threshold and its verdict.

use serde::{Deserialize, Serialize};

/// A metric of one case compared with its limit, with the same metric of every other target.
///
/// The verdict applies to the machine that it was measured on: a threshold that is not met fails no
/// run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema, Default))]
pub struct Threshold {
    /// What the threshold promises, in a few words.
    pub name: String,
    /// Where the limit was published, when it was measured by others on another machine; null for a
    /// promise of this project.
    #[serde(default)]
    pub source: Option<String>,
    /// [`super::Case::data_set`] of the case.
    pub data_set: String,
    /// The case, as `etcd/stream`: tier and [`super::Case::row`].
    pub row: String,
    /// Path of the metric within a case, as `latency_ms.p50`.
    pub metric: String,
    /// The target that is compared with the limit.
    pub target: String,
    /// The limit: in the metric's unit, or a factor where there is a basis.
    pub limit: f64,
    /// True when the value must not be below the limit, false when it must not be above.
    pub at_least: bool,
    /// The case that the limit is a factor of, as `etcd/stream`; null for a limit in the metric's
    /// unit.
    pub basis: Option<String>,
    /// The metric's value; null when the case has none.
    pub figure: Option<f64>,
    /// The smallest and the largest of the values of which `figure` is the median, where it is one.
    #[serde(default)]
    pub range: Option<[f64; 2]>,
    /// The 95 % interval of `figure`, within which a limit is undecided; null for ratios, which
    /// have none, and for growth of memory, where `resolution` decides.
    #[serde(default)]
    pub likely: Option<[f64; 2]>,
    /// The value of the same metric of the basis.
    pub base: Option<f64>,
    /// The value that is compared with the limit: `figure`, or `figure` divided by `base`.
    pub value: Option<f64>,
    /// The uncertainty of the value, where it is growth of memory: see
    /// [`super::ServerMetrics::rss_resolution`].
    #[serde(default)]
    pub resolution: Option<f64>,
    /// Whether the limit is kept; null without a value, and where the limit lies within the
    /// uncertainty of the value: the interval of a median of rounds, the resolution of a size.
    pub met: Option<bool>,
    /// The same metric of the other targets.
    pub others: Vec<OtherTarget>,
}

/// The value of a threshold's metric on another target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OtherTarget {
    /// The target's name.
    pub target: String,
    /// The value; null when the target does not support the case, or was not measured.
    pub figure: Option<f64>,
    /// Its value divided by that of [`Threshold::target`]: above 1, the latter is smaller. For
    /// growth of memory, a floor of 1 MiB, or of the counter's resolution where that is coarser, is
    /// added to both first.
    pub ratio: Option<f64>,
}
