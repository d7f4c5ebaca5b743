//! The ways to ask a server: the rows of a report, by the names that scenario files and `--strategies` use.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

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
    /// Both tiers: the bytes of the list as one HTTP body without any meaning: the transport's own floor (`opaque`).
    Opaque,
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
    /// Both tiers: nothing, as the baseline of rows that list now and then (`no-lists`).
    NoLists,
}

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
    /// `selector:` without a usable selector.
    #[error(transparent)]
    Selector(#[from] SelectorError),
}

impl Strategy {
    /// Every name, with `N` for the page size and `SELECTOR` for a selector.
    pub const NAMES: [&'static str; 16] = [
        "unary",
        "unary-incremental",
        "stream",
        "paged:N",
        "opaque",
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
        "no-lists",
    ];

    /// Which driver runs it.
    pub fn shape(self) -> Shape {
        match self {
            Self::Get | Self::Put => Shape::Requests,
            Self::FanOut => Shape::Delivery,
            Self::Watch => Shape::Idle,
            Self::Unary
            | Self::UnaryIncremental
            | Self::Stream
            | Self::Opaque
            | Self::Paged(_)
            | Self::Cached
            | Self::Consistent
            | Self::Exact
            | Self::WatchList
            | Self::Selector(_)
            | Self::ReadYourWrite
            | Self::NoLists => Shape::List,
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
            Self::Paged(_) | Self::Opaque | Self::NoLists => true,
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unary => "unary",
            Self::UnaryIncremental => "unary-incremental",
            Self::Stream => "stream",
            Self::Paged(size) => return write!(f, "paged:{size}"),
            Self::Opaque => "opaque",
            Self::Get => "get",
            Self::Put => "put",
            Self::FanOut => "fan-out",
            Self::Watch => "watch",
            Self::Cached => "cached",
            Self::Consistent => "consistent",
            Self::Exact => "exact",
            Self::WatchList => "watch-list",
            Self::ReadYourWrite => "read-your-write",
            Self::NoLists => "no-lists",
            Self::Selector(selector) => return write!(f, "selector:{selector}"),
        })
    }
}

impl FromStr for Strategy {
    type Err = StrategyError;

    fn from_str(name: &str) -> Result<Self, StrategyError> {
        Ok(match name {
            "unary" => Self::Unary,
            "unary-incremental" => Self::UnaryIncremental,
            "stream" => Self::Stream,
            "opaque" => Self::Opaque,
            "get" => Self::Get,
            "put" => Self::Put,
            "fan-out" => Self::FanOut,
            "watch" => Self::Watch,
            "cached" => Self::Cached,
            "consistent" => Self::Consistent,
            "exact" => Self::Exact,
            "watch-list" => Self::WatchList,
            "read-your-write" => Self::ReadYourWrite,
            "no-lists" => Self::NoLists,
            _ => match name.split_once(':') {
                Some(("paged", size)) => Self::Paged(
                    size.parse()
                        .map_err(|_| StrategyError::PageSize(name.to_owned()))?,
                ),
                Some(("selector", text)) => Self::Selector(Selector::new(text)?),
                _ if name == "selector" => Self::Selector(Selector::new("")?),
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
                .replace(":N", ":500");
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
        for bad in ["paged", "paged:0", "paged:-1", "paged:x", "paged:"] {
            let error = bad.parse::<Strategy>().expect_err("no page size");
            assert_eq!(error, StrategyError::PageSize(bad.to_owned()));
        }
    }
}
