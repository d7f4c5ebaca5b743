//! Background loads: lists, writers and watchers that run during the whole measurement of a case.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::case::check_rate;
use crate::strategy::{Driver, Strategy, Tier};

/// A background load. Cases name it in `background`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Background {
    /// Name, unique in its scenario.
    pub name: String,
    /// The tier that the load uses.
    #[serde(default = "etcd")]
    pub tier: Tier,
    /// The operation: a list strategy lists repeatedly, `put` and `get` send small requests,
    /// `watch` only watches.
    pub strategy: Strategy,
    /// Concurrent lists or small requests.
    #[serde(default = "one")]
    pub clients: NonZeroU32,
    /// Connections that small requests, or watchers, share.
    #[serde(default = "one")]
    pub connections: NonZeroU32,
    /// Small requests per second (open loop). Without it, each client waits for its response
    /// (closed loop).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Watchers, for `watch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watchers: Option<NonZeroU32>,
    /// The keys of `put` and `get`.
    #[serde(default)]
    pub keys: Keys,
}

/// The keys of a background's small requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keys {
    /// Keys outside the listed data (the default).
    #[default]
    Elsewhere,
    /// Keys of the data set. Values are rewritten unchanged, so a concurrent list finds the same
    /// objects at a later revision.
    DataSet,
}

fn etcd() -> Tier {
    Tier::Etcd
}

fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

impl Background {
    /// Returns whether the load writes the listed objects, which changes their revisions.
    #[must_use]
    pub fn rewrites_data(&self) -> bool {
        self.strategy == Strategy::Put && self.keys == Keys::DataSet
    }

    /// Checks that the fields fit the strategy.
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
                "background `{name}`: `{strategy}` runs as a separate program, which only cases can start"
            ));
        }
        let fits = match strategy.driver() {
            Driver::List => self.rate.is_none() && self.watchers.is_none(),
            Driver::Requests => {
                // `get` needs keys of the data set: no objects exist outside it.
                self.watchers.is_none()
                    && (*strategy == Strategy::Put || self.keys == Keys::DataSet)
            }
            Driver::Idle => self.rate.is_none() && self.watchers.is_some(),
            Driver::Delivery | Driver::Shards | Driver::ShardedWatch | Driver::Loads => false,
        };
        if !fits {
            return Err(format!(
                "background `{name}`: `{strategy}` needs another field, or does not take one of the given fields"
            ));
        }
        check_rate(self.rate)
    }
}
