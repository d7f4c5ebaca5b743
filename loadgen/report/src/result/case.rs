//! One case of the report: a strategy on a target, with everything that was measured about it or
//! the reason why nothing was.

use serde::{Deserialize, Serialize};
use workloads::strategy::Tier;

use super::at_rest::AtRest;
use super::baseline::{Baseline, Spread};
use super::cpu_profile::{CpuProfile, PROFILED};
use super::load::Load;
use super::machine::MachineLoad;
use super::outcome::Outcome;
use super::quantiles::Quantiles;
use super::rounds::Round;
use super::saturation::Saturation;
use super::server::ServerFigures;
use super::server_start::ServerStart;
use super::shards::Sharding;
use super::warm_up::{Cold, WarmUp};

/// How far a checked list may be above the unchecked one of its round before a case counts as
/// limited by the client.
const CLIENT_LIMIT: f64 = 1.10;
/// Rounds below which nothing is said of it.
pub const LEAST_ROUNDS: usize = 3;

/// One strategy on one target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Case {
    /// What was listed: [`super::DataSet::name`].
    pub data_set: String,
    /// The target's name, as in [`super::ServerSetup::target`].
    pub target: String,
    /// Which protocol was spoken.
    #[cfg_attr(test, schemars(with = "String", extend("enum" = ["etcd", "kube"])))]
    pub tier: Tier,
    /// `unary`, `stream`, `paged:500`, …
    pub strategy: String,
    /// The case's name in its scenario, to which thresholds refer: the strategy and the case's own
    /// options.
    #[serde(default)]
    pub row: String,
    /// How the server encoded what it sent: `buffered`, `incremental`, `stream`, `json`,
    /// `protobuf`. Null when nothing was served.
    pub encoding: Option<String>,
    /// Which part of the server answered.
    pub served_from: ServedFrom,
    /// Clients listing, or sending small requests, at the same time; 1 in an open loop, whose
    /// schedule stands for any number.
    pub clients: u32,
    /// Connections that they share; null where each client has its own.
    #[serde(default)]
    pub connections: Option<u32>,
    /// Watchers that each put had to reach.
    #[serde(default)]
    pub watchers: Option<u32>,
    /// Largest HTTP/2 frame that the client accepted, where the case asks for another than the
    /// generator's own, in bytes.
    #[serde(default)]
    pub frame_bytes: Option<u32>,
    /// How a case of the Kubernetes tier differs from a plain one: encoding, HTTP version, reading
    /// speed, server flags.
    #[serde(default)]
    pub kube_options: Vec<String>,
    /// The network that was imitated between clients and servers: `rtt-20ms-at-100Mbit`; null where
    /// it was the one that is there.
    #[serde(default)]
    pub network: Option<String>,
    /// Small requests per second that were intended (open loop); null in a closed loop.
    #[serde(default)]
    pub offered_per_s: Option<f64>,
    /// How the rate of an open loop goes over time, where it is not one rate at random times:
    /// `ramp-100-to-5000-in-1m`.
    #[serde(default)]
    pub arrivals: Option<String>,
    /// The highest rate that keeps an objective, where the case searched for it. The case's other
    /// figures are then of the full trials at the rates that were kept, its memory and CPU of the
    /// whole search.
    #[serde(default)]
    pub saturation: Option<Saturation>,
    /// How the objects of small requests are picked, where not all have the same probability:
    /// `zipf-0.99`.
    #[serde(default)]
    pub keys: Option<String>,
    /// What ran beside the case.
    #[serde(default)]
    #[serde(rename = "beside")]
    pub background: Vec<BackgroundLoad>,
    /// The loads that ran together, where the case has several; its own latency and requests are
    /// then those of the first measured one, memory and CPU of all.
    #[serde(default)]
    pub loads: Vec<Load>,
    /// What the servers held at rest between rounds of the loads, where the case repeats them on
    /// the same servers; its other figures are then those of the last round.
    #[serde(default)]
    pub at_rest: Option<AtRest>,
    /// Whether this case was measured, and if not, why.
    pub outcome: Outcome,
    /// Objects in one list.
    pub objects: u64,
    /// Bytes of one list as received: keys, values and envelopes, before transport framing.
    pub bytes: u64,
    /// Lists completed in the measured phase, failed ones included.
    pub requests: u64,
    /// Lists that failed, or whose answer was wrong.
    pub errors: u64,
    /// True when every measured list passed its checks and the generator kept up.
    pub valid: bool,
    /// True when checking the answers, not the server, set the time: see
    /// [`Case::mark_client_limited`].
    pub client_limited: bool,
    /// How often a list was begun again at a new revision, since the server had compacted the one
    /// that it was reading.
    #[serde(default)]
    pub restarts: u32,
    /// Time of the tries that came to nothing, in all; it is in no other figure of time but the
    /// servers' and the client's CPU.
    #[serde(default)]
    pub restarted_ms: Option<f64>,
    /// How long the data set took to be written before the case; null where it was there already.
    #[serde(default)]
    pub seed_s: Option<f64>,
    /// The first list, before everything was warm; null where the case is no list, or was not
    /// warmed up.
    #[serde(default)]
    pub cold: Option<Cold>,
    /// The lists before the measured phase.
    #[serde(default)]
    pub warm_up: Option<WarmUp>,
    /// The rounds of the measured phase one by one, in order. A case of small requests is one
    /// round, each put to watchers is one.
    #[serde(default)]
    pub rounds: Vec<Round>,
    /// Each start of the servers by itself, where the case was measured on several: the other
    /// figures are then those of the start whose median time is the middle one. Empty where it was
    /// measured on one.
    #[serde(default)]
    pub starts: Vec<ServerStart>,
    /// Whether the target kept less than 99 % of the rate of an open loop. Times are then those of
    /// a queue that grows for as long as the load lasts, and what it refused for the load is among
    /// `errors`.
    #[serde(default)]
    pub saturated: bool,
    /// Time of one whole list, small request or event at a watcher, from its intended start to its
    /// checked end.
    pub latency_ms: Option<Quantiles>,
    /// The same requests from when they were really sent (open loop): what a generator that waits
    /// would have seen.
    #[serde(default)]
    pub service_ms: Option<Quantiles>,
    /// Small requests answered per second of the measured phase.
    #[serde(default)]
    pub requests_per_s: Option<f64>,
    /// The same list read by a client that checks nothing.
    pub null_sink_ms: Option<Quantiles>,
    /// Time of a checked list over that of an unchecked one, interleaved: one value for each round.
    /// Null in results from before they were taken so.
    #[serde(default)]
    pub checking_ratio: Option<Spread>,
    /// The list interleaved with a baseline of its bytes; null where the case does not want it,
    /// where there was no memory for them, and on a target that loadgen did not start.
    #[serde(default)]
    #[serde(rename = "yardstick")]
    pub baseline: Option<Baseline>,
    /// Time from the start of a list to its first chunk with an object, from lists cancelled after
    /// it.
    pub first_chunk_ms: Option<Quantiles>,
    /// Chunks, pages or frames with objects in one list.
    pub chunks: Option<u64>,
    /// `bytes` of all measured lists over the wall-clock time of the measured phase.
    pub throughput_bytes_per_s: Option<f64>,
    /// What it cost the server.
    pub server: Option<ServerFigures>,
    /// What it cost the generator.
    pub client: Option<ClientFigures>,
    /// Figures of the servers or the generator that could not be read, each with the reason; empty
    /// where all are there.
    #[serde(default)]
    pub missing_figures: Vec<String>,
    /// What else the machine did meanwhile.
    #[serde(default)]
    pub machine: Option<MachineLoad>,
    /// Where the servers' CPU time went, where that was asked for: an entry for each server.
    #[serde(default)]
    pub profiles: Vec<CpuProfile>,
    /// What each worker had, where several share the objects.
    #[serde(default)]
    pub shards: Option<Sharding>,
    /// What was received and checked in one list.
    pub verified: Option<Verified>,
    /// Error texts seen, most frequent first, at most a few.
    pub error_samples: Vec<String>,
}

