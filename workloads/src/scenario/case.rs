//! The cases of a scenario, each with one strategy and its options.
//!
//! In a file a case is the name of a strategy, or a table with options: `etcd = ["stream", {
//! strategy = "stream", clients = 5 }]` ([`in_file`]). [`options`] checks which options a strategy
//! takes.

mod in_file;
mod options;

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::loads::LoadsSpec;
use super::network::Network;
use super::saturate::Saturate;
use super::units::{ByteSize, duration_text};
use crate::arrivals::Profile;
use crate::keys::Distribution;
use crate::strategy::{Driver, Strategy, Tier};

/// Cases by tier, in the order in which they run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cases {
    /// Cases of the etcd tier.
    #[serde(default, with = "in_file")]
    pub etcd: Vec<CaseSpec>,
    /// Cases of the Kubernetes tier.
    #[serde(default, with = "in_file")]
    pub kube: Vec<CaseSpec>,
}

/// The encoding of the Kubernetes tier's responses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Media {
    /// `application/vnd.kubernetes.protobuf`, which clients of the control plane request.
    #[default]
    Protobuf,
    /// `application/json`, which other clients request.
    Json,
}

/// The HTTP version of a client of the Kubernetes tier.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Http {
    /// HTTP/1.1.
    #[default]
    H1,
    /// HTTP/2.
    H2,
}

/// The field whose hash determines the shard of an object: the field of `shardSelector` (KEP-5866).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShardKey {
    /// `object.metadata.uid`: random, so that equal ranges have about the same number of objects.
    #[default]
    Uid,
    /// `object.metadata.namespace`: a namespace is in one shard only.
    Namespace,
}

impl From<ShardKey> for kube_api::shard_selector::ShardKey {
    fn from(key: ShardKey) -> Self {
        match key {
            ShardKey::Uid => Self::Uid,
            ShardKey::Namespace => Self::Namespace,
        }
    }
}

/// How the range of hashes is divided among workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShardPlan {
    /// Equal ranges, independent of the objects in them.
    #[default]
    Equal,
    /// Ranges with about the same number of objects, computed from the objects' hashes.
    Weighted,
}

/// The writes during a case of watches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Writes {
    /// Objects are changed.
    #[default]
    Changes,
    /// Objects are changed, deleted, and created again with another UID.
    Churn,
    /// Objects are changed through the Kubernetes API, by merge patches. The case's metrics then
    /// include the server's cost of the writes, which `no-watches` measures separately.
    Patches,
}

/// How objects are redistributed when a worker is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reshard {
    /// The case's `shard_plan` is computed again for one more worker.
    Replan,
    /// Each worker gives the new one its excess over the new mean and keeps the rest.
    Give,
}

/// How a case's lists are read when they are compared with the interleaved baseline: the same
/// number of bytes, sent from one buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BaselineMode {
    /// Every object is checked.
    Checked,
}

/// A case of one tier. `None` stands for the scenario's value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseSpec {
    /// The strategy.
    pub strategy: Strategy,
    /// Concurrent lists or small requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<NonZeroU32>,
    /// Connections that the clients of small requests, or the watchers, share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<NonZeroU32>,
    /// Largest HTTP/2 frame that the client accepts; the client's default if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<ByteSize>,
    /// Small requests per second (open loop). Without it, each client waits for its response
    /// (closed loop).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Small requests: the profile of a variable rate or of even arrivals; instead of `rate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<Profile>,
    /// Small requests: a search for the highest rate that keeps an objective; instead of `rate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saturate: Option<Saturate>,
    /// The keys of small requests; uniform by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<Distribution>,
    /// Duration of small requests.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "duration_text::option"
    )]
    pub duration: Option<Duration>,
    /// Watchers that receive each put.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watchers: Option<NonZeroU32>,
    /// Measured whole lists per client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<NonZeroU32>,
    /// Time between the starts of rounds of lists. Without it, the next round starts at once.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "duration_text::option"
    )]
    pub every: Option<Duration>,
    /// Also compares lists of one client with a baseline of their bytes, if loadgen starts the
    /// target. The case's other metrics do not change, so this option is not part of the case's
    /// name.
    #[serde(alias = "yardstick", default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<BaselineMode>,
    /// Kubernetes tier: the requested encoding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media: Option<Media>,
    /// Kubernetes tier: whether the client accepts gzip.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gzip: bool,
    /// Kubernetes tier: HTTP version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<Http>,
    /// Kubernetes tier: bytes that a slow client reads per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_per_s: Option<ByteSize>,
    /// Sharded strategies: the hashed field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard_key: Option<ShardKey>,
    /// Sharded strategies: how the hashes are divided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard_plan: Option<ShardPlan>,
    /// Sharded watches: the concurrent writes, `rate` per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes: Option<Writes>,
    /// Sharded watches: adds a worker halfway and redistributes objects while writes continue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reshard: Option<Reshard>,
    /// Further flags of bench-server's Kubernetes tier, like `--watch-cache=false`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub server: Vec<String>,
    /// The emulated network between clients and servers; the real one if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// Names of the [`super::Background`] loads that run during the case.
    #[serde(alias = "beside", default, skip_serializing_if = "Vec::is_empty")]
    pub background: Vec<String>,
    /// The loads of a case of several loads, whose `strategy` is [`Strategy::Loads`].
    #[serde(skip)]
    pub loads: Option<LoadsSpec>,
}

