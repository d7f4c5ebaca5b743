//! The ways to ask a server: the rows of a report, by the names that scenario files and `--strategies` use.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::go_client::GoClient;
use crate::mix::SmallRequest;
use crate::nearest::nearest;
use crate::selector::{Selector, SelectorError};

/// Which of the two servers a strategy talks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// An etcd v3 endpoint, over gRPC.
    Etcd,
    /// A Kubernetes API endpoint, over HTTP.
    Kube,
}

impl Tier {
    /// The name in scenario files and results.
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

/// What a strategy is made of, and so which driver runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shape {
    /// Whole lists, each checked.
    List,
    /// Many small requests, each with its answer.
    Requests,
    /// Writes that must reach watchers.
    Delivery,
    /// Whole lists by several workers together, each with its part.
    Shards,
    /// Watches of several workers together, each with its part, while objects are written.
    ShardedWatch,
    /// Several loads together.
    Loads,
    /// Nothing that could be timed: only ever a background.
    Idle,
}

/// One way to ask a server: mostly, to list a whole data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Strategy {
    /// etcd: one Range, which the server builds whole before it sends (`unary`).
    Unary,
    /// etcd: one Range, sent while it is read (`unary-incremental`).
    UnaryIncremental,
    /// etcd: RangeStream, KEP-5966 (`stream`).
    Stream,
    /// etcd: a Range of one key (`get`).
    Get,
    /// etcd: a Put of one object (`put`).
    Put,
    /// etcd: from a put to the event at each of many watchers (`fan-out`).
    FanOut,
    /// etcd: watchers of keys that nobody writes (`watch`).
    Watch,
    /// Both tiers: limit and continue, this many objects a page (`paged:N`).
    Paged(NonZeroU32),
    /// Kubernetes: `resourceVersion=0`, whatever the watch cache holds (`cached`).
    Cached,
    /// Kubernetes: resourceVersion unset, KEP-2340 (`consistent`).
    Consistent,
    /// Kubernetes: `resourceVersionMatch=Exact` at the revision that the server is at when the client connects (`exact`).
    Exact,
    /// Kubernetes: `sendInitialEvents`, up to the bookmark that ends the state, KEP-3157 (`watch-list`).
    WatchList,
    /// Kubernetes: resourceVersion unset, with a label or field selector (`selector:…`).
    Selector(Selector),
    /// Kubernetes: one small object is written to etcd and must be in the list that follows, which is timed
    /// (`read-your-write`).
    ReadYourWrite,
    /// Kubernetes: this many workers, each listing its part of the objects by `shardSelector`, KEP-5866 (`sharded:N`).
    Sharded(NonZeroU32),
    /// Kubernetes: this many workers, each listing everything and keeping its part: what KEP-5866 is to replace
    /// (`client-filtered:N`).
    ClientFiltered(NonZeroU32),
    /// Kubernetes: as many watches with a `shardSelector`, from the state to events while objects are written
    /// (`watch-sharded:N`).
    WatchSharded(NonZeroU32),
    /// Kubernetes: as many watches of everything, each keeping its part (`watch-client-filtered:N`).
    WatchClientFiltered(NonZeroU32),
    /// Kubernetes: nobody watches while objects are written, as the baseline of rows that do (`no-watches`).
    NoWatches,
    /// Both tiers: nothing, as the baseline of rows that list now and then (`no-lists`).
    NoLists,
    /// Both tiers: what a `[[case]]` says (`loads`).
    Loads,
    /// One tier or the other: everything, by a Go client that is a program of its own (`clientv3:…`, `client-go:…`).
    GoClient(GoClient),
}

/// Workers of a sharded strategy, at most: each is a thread with a connection.
pub const MOST_WORKERS: u32 = 256;

/// A strategy's name could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StrategyError {
    /// No such name.
    #[error("unknown strategy `{name}`, did you mean `{nearest}`? (known: {})", Strategy::NAMES.join(", "))]
    Unknown {
        /// What was written.
        name: String,
        /// The known name that is closest to it.
        nearest: &'static str,
    },
    /// `paged:` without a usable page size.
    #[error("`{0}` needs a page size from 1 to 4294967295, as in `paged:500`")]
    PageSize(String),
    /// A sharded strategy without a usable number of workers.
    #[error("`{0}` needs a number of workers from 1 to {MOST_WORKERS}, as in `sharded:4`")]
    Workers(String),
    /// `selector:` without a usable selector.
    #[error(transparent)]
    Selector(#[from] SelectorError),
}

