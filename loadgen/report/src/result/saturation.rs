//! The search for the highest rate that meets an objective.

use serde::{Deserialize, Serialize};

/// The result of the searches of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Saturation {
    /// The objective, as `p99=10ms`. It applies to latency from the intended start. Failed requests
    /// count as slower than the objective.
    pub objective: String,
    /// The highest rate that met the objective, per second: the median of the searches' lower
    /// bounds; null where no search found one.
    pub kept_per_s: Option<f64>,
    /// The searches, in order, all on one start of the servers.
    pub searches: Vec<RateSearch>,
}

/// One search for the highest rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RateSearch {
    /// The largest rate that met the objective and is below every rate that did not, per second.
    pub lower_per_s: Option<f64>,
    /// The smallest rate that did not meet the objective, per second; null where the highest rate
    /// that the search may try met it.
    pub upper_per_s: Option<f64>,
    /// Whether the generator, not the target, failed at the upper rate. The target may then sustain
    /// more.
    pub generator_gave_out: bool,
    /// Every trial, in order.
    pub trials: Vec<RateTrial>,
}

/// One rate, offered for a limited time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RateTrial {
    /// The intended rate, per second.
    pub offered_per_s: f64,
    /// Responses per second.
    pub achieved_per_s: f64,
    /// Whether the trial was long enough to be reported. The others only narrow the search.
    pub full: bool,
    /// Whether the trial met the objective.
    pub verdict: TrialVerdict,
    /// Requests that ended.
    pub requests: u64,
    /// Requests that failed, or had no response.
    pub errors: u64,
    /// The objective's quantile, measured from the intended start, in ms.
    pub latency_ms: Option<f64>,
    /// The same quantile, measured from when requests were sent, in ms.
    pub service_ms: Option<f64>,
    /// The median, measured from the intended start, in ms.
    pub p50_ms: Option<f64>,
}

/// Whether a trial met the objective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TrialVerdict {
    /// The objective was met.
    Kept,
    /// It was missed.
    Missed,
    /// The generator did not keep the rate.
    GeneratorLate,
}
