//! One case of the report: a strategy on a target, with everything that was measured about it or
//! the reason why nothing was measured.

use serde::{Deserialize, Serialize};
use workloads::strategy::Tier;

use super::at_rest::AtRest;
use super::baseline::Baseline;
use super::cpu_profile::{CpuProfile, PROFILED};
use super::load::Load;
use super::machine::MachineLoad;
use super::outcome::Outcome;
use super::quantiles::Quantiles;
use super::rounds::Round;
use super::saturation::Saturation;
use super::server::ServerMetrics;
use super::server_start::ServerStart;
use super::shards::Sharding;
use super::spread::Spread;
use super::warm_up::{Cold, WarmUp};

/// The ratio of a checked list's time to the unchecked list's of the same round, above which a case
/// counts as limited by the client.
const CLIENT_LIMIT: f64 = 1.10;
/// The fewest rounds from which `client_limited` is concluded.
pub const MIN_ROUNDS: usize = 3;

/// One strategy on one target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Case {
    /// The name of the data set that was listed: [`super::DataSet::name`].
    pub data_set: String,
    /// The target's name, as in [`super::ServerSetup::target`].
    pub target: String,
    /// The protocol that the client used.
    #[cfg_attr(test, schemars(with = "String", extend("enum" = ["etcd", "kube"])))]
    pub tier: Tier,
    /// `unary`, `stream`, `paged:500`, …
    pub strategy: String,
    /// The case's name in its scenario, to which thresholds refer: the strategy and the case's own
    /// options.
    #[serde(default)]
    pub row: String,
    /// How the server encoded its responses: `buffered`, `incremental`, `stream`, `json`,
    /// `protobuf`. Null when nothing was served.
    pub encoding: Option<String>,
    /// The part of the server that served the requests.
    pub served_from: ServedFrom,
    /// Clients listing, or sending small requests, at the same time. It is 1 in an open loop, whose
    /// schedule stands for any number of clients.
    pub clients: u32,
    /// Connections that they share; null where each client has its own.
    #[serde(default)]
    pub connections: Option<u32>,
    /// Watchers that each put had to reach.
    #[serde(default)]
    pub watchers: Option<u32>,
    /// Largest HTTP/2 frame that the client accepted, in bytes; null where the case uses the
    /// generator's default.
    #[serde(default)]
    pub frame_bytes: Option<u32>,
    /// How a case of the Kubernetes tier differs from the default: encoding, HTTP version, reading
    /// speed, server flags.
    #[serde(default)]
    pub kube_options: Vec<String>,
    /// The emulated network between clients and servers, as `rtt-20ms-at-100Mbit`; null where none
    /// was emulated.
    #[serde(default)]
    pub network: Option<String>,
    /// Small requests per second that were intended (open loop); null in a closed loop.
    #[serde(default)]
    pub offered_per_s: Option<f64>,
    /// How the rate of an open loop changes over time, as `ramp-100-to-5000-in-1m`; null where it
    /// is one rate with random arrival times.
    #[serde(default)]
    pub arrivals: Option<String>,
    /// The highest rate that meets an objective, where the case searched for it. The case's latency
    /// and requests are then those of the full trials at the rates that met it, its memory and CPU
    /// those of the whole search.
    #[serde(default)]
    pub saturation: Option<Saturation>,
    /// How the objects of small requests are picked, where not all have the same probability, as
    /// `zipf-0.99`.
    #[serde(default)]
    pub keys: Option<String>,
    /// The background loads that ran during the case.
    #[serde(default)]
    #[serde(rename = "beside")]
    pub background: Vec<BackgroundLoad>,
    /// The loads that ran together, where the case has several. The case's own latency and requests
    /// are then those of the first measured load, its memory and CPU those of all.
    #[serde(default)]
    pub loads: Vec<Load>,
    /// What the servers held at rest between rounds of the loads, where the case repeats them on
    /// the same servers. The case's other metrics are then those of the last round.
    #[serde(default)]
    pub at_rest: Option<AtRest>,
    /// Whether this case was measured, and if not, why.
    pub outcome: Outcome,
    /// Objects in one list.
    pub objects: u64,
    /// Bytes of one list as received: keys, values and envelopes, before transport framing.
    pub bytes: u64,
    /// Lists completed in the measured phase, including failed ones.
    pub requests: u64,
    /// Lists that failed, or whose response was wrong.
    pub errors: u64,
    /// True when every measured list passed its checks and the generator kept up.
    pub valid: bool,
    /// True when checking the responses, not the server, determined the time: see
    /// [`Case::mark_client_limited`].
    pub client_limited: bool,
    /// How often a list was restarted at a new revision because the server had compacted the
    /// revision that the list was reading.
    #[serde(default)]
    pub restarts: u32,
    /// Total time of the abandoned attempts. No other time includes it; the CPU times of the
    /// servers and of the client do.
    #[serde(default)]
    pub restarted_ms: Option<f64>,
    /// How long it took to write the data set before the case; null where it was there already.
    #[serde(default)]
    pub seed_s: Option<f64>,
    /// The first list, before caches and memory were warm; null where the case is not a list, or
    /// was not warmed up.
    #[serde(default)]
    pub cold: Option<Cold>,
    /// The lists before the measured phase.
    #[serde(default)]
    pub warm_up: Option<WarmUp>,
    /// The rounds of the measured phase, in order. A case of small requests is one round. In a case
    /// of watchers, each put is one round.
    #[serde(default)]
    pub rounds: Vec<Round>,
    /// Each start of the servers by itself, where the case was measured on several. The other
    /// metrics are then those of the start with the middle median time. Empty where the case was
    /// measured on one start.
    #[serde(default)]
    pub starts: Vec<ServerStart>,
    /// Whether the target achieved less than 99 % of the rate of an open loop. The times are then
    /// those of a queue that grows for as long as the load lasts, and requests that the target
    /// refused because of the load count as `errors`.
    #[serde(default)]
    pub saturated: bool,
    /// Time of one whole list, small request or event at a watcher, from its intended start until
    /// it was completely received and checked.
    pub latency_ms: Option<Quantiles>,
    /// The times of the same requests from when they were really sent (open loop): what a generator
    /// that waits for each response would have recorded.
    #[serde(default)]
    pub service_ms: Option<Quantiles>,
    /// Small requests that were answered per second of the measured phase.
    #[serde(default)]
    pub requests_per_s: Option<f64>,
    /// Time of the same list, unchecked: read by a client that verifies nothing.
    pub null_sink_ms: Option<Quantiles>,
    /// Time of a checked list divided by that of an unchecked one, interleaved: one value for each
    /// round. Null in results whose checked and unchecked lists were not interleaved.
    #[serde(default)]
    pub checking_ratio: Option<Spread>,
    /// The list interleaved with a baseline of its bytes; null where the case does not ask for one,
    /// where memory did not suffice, and on a target that loadgen did not start.
    #[serde(default)]
    #[serde(rename = "yardstick")]
    pub baseline: Option<Baseline>,
    /// Time from the start of a list to its first chunk with an object. Measured with lists that
    /// are cancelled after that chunk.
    pub first_chunk_ms: Option<Quantiles>,
    /// The longest time in a list in which no object arrived, after the first one and up to the
    /// list's end, checks of objects included: one value for each measured list. Null where a
    /// program outside of loadgen lists, where a list has no objects, and in results from before it
    /// was measured.
    #[serde(default)]
    pub longest_gap_ms: Option<Quantiles>,
    /// Chunks, pages or frames with objects in one list.
    pub chunks: Option<u64>,
    /// `bytes` of all measured lists divided by the wall-clock time of the measured phase.
    pub throughput_bytes_per_s: Option<f64>,
    /// The servers' memory, CPU time and counters.
    pub server: Option<ServerMetrics>,
    /// The CPU time, memory and delays of the generator or of the client program.
    pub client: Option<ClientMetrics>,
    /// Metrics of the servers or of the generator that could not be read, each with the reason;
    /// empty where all were read.
    #[serde(default)]
    pub missing_figures: Vec<String>,
    /// Other activity on the machine during the measured phase.
    #[serde(default)]
    pub machine: Option<MachineLoad>,
    /// The servers' CPU profiles, where the scenario asks for them: one entry for each server.
    #[serde(default)]
    pub profiles: Vec<CpuProfile>,
    /// The share of each worker, where several share the objects.
    #[serde(default)]
    pub shards: Option<Sharding>,
    /// What was received and checked in one list.
    pub verified: Option<Verified>,
    /// At most a few error texts, the most frequent first.
    pub error_samples: Vec<String>,
}

