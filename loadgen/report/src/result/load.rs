//! The loads that ran together in a case.

use serde::{Deserialize, Serialize};

use super::quantiles::Quantiles;
use super::spread::Spread;

/// One load of a case.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Load {
    /// Its name in the scenario.
    pub name: String,
    /// The load's operation: `put`, `update 90, create 5, delete 5`, `list by stream`, `watch`.
    pub operation: String,
    /// Its arrivals: `closed`, `closed-thinking-50ms`, or the rate of its schedule over time.
    pub arrivals: String,
    /// How the objects of small requests are picked, where not all have the same probability, as
    /// `zipf-0.99`.
    pub keys: Option<String>,
    /// Clients in a closed loop, concurrent lists, or watchers. It is 1 for small requests in an
    /// open loop, whose schedule stands for any number of clients.
    pub clients: u32,
    /// Connections that they share; null where each client has its own.
    pub connections: Option<u32>,
    /// False for a load that only runs in the background.
    pub measured: bool,
    /// When the load began and ended, in seconds from the beginning of the measured phase.
    pub window_s: [f64; 2],
    /// Requests per second that were intended; null in a closed loop.
    pub offered_per_s: Option<f64>,
    /// Requests per second that were answered.
    pub achieved_per_s: Option<f64>,
    /// Requests or lists that ended; writes whose events were timed, for watchers.
    pub requests: u64,
    /// How many of them failed, or had a wrong response or none.
    pub errors: u64,
    /// How many of those the server refused because it had too many requests.
    #[serde(default)]
    pub refused: u64,
    /// How many of those had no response in time: none when the load ended, or none before the
    /// server's own timeout.
    #[serde(default)]
    pub unanswered: u64,
    /// Transactions that wrote nothing because the key had changed, and were sent again. The
    /// request's time includes the retries.
    pub conflicts: u64,
    /// Responses that postponed a request (429). It was sent again after the pause that they ask
    /// for, and its time includes the pause.
    #[serde(default)]
    pub throttled: u64,
    /// Events at all watchers together.
    pub events: Option<u64>,
    /// Events, at all watchers together, of objects that no load of the run had written. They are
    /// read but not timed.
    #[serde(default)]
    pub foreign_events: u64,
    /// How much the watchers differ, where there are several.
    pub watchers: Option<WatcherSpread>,
    /// How long streams of watchers were cut, until all their watchers were confirmed again.
    pub cut_ms: Option<Quantiles>,
    /// How many of these cuts were not part of the load: the server ended a stream, or its
    /// connection broke. The watchers resumed after the revision that they had, at another member
    /// where there is one.
    #[serde(default)]
    pub lost_streams: u64,
    /// How often a watcher listed again because the events after its revision were compacted (410
    /// of a Kubernetes API).
    #[serde(default)]
    pub relists: u64,
    /// Writes whose events watchers missed because of that, at all watchers together. They have no
    /// latency.
    #[serde(default)]
    pub missed_events: u64,
    /// How often a list was restarted because the server had compacted the revision that the list
    /// was reading.
    pub restarts: u32,
    /// Whether the target kept less than 99 % of the rate of an open loop.
    pub saturated: bool,
    /// Why the load's metrics say nothing about the target; null where they are valid.
    pub invalid: Option<String>,
    /// Latency from the intended start until the response was checked; for watchers, from the
    /// intended start of a write until its event.
    pub latency_ms: Option<Quantiles>,
    /// Time from sending a request to its end (open loop): what a generator that waits for each
    /// response would have recorded.
    pub service_ms: Option<Quantiles>,
    /// How long after their intended times requests were sent (open loop).
    pub lag_ms: Option<Quantiles>,
    /// Time from the call to the first object, for lists.
    pub first_object_ms: Option<Quantiles>,
    /// The longest time in a list in which no object arrived, after the first one and up to the
    /// list's end, checks of objects included.
    #[serde(default)]
    pub longest_gap_ms: Option<Quantiles>,
    /// Each kind of request by itself, in a weighted mix.
    pub kinds: Vec<LoadKind>,
    /// At most a few error texts, the most frequent first.
    pub error_samples: Vec<String>,
}

/// How much the watchers of a load differ.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WatcherSpread {
    /// The spread of the watchers' medians; null where they had too few events for a median.
    pub p50_ms: Option<Spread>,
    /// The spread of the watchers' 99th percentiles, likewise.
    pub p99_ms: Option<Spread>,
    /// The ten watchers with the slowest events, slowest first.
    pub slowest: Vec<WatcherTimes>,
}

/// The times of one watcher's events.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WatcherTimes {
    /// The watcher's number within its load, from 0, counting the watchers of other generators too.
    pub number: u32,
    /// The generator that runs the watcher; null where there is only one generator.
    #[serde(default)]
    pub generator: Option<u32>,
    /// The median.
    pub p50_ms: Option<f64>,
    /// The 99th percentile.
    pub p99_ms: Option<f64>,
    /// The slowest event.
    pub max_ms: f64,
}

/// The requests of one kind, in a weighted mix.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LoadKind {
    /// The operation.
    pub operation: String,
    /// Requests that ended.
    pub requests: u64,
    /// How many of them failed.
    pub errors: u64,
    /// Transactions that wrote nothing because the key had changed, and were sent again.
    pub conflicts: u64,
    /// Latency from the intended start to the end.
    pub latency_ms: Option<Quantiles>,
}
