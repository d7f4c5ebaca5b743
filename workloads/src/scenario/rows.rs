//! The rows of a scenario: a strategy, and what sets this row apart from others of the same strategy.
//!
//! In a file a row is a strategy's name, or a table where it has options:
//! `etcd = ["stream", { strategy = "stream", clients = 5 }]`.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::units::{ByteSize, duration_text};
use crate::strategy::{Shape, Strategy, Tier};

/// Rows per tier, in the order in which they run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rows {
    /// Rows of the etcd tier.
    #[serde(default)]
    pub etcd: Vec<RowSpec>,
    /// Rows of the Kubernetes tier.
    #[serde(default)]
    pub kube: Vec<RowSpec>,
}

/// A row: what is measured. `None` takes the scenario's value.
#[derive(Debug, Clone, PartialEq)]
pub struct RowSpec {
    /// The way to ask.
    pub strategy: Strategy,
    /// Lists, or small requests, at the same time.
    pub clients: Option<NonZeroU32>,
    /// Connections that the clients of small requests, or the watchers, share.
    pub connections: Option<NonZeroU32>,
    /// Largest HTTP/2 frame that the client accepts; our client's own choice where none is given.
    pub frame: Option<ByteSize>,
    /// Small requests per second on a schedule (open loop); without one each client waits for its answer (closed loop).
    pub rate: Option<f64>,
    /// How long small requests are sent.
    pub duration: Option<Duration>,
    /// Watchers that a put must reach.
    pub watchers: Option<NonZeroU32>,
    /// Names of the [`super::Background`] loads that run meanwhile.
    pub beside: Vec<String>,
}

impl From<Strategy> for RowSpec {
    fn from(strategy: Strategy) -> Self {
        Self {
            strategy,
            clients: None,
            connections: None,
            frame: None,
            rate: None,
            duration: None,
            watchers: None,
            beside: Vec::new(),
        }
    }
}

impl RowSpec {
    /// The name by which bars refer to the row: its strategy and its own options, as `stream/5-clients/beside-lists`.
    #[must_use]
    pub fn name(&self) -> String {
        let mut name = self.strategy.to_string();
        for option in self.options() {
            name.push('/');
            name.push_str(&option);
        }
        name
    }

    fn options(&self) -> Vec<String> {
        let mut options = Vec::new();
        options.extend(self.clients.map(|n| format!("{n}-clients")));
        options.extend(self.connections.map(|n| format!("{n}-connections")));
        options.extend(self.watchers.map(|n| format!("{n}-watchers")));
        options.extend(self.frame.map(|size| format!("{size}-frames")));
        options.extend(self.rate.map(|rate| format!("{rate}-per-second")));
        options.extend(self.beside.iter().map(|name| format!("beside-{name}")));
        options
    }

    /// Whether the options fit the strategy.
    fn check(&self) -> Result<(), String> {
        let shape = self.strategy.shape();
        let requests = shape == Shape::Requests;
        let fields = [
            ("rate", self.rate.is_some(), requests),
            ("duration", self.duration.is_some(), requests),
            (
                "connections",
                self.connections.is_some(),
                shape != Shape::List,
            ),
            (
                "watchers",
                self.watchers.is_some(),
                shape == Shape::Delivery,
            ),
        ];
        for (field, given, fits) in fields {
            if given && !fits {
                return Err(format!(
                    "strategy `{}` does not take `{field}`",
                    self.strategy
                ));
            }
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
                row.check()?;
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

/// The table form.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    strategy: Strategy,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    clients: Option<NonZeroU32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    connections: Option<NonZeroU32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    frame: Option<ByteSize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate: Option<f64>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "duration_text::option"
    )]
    duration: Option<Duration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    watchers: Option<NonZeroU32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    beside: Vec<String>,
}

impl Serialize for RowSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if *self == Self::from(self.strategy) {
            return self.strategy.serialize(serializer);
        }
        let Self {
            strategy,
            clients,
            connections,
            frame,
            rate,
            duration,
            watchers,
            beside,
        } = self.clone();
        let table = Table {
            strategy,
            clients,
            connections,
            frame,
            rate,
            duration,
            watchers,
            beside,
        };
        table.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RowSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NameOrTable)
    }
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
        let Table {
            strategy,
            clients,
            connections,
            frame,
            rate,
            duration,
            watchers,
            beside,
        } = Table::deserialize(MapAccessDeserializer::new(map))?;
        Ok(RowSpec {
            strategy,
            clients,
            connections,
            frame,
            rate,
            duration,
            watchers,
            beside,
        })
    }
}
