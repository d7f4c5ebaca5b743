//! Small requests and weighted mixes of them: the kind of operation n, as a pure function of the
//! seed and n.
//!
//! The kind depends only on the seed and n, so that runs of different duration start with the same
//! operations. Weights thin one arrival process: for random arrivals that is equivalent to a
//! separate load for each kind.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::did_you_mean::did_you_mean;
use crate::random::{Stream, generator, uniform};
use crate::strategy::Tier;

/// The kind of a small request. Most are requests to etcd; the Kubernetes tier has `get`, `create`,
/// `update`, `patch` and `delete`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SmallRequest {
    /// `get`: a linearizable Range of one key.
    Get,
    /// `get-serializable`: a serializable Range of one key, served from the member's own state.
    GetSerializable,
    /// `count`: a Range of all keys with `count_only`.
    Count,
    /// `put`: writes an object again with the same value.
    Put,
    /// `update`: writes an object again as Kubernetes does, by a Txn that compares the key's
    /// mod_revision with the last one read, and reads the key if the mod_revision has changed.
    Update,
    /// `patch`: changes an object by a JSON merge patch, without a precondition on its version.
    Patch,
    /// `create`: writes a new key, by a Txn that compares mod_revision with 0.
    Create,
    /// `delete`: deletes the oldest key that the same connection created, by a Txn that compares
    /// its mod_revision.
    Delete,
    /// `delete-range`: a DeleteRange of the ten oldest keys that the same connection created.
    DeleteRange,
    /// `lease-grant`: grants a lease.
    LeaseGrant,
    /// `lease-keep-alive`: keeps the connection's lease alive, each time on a stream of its own;
    /// the first request grants the lease.
    LeaseKeepAlive,
    /// `lease-revoke`: revokes the oldest lease that the same connection granted.
    LeaseRevoke,
    /// `compact`: compacts up to the revision that the store had at the last compaction, as
    /// kube-apiserver does.
    Compact,
}

impl SmallRequest {
    /// All kinds, in the order in which reports show them.
    pub const ALL: [Self; 13] = [
        Self::Get,
        Self::GetSerializable,
        Self::Count,
        Self::Put,
        Self::Update,
        Self::Patch,
        Self::Create,
        Self::Delete,
        Self::DeleteRange,
        Self::LeaseGrant,
        Self::LeaseKeepAlive,
        Self::LeaseRevoke,
        Self::Compact,
    ];

    /// Returns the request's name in scenario files and results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::GetSerializable => "get-serializable",
            Self::Count => "count",
            Self::Put => "put",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Create => "create",
            Self::Delete => "delete",
            Self::DeleteRange => "delete-range",
            Self::LeaseGrant => "lease-grant",
            Self::LeaseKeepAlive => "lease-keep-alive",
            Self::LeaseRevoke => "lease-revoke",
            Self::Compact => "compact",
        }
    }

    /// Returns the request with this name, if any.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|request| request.name() == name)
    }

    /// Returns whether a tier supports the request.
    #[must_use]
    pub fn runs_on(self, tier: Tier) -> bool {
        match self {
            Self::Get | Self::Create | Self::Update | Self::Delete => true,
            Self::Patch => tier == Tier::Kube,
            Self::GetSerializable
            | Self::Count
            | Self::Put
            | Self::DeleteRange
            | Self::LeaseGrant
            | Self::LeaseKeepAlive
            | Self::LeaseRevoke
            | Self::Compact => tier == Tier::Etcd,
        }
    }

    /// Returns whether the request writes objects of the data set: their revisions change, their
    /// bytes do not.
    #[must_use]
    pub fn rewrites_data(self) -> bool {
        matches!(self, Self::Put | Self::Update)
    }

    /// Returns whether the request uses keys or leases that are not part of the data set.
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
            | Self::Patch
            | Self::Compact => false,
        }
    }

    /// Returns whether the request has an effect on other users of the store that cannot be undone:
    /// it compacts the history.
    #[must_use]
    pub fn needs_own_server(self) -> bool {
        self == Self::Compact
    }

    /// Returns the request that a mix with this one must include, since this one deletes or revokes
    /// only what that one created.
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

/// A weighted mix of small requests.
///
/// In a scenario file: `"put"`, or `{ update = 90, create = 5, delete = 5 }`.
#[derive(Debug, Clone, PartialEq)]
pub struct Mix {
    /// The requests with weights above 0; never empty.
    parts: Vec<(SmallRequest, f64)>,
}

/// An invalid mix.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MixError {
    /// An unknown request.
    #[error("unknown operation `{name}`, did you mean `{suggestion}`? (small requests: {})", names().join(", "))]
    Unknown {
        /// The value in the file.
        name: String,
        /// The most similar known name.
        suggestion: &'static str,
    },
    /// A weight out of range.
    #[error("operation `{request}` has the weight {weight}, which must be a number of 0 or more")]
    Weight {
        /// The request.
        request: SmallRequest,
        /// The value in the file.
        weight: f64,
    },
    /// All weights are 0.
    #[error("the weights of an operation sum to 0, so nothing would ever be sent")]
    Nothing,
    /// A request that deletes or revokes, without the request that creates what it removes.
    #[error("a mix with `{request}` needs `{made_by}`: it takes away only what it made itself")]
    NothingToDelete {
        /// The request that deletes or revokes.
        request: SmallRequest,
        /// The request that creates what `request` removes.
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
    /// Returns a mix of requests by name.
    ///
    /// # Errors
    /// [`MixError`] with the name or the weight.
    pub fn new(weights: &BTreeMap<String, f64>) -> Result<Self, MixError> {
        let mut parts = Vec::new();
        for (name, &weight) in weights {
            let request = SmallRequest::named(name).ok_or_else(|| MixError::Unknown {
                name: name.clone(),
                suggestion: did_you_mean(name, &names()).unwrap_or("get"),
            })?;
            if !weight.is_finite() || weight < 0.0 {
                return Err(MixError::Weight { request, weight });
            }
            if weight > 0.0 {
                parts.push((request, weight));
            }
        }
        // Their order in the file does not matter.
        parts.sort_by_key(|(request, _)| *request);
        // Only ratios of weights count.
        if let [(_, weight)] = &mut parts[..] {
            *weight = 1.0;
        }
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

    /// Returns the requests, each once.
    pub fn requests(&self) -> impl Iterator<Item = SmallRequest> {
        self.parts.iter().map(|(request, _)| *request)
    }

    /// Returns the request of operation `n`. O(requests in the mix).
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
            // Rounding may leave a remainder after the last request.
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

/// The form of a mix in a file.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum WrittenMix {
    /// One request, by name.
    Name(String),
    /// Several requests with their weights.
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
    fn kinds_are_as_frequent_as_their_weights() {
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
    fn the_first_operations_equal_the_golden_ones() {
        let mix = mix(&[("get", 4.0), ("put", 1.0), ("count", 0.5)]).expect("a mix");
        let plan: String = (0..40).map(|n| &mix.request_of(1, n).name()[..1]).collect();
        assert_eq!(plan, GOLDEN);
    }

    const GOLDEN: &str = "cpcgggggpggggggpgggpggggggggggggcgpggggp";

    #[test]
    fn invalid_mixes_are_rejected_with_the_reason() {
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