impl From<&LoadsSpec> for CaseSpec {
    fn from(loads: &LoadsSpec) -> Self {
        Self {
            server: loads.server.clone(),
            network: loads.network,
            saturate: loads.saturate,
            loads: Some(loads.clone()),
            ..Strategy::Loads.into()
        }
    }
}

impl From<Strategy> for CaseSpec {
    fn from(strategy: Strategy) -> Self {
        Self {
            strategy,
            clients: None,
            connections: None,
            frame: None,
            rate: None,
            arrivals: None,
            saturate: None,
            keys: None,
            duration: None,
            watchers: None,
            repeats: None,
            every: None,
            baseline: None,
            media: None,
            gzip: false,
            http: None,
            read_per_s: None,
            shard_key: None,
            shard_plan: None,
            writes: None,
            reshard: None,
            server: Vec::new(),
            network: None,
            background: Vec::new(),
            loads: None,
        }
    }
}

impl CaseSpec {
    /// Returns the name by which thresholds refer to the case: its strategy and options, like
    /// `stream/5-clients/beside-lists`.
    #[must_use]
    pub fn name(&self) -> String {
        if let Some(loads) = &self.loads {
            return loads.name.clone();
        }
        let mut name = self.strategy.to_string();
        for option in self.options() {
            name.push('/');
            name.push_str(&option);
        }
        name
    }

    /// Returns the strategy as results name it; for a case of several loads, the case's name.
    #[must_use]
    pub fn strategy_text(&self) -> String {
        match &self.loads {
            Some(loads) => loads.name.clone(),
            None => self.strategy.to_string(),
        }
    }

    /// Returns whether the case runs on the data set of this name.
    #[must_use]
    pub fn is_for(&self, data_set: &str) -> bool {
        self.loads.as_ref().is_none_or(|loads| {
            loads.data_sets.is_empty() || loads.data_sets.iter().any(|name| name == data_set)
        })
    }

    /// Returns the profile of small requests in an open loop; `rate` is the scenario's.
    #[must_use]
    pub fn profile(&self, rate: Option<f64>) -> Option<Profile> {
        let steady = || self.rate.or(rate).map(Profile::Poisson);
        self.arrivals.clone().or_else(steady)
    }

    fn options(&self) -> Vec<String> {
        let mut options = Vec::new();
        options.extend(self.clients.map(|n| format!("{n}-clients")));
        options.extend(self.connections.map(|n| format!("{n}-connections")));
        options.extend(self.watchers.map(|n| format!("{n}-watchers")));
        options.extend(self.frame.map(|size| format!("{size}-frames")));
        options.extend(self.rate.map(|rate| format!("{rate}-per-second")));
        options.extend(self.arrivals.as_ref().map(ToString::to_string));
        options.extend(self.saturate.map(|s| format!("saturate-{}", s.objective)));
        options.extend(self.keys.map(|keys| keys.to_string()));
        options.extend(self.kube_options());
        options.extend(self.network.map(|network| network.to_string()));
        options.extend(self.background.iter().map(|name| format!("beside-{name}")));
        options
    }

    /// Returns the options of a case of the Kubernetes tier, one word each: `json`, `gzip`, `h2`,
    /// `by-namespace`, `weighted`, `churn`, `reshard-give`, `10MiB-per-second`, `every-5000ms`,
    /// `--watch-cache=false`.
    #[must_use]
    pub fn kube_options(&self) -> Vec<String> {
        let mut options = Vec::new();
        options.extend((self.media == Some(Media::Json)).then(|| "json".to_owned()));
        options.extend(self.gzip.then(|| "gzip".to_owned()));
        options.extend((self.http == Some(Http::H2)).then(|| "h2".to_owned()));
        let by_namespace = self.shard_key == Some(ShardKey::Namespace);
        options.extend(by_namespace.then(|| "by-namespace".to_owned()));
        let weighted = self.shard_plan == Some(ShardPlan::Weighted);
        options.extend(weighted.then(|| "weighted".to_owned()));
        options.extend(match self.writes {
            None | Some(Writes::Changes) => None,
            Some(Writes::Churn) => Some("churn".to_owned()),
            Some(Writes::Patches) => Some("patches".to_owned()),
        });
        options.extend(match self.reshard {
            None => None,
            Some(Reshard::Replan) => Some("reshard-replan".to_owned()),
            Some(Reshard::Give) => Some("reshard-give".to_owned()),
        });
        options.extend(self.read_per_s.map(|size| format!("{size}-per-second")));
        options.extend(
            self.every
                .map(|every| format!("every-{}ms", every.as_millis())),
        );
        options.extend(self.server.iter().cloned());
        options
    }
}

