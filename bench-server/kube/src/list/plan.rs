//! The options of a LIST, parsed: resourceVersion, resourceVersionMatch, continue and limit have
//! the same meaning as in kube-apiserver.

use kube_api::{ContinueToken, ListOptions, ResourceVersionMatch, Status};

use super::page::PageStart;
use crate::feature_gates::FeatureGates;
use crate::resource::Resource;
use crate::resource::filter::{Filter, NAME};

/// The requirement on the revision of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RevisionMatch {
    /// At least the revision of storage at the time of the request.
    Consistent,
    /// Any revision that the cache has.
    Any,
    /// This revision or a later one.
    NotOlderThan(i64),
    /// Exactly this revision. `token` if it comes from a continue token.
    Exact { revision: i64, token: bool },
    /// The latest revision of storage, without using the cache.
    LatestFromStorage,
}

/// The parsed options of a LIST.
#[derive(Debug)]
pub(super) struct ListPlan {
    /// The restriction of the list to a namespace: empty, or `NAMESPACE/`.
    pub(super) namespace_prefix: String,
    /// The first key, without the resource's prefix; empty to begin with the first of all.
    pub(super) start: String,
    pub(super) revision: RevisionMatch,
    /// The maximum number of objects; 0 for no limit.
    pub(super) limit: u64,
    /// Whether the cache applies the limit.
    pub(super) cache_limits: bool,
    pub(super) filter: Filter,
}

impl ListPlan {
    /// Parses the options of a LIST.
    ///
    /// # Errors
    /// 400 for a selector or token that cannot be parsed, 500 for a shard selector that cannot be
    /// parsed.
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

    /// Returns the key of the only object that can be selected, if a field selector requires its
    /// name.
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
