//! Strategies: the ways to list, by the names that scenario files, `--strategies` and reports use.
//!
//! - [`plain`]: strategies that are fully described by one request

pub mod plain;

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::did_you_mean::did_you_mean;
use crate::go_client::GoClient;
use crate::mix::SmallRequest;
use crate::selector::{Selector, SelectorError};
pub use plain::{EtcdResponse, PlainList};

/// The tier that a strategy uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// An etcd v3 endpoint over gRPC.
    Etcd,
    /// A Kubernetes API endpoint over HTTP.
    Kube,
}

impl Tier {
    /// Returns the name in scenario files and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Kube => "kube",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The driver that runs a strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Driver {
    /// Whole lists, each checked.
    List,
    /// Small requests.
    Requests,
    /// Writes and their delivery to watchers.
    Delivery,
    /// Lists by several workers, each of its own shard.
    Shards,
    /// Watches by several workers, each of its own shard, while objects are written.
    ShardedWatch,
    /// A case of several loads.
    Loads,
    /// Background loads only: nothing is timed.
    Idle,
}

/// A way to list a whole data set, or another operation of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Strategy {
    /// One tier: a list that is fully described by one request (`stream`, `cached`, …).
    Plain(PlainList),
    /// etcd: a Range of one key (`get`).
    Get,
    /// etcd: a Put of one object (`put`).
    Put,
    /// etcd: puts, timed until the event at each of many watchers (`fan-out`).
    FanOut,
    /// etcd: watchers of keys that are not written (`watch`).
    Watch,
    /// Both tiers: limit and continue, with this number of objects per page (`paged:N`).
    Paged(NonZeroU32),
    /// Kubernetes: `resourceVersionMatch=Exact` at the server's revision when the client connects
    /// (`exact`).
    Exact,
    /// Kubernetes: resourceVersion unset, with a label or field selector (`selector:…`).
    Selector(Selector),
    /// Kubernetes: writes a small object to etcd, then times a list, which must contain it
    /// (`read-your-write`).
    ReadYourWrite,
    /// Kubernetes: this number of workers, each listing its shard by `shardSelector`, KEP-5866
    /// (`sharded:N`).
    Sharded(NonZeroU32),
    /// Kubernetes: this number of workers, each of which lists everything and discards the objects
    /// outside its shard. This is what KEP-5866 replaces (`client-filtered:N`).
    ClientFiltered(NonZeroU32),
    /// Kubernetes: this number of watches with a `shardSelector`, from the initial state to events
    /// of concurrent writes (`watch-sharded:N`).
    WatchSharded(NonZeroU32),
    /// Kubernetes: this number of watches of everything, each of which discards the objects outside
    /// its shard (`watch-client-filtered:N`).
    WatchClientFiltered(NonZeroU32),
    /// Kubernetes: writes without watches, with which cases with watches are compared
    /// (`no-watches`).
    NoWatches,
    /// Both tiers: no requests, with which cases of periodic lists are compared (`no-lists`).
    NoLists,
    /// Both tiers: the loads of a `[[case]]` (`loads`).
    Loads,
    /// One tier: a list by a Go client, a separate program (`clientv3:…`, `client-go:…`).
    GoClient(GoClient),
}

/// Maximum number of workers of a sharded strategy: each is a thread with a connection.
pub const MAX_WORKERS: u32 = 256;

/// An invalid name of a strategy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StrategyError {
    /// An unknown name.
    #[error("unknown strategy `{name}`, did you mean `{suggestion}`? (known: {})", Strategy::names().join(", "))]
    Unknown {
        /// The given name.
        name: String,
        /// The most similar known name.
        suggestion: &'static str,
    },
    /// `paged:` without a valid page size.
    #[error("`{0}` needs a page size from 1 to 4294967295, as in `paged:500`")]
    PageSize(String),
    /// A sharded strategy without a valid number of workers.
    #[error("`{0}` needs a number of workers from 1 to {MAX_WORKERS}, as in `sharded:4`")]
    Workers(String),
    /// `selector:` without a valid selector.
    #[error(transparent)]
    Selector(#[from] SelectorError),
}