/// Checks that a rate is a positive number.
pub(super) fn check_rate(rate: Option<f64>) -> Result<(), String> {
    match rate {
        Some(rate) if !(rate.is_finite() && rate > 0.0) => Err(format!(
            "rate {rate} is not a positive number of requests per second"
        )),
        _ => Ok(()),
    }
}

// === impl Cases ===

impl Cases {
    /// Returns the cases of one tier.
    pub fn of(&self, tier: Tier) -> &[CaseSpec] {
        match tier {
            Tier::Etcd => &self.etcd,
            Tier::Kube => &self.kube,
        }
    }

    /// Returns every case with its tier, in the order in which they run.
    pub fn all(&self) -> impl Iterator<Item = (Tier, &CaseSpec)> {
        [Tier::Etcd, Tier::Kube]
            .into_iter()
            .flat_map(|tier| self.of(tier).iter().map(move |case| (tier, case)))
    }

    /// Returns every case, mutably.
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut CaseSpec> {
        self.etcd.iter_mut().chain(&mut self.kube)
    }

    /// Replaces all cases of several loads by `loads`, after the other cases.
    pub(super) fn set_loads(&mut self, loads: &[LoadsSpec]) {
        for (tier, cases) in [(Tier::Etcd, &mut self.etcd), (Tier::Kube, &mut self.kube)] {
            cases.retain(|case| case.loads.is_none());
            cases.extend(
                loads
                    .iter()
                    .filter(|loads| loads.tier == tier)
                    .map(CaseSpec::from),
            );
        }
    }

    /// Returns the cases of these strategies, in this order. A strategy that has no case gets one
    /// without options.
    pub(super) fn only(&self, strategies: &[Strategy]) -> Self {
        let on = |tier| {
            let mut cases = Vec::new();
            for &strategy in strategies.iter().filter(|s| s.runs_on(tier)) {
                let there = self
                    .of(tier)
                    .iter()
                    .filter(|case| case.strategy == strategy);
                let before = cases.len();
                cases.extend(there.cloned());
                if cases.len() == before {
                    cases.push(strategy.into());
                }
            }
            cases
        };
        Self {
            etcd: on(Tier::Etcd),
            kube: on(Tier::Kube),
        }
    }

    /// Removes all cases but those of small requests, and gives each of these a search for its
    /// highest rate.
    pub(super) fn searched(&mut self, saturate: Saturate) {
        for cases in [&mut self.etcd, &mut self.kube] {
            cases.retain(|case| case.strategy.driver() == Driver::Requests);
            for case in cases {
                case.rate = None;
                case.arrivals = None;
                // A schedule does not depend on the number of clients.
                case.clients = None;
                case.saturate = Some(saturate);
            }
        }
    }

    /// Requests JSON in the cases of the Kubernetes tier that support it, and removes cases that
    /// become equal to another.
    pub(super) fn ask_for_json(&mut self) {
        for case in &mut self.kube {
            let mut in_json = case.clone();
            in_json.media = Some(Media::Json);
            if case.strategy != Strategy::NoLists && in_json.check(Tier::Kube).is_ok() {
                *case = in_json;
            }
        }
        self.without_doubles();
    }

    /// Removes cases that an override made equal to an earlier case.
    pub(super) fn without_doubles(&mut self) {
        for cases in [&mut self.etcd, &mut self.kube] {
            let mut names = Vec::new();
            cases.retain(|case| {
                let name = case.name();
                let first = !names.contains(&name);
                names.push(name);
                first
            });
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        for tier in [Tier::Etcd, Tier::Kube] {
            let mut names = Vec::new();
            for case in self.of(tier) {
                let name = case.name();
                if !case.strategy.runs_on(tier) {
                    return Err(format!("the {tier} tier has no strategy `{name}`"));
                }
                if case.strategy.driver() == Driver::Idle {
                    return Err(format!(
                        "`{name}` measures nothing by itself: it is for [[background]]"
                    ));
                }
                if case.strategy == Strategy::Loads && case.loads.is_none() {
                    return Err(format!(
                        "`{name}` is no strategy: several loads are a [[case]]"
                    ));
                }
                case.check(tier)?;
                if names.contains(&name) {
                    return Err(format!(
                        "strategy `{name}` is listed twice for the {tier} tier"
                    ));
                }
                names.push(name);
            }
        }
        if self.etcd.is_empty() && self.kube.is_empty() {
            return Err("at least one strategy is needed".to_owned());
        }
        Ok(())
    }
}