impl Case {
    /// Returns a case that has not been measured: every metric is absent. The run driver fills them
    /// in.
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
            longest_gap_ms: None,
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

    /// Records the ratios of the checked list's time to the unchecked list's, one for each round.
    /// The case is `client_limited` when checking adds more than 10 % by the median of at least
    /// three rounds. The confidence interval of that median is in `checking_ratio`.
    pub fn mark_client_limited(&mut self, ratios: &[f64]) {
        self.checking_ratio = Spread::of(ratios.iter().copied());
        self.client_limited = ratios.len() >= MIN_ROUNDS
            && self
                .checking_ratio
                .is_some_and(|ratio| ratio.p50 > CLIENT_LIMIT);
    }

    /// Returns whether the case has numbers that may be ranked against those of others. Those of a
    /// profiled case include the profiler's cost, which differs from target to target.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.valid && self.outcome == Outcome::Measured && !self.is_profiled()
    }

    /// Returns whether a profiler ran while the case was measured.
    #[must_use]
    pub fn is_profiled(&self) -> bool {
        self.profiles.iter().any(CpuProfile::has_run)
    }

    /// Returns why a case does not [count](Case::counts).
    #[must_use]
    pub fn refusal(&self) -> &str {
        match &self.outcome {
            Outcome::Measured if self.valid && self.is_profiled() => PROFILED,
            Outcome::Measured if self.errors > 0 => "some lists failed or were wrong",
            other => other.reason().unwrap_or("not valid"),
        }
    }

    /// Returns each start of the servers that the case was measured on: [`Case::starts`], or the
    /// only start, made from the case's own metrics.
    #[must_use]
    pub fn server_starts(&self) -> Vec<ServerStart> {
        match self.starts.as_slice() {
            [] => vec![ServerStart::of(self)],
            starts => starts.to_vec(),
        }
    }

    /// Returns the case's identity within its run: `data set/target/tier/strategy`, the clients
    /// where there are several, and [`Case::options`].
    #[must_use]
    pub fn id(&self) -> String {
        let Self {
            data_set, target, ..
        } = self;
        format!("{data_set}/{target}/{}", self.work())
    }

    /// Returns the case's identity without data set and target: `tier/strategy`, the clients where
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

    /// Returns the other settings that distinguish the case from others of its strategy, as text.
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

