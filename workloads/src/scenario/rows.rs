//! The rows of a scenario: a strategy, and what sets this row apart from others of the same strategy.
//!
//! In a file a row is a strategy's name, or a table where it has options:
//! `etcd = ["stream", { strategy = "stream", clients = 5 }]`.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::case::CaseSpec;
use super::network::Network;
use super::saturate::Saturate;
use super::units::{ByteSize, duration_text};
use crate::arrivals::Profile;
use crate::keys::Distribution;
use crate::strategy::{Shape, Strategy, Tier};

/// Rows per tier, in the order in which they run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rows {
    /// Rows of the etcd tier.
    #[serde(default, with = "written")]
    pub etcd: Vec<RowSpec>,
    /// Rows of the Kubernetes tier.
    #[serde(default, with = "written")]
    pub kube: Vec<RowSpec>,
}

/// How the Kubernetes tier writes what it sends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Media {
    /// `application/vnd.kubernetes.protobuf`, what the control plane's own clients ask for.
    #[default]
    Protobuf,
    /// `application/json`, what everybody else asks for.
    Json,
}

/// Which HTTP a client of the Kubernetes tier speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Http {
    /// HTTP/1.1.
    #[default]
    H1,
    /// HTTP/2.
    H2,
}

/// What of an object decides to which shard it belongs: the field that a `shardSelector` names (KEP-5866).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShardKey {
    /// `object.metadata.uid`: random, so that equal ranges hold about equally many.
    #[default]
    Uid,
    /// `object.metadata.namespace`: a namespace is never in two shards.
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

/// How the hashes are cut into as many parts as there are workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShardPlan {
    /// Equal ranges, whatever is in them.
    #[default]
    Equal,
    /// Ranges that hold about equally many objects, from the objects' own hashes.
    Weighted,
}

/// What is written while a row watches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Writes {
    /// Objects that are there are changed.
    #[default]
    Changes,
    /// They are also deleted, and created again with another UID.
    Churn,
    /// Objects that are there are changed through the Kubernetes API, by merge patches: what writing costs its server is then in
    /// the row's figures, and `no-watches` has it alone.
    Patches,
}

/// How the objects are shared anew when there is a worker more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reshard {
    /// By the row's `shard_plan`, made for one worker more.
    Replan,
    /// Each worker gives the new one what it has above the new mean, and keeps the rest.
    Give,
}

/// How the lists are read that a row holds against a baseline: as many bytes from one contiguous buffer, interleaved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Yardstick {
    /// Every object is checked.
    Checked,
}

/// A row: what is measured. `None` takes the scenario's value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowSpec {
    /// The way to ask.
    pub strategy: Strategy,
    /// Lists, or small requests, at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<NonZeroU32>,
    /// Connections that the clients of small requests, or the watchers, share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<NonZeroU32>,
    /// Largest HTTP/2 frame that the client accepts; our client's own choice where none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<ByteSize>,
    /// Small requests per second on a schedule (open loop); without one each client waits for its answer (closed loop).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Small requests on a schedule whose rate changes, or that does not come at random; instead of `rate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<Profile>,
    /// Small requests: the highest rate that keeps an objective is searched for, instead of one rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saturate: Option<Saturate>,
    /// Which objects small requests are about; any with the same probability where none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<Distribution>,
    /// How long small requests are sent.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "duration_text::option"
    )]
    pub duration: Option<Duration>,
    /// Watchers that a put must reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watchers: Option<NonZeroU32>,
    /// Measured whole lists per client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<NonZeroU32>,
    /// From the start of one round of lists to the start of the next; at once where none is given.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "duration_text::option"
    )]
    pub every: Option<Duration>,
    /// Lists of one client are also held against a baseline of their bytes, where loadgen starts the target. It sets
    /// the row's other figures apart from none without it, so the row's name is the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yardstick: Option<Yardstick>,
    /// Kubernetes tier: the encoding that is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media: Option<Media>,
    /// Kubernetes tier: whether the client takes gzip.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gzip: bool,
    /// Kubernetes tier: which HTTP is spoken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<Http>,
    /// Kubernetes tier: bytes that a slow client reads in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_per_s: Option<ByteSize>,
    /// Sharded strategies: the field whose hash decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard_key: Option<ShardKey>,
    /// Sharded strategies: how the hashes are cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard_plan: Option<ShardPlan>,
    /// Sharded watches: what is written meanwhile, `rate` times a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes: Option<Writes>,
    /// Sharded watches: halfway there is a worker more, and the objects are shared anew while writes go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reshard: Option<Reshard>,
    /// Kubernetes tier of our own servers: further flags, as `--watch-cache=false`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub server: Vec<String>,
    /// The network on the way to the servers, where it is not the one that is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// Names of the [`super::Background`] loads that run meanwhile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<String>,
    /// The case of several loads that this row stands for; `strategy` is then [`Strategy::Loads`].
    #[serde(skip)]
    pub case: Option<CaseSpec>,
}