impl Case {
    /// Returns a case that has not been measured: every figure absent. The driver fills in what it
    /// learns.
    #[must_use]
    pub fn new(data_set: &str, target: &str, tier: Tier, strategy: &str, outcome: Outcome) -> Self {
        Self {
            data_set: data_set.to_owned(),
            target: target.to_owned(),
            tier,
            strategy: strategy.to_owned(),
            row: String::new(),
            encoding: None,
            served_from: ServedFrom::Unknown,
            clients: 1,
            connections: None,
            watchers: None,
            frame_bytes: None,
            kube_options: Vec::new(),
            network: None,
            offered_per_s: None,
            arrivals: None,
            saturation: None,
            keys: None,
            background: Vec::new(),
            loads: Vec::new(),
            at_rest: None,
            outcome,
            objects: 0,
            bytes: 0,
            requests: 0,
            errors: 0,
            valid: false,
            client_limited: false,
            restarts: 0,
            restarted_ms: None,
            seed_s: None,
            cold: None,
            warm_up: None,
            rounds: Vec::new(),
            starts: Vec::new(),
            saturated: false,
            latency_ms: None,
            service_ms: None,
            requests_per_s: None,
            null_sink_ms: None,
            checking_ratio: None,
            baseline: None,
            first_chunk_ms: None,
            chunks: None,
            throughput_bytes_per_s: None,
            server: None,
            client: None,
            missing_figures: Vec::new(),
            machine: None,
            profiles: Vec::new(),
            shards: None,
            verified: None,
            error_samples: Vec::new(),
        }
    }

