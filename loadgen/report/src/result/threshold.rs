//! A threshold and what the run made of it.

use serde::{Deserialize, Serialize};

/// A figure of one case compared with its limit, with the same figure of every other target.
///
/// It is a statement about the machine that it ran on: a threshold that is not met fails no run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema, Default))]
pub struct Threshold {
    /// What is promised, in a few words.
    pub name: String,
    /// Where the limit was published, when it is somebody else's figure on another machine; null
    /// for a promise of ours.
    #[serde(default)]
    pub source: Option<String>,
    /// [`super::Case::data_set`] of the case.
    pub data_set: String,
    /// The row, as `etcd/stream`: tier and [`super::Case::row`].
    pub row: String,
    /// Path of the figure within a case, as `latency_ms.p50`.
    pub metric: String,
    /// The target that is compared with the limit.
    pub target: String,
    /// The limit: in the figure's unit, or a factor where there is a basis.
    pub limit: f64,
    /// True when the figure must not be below the limit, false when it must not be above.
    pub at_least: bool,
    /// What the limit is a factor of, as `etcd/stream`; null for a limit in the figure's unit.
    pub basis: Option<String>,
    /// The figure; null when the case has none.
    pub figure: Option<f64>,
    /// Where the figure is a median: the smallest and the largest of what it is the median of.
    #[serde(default)]
    pub range: Option<[f64; 2]>,
    /// The same figure of the basis.
    pub base: Option<f64>,
    /// What is compared with the limit: the figure, or figure over base.
    pub value: Option<f64>,
    /// How far the figure may be from the truth, where it is growth of memory: see
    /// [`super::ServerFigures::rss_resolution`].
    #[serde(default)]
    pub resolution: Option<f64>,
    /// Whether the limit is kept; null without a value, and where the limit lies within what the
    /// value may be: the interval of a median of rounds, the resolution of a size.
    pub met: Option<bool>,
    /// The same figure of the other targets.
    pub others: Vec<OtherTarget>,
}

/// Another target's figure of a threshold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OtherTarget {
    /// Its name.
    pub target: String,
    /// Its figure; null when it cannot do the case, or was not measured.
    pub figure: Option<f64>,
    /// Its figure over ours: above 1, ours is the smaller. Growth of memory: after a floor of 1
    /// MiB, or of the counter's resolution where that is coarser, was added to both.
    pub ratio: Option<f64>,
}
