//! What a LIST asks for: an apiserver's table of resourceVersion, resourceVersionMatch, continue
//! and limit.

use kube_api::{ContinueToken, ListOptions, ResourceVersionMatch, Status};

use super::page::PageStart;
use crate::feature_gates::FeatureGates;
use crate::resource::Resource;
use crate::resource::filter::{Filter, NAME};

/// Which revision a list must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RevisionMatch {
    /// At least storage's at the time of the request.
    Consistent,
    /// Any that the cache holds.
    Any,
    /// This one or a later one.
    NotOlderThan(i64),
    /// Exactly this one. `token` if a continue token names it.
    Exact { revision: i64, token: bool },
    /// The latest of storage, without asking the cache.
    LatestFromStorage,
}

/// The options of a LIST, understood.
#[derive(Debug)]
pub(super) struct ListPlan {
    /// What the list is restricted to: empty, or `NAMESPACE/`.
    pub(super) namespace_prefix: String,
    /// First key below the resource's prefix; empty for the first of all.
    pub(super) start: String,
    pub(super) revision: RevisionMatch,
    /// 0 for none.
    pub(super) limit: u64,
    /// Whether the cache applies the limit.
    pub(super) cache_limits: bool,
    pub(super) filter: Filter,
}

impl ListPlan {
    /// Reads the options, as the table says.
    ///
    /// # Errors
    /// 400 for a selector or token that cannot be read, 500 for a shard selector that cannot.
    pub(super) fn new(
        resource: &'static Resource,
        namespace: &str,
        options: &ListOptions,
        gates: FeatureGates,
    ) -> Result<Self, Status> {
        let namespace_prefix = if namespace.is_empty() {
            String::new()
        } else {
            format!("{namespace}/")
        };
        let limit = options.limit;
        let filter = Filter::parse(resource, options, gates)?;
        // With resourceVersion=0 the cache ignores the limit.
        let cache_limits = options.resource_version != "0";
        let mut plan = Self {
            namespace_prefix,
            start: String::new(),
            revision: RevisionMatch::Consistent,
            limit,
            cache_limits,
            filter,
        };
        if !options.continue_token.is_empty() {
            let token = ContinueToken::decode(&options.continue_token)
                .map_err(|error| Status::bad_request(format!("invalid continue token: {error}")))?;
            if token.resource_version > 0 {
                plan.revision = RevisionMatch::Exact {
                    revision: token.resource_version,
                    token: true,
                };
            }
            plan.start = format!("{}{}", plan.namespace_prefix, token.start);
            // A further page of one object is read from storage.
            if plan.only_key(resource).is_some() && plan.revision == RevisionMatch::Consistent {
                plan.revision = RevisionMatch::LatestFromStorage;
            }
            return Ok(plan);
        }
        let revision = options.revision()?.map(|revision| revision as i64);
        plan.revision = match (revision, &options.resource_version_match) {
            (None, _) => RevisionMatch::Consistent,
            (Some(0), _) => RevisionMatch::Any,
            (Some(revision), Some(ResourceVersionMatch::Exact)) => RevisionMatch::Exact {
                revision,
                token: false,
            },
            (Some(revision), None) if limit > 0 => RevisionMatch::Exact {
                revision,
                token: false,
            },
            (Some(revision), _) => RevisionMatch::NotOlderThan(revision),
        };
        Ok(plan)
    }

    /// Returns the key of the one object that can be selected, if the field selector names it.
    pub(super) fn only_key(&self, resource: &Resource) -> Option<String> {
        let name = self.filter.demands_field(NAME)?;
        let placed = resource.namespaced != self.namespace_prefix.is_empty();
        (placed && is_path_segment(name)).then(|| format!("{}{name}", self.namespace_prefix))
    }

    pub(super) fn from(&self) -> PageStart<'_> {
        PageStart {
            namespace_prefix: &self.namespace_prefix,
            start: &self.start,
        }
    }
}

/// Returns whether a name can be a segment of a storage key.
fn is_path_segment(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '%'])
}