impl From<&CaseSpec> for RowSpec {
    fn from(case: &CaseSpec) -> Self {
        Self {
            server: case.server.clone(),
            network: case.network,
            case: Some(case.clone()),
            ..Strategy::Loads.into()
        }
    }
}

impl From<Strategy> for RowSpec {
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
            yardstick: None,
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
            beside: Vec::new(),
            case: None,
        }
    }
}

impl RowSpec {
    /// The name by which bars refer to the row: its strategy and its own options, as `stream/5-clients/beside-lists`.
    #[must_use]
    pub fn name(&self) -> String {
        if let Some(case) = &self.case {
            return case.name.clone();
        }
        let mut name = self.strategy.to_string();
        for option in self.options() {
            name.push('/');
            name.push_str(&option);
        }
        name
    }

    /// What its case calls its strategy: the name of a case of several loads.
    #[must_use]
    pub fn strategy_text(&self) -> String {
        match &self.case {
            Some(case) => case.name.clone(),
            None => self.strategy.to_string(),
        }
    }

    /// When its small requests are sent, where that is on a schedule; `rate` is the scenario's own.
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
        options.extend(self.beside.iter().map(|name| format!("beside-{name}")));
        options
    }

    /// What sets a row of the Kubernetes tier apart, word by word: `json`, `gzip`, `h2`, `by-namespace`, `weighted`, `churn`,
    /// `reshard-give`, `10MiB-per-second`, `every-5s`, `--watch-cache=false`.
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

    /// Whether the options fit the strategy.
    fn check(&self, tier: Tier) -> Result<(), String> {
        let shape = self.strategy.shape();
        let kube = tier == Tier::Kube;
        // A program of its own connects as its library does.
        let ours = self.strategy.go_client().is_none();
        let kube_list = kube && shape == Shape::List;
        let lists = matches!(shape, Shape::List | Shape::Shards);
        let sharded = self.strategy.workers().is_some();
        let sharded_watch = shape == Shape::ShardedWatch;
        let paced = shape == Shape::Requests || sharded_watch;
        // Nothing else may take the server's time, and of which bytes it would be must be known.
        let alone = self.clients.is_none()
            && self.beside.is_empty()
            && self.every.is_none()
            && self.network.is_none();
        let has_bytes = shape == Shape::List
            && ours
            && !matches!(self.strategy, Strategy::NoLists | Strategy::ReadYourWrite);
        let shares_connections = matches!(shape, Shape::Requests | Shape::Delivery | Shape::Idle);
        let fields = [
            (
                "clients",
                self.clients.is_some(),
                !sharded && !sharded_watch,
            ),
            ("rate", self.rate.is_some(), paced),
            (
                "arrivals",
                self.arrivals.is_some(),
                shape == Shape::Requests,
            ),
            ("keys", self.keys.is_some(), shape == Shape::Requests),
            (
                "saturate",
                self.saturate.is_some(),
                shape == Shape::Requests,
            ),
            ("duration", self.duration.is_some(), paced),
            (
                "connections",
                self.connections.is_some(),
                shares_connections,
            ),
            (
                "watchers",
                self.watchers.is_some(),
                shape == Shape::Delivery,
            ),
            ("repeats", self.repeats.is_some(), lists || sharded_watch),
            ("every", self.every.is_some(), shape == Shape::List),
            ("yardstick", self.yardstick.is_some(), has_bytes && alone),
            ("frame", self.frame.is_some(), !kube && ours),
            // A worker finds an object's hash in protobuf.
            (
                "media",
                self.media.is_some(),
                kube && !sharded && !sharded_watch,
            ),
            ("shard_key", self.shard_key.is_some(), sharded),
            ("shard_plan", self.shard_plan.is_some(), sharded),
            ("writes", self.writes.is_some(), sharded_watch),
            ("reshard", self.reshard.is_some(), sharded && sharded_watch),
            ("gzip", self.gzip, kube_list),
            ("http", self.http.is_some(), kube && ours),
            ("read_per_s", self.read_per_s.is_some(), kube_list && ours),
            ("server", !self.server.is_empty(), kube),
        ];
        for (field, given, fits) in fields {
            if given && !fits {
                return Err(format!(
                    "strategy `{}` of the {tier} tier does not take `{field}`",
                    self.strategy
                ));
            }
        }
        // What HTTP/2 allows a receiver to announce.
        if let Some(frame) = self.frame.filter(|f| !(16_384..1 << 24).contains(&f.0)) {
            return Err(format!(
                "frame of {} bytes: HTTP/2 has 16 KiB to 16 MiB - 1",
                frame.0
            ));
        }
        let schedules = [
            self.rate.is_some(),
            self.arrivals.is_some(),
            self.saturate.is_some(),
        ];
        if schedules.into_iter().filter(|is_given| *is_given).count() > 1 {
            return Err(format!(
                "strategy `{}`: `rate`, `arrivals` and `saturate` each say when requests are sent; keep one",
                self.strategy
            ));
        }
        if let Some(arrivals) = &self.arrivals {
            arrivals.check().map_err(|error| error.to_string())?;
        }
        if let Some(keys) = self.keys {
            keys.check().map_err(|error| error.to_string())?;
        }
        if let Some(network) = self.network {
            network.check()?;
        }
        check_rate(self.rate)
    }
}

