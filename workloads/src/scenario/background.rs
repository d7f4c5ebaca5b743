//! Loads that run beside a measured row, from before its first request until after its last: other lists, writers, watchers.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::rows::check_rate;
use crate::strategy::{Shape, Strategy, Tier};

/// One load. A row names it in `beside`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Background {
    /// Name, unique in its scenario.
    pub name: String,
    /// Which protocol it speaks.
    #[serde(default = "etcd")]
    pub tier: Tier,
    /// What it does: a list strategy lists again and again, `put` and `get` send small requests, `watch` only watches.
    pub strategy: Strategy,
    /// Lists, or small requests, at the same time.
    #[serde(default = "one")]
    pub clients: NonZeroU32,
    /// Connections that small requests, or watchers, share.
    #[serde(default = "one")]
    pub connections: NonZeroU32,
    /// Small requests per second; without it each client sends the next when it has its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Watchers, for `watch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watchers: Option<NonZeroU32>,
    /// Which keys `put` and `get` are about.
    #[serde(default)]
    pub keys: Keys,
}

/// Which keys small requests of a background are about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keys {
    /// Keys that no list reads (the default).
    #[default]
    Elsewhere,
    /// The data set's own. They are written as they are, so a list beside it finds the same objects at a later revision.
    DataSet,
}

fn etcd() -> Tier {
    Tier::Etcd
}

fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

impl Background {
    /// Whether it writes the objects that are listed beside it: their revisions move.
    #[must_use]
    pub fn rewrites_data(&self) -> bool {
        self.strategy == Strategy::Put && self.keys == Keys::DataSet
    }

    /// Whether its fields fit each other.
    pub(super) fn check(&self) -> Result<(), String> {
        let Self {
            name,
            tier,
            strategy,
            ..
        } = self;
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        if name.is_empty() || !name.bytes().all(plain) {
            return Err(format!(
                "name `{name}` may hold only letters, digits, `-`, `_` and `.`"
            ));
        }
        if !strategy.runs_on(*tier) {
            return Err(format!(
                "background `{name}`: the {tier} tier has no strategy `{strategy}`"
            ));
        }
        if strategy.go_client().is_some() {
            return Err(format!(
                "background `{name}`: `{strategy}` is a program of its own, which only rows start"
            ));
        }
        let fits = match strategy.shape() {
            Shape::List => self.rate.is_none() && self.watchers.is_none(),
            Shape::Requests => {
                // Nothing is elsewhere to be read.
                self.watchers.is_none()
                    && (*strategy == Strategy::Put || self.keys == Keys::DataSet)
            }
            Shape::Idle => self.rate.is_none() && self.watchers.is_some(),
            Shape::Delivery | Shape::Shards | Shape::ShardedWatch | Shape::Loads => false,
        };
        if !fits {
            return Err(format!(
                "background `{name}`: `{strategy}` lacks a field, or does not take one of those given"
            ));
        }
        check_rate(self.rate)
    }
}
