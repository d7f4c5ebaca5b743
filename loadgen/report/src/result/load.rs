//! The loads of a case: what ran together.

use serde::{Deserialize, Serialize};

use super::baseline::Spread;
use super::quantiles::Quantiles;

/// One load of a case.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Load {
    /// Its name in the scenario.
    pub name: String,
    /// What it does: `put`, `update 90, create 5, delete 5`, `list by stream`, `watch`.
    pub operation: String,
    /// When: `closed`, or the rate of its schedule over time.
    pub arrivals: String,
    /// Which objects small requests are about, where not all have the same probability:
    /// `zipf-0.99`.
    pub keys: Option<String>,
    /// Clients that wait in a closed loop, lists at the same time, or watchers; 1 for small
    /// requests in an open loop, whose schedule stands for any number.
    pub clients: u32,
    /// Connections that they share; null where each client has its own.
    pub connections: Option<u32>,
    /// False where it is only there to be in the way.
    pub measured: bool,
    /// When it began and ended, in seconds from the beginning of the measured time.
    pub window_s: [f64; 2],
    /// Requests per second that were intended; null in a closed loop.
    pub offered_per_s: Option<f64>,
    /// Requests per second that were answered.
    pub achieved_per_s: Option<f64>,
    /// Requests or lists that ended; writes whose events were timed, for watchers.
    pub requests: u64,
    /// How many of them failed, were answered wrongly, or not at all.
    pub errors: u64,
    /// How many of those the server refused since it had too many.
    #[serde(default)]
    pub refused: u64,
    /// How many of those had no answer when the load was over, or before the server gave up.
    #[serde(default)]
    pub unanswered: u64,
    /// Transactions that wrote nothing since the key had changed, and were sent again; the
    /// request's time went on.
    pub conflicts: u64,
    /// Responses that put a request off (429): it was sent again after the pause that they ask for,
    /// and its time went on.
    #[serde(default)]
    pub throttled: u64,
    /// Events at all watchers together.
    pub events: Option<u64>,
    /// Events, at all watchers together, of objects that no load of the run had made: they are read
    /// and not timed.
    #[serde(default)]
    pub foreign_events: u64,
    /// How each watcher fared, where they were several.
    pub watchers: Option<WatcherSpread>,
    /// For how long streams of watchers were cut, until all their watchers were confirmed again.
    pub cut_ms: Option<Quantiles>,
    /// How many of these cuts were not part of the load: the server ended a stream, or its
    /// connection broke. The watchers went on behind the revision that they had, at another member
    /// where there is one.
    #[serde(default)]
    pub lost_streams: u64,
    /// How often a watcher listed again, since the events that it was to go on with were compacted
    /// (410 of a Kubernetes API).
    #[serde(default)]
    pub relists: u64,
    /// Writes whose events watchers did not get since, at all watchers together. They have no time.
    #[serde(default)]
    pub missed_events: u64,
    /// How often a list was begun again since the server had compacted what it was reading.
    pub restarts: u32,
    /// Whether the target kept less than 99 % of the rate of an open loop.
    pub saturated: bool,
    /// Why its figures say nothing of the target; null where they do.
    pub invalid: Option<String>,
    /// From the intended start to the checked end; for watchers, from the intended start of a write
    /// to its event.
    pub latency_ms: Option<Quantiles>,
    /// From sending to the end (open loop): what a generator that waits would have seen.
    pub service_ms: Option<Quantiles>,
    /// How late requests were sent (open loop).
    pub lag_ms: Option<Quantiles>,
    /// From the call to the first object, of lists.
    pub first_object_ms: Option<Quantiles>,
    /// Each kind of request by itself, in a mix.
    pub kinds: Vec<LoadKind>,
    /// Error texts seen, most frequent first, at most a few.
    pub error_samples: Vec<String>,
}

/// How different the watchers of a load fared.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WatcherSpread {
    /// Of each watcher's median; null where they had too few events for one.
    pub p50_ms: Option<Spread>,
    /// Of each watcher's 99th percentile, likewise.
    pub p99_ms: Option<Spread>,
    /// The ten watchers whose slowest event took longest, that one first.
    pub slowest: Vec<WatcherTimes>,
}

/// The times of one watcher's events.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WatcherTimes {
    /// Its number among the watchers of its load, from 0, those of other generators included.
    pub number: u32,
    /// The generator that has it; null where there is no other.
    #[serde(default)]
    pub generator: Option<u32>,
    /// Its median.
    pub p50_ms: Option<f64>,
    /// Its 99th percentile.
    pub p99_ms: Option<f64>,
    /// Its slowest event.
    pub max_ms: f64,
}

/// The requests of one kind, in a mix.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LoadKind {
    /// What they do.
    pub operation: String,
    /// How many ended.
    pub requests: u64,
    /// How many of them failed.
    pub errors: u64,
    /// How many transactions wrote nothing since the key had changed, and were sent again.
    pub conflicts: u64,
    /// From the intended start to the end.
    pub latency_ms: Option<Quantiles>,
}
