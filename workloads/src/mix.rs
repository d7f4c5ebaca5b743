//! Small requests, and weighted mixes of them: which one operation n is, as a pure function of the
//! seed and n.
//!
//! The kind is drawn from operation n's own randomness, so that the beginning of a run is the
//! beginning of its plan, however long it goes on. Weights thin one arrival process: for arrivals at
//! random times that is the same as a load of its own for each kind.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::nearest::nearest;
use crate::random::{Stream, generator, uniform};

/// What one small request does, on an etcd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SmallRequest {
    /// `get`: a linearizable Range of one key.
    Get,
    /// `get-serializable`: the same from whatever the member has.
    GetSerializable,
    /// `count`: how many keys there are, a Range of all with `count_only`.
    Count,
    /// `put`: an object written again as it is.
    Put,
    /// `update`: the same as Kubernetes does it, a Txn that compares the key's mod_revision with the
    /// one that was read last, and reads the key where that has changed.
    Update,
    /// `create`: an object under a key that is not there, a Txn that compares mod_revision with 0.
    Create,
    /// `delete`: the oldest object that the same connection created, a Txn that compares its
    /// mod_revision.
    Delete,
    /// `delete-range`: a DeleteRange of the ten oldest keys that the same connection created.
    DeleteRange,
    /// `lease-grant`: a lease.
    LeaseGrant,
    /// `lease-keep-alive`: the lease of the connection kept alive, each time on a stream of its own;
    /// the first grants it.
    LeaseKeepAlive,
    /// `lease-revoke`: the oldest lease that the same connection granted.
    LeaseRevoke,
    /// `compact`: everything up to the revision that the store was at when it was compacted last, as
    /// kube-apiserver does.
    Compact,
}

impl SmallRequest {
    /// All, in the order in which reports show them.
    pub const ALL: [Self; 12] = [
        Self::Get,
        Self::GetSerializable,
        Self::Count,
        Self::Put,
        Self::Update,
        Self::Create,
        Self::Delete,
        Self::DeleteRange,
        Self::LeaseGrant,
        Self::LeaseKeepAlive,
        Self::LeaseRevoke,
        Self::Compact,
    ];

    /// Its name in scenario files and results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::GetSerializable => "get-serializable",
            Self::Count => "count",
            Self::Put => "put",
            Self::Update => "update",
            Self::Create => "create",
            Self::Delete => "delete",
            Self::DeleteRange => "delete-range",
            Self::LeaseGrant => "lease-grant",
            Self::LeaseKeepAlive => "lease-keep-alive",
            Self::LeaseRevoke => "lease-revoke",
            Self::Compact => "compact",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|request| request.name() == name)
    }

    /// Whether it changes an object of the data set: its revision moves, its bytes stay.
    #[must_use]
    pub fn rewrites_data(self) -> bool {
        matches!(self, Self::Put | Self::Update)
    }

    /// Whether it is about keys or leases that are no part of the data set.
    #[must_use]
    pub fn is_of_own_keys(self) -> bool {
        match self {
            Self::Create
            | Self::Delete
            | Self::DeleteRange
            | Self::LeaseGrant
            | Self::LeaseKeepAlive
            | Self::LeaseRevoke => true,
            Self::Get
            | Self::GetSerializable
            | Self::Count
            | Self::Put
            | Self::Update
            | Self::Compact => false,
        }
    }

    /// Whether it does what nobody takes back: leaves keys or leases, or compacts the history of all
    /// who use the store.
    #[must_use]
    pub fn needs_own_server(self) -> bool {
        self.is_of_own_keys() || self == Self::Compact
    }

    /// What must be in a mix with it, since it takes away only what that made.
    #[must_use]
    pub fn needs(self) -> Option<Self> {
        match self {
            Self::Delete | Self::DeleteRange => Some(Self::Create),
            Self::LeaseRevoke => Some(Self::LeaseGrant),
            _ => None,
        }
    }
}

impl fmt::Display for SmallRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Small requests and how often each comes.
///
/// In a scenario file: `"put"`, or `{ update = 90, create = 5, delete = 5 }`.
#[derive(Debug, Clone, PartialEq)]
pub struct Mix {
    /// Each with its weight, which is above 0; never empty.
    parts: Vec<(SmallRequest, f64)>,
}

/// A mix that makes no sense.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MixError {
    /// No such request.
    #[error("unknown operation `{name}`, did you mean `{nearest}`? (small requests: {})", names().join(", "))]
    Unknown {
        /// What was written.
        name: String,
        /// The known name that is closest to it.
        nearest: &'static str,
    },
    /// A weight out of range.
    #[error("operation `{request}` has the weight {weight}, which must be a number of 0 or more")]
    Weight {
        /// Whose.
        request: SmallRequest,
        /// What was written.
        weight: f64,
    },
    /// Nothing would ever be drawn.
    #[error("the weights of an operation sum to 0, so nothing would ever be sent")]
    Nothing,
    /// There would be nothing to take away.
    #[error("a mix with `{request}` needs `{made_by}`: it takes away only what it made itself")]
    NothingToDelete {
        /// What takes away.
        request: SmallRequest,
        /// What it takes away.
        made_by: SmallRequest,
    },
}

fn names() -> Vec<&'static str> {
    SmallRequest::ALL.map(SmallRequest::name).to_vec()
}

impl From<SmallRequest> for Mix {
    fn from(request: SmallRequest) -> Self {
        Self {
            parts: vec![(request, 1.0)],
        }
    }
}

