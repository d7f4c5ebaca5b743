//! The highest rate that keeps an objective.

use serde::{Deserialize, Serialize};

/// What the searches of a case came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Saturation {
    /// The objective, as `p99=10ms`: of latency from the intended start, failed requests counted as
    /// slower than it.
    pub objective: String,
    /// The highest rate that was kept, a second: the median over the searches of each one's lower
    /// bound; null where none found one.
    pub kept_per_s: Option<f64>,
    /// The searches, in order, all on one start of the servers.
    pub searches: Vec<RateSearch>,
}

/// One search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RateSearch {
    /// The largest rate that was kept, below every one that was not, a second.
    pub lower_per_s: Option<f64>,
    /// The smallest rate that was not kept, a second; null where the highest that was to be tried
    /// was kept.
    pub upper_per_s: Option<f64>,
    /// Whether it was the generator that gave out at the upper rate: then the target may keep more.
    pub generator_gave_out: bool,
    /// Every trial, in order.
    pub trials: Vec<RateTrial>,
}

/// One rate, for a while.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RateTrial {
    /// The rate that was intended, a second.
    pub offered_per_s: f64,
    /// Responses a second.
    pub achieved_per_s: f64,
    /// Whether it lasted long enough to be reported. Others only bracket the search.
    pub full: bool,
    /// What it showed.
    pub verdict: TrialVerdict,
    /// Requests that ended.
    pub requests: u64,
    /// Requests that failed, or had no response.
    pub errors: u64,
    /// The objective's quantile from the intended start, ms.
    pub latency_ms: Option<f64>,
    /// The same quantile from sending, ms.
    pub service_ms: Option<f64>,
    /// The median from the intended start, ms.
    pub p50_ms: Option<f64>,
}

/// What a trial showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TrialVerdict {
    /// The objective was kept.
    Kept,
    /// It was missed.
    Missed,
    /// The generator did not keep the rate.
    GeneratorLate,
}