    /// Takes what a checked list took over an unchecked one in each round. The case is
    /// `client_limited` when checking adds more than 10 % by the median of at least three rounds;
    /// where that median may lie is in `checking_ratio`.
    pub fn mark_client_limited(&mut self, ratios: &[f64]) {
        self.checking_ratio = Spread::of(ratios.iter().copied());
        self.client_limited = ratios.len() >= LEAST_ROUNDS
            && self
                .checking_ratio
                .is_some_and(|ratio| ratio.p50 > CLIENT_LIMIT);
    }

    /// Returns whether the case has numbers that may be ranked against others. Those of a profiled
    /// case include the profiler's cost, which differs from target to target.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.valid && self.outcome == Outcome::Measured && !self.is_profiled()
    }

    /// Returns whether a profiler ran while the case was measured.
    #[must_use]
    pub fn is_profiled(&self) -> bool {
        self.profiles.iter().any(CpuProfile::has_run)
    }

    /// Returns why a case that does not [count](Case::counts) does not.
    #[must_use]
    pub fn refusal(&self) -> &str {
        match &self.outcome {
            Outcome::Measured if self.valid && self.is_profiled() => PROFILED,
            Outcome::Measured if self.errors > 0 => "some lists failed or were wrong",
            other => other.reason().unwrap_or("not valid"),
        }
    }

    /// Returns each start of the servers that the case was measured on: [`Case::starts`], or the
    /// one start that the case's own figures are of.
    #[must_use]
    pub fn server_starts(&self) -> Vec<ServerStart> {
        match self.starts.as_slice() {
            [] => vec![ServerStart::of(self)],
            starts => starts.to_vec(),
        }
    }

    /// Returns what identifies the case within its run: `data set/target/tier/strategy`, the
    /// clients where there are several, and [`Case::options`].
    #[must_use]
    pub fn id(&self) -> String {
        let Self {
            data_set, target, ..
        } = self;
        format!("{data_set}/{target}/{}", self.work())
    }

    /// Returns what was done, without the data and the target: `tier/strategy`, the clients where
    /// there are several, and [`Case::options`].
    #[must_use]
    pub fn work(&self) -> String {
        let Self {
            tier,
            strategy,
            clients,
            ..
        } = self;
        let mut id = format!("{tier}/{strategy}");
        if *clients > 1 {
            id.push_str(&format!("/{clients}-clients"));
        }
        for option in self.options() {
            id.push('/');
            id.push_str(&option.replace(' ', "-"));
        }
        id
    }

    /// Returns what else sets the case apart from others of its strategy, in words.
    #[must_use]
    pub fn options(&self) -> Vec<String> {
        let mut options = Vec::new();
        options.extend(self.watchers.map(|n| format!("{n} watchers")));
        options.extend(self.connections.map(|n| format!("{n} connections")));
        let frame = self.frame_bytes.map(workloads::scenario::ByteSize);
        options.extend(frame.map(|size| format!("{size} frames")));
        options.extend(match &self.arrivals {
            Some(arrivals) => Some(arrivals.clone()),
            None => self.offered_per_s.map(|rate| format!("{rate} per second")),
        });
        options.extend(self.keys.clone());
        options.extend(self.kube_options.iter().cloned());
        options.extend(self.network.clone());
        options.extend(
            self.background
                .iter()
                .map(|load| format!("beside {}", load.name)),
        );
        options
    }
}