impl Mix {
    /// A mix of requests by name.
    ///
    /// # Errors
    /// [`MixError`], with the name or the weight.
    pub fn new(weights: &BTreeMap<String, f64>) -> Result<Self, MixError> {
        let mut parts = Vec::new();
        for (name, &weight) in weights {
            let request = SmallRequest::named(name).ok_or_else(|| MixError::Unknown {
                name: name.clone(),
                nearest: nearest(name, &names()).unwrap_or("get"),
            })?;
            if !weight.is_finite() || weight < 0.0 {
                return Err(MixError::Weight { request, weight });
            }
            if weight > 0.0 {
                parts.push((request, weight));
            }
        }
        // A file may have them in any order: the plan is the same.
        parts.sort_by_key(|(request, _)| *request);
        let has = |wanted| parts.iter().any(|(request, _)| *request == wanted);
        if parts.is_empty() {
            return Err(MixError::Nothing);
        }
        for (request, _) in &parts {
            if let Some(made_by) = request.needs()
                && !has(made_by)
            {
                return Err(MixError::NothingToDelete {
                    request: *request,
                    made_by,
                });
            }
        }
        Ok(Self { parts })
    }

    /// The requests in it, each once.
    pub fn requests(&self) -> impl Iterator<Item = SmallRequest> {
        self.parts.iter().map(|(request, _)| *request)
    }

    /// Which request operation `n` is. O(requests in the mix).
    #[must_use]
    pub fn request_of(&self, seed: u64, n: u64) -> SmallRequest {
        let [(only, _)] = self.parts[..] else {
            let sum: f64 = self.parts.iter().map(|(_, weight)| weight).sum();
            let mut left = uniform(&mut generator(seed, Stream::Mixes, n)) * sum;
            let mut parts = self.parts.iter();
            let drawn = parts.find(|(_, weight)| {
                left -= weight;
                left <= 0.0
            });
            // Rounding may leave something behind the last.
            return drawn.or(self.parts.last()).expect("never empty").0;
        };
        only
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [(only, _)] = self.parts[..] {
            return write!(f, "{only}");
        }
        for (nth, (request, weight)) in self.parts.iter().enumerate() {
            let separator = if nth == 0 { "" } else { ", " };
            write!(f, "{separator}{request} {weight}")?;
        }
        Ok(())
    }
}

/// A mix as a file has it.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum WrittenMix {
    /// One request, by name.
    Name(String),
    /// Several, by weight.
    Weights(BTreeMap<String, f64>),
}

impl TryFrom<WrittenMix> for Mix {
    type Error = MixError;

    fn try_from(written: WrittenMix) -> Result<Self, MixError> {
        match written {
            WrittenMix::Name(name) => Self::new(&BTreeMap::from([(name, 1.0)])),
            WrittenMix::Weights(weights) => Self::new(&weights),
        }
    }
}

impl From<Mix> for WrittenMix {
    fn from(mix: Mix) -> Self {
        match mix.parts[..] {
            [(only, _)] => Self::Name(only.to_string()),
            _ => Self::Weights(
                mix.parts
                    .into_iter()
                    .map(|(request, weight)| (request.to_string(), weight))
                    .collect(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mix(parts: &[(&str, f64)]) -> Result<Mix, MixError> {
        Mix::new(
            &parts
                .iter()
                .map(|(name, weight)| ((*name).to_owned(), *weight))
                .collect(),
        )
    }

    #[test]
    fn kinds_come_as_often_as_they_weigh() {
        let mix = mix(&[("update", 90.0), ("create", 5.0), ("delete", 5.0)]).expect("a mix");
        let mut counts: BTreeMap<SmallRequest, u32> = BTreeMap::new();
        for n in 0..100_000 {
            *counts.entry(mix.request_of(7, n)).or_default() += 1;
        }
        // Within five standard deviations of a binomial count.
        let near = |request, expected: f64| {
            let found = f64::from(counts[&request]);
            let deviation = (expected * (1.0 - expected / 1e5)).sqrt();
            assert!(
                (found - expected).abs() < 5.0 * deviation,
                "{request}: {found}"
            );
        };
        near(SmallRequest::Update, 90_000.0);
        near(SmallRequest::Create, 5_000.0);
        near(SmallRequest::Delete, 5_000.0);
    }

    #[test]
    fn the_first_operations_of_a_plan_are_the_same_everywhere() {
        let mix = mix(&[("get", 4.0), ("put", 1.0), ("count", 0.5)]).expect("a mix");
        let plan: String = (0..40).map(|n| &mix.request_of(1, n).name()[..1]).collect();
        assert_eq!(plan, GOLDEN);
    }

    const GOLDEN: &str = "cpcgggggpggggggpgggpggggggggggggcgpggggp";

    #[test]
    fn what_makes_no_sense_is_refused_with_the_reason() {
        let refused = |parts: &[(&str, f64)]| mix(parts).expect_err("no mix").to_string();
        assert!(refused(&[("gets", 1.0)]).contains("did you mean `get`"));
        assert!(refused(&[("get", 0.0), ("put", 0.0)]).contains("sum to 0"));
        assert!(refused(&[("get", -1.0)]).contains("weight -1"));
        assert!(refused(&[("get", f64::NAN)]).contains("weight NaN"));
        assert!(refused(&[("delete", 1.0)]).contains("needs `create`"));
        assert!(refused(&[("delete-range", 1.0)]).contains("needs `create`"));
        assert!(refused(&[("lease-revoke", 1.0)]).contains("needs `lease-grant`"));
    }
}