/// Returns the targets of cases, in the order of their first cases.
pub(crate) fn targets_of<'a>(cases: impl IntoIterator<Item = &'a Case>) -> Vec<&'a str> {
    let mut targets = Vec::new();
    for case in cases {
        if !targets.contains(&case.target.as_str()) {
            targets.push(&case.target);
        }
    }
    targets
}

/// A background load that ran during a case.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BackgroundLoad {
    /// Its name in the scenario.
    pub name: String,
    /// The strategy or operation that it ran.
    pub strategy: String,
    /// The number of its clients, or watchers.
    pub clients: u32,
    /// Small requests per second that were intended; null in a closed loop.
    pub offered_per_s: Option<f64>,
    /// Lists, small requests or events while the case was measured.
    pub requests: u64,
    /// How many of them failed.
    pub errors: u64,
}

/// The part of the server that served the requests, as the server reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ServedFrom {
    /// The store that holds the data.
    Store,
    /// A watch cache in front of the store.
    WatchCache,
    /// The server does not report it.
    Unknown,
}

/// The cost of a case on the client side: of the generator's own process, or of the programs that
/// listed in its place.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ClientMetrics {
    /// The program that listed, as `clientv3 3.7.1`; null where the generator listed. `cpu_s` and
    /// `rss_peak` are those of the program or of the generator, accordingly.
    #[serde(default)]
    pub program: Option<String>,
    /// CPU time of the generator during the measured phase, or of a program during its lists. Null
    /// where it could not be read; [`Case::missing_figures`] then gives the reason.
    pub cpu_s: Option<f64>,
    /// `cpu_s` divided by the requests of that phase.
    #[serde(default)]
    pub cpu_s_per_request: Option<f64>,
    /// Highest resident size in that phase, in bytes; of several programs, that of the largest.
    /// Null as `cpu_s`.
    pub rss_peak: Option<u64>,
    /// Private memory of the generator late in that phase divided by that early in it, as
    /// [`super::ServerMetrics::late_over_early`]. Also null for other programs, and where the
    /// generator keeps events until the end.
    #[serde(default)]
    pub late_over_early: Option<f64>,
    /// The 95 % confidence interval of `late_over_early`.
    #[serde(default)]
    pub late_over_early_likely: Option<[f64; 2]>,
    /// The longest time that the pacing thread was kept from its CPU when it should have sent; null
    /// in a closed loop.
    #[serde(default)]
    pub stall_ms: Option<f64>,
    /// How long after their intended times requests were sent; null in a closed loop, which has no
    /// intended times.
    pub lag_ms: Option<Quantiles>,
}

/// The contents of one list, computed from what was received.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Verified {
    /// Objects received.
    pub objects: u64,
    /// Keys and values received, in bytes.
    pub bytes: u64,
    /// Fingerprint of the keys and values, in hexadecimal. It must equal
    /// [`super::DataSet::fingerprint`] where the whole data set was listed.
    pub fingerprint: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_client_limited_when_checking_adds_more_than_a_tenth() {
        let limited = |ratios: &[f64]| {
            let mut case = Case::new("pods", "bench", Tier::Etcd, "stream", Outcome::Measured);
            // The samples of five clients in each round: their number is not the number of rounds.
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
        assert!(!limited(&[1.3, 1.3]), "two rounds are too few");
        assert!(!limited(&[]), "without unchecked lists");
        let one_disturbed = [1.2, 1.2, 1.2, 1.3, 1.3, 1.3, 1.2, 1.2, 1.2, 0.4];
        assert!(limited(&one_disturbed), "a median of many holds");
    }
}