/// Whether a rate can be kept at all.
pub(super) fn check_rate(rate: Option<f64>) -> Result<(), String> {
    match rate {
        Some(rate) if !(rate.is_finite() && rate > 0.0) => {
            Err(format!("rate {rate} is not a number of requests a second"))
        }
        _ => Ok(()),
    }
}

// === impl Rows ===

impl Rows {
    /// Rows of one tier.
    pub fn of(&self, tier: Tier) -> &[RowSpec] {
        match tier {
            Tier::Etcd => &self.etcd,
            Tier::Kube => &self.kube,
        }
    }

    /// Every row with its tier, in the order in which they run.
    pub fn all(&self) -> impl Iterator<Item = (Tier, &RowSpec)> {
        [Tier::Etcd, Tier::Kube]
            .into_iter()
            .flat_map(|tier| self.of(tier).iter().map(move |row| (tier, row)))
    }

    /// The same for changing.
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut RowSpec> {
        self.etcd.iter_mut().chain(&mut self.kube)
    }

    /// Has these cases, and no others, behind the rows that are none.
    pub(super) fn set_cases(&mut self, cases: &[CaseSpec]) {
        for (tier, rows) in [(Tier::Etcd, &mut self.etcd), (Tier::Kube, &mut self.kube)] {
            rows.retain(|row| row.case.is_none());
            rows.extend(
                cases
                    .iter()
                    .filter(|case| case.tier == tier)
                    .map(RowSpec::from),
            );
        }
    }