/// A load that ran beside a case.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BackgroundLoad {
    /// Its name in the scenario.
    pub name: String,
    /// What it did.
    pub strategy: String,
    /// Clients of it, or watchers.
    pub clients: u32,
    /// Small requests per second that it intended; null where each waits for its answer.
    pub offered_per_s: Option<f64>,
    /// Lists, small requests or events while the case was measured.
    pub requests: u64,
    /// How many of them failed.
    pub errors: u64,
}

/// Which part of the server answered, as the server itself says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ServedFrom {
    /// The store that holds the data.
    Store,
    /// A watch cache in front of it.
    WatchCache,
    /// The server does not tell.
    Unknown,
}

/// What a case cost its clients: the generator's own process, or the programs that listed in its
/// place.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ClientFigures {
    /// The program that listed, as `clientv3 3.7.1`; null where that was the generator, which
    /// `cpu_s` and `rss_peak` are about then.
    #[serde(default)]
    pub program: Option<String>,
    /// CPU time of the generator during the measured phase; of a program, during its lists. Null
    /// where it could not be read, as [`Case::missing_figures`] says then.
    pub cpu_s: Option<f64>,
    /// `cpu_s` over the requests of that phase.
    #[serde(default)]
    pub cpu_s_per_request: Option<f64>,
    /// Highest resident size in that phase, in bytes; of several programs, that of the largest.
    /// Null as `cpu_s`.
    pub rss_peak: Option<u64>,
    /// Private memory of the generator late in that phase over early in it, as
    /// [`super::ServerFigures::late_over_early`]; also null of other programs, and where events are
    /// kept until the end.
    #[serde(default)]
    pub late_over_early: Option<f64>,
    /// Where that ratio may lie.
    #[serde(default)]
    pub late_over_early_likely: Option<[f64; 2]>,
    /// The longest time that the pacing thread was kept from its CPU when it should have sent; null
    /// in a closed loop.
    #[serde(default)]
    pub stall_ms: Option<f64>,
    /// How late requests were sent after their intended time; null in a closed loop, which intends
    /// none.
    pub lag_ms: Option<Quantiles>,
}

/// What one list was found to hold, computed from what was received.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Verified {
    /// Objects received.
    pub objects: u64,
    /// Keys and values received, in bytes.
    pub bytes: u64,
    /// Fingerprint of the keys and values, in hexadecimal, to be compared with
    /// [`super::DataSet::fingerprint`] where the whole set was asked for.
    pub fingerprint: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_client_limited_when_checking_adds_more_than_a_tenth() {
        let limited = |ratios: &[f64]| {
            let mut case = Case::new("pods", "bench", Tier::Etcd, "stream", Outcome::Measured);
            // Of five clients in each round, which are no rounds.
            case.null_sink_ms = Some(Quantiles {
                n: 5 * ratios.len() as u64,
                ..Quantiles::default()
            });
            case.mark_client_limited(ratios);
            case.client_limited
        };
        assert!(limited(&[1.12, 1.3, 1.2]));
        assert!(limited(&[1.0, 1.3, 1.2]), "the median decides");
        assert!(!limited(&[1.1, 1.0, 1.3]), "and not the largest");
        assert!(!limited(&[1.3, 1.3]), "of two rounds nothing is said");
        assert!(!limited(&[]), "without a null sink nothing can be said");
        let one_disturbed = [1.2, 1.2, 1.2, 1.3, 1.3, 1.3, 1.2, 1.2, 1.2, 0.4];
        assert!(limited(&one_disturbed), "a median of many holds");
    }
}
