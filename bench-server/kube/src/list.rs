//! Which of cache and etcd answers a LIST, and what the cache answers.
//!
//! - [`plan`]: what is asked for
//! - [`from_etcd`]: what etcd answers

pub mod body;
pub(crate) mod encode_ahead;
mod from_etcd;
pub mod page;
mod plan;

use std::sync::Arc;

use etcd_api::error::{Error, Refusal};
use etcd_api::kubernetes::KubernetesEtcd;
use index::Tree;
use kube_api::{ListOptions, Status};
use memory::admission::Admission;

use self::page::{ListSource, Listing};
use self::plan::{Plan, Wanted};
use crate::cache::WatchCache;
use crate::cache::index::Candidates;
use crate::feature_gates::FeatureGates;
use crate::metrics::lists::{Served, ServedFrom};
use crate::metrics::{Figures, Operation};
use crate::resource::Resource;
use crate::storage::decoder::Decoder;
use crate::storage::list_reader::StreamSupport;

/// Where one resource's lists come from.
#[derive(Clone)]
pub struct ResourceHandler {
    /// The resource.
    pub resource: &'static Resource,
    /// Its prefix in storage.
    pub prefix: Vec<u8>,
    /// Its cache; `None` with `--watch-cache=false`.
    pub cache: Option<Arc<WatchCache>>,
    /// What is switched off.
    pub gates: FeatureGates,
    /// Storage.
    pub backend: Arc<dyn KubernetesEtcd>,
    /// Whether storage has RangeStream.
    pub streams: Arc<StreamSupport>,
    /// Metrics.
    pub figures: Figures,
    /// Room for lists that are read from storage as a whole.
    pub admission: Admission,
}

impl std::fmt::Debug for ResourceHandler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ResourceHandler({})", self.resource.name)
    }
}

impl ResourceHandler {
    /// Answers a LIST of all namespaces (`namespace` empty) or of one.
    ///
    /// # Errors
    /// The Status to be sent: bad options, an expired or unreached revision, storage's failures.
    pub async fn list(&self, namespace: &str, options: &ListOptions) -> Result<Listing, Status> {
        options.validate_list()?;
        let plan = Plan::new(self.resource, namespace, options, self.gates)?;
        let mut listing = match &self.cache {
            None => self.ask_etcd(&plan).await?,
            Some(cache) => match self.ask_cache(cache, &plan).await? {
                Some(listing) => listing,
                None => self.ask_etcd(&plan).await?,
            },
        };
        if let Some(shard) = plan.filter.shard() {
            listing.meta.shard_selector = shard.to_string();
        }
        self.figures.lists.served(self.resource, listing.served);
        Ok(listing)
    }

    /// Reads what storage has of the resource.
    pub(super) fn decoder(&self) -> Decoder<'_> {
        Decoder {
            resource: self.resource,
            prefix: &self.prefix,
            figures: &self.figures,
        }
    }

    /// The cache's answer; `None` where the table sends the request to etcd.
    async fn ask_cache(&self, cache: &WatchCache, plan: &Plan) -> Result<Option<Listing>, Status> {
        if !cache.is_ready() {
            let page = plan.limit > 0 && plan.filter.is_empty();
            let past_the_cache = match plan.wanted {
                Wanted::Exact { .. } | Wanted::Stored => true,
                Wanted::Consistent => {
                    !self.gates.consistent_list_from_cache || cache.lacks_progress()
                }
                Wanted::Any | Wanted::NotOlderThan(_) => false,
            };
            let etcd_anyway = page || past_the_cache;
            if etcd_anyway {
                return Ok(None);
            }
            return Err(not_ready(cache));
        }
        let late = |revision: i64, current: i64| {
            Status::too_large_resource_version(revision as u64, current as u64, 1)
        };
        let only = plan.only_key(self.resource);
        let view = match plan.wanted {
            Wanted::Stored => return Ok(None),
            Wanted::Any => cache.view(),
            Wanted::NotOlderThan(revision) => cache
                .reach(revision)
                .await
                .map_err(|current| late(revision, current))?,
            Wanted::Exact { revision, .. } => {
                // Without progress a quiet resource's cache may never get there.
                let in_reach = revision <= cache.revision() || cache.has_progress();
                if !self.gates.list_from_cache_snapshot || !in_reach {
                    return Ok(None);
                }
                cache
                    .reach(revision)
                    .await
                    .map_err(|current| late(revision, current))?;
                // A state that was has no way to one object: storage is read.
                match cache.snapshot(revision) {
                    Some(view) if only.is_none() => view,
                    _ => return Ok(None),
                }
            }
            Wanted::Consistent => {
                if !self.gates.consistent_list_from_cache || !cache.has_progress() {
                    return Ok(None);
                }
                let timed = self
                    .figures
                    .etcd_request(Operation::GetCurrentResourceVersion, self.resource);
                let current = self
                    .backend
                    .current_revision(&self.prefix)
                    .await
                    .map_err(storage_error)?;
                drop(timed);
                let reached = cache.reach(current).await;
                self.figures.consistent_read(self.resource, reached.is_ok());
                match reached {
                    Ok(view) => view,
                    Err(_) => return Ok(None),
                }
            }
        };
        let limit = if plan.cache_limits { plan.limit } else { 0 };
        let candidates = match &only {
            Some(key) => {
                let mut one = Tree::default();
                if let Some(object) = view.tree.get(key.as_bytes()) {
                    one.insert(object.clone());
                }
                Candidates::all(one)
            }
            None => cache.candidates(&view, &plan.filter),
        };
        let Candidates { objects, index } = candidates;
        let state = ListSource {
            revision: view.revision,
            objects,
            behind: None,
            served: Served::by(ServedFrom::Cache, index),
        };
        let open = cache.open_list(&view);
        let mut listing = state.page(plan.from(), limit, &plan.filter).await;
        listing.open = Some(open);
        Ok(Some(listing))
    }
}

/// What a client is told whose request needs a cache that is not filled: when to come back.
pub(crate) fn not_ready(cache: &WatchCache) -> Status {
    let seconds = (0.06 * cache.down().as_secs_f64()).exp().clamp(1.0, 30.0);
    Status::too_many_requests("storage is (re)initializing", seconds as u32)
}

/// What a client is told for whose response there is no room: an apiserver's words, and when to come back.
pub(crate) fn too_busy() -> Status {
    Status::too_many_requests("Too many requests, please try again later.", 1)
}

/// Storage's failure as the client sees it.
pub(crate) fn storage_error(error: Error) -> Status {
    match error {
        Error::Refused(Refusal::Compacted) => Status::expired_resource_version(),
        Error::Refused(Refusal::TooManyRequests) => too_busy(),
        // Who knows which revision was asked for names it; clients look at the cause.
        Error::Refused(Refusal::FutureRevision) => Status::too_large_resource_version(0, 0, 0),
        Error::Unreachable { .. } | Error::Refused(Refusal::DeadlineExceeded) => {
            Status::server_timeout(error.to_string())
        }
        Error::Status {
            code: tonic::Code::Unavailable | tonic::Code::DeadlineExceeded,
            ..
        } => Status::server_timeout(error.to_string()),
        other => Status::internal(other.to_string()),
    }
}