impl Strategy {
    /// Names of the strategies that are not plain lists.
    const OTHER_NAMES: [&'static str; 19] = [
        "paged:N",
        "get",
        "put",
        "fan-out",
        "watch",
        "exact",
        "selector:SELECTOR",
        "read-your-write",
        "sharded:N",
        "client-filtered:N",
        "watch-sharded:N",
        "watch-client-filtered:N",
        "no-watches",
        "no-lists",
        GoClient::NAMES[0],
        GoClient::NAMES[1],
        GoClient::NAMES[2],
        GoClient::NAMES[3],
        GoClient::NAMES[4],
    ];

    /// Returns all names, with `N` for a page size or a number of workers and `SELECTOR` for a
    /// selector.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        let plain = PlainList::ALL.iter().map(|list| list.spec().name);
        plain.chain(Self::OTHER_NAMES).collect()
    }

    /// Returns the strategy as a plain list, if it is one.
    #[must_use]
    pub fn plain(self) -> Option<PlainList> {
        match self {
            Self::Plain(list) => Some(list),
            _ => None,
        }
    }

    /// Returns how etcd sends the list, if the strategy is a plain list of the etcd tier.
    #[must_use]
    pub fn etcd_response(self) -> Option<EtcdResponse> {
        let list = self.plain().and_then(PlainList::etcd);
        list.map(|list| list.response)
    }

    /// Returns the driver that runs the strategy.
    pub fn driver(self) -> Driver {
        match self {
            Self::Get | Self::Put => Driver::Requests,
            Self::FanOut => Driver::Delivery,
            Self::Loads => Driver::Loads,
            Self::Watch => Driver::Idle,
            Self::Sharded(_) | Self::ClientFiltered(_) => Driver::Shards,
            Self::WatchSharded(_) | Self::WatchClientFiltered(_) | Self::NoWatches => {
                Driver::ShardedWatch
            }
            Self::Plain(_)
            | Self::Paged(_)
            | Self::Exact
            | Self::Selector(_)
            | Self::ReadYourWrite
            | Self::NoLists
            | Self::GoClient(_) => Driver::List,
        }
    }

    /// Returns whether a tier supports this strategy.
    pub fn runs_on(self, tier: Tier) -> bool {
        match self {
            Self::Plain(list) => list.tier() == tier,
            Self::Get | Self::Put | Self::FanOut | Self::Watch => tier == Tier::Etcd,
            Self::Exact | Self::Selector(_) | Self::ReadYourWrite => tier == Tier::Kube,
            Self::Sharded(_) | Self::ClientFiltered(_) => tier == Tier::Kube,
            Self::WatchSharded(_) | Self::WatchClientFiltered(_) | Self::NoWatches => {
                tier == Tier::Kube
            }
            Self::Paged(_) | Self::NoLists | Self::Loads => true,
            Self::GoClient(client) => client.tier() == tier,
        }
    }

    /// Returns the number of workers of a sharded strategy.
    pub fn workers(self) -> Option<NonZeroU32> {
        match self {
            Self::Sharded(workers)
            | Self::ClientFiltered(workers)
            | Self::WatchSharded(workers)
            | Self::WatchClientFiltered(workers) => Some(workers),
            _ => None,
        }
    }

    /// Returns the Go client of the strategy, if it has one.
    pub fn go_client(self) -> Option<GoClient> {
        match self {
            Self::GoClient(client) => Some(client),
            _ => None,
        }
    }

    /// Returns the small request that the strategy repeats, if any.
    pub fn small_request(self) -> Option<SmallRequest> {
        match self {
            Self::Get => Some(SmallRequest::Get),
            Self::Put => Some(SmallRequest::Put),
            _ => None,
        }
    }

    /// Returns whether the server, instead of the workers, filters by shard (`shardSelector`).
    pub fn server_shards(self) -> bool {
        matches!(self, Self::Sharded(_) | Self::WatchSharded(_))
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain(list) => list.spec().name,
            Self::Paged(size) => return write!(f, "paged:{size}"),
            Self::Get => "get",
            Self::Put => "put",
            Self::FanOut => "fan-out",
            Self::Watch => "watch",
            Self::Exact => "exact",
            Self::ReadYourWrite => "read-your-write",
            Self::Sharded(workers) => return write!(f, "sharded:{workers}"),
            Self::ClientFiltered(workers) => return write!(f, "client-filtered:{workers}"),
            Self::WatchSharded(workers) => return write!(f, "watch-sharded:{workers}"),
            Self::WatchClientFiltered(workers) => {
                return write!(f, "watch-client-filtered:{workers}");
            }
            Self::NoWatches => "no-watches",
            Self::NoLists => "no-lists",
            Self::Loads => "loads",
            Self::GoClient(client) => return write!(f, "{client}"),
            Self::Selector(selector) => return write!(f, "selector:{selector}"),
        })
    }
}

