//! Lists from the watch cache, and the reasons why some lists are not served from it.

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

/// The reason why a list is read from storage instead of the cache, as counted by
/// `bench_lists_from_storage_total`.
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
    /// The cache has no snapshot of the exact revision. It keeps those of the last 75 s, at least
    /// 100 and at most 4,096, but none from before storage's last compaction.
    NoSnapshot,
    /// The list is at an exact revision, and the last consistency check found the cache to differ
    /// from storage.
    Inconsistent,
    /// The list selects one object by name, at an exact revision or on a further page: storage
    /// reads one key.
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

/// The outcome of a list that the cache does not serve.
#[derive(Debug)]
pub(super) enum NotServed {
    /// Storage is read instead.
    ReadStorage(NotFromCache),
    /// The response is this Status.
    Refuse(Status),
}

impl From<NotFromCache> for NotServed {
    fn from(reason: NotFromCache) -> Self {
        Self::ReadStorage(reason)
    }
}

impl From<NoSnapshot> for NotServed {
    fn from(reason: NoSnapshot) -> Self {
        Self::ReadStorage(match reason {
            NoSnapshot::NotKept => NotFromCache::NoSnapshot,
            NoSnapshot::Inconsistent => NotFromCache::Inconsistent,
        })
    }
}

impl From<Status> for NotServed {
    fn from(status: Status) -> Self {
        Self::Refuse(status)
    }
}

impl ResourceHandler {
    /// Counts a list that is read from storage.
    pub(super) fn count_not_from_cache(&self, reason: NotFromCache) {
        let lists = &self.metrics.lists;
        lists.count_from_storage(self.resource, reason.label());
    }

    /// Lists from the cache.
    ///
    /// # Errors
    /// The reason to read storage instead, or the Status to be sent: 429 while the cache is not
    /// ready, 504 if it does not reach the revision in time, and failures of storage.
    pub(super) async fn list_from_cache(
        &self,
        cache: &WatchCache,
        plan: &ListPlan,
    ) -> Result<ObjectList, NotServed> {
        let single = plan.only_key(self.resource);
        let snapshot = self.snapshot_for(cache, plan, single.is_some()).await?;
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
        Ok(list)
    }

    /// Returns a snapshot at a revision that satisfies the plan. May wait for that revision.
    async fn snapshot_for(
        &self,
        cache: &WatchCache,
        plan: &ListPlan,
        is_single: bool,
    ) -> Result<Snapshot, NotServed> {
        let is_ready = cache.is_ready();
        let wait_until = async |revision: i64| {
            cache.wait_until_fresh(revision).await.map_err(|current| {
                Status::too_large_resource_version(revision as u64, current as u64, 1)
            })
        };
        match plan.revision {
            RevisionMatch::LatestFromStorage => Err(NotFromCache::SingleObject.into()),
            RevisionMatch::Any => {
                check_ready(cache, is_ready, plan)?;
                Ok(cache.snapshot())
            }
            RevisionMatch::NotOlderThan(revision) => {
                check_ready(cache, is_ready, plan)?;
                Ok(wait_until(revision).await?)
            }
            RevisionMatch::Exact { revision, .. } => {
                if !self.gates.list_from_cache_snapshot {
                    return Err(NotFromCache::SnapshotGateOff.into());
                }
                if !is_ready {
                    return Err(NotFromCache::NotReady.into());
                }
                // Without progress, the cache of a quiet resource may never reach the revision.
                if revision > cache.revision() && !cache.has_progress() {
                    return Err(NotFromCache::NoProgress.into());
                }
                wait_until(revision).await?;
                if is_single {
                    return Err(NotFromCache::SingleObject.into());
                }
                Ok(cache.snapshot_at(revision)?)
            }
            RevisionMatch::Consistent => {
                if !self.gates.consistent_list_from_cache {
                    return Err(NotFromCache::ConsistentListGateOff.into());
                }
                // While the cache is being filled, it may not know yet what storage supports.
                let no_progress = match is_ready {
                    true => !cache.has_progress(),
                    false => cache.lacks_progress(),
                };
                if no_progress {
                    return Err(NotFromCache::NoProgress.into());
                }
                check_ready(cache, is_ready, plan)?;
                self.snapshot_as_fresh_as_storage(cache).await
            }
        }
    }

    /// Reads the current revision of storage, and waits until the cache has reached it (KEP-2340).
    async fn snapshot_as_fresh_as_storage(
        &self,
        cache: &WatchCache,
    ) -> Result<Snapshot, NotServed> {
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
        reached.map_err(|_| NotFromCache::NotFresh.into())
    }
}

/// Checks that the cache is ready. While it is being filled, a page without selectors is read from
/// storage, and any other list is refused.
fn check_ready(cache: &WatchCache, is_ready: bool, plan: &ListPlan) -> Result<(), NotServed> {
    let is_plain_page = plan.limit > 0 && plan.filter.selects_whole_shard();
    match (is_ready, is_plain_page) {
        (true, _) => Ok(()),
        (false, true) => Err(NotFromCache::NotReady.into()),
        (false, false) => Err(cache.not_ready().into()),
    }
}
