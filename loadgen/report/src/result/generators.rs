//! Several generators that produced one load together: which of them a result belongs to, and the
//! contribution of each generator to a merged result.

use serde::{Deserialize, Serialize};

use super::quantiles::Quantiles;

/// The generator, of several, that a result belongs to, and how its load began. Rates, requests,
/// clients and connections in the result are this generator's own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RunShard {
    /// Its number, from 0.
    pub index: u32,
    /// The number of generators that produced the load.
    pub count: u32,
    /// When the measured time was to begin, by the first generator's clock: RFC 3339, UTC. Null
    /// where it began at once.
    pub start_at: Option<String>,
    /// How long after `start_at` the load began, 0 where it was on time; null where it did not
    /// begin.
    #[serde(default)]
    pub late_ms: Option<f64>,
    /// How far this machine's clock was ahead of the first generator's, as measured through the
    /// target; negative where it was behind. Null for the first generator.
    #[serde(default)]
    pub clock_ahead_ms: Option<f64>,
    /// The largest error of `clock_ahead_ms`: half of the shortest round trip.
    #[serde(default)]
    pub clock_within_ms: Option<f64>,
}

/// One generator of a merged result. One slow machine of eight is an eighth of all samples, but it
/// may determine the p99: this struct shows which one it was.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Generator {
    /// The generator's number, and how its load began.
    pub shard: RunShard,
    /// Host name.
    pub host: String,
    /// Logical CPUs that the generator could use.
    pub cores: u32,
    /// CPU time of the generator during the measured phase, in seconds.
    pub cpu_s: Option<f64>,
    /// Requests that ended, of the load whose latency is the case's.
    pub requests: u64,
    /// How many of them failed.
    pub errors: u64,
    /// Requests answered per second.
    pub requests_per_s: Option<f64>,
    /// Latency from the intended start until the response was checked.
    pub latency_ms: Option<Quantiles>,
    /// How long after their intended times requests were sent; null in a closed loop.
    pub lag_ms: Option<Quantiles>,
}
