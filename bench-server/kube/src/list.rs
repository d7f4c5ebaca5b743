//! Which of cache and etcd answers a LIST, and what the cache answers.
//!
//! - [`plan`]: what is asked for
//! - [`from_etcd`]: what etcd answers

pub mod body;
pub(crate) mod encode_ahead;
mod from_etcd;
pub mod page;
mod plan;

use index::Tree;
use kube_api::{ListOptions, Status};

use self::page::{ListSource, Listing};
use self::plan::{Plan, Wanted};
use crate::cache::WatchCache;
use crate::cache::index::Candidates;
use crate::metrics::Operation;
use crate::metrics::lists::{Served, ServedFrom};
use crate::resource_handler::ResourceHandler;
use crate::storage::error::storage_error;

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
            return Err(cache.not_ready());
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