    /// Of these strategies, in this order: the rows that are there, and a plain row where none is.
    pub(super) fn only(&self, strategies: &[Strategy]) -> Self {
        let on = |tier| {
            let mut rows = Vec::new();
            for &strategy in strategies.iter().filter(|s| s.runs_on(tier)) {
                let there = self.of(tier).iter().filter(|row| row.strategy == strategy);
                let before = rows.len();
                rows.extend(there.cloned());
                if rows.len() == before {
                    rows.push(strategy.into());
                }
            }
            rows
        };
        Self {
            etcd: on(Tier::Etcd),
            kube: on(Tier::Kube),
        }
    }

    /// Keeps rows of small requests, each searched for its highest rate instead of at rates of its own.
    pub(super) fn searched(&mut self, saturate: Saturate) {
        for rows in [&mut self.etcd, &mut self.kube] {
            rows.retain(|row| row.strategy.shape() == Shape::Requests);
            for row in rows {
                row.rate = None;
                row.arrivals = None;
                // The schedule stands for any number of clients.
                row.clients = None;
                row.saturate = Some(saturate);
            }
        }
    }

    /// Drops rows that an override made equal to one before.
    pub(super) fn without_doubles(&mut self) {
        for rows in [&mut self.etcd, &mut self.kube] {
            let mut names = Vec::new();
            rows.retain(|row| {
                let name = row.name();
                let first = !names.contains(&name);
                names.push(name);
                first
            });
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        for tier in [Tier::Etcd, Tier::Kube] {
            let mut names = Vec::new();
            for row in self.of(tier) {
                let name = row.name();
                if !row.strategy.runs_on(tier) {
                    return Err(format!("the {tier} tier has no strategy `{name}`"));
                }
                if row.strategy.shape() == Shape::Idle {
                    return Err(format!(
                        "`{name}` measures nothing by itself: it is for [[background]]"
                    ));
                }
                if row.strategy == Strategy::Loads && row.case.is_none() {
                    return Err(format!("`{name}` is no row: cases are written as [[case]]"));
                }
                row.check(tier)?;
                if names.contains(&name) {
                    return Err(format!(
                        "strategy `{name}` is there twice for the {tier} tier"
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

// === a row in a file ===

/// A row as a file has it: by name where it has no options.
#[derive(Deserialize)]
#[serde(transparent)]
struct Written(#[serde(deserialize_with = "name_or_table")] RowSpec);

mod written {
    use super::{RowSpec, Written};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize)]
    #[serde(untagged)]
    enum NameOrTable<'a> {
        Name(crate::Strategy),
        Table(&'a RowSpec),
    }

    pub(super) fn serialize<S: Serializer>(rows: &[RowSpec], to: S) -> Result<S::Ok, S::Error> {
        // A case is written as one.
        let rows = rows.iter().filter(|row| row.case.is_none());
        let rows = rows.map(|row| match row.strategy {
            strategy if *row == RowSpec::from(strategy) => NameOrTable::Name(strategy),
            _ => NameOrTable::Table(row),
        });
        rows.collect::<Vec<_>>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<RowSpec>, D::Error> {
        let rows = Vec::<Written>::deserialize(from)?;
        Ok(rows.into_iter().map(|Written(row)| row).collect())
    }
}

fn name_or_table<'de, D: Deserializer<'de>>(from: D) -> Result<RowSpec, D::Error> {
    from.deserialize_any(NameOrTable)
}

/// By hand rather than untagged, so that a misspelt name keeps the error that says what was meant.
struct NameOrTable;

impl<'de> Visitor<'de> for NameOrTable {
    type Value = RowSpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a strategy's name, or a table with `strategy` and options")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<RowSpec, E> {
        Strategy::deserialize(StrDeserializer::new(name)).map(RowSpec::from)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RowSpec, A::Error> {
        RowSpec::deserialize(MapAccessDeserializer::new(map))
    }
}
