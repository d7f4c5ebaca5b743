//! Several generators that made one load together: which of them a result is of, and what each of
//! those had whose results were merged.

use serde::{Deserialize, Serialize};

use super::quantiles::Quantiles;

/// Which of several generators a result is of, and how its load began. Rates, requests, clients and
/// connections in it are this generator's own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RunShard {
    /// Its number, from 0.
    pub index: u32,
    /// How many generators made the load.
    pub count: u32,
    /// When the measured time was to begin, by the first generator's clock: RFC 3339, UTC. Null
    /// where it began at once.
    pub start_at: Option<String>,
    /// How long after that it began; null where it did not.
    #[serde(default)]
    pub late_ms: Option<f64>,
    /// How far this machine's clock was ahead of the first generator's, as found through the
    /// target; negative where it was behind. Null for the first one itself.
    #[serde(default)]
    pub clock_ahead_ms: Option<f64>,
    /// How far that may be from the truth: half of the shortest round trip.
    #[serde(default)]
    pub clock_within_ms: Option<f64>,
}

/// One generator of a merged result. One slow machine of eight is an eighth of all samples, and may
/// be the whole p99: that shows here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Generator {
    /// Which one, and how its load began.
    pub shard: RunShard,
    /// Host name.
    pub host: String,
    /// Logical CPUs that it could use.
    pub cores: u32,
    /// Its CPU time during the measured phase, in seconds.
    pub cpu_s: Option<f64>,
    /// Requests that ended, of the load that stands for the case.
    pub requests: u64,
    /// How many of them failed.
    pub errors: u64,
    /// Requests answered per second.
    pub requests_per_s: Option<f64>,
    /// From the intended start to the checked end.
    pub latency_ms: Option<Quantiles>,
    /// How late requests were sent; null in a closed loop.
    pub lag_ms: Option<Quantiles>,
}