impl Strategy {
    /// Every name, with `N` for a page size or a number of workers and `SELECTOR` for a selector.
    pub const NAMES: [&'static str; 25] = [
        "unary",
        "unary-incremental",
        "stream",
        "paged:N",
        "get",
        "put",
        "fan-out",
        "watch",
        "cached",
        "consistent",
        "exact",
        "watch-list",
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

    /// Which driver runs it.
    pub fn shape(self) -> Shape {
        match self {
            Self::Get | Self::Put => Shape::Requests,
            Self::FanOut => Shape::Delivery,
            Self::Loads => Shape::Loads,
            Self::Watch => Shape::Idle,
            Self::Sharded(_) | Self::ClientFiltered(_) => Shape::Shards,
            Self::WatchSharded(_) | Self::WatchClientFiltered(_) | Self::NoWatches => {
                Shape::ShardedWatch
            }
            Self::Unary
            | Self::UnaryIncremental
            | Self::Stream
            | Self::Paged(_)
            | Self::Cached
            | Self::Consistent
            | Self::Exact
            | Self::WatchList
            | Self::Selector(_)
            | Self::ReadYourWrite
            | Self::NoLists
            | Self::GoClient(_) => Shape::List,
        }
    }

    /// Whether a tier has this strategy at all.
    pub fn runs_on(self, tier: Tier) -> bool {
        match self {
            Self::Unary | Self::UnaryIncremental | Self::Stream => tier == Tier::Etcd,
            Self::Get | Self::Put | Self::FanOut | Self::Watch => tier == Tier::Etcd,
            Self::Cached | Self::Consistent => tier == Tier::Kube,
            Self::Exact | Self::WatchList | Self::Selector(_) | Self::ReadYourWrite => {
                tier == Tier::Kube
            }
            Self::Sharded(_) | Self::ClientFiltered(_) => tier == Tier::Kube,
            Self::WatchSharded(_) | Self::WatchClientFiltered(_) | Self::NoWatches => {
                tier == Tier::Kube
            }
            Self::Paged(_) | Self::NoLists | Self::Loads => true,
            Self::GoClient(client) => client.tier() == tier,
        }
    }

    /// Workers that share the objects between them, where the strategy has any.
    pub fn workers(self) -> Option<NonZeroU32> {
        match self {
            Self::Sharded(workers)
            | Self::ClientFiltered(workers)
            | Self::WatchSharded(workers)
            | Self::WatchClientFiltered(workers) => Some(workers),
            _ => None,
        }
    }

    /// The Go client that lists, where it is one.
    pub fn go_client(self) -> Option<GoClient> {
        match self {
            Self::GoClient(client) => Some(client),
            _ => None,
        }
    }

    /// The small request that it makes again and again, where it makes any.
    pub fn small_request(self) -> Option<SmallRequest> {
        match self {
            Self::Get => Some(SmallRequest::Get),
            Self::Put => Some(SmallRequest::Put),
            _ => None,
        }
    }

    /// Whether the server is asked for a worker's part only (`shardSelector`), rather than for everything.
    pub fn server_shards(self) -> bool {
        matches!(self, Self::Sharded(_) | Self::WatchSharded(_))
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unary => "unary",
            Self::UnaryIncremental => "unary-incremental",
            Self::Stream => "stream",
            Self::Paged(size) => return write!(f, "paged:{size}"),
            Self::Get => "get",
            Self::Put => "put",
            Self::FanOut => "fan-out",
            Self::Watch => "watch",
            Self::Cached => "cached",
            Self::Consistent => "consistent",
            Self::Exact => "exact",
            Self::WatchList => "watch-list",
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
        if let Some(client) = GoClient::parse(name)? {
            return Ok(Self::GoClient(client));
        }
        Ok(match name {
            "unary" => Self::Unary,
            "unary-incremental" => Self::UnaryIncremental,
            "stream" => Self::Stream,
            "get" => Self::Get,
            "put" => Self::Put,
            "fan-out" => Self::FanOut,
            "watch" => Self::Watch,
            "cached" => Self::Cached,
            "consistent" => Self::Consistent,
            "exact" => Self::Exact,
            "watch-list" => Self::WatchList,
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
                        nearest: nearest(name, &Self::NAMES).unwrap_or(Self::NAMES[0]),
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
    let number = number.filter(|n| n.get() <= MOST_WORKERS);
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
        for name in Strategy::NAMES {
            let name = name
                .replace("SELECTOR", "spec.nodeName={node}")
                .replace(":N", ":50");
            let strategy: Strategy = name.parse().expect("a known name");
            assert_eq!(strategy.to_string(), name);
            assert!(strategy.runs_on(Tier::Etcd) || strategy.runs_on(Tier::Kube));
        }
    }

    #[test]
    fn a_misspelt_name_gets_its_neighbour() {
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