impl FromStr for Strategy {
    type Err = StrategyError;

    fn from_str(name: &str) -> Result<Self, StrategyError> {
        if let Some(list) = PlainList::named(name) {
            return Ok(Self::Plain(list));
        }
        if let Some(client) = GoClient::parse(name)? {
            return Ok(Self::GoClient(client));
        }
        Ok(match name {
            "get" => Self::Get,
            "put" => Self::Put,
            "fan-out" => Self::FanOut,
            "watch" => Self::Watch,
            "exact" => Self::Exact,
            "read-your-write" => Self::ReadYourWrite,
            "no-watches" => Self::NoWatches,
            "no-lists" => Self::NoLists,
            "loads" => Self::Loads,
            _ => match name.split_once(':') {
                Some(("paged", size)) => Self::Paged(
                    size.parse()
                        .map_err(|_| StrategyError::PageSize(name.to_owned()))?,
                ),
                Some(("sharded", n)) => Self::Sharded(workers(name, n)?),
                Some(("client-filtered", n)) => Self::ClientFiltered(workers(name, n)?),
                Some(("watch-sharded", n)) => Self::WatchSharded(workers(name, n)?),
                Some(("watch-client-filtered", n)) => Self::WatchClientFiltered(workers(name, n)?),
                Some(("selector", text)) => Self::Selector(Selector::new(text)?),
                _ if name == "selector" => Self::Selector(Selector::new("")?),
                _ if SHARDED.contains(&name) => {
                    return Err(StrategyError::Workers(name.to_owned()));
                }
                _ if name == "paged" => return Err(StrategyError::PageSize(name.to_owned())),
                _ => {
                    return Err(StrategyError::Unknown {
                        name: name.to_owned(),
                        suggestion: did_you_mean(name, &Self::names())
                            .unwrap_or(Self::OTHER_NAMES[0]),
                    });
                }
            },
        })
    }
}

/// Names that need a number of workers.
const SHARDED: [&str; 4] = [
    "sharded",
    "client-filtered",
    "watch-sharded",
    "watch-client-filtered",
];

fn workers(name: &str, number: &str) -> Result<NonZeroU32, StrategyError> {
    let number: Option<NonZeroU32> = number.parse().ok();
    let number = number.filter(|n| n.get() <= MAX_WORKERS);
    number.ok_or_else(|| StrategyError::Workers(name.to_owned()))
}

impl TryFrom<String> for Strategy {
    type Error = StrategyError;

    fn try_from(name: String) -> Result<Self, StrategyError> {
        name.parse()
    }
}

impl From<Strategy> for String {
    fn from(strategy: Strategy) -> Self {
        strategy.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_a_round_trip() {
        for name in Strategy::names() {
            let name = name
                .replace("SELECTOR", "spec.nodeName={node}")
                .replace(":N", ":50");
            let strategy: Strategy = name.parse().expect("a known name");
            assert_eq!(strategy.to_string(), name);
            assert!(strategy.runs_on(Tier::Etcd) || strategy.runs_on(Tier::Kube));
        }
    }

    #[test]
    fn a_misspelt_name_gets_a_suggestion() {
        let error = "steam".parse::<Strategy>().expect_err("no such strategy");
        assert!(
            error.to_string().contains("did you mean `stream`"),
            "{error}"
        );
        for bad in [
            "paged",
            "paged:0",
            "paged:-1",
            "paged:x",
            "paged:",
            "clientv3:paged:0",
        ] {
            let error = bad.parse::<Strategy>().expect_err("no page size");
            assert_eq!(error, StrategyError::PageSize(bad.to_owned()));
        }
        for bad in [
            "sharded",
            "sharded:0",
            "client-filtered:257",
            "watch-sharded:x",
        ] {
            let error = bad.parse::<Strategy>().expect_err("no workers");
            assert_eq!(error, StrategyError::Workers(bad.to_owned()));
        }
    }
}
