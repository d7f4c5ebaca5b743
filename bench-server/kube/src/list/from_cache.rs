//! Lists that the watch cache serves, and the reasons why it does not serve others.

use index::Tree;
use kube_api::Status;

use super::page::{ListSource, ObjectList};
use super::plan::{ListPlan, RevisionMatch};
use crate::cache::index::Candidates;
use crate::cache::{NoSnapshot, Snapshot, WatchCache};
use crate::metrics::Operation;
use crate::metrics::lists::{ListStats, ServedFrom};
use crate::resource_handler::ResourceHandler;
use crate::storage::error::storage_error;

/// Why a list is read from storage instead of the cache. `bench_lists_from_storage_total` counts by
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotFromCache {
    /// There is no cache (`--watch-cache=false`).
    NoCache,
    /// The cache is being filled. Lists at an exact revision, and pages without selectors, are read
    /// from storage meanwhile; others are refused.
    NotReady,
    /// The list is consistent, and the gate `ConsistentListFromCache` is off.
    ConsistentListGateOff,
    /// The list is at an exact revision, or a further page, and the gate `ListFromCacheSnapshot` is
    /// off.
    SnapshotGateOff,
    /// Storage is not known to report watch progress. Without it the cache of a quiet resource
    /// cannot know that it is current.
    NoProgress,
    /// The list is consistent, and the cache did not reach storage's revision in time (3 s).
    NotFresh,
    /// The cache has no snapshot of the exact revision. It keeps those of the last 75 s, at most
    /// 4,096, and none from before storage's last compaction.
    NoSnapshot,
    /// The list is at an exact revision, and the last consistency check found the cache to differ
    /// from storage.
    Inconsistent,
    /// The list is of one object, at an exact revision or on a further page: storage reads one key.
    SingleObject,
}

impl NotFromCache {
    /// Returns the value of the label `reason`.
    fn label(self) -> &'static str {
        match self {
            Self::NoCache => "no_cache",
            Self::NotReady => "not_ready",
            Self::ConsistentListGateOff => "consistent_list_gate_off",
            Self::SnapshotGateOff => "snapshot_gate_off",
            Self::NoProgress => "no_progress",
            Self::NotFresh => "not_fresh",
            Self::NoSnapshot => "no_snapshot",
            Self::Inconsistent => "inconsistent",
            Self::SingleObject => "single_object",
        }
    }
}

impl From<NoSnapshot> for NotFromCache {
    fn from(reason: NoSnapshot) -> Self {
        match reason {
            NoSnapshot::NotKept => Self::NoSnapshot,
            NoSnapshot::Inconsistent => Self::Inconsistent,
        }
    }
}

impl ResourceHandler {
    /// Counts a list that is read from storage.
    pub(super) fn count_not_from_cache(&self, reason: NotFromCache) {
        let lists = &self.metrics.lists;
        lists.count_from_storage(self.resource, reason.label());
    }

    /// Lists from the cache, or returns why storage is to be read instead.
    ///
    /// # Errors
    /// The Status to be sent: 429 while the cache is not ready, 504 if it does not reach the
    /// revision in time, and failures of storage.
    pub(super) async fn list_from_cache(
        &self,
        cache: &WatchCache,
        plan: &ListPlan,
    ) -> Result<Result<ObjectList, NotFromCache>, Status> {
        let is_ready = cache.is_ready();
        if let Err(reason) = self.may_serve(cache, is_ready, plan) {
            return Ok(Err(reason));
        }
        if !is_ready {
            return Err(cache.not_ready());
        }
        let single = plan.only_key(self.resource);
        let snapshot = match self.snapshot_for(cache, plan, single.is_some()).await? {
            Ok(snapshot) => snapshot,
            Err(reason) => return Ok(Err(reason)),
        };
        let limit = if plan.cache_limits { plan.limit } else { 0 };
        let candidates = match &single {
            Some(key) => {
                let mut one = Tree::default();
                if let Some(object) = snapshot.tree.get(key.as_bytes()) {
                    one.insert(object.clone());
                }
                Candidates::all(one)
            }
            None => cache.candidates(&snapshot, &plan.filter),
        };
        let Candidates { objects, index } = candidates;
        let source = ListSource {
            revision: snapshot.revision,
            objects,
            remainder: None,
            stats: ListStats::by(ServedFrom::Cache, index),
        };
        let open = cache.open_list(&snapshot);
        let mut list = source.page(plan.from(), limit, &plan.filter).await;
        list.open = Some(open);
        Ok(Ok(list))
    }

    /// Checks what can be checked without waiting: gates, storage's features, readiness.
    fn may_serve(
        &self,
        cache: &WatchCache,
        is_ready: bool,
        plan: &ListPlan,
    ) -> Result<(), NotFromCache> {
        match plan.revision {
            RevisionMatch::LatestFromStorage => return Err(NotFromCache::SingleObject),
            RevisionMatch::Consistent => {
                if !self.gates.consistent_list_from_cache {
                    return Err(NotFromCache::ConsistentListGateOff);
                }
                // While it is being filled, the cache may not have heard yet what storage supports.
                let no_progress = match is_ready {
                    true => !cache.has_progress(),
                    false => cache.lacks_progress(),
                };
                if no_progress {
                    return Err(NotFromCache::NoProgress);
                }
            }
            RevisionMatch::Exact { revision, .. } => {
                if !self.gates.list_from_cache_snapshot {
                    return Err(NotFromCache::SnapshotGateOff);
                }
                if !is_ready {
                    return Err(NotFromCache::NotReady);
                }
                // Without progress, the cache of a quiet resource may never reach the revision.
                if revision > cache.revision() && !cache.has_progress() {
                    return Err(NotFromCache::NoProgress);
                }
            }
            RevisionMatch::Any | RevisionMatch::NotOlderThan(_) => {}
        }
        let is_plain_page = plan.limit > 0 && plan.filter.is_empty();
        match !is_ready && is_plain_page {
            true => Err(NotFromCache::NotReady),
            false => Ok(()),
        }
    }

    /// Returns a snapshot at a revision that satisfies the plan, which may have to be waited for.
    async fn snapshot_for(
        &self,
        cache: &WatchCache,
        plan: &ListPlan,
        is_single: bool,
    ) -> Result<Result<Snapshot, NotFromCache>, Status> {
        let reach = async |revision: i64| {
            cache.wait_until_fresh(revision).await.map_err(|current| {
                Status::too_large_resource_version(revision as u64, current as u64, 1)
            })
        };
        Ok(match plan.revision {
            RevisionMatch::LatestFromStorage => Err(NotFromCache::SingleObject),
            RevisionMatch::Any => Ok(cache.snapshot()),
            RevisionMatch::NotOlderThan(revision) => Ok(reach(revision).await?),
            RevisionMatch::Exact { revision, .. } => {
                reach(revision).await?;
                match is_single {
                    true => Err(NotFromCache::SingleObject),
                    false => cache.snapshot_at(revision).map_err(NotFromCache::from),
                }
            }
            RevisionMatch::Consistent => {
                let timed = self
                    .metrics
                    .etcd_request(Operation::GetCurrentResourceVersion, self.resource);
                let current = self
                    .backend
                    .current_revision(&self.prefix)
                    .await
                    .map_err(storage_error)?;
                drop(timed);
                let reached = cache.wait_until_fresh(current).await;
                self.metrics.consistent_read(self.resource, reached.is_ok());
                reached.map_err(|_| NotFromCache::NotFresh)
            }
        })
    }
}
