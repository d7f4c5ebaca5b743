//! WATCH: sends the objects of a resource, then their changes, in one long response.
//!
//! - [`plan`]: parses the options; [`start`]: the initial objects, and the source of events
//! - [`mod@body`]: the response's body: initial events, then the cache's history, then live events
//! - [`event_encoder`]: encodes events; [`event_buffer`]: collects events into one chunk of the
//!   body; [`gzip`]: compresses chunks
//! - [`uncached`]: watches without a cache, by a watch of storage for each client

pub mod body;
pub mod event_encoder;

mod event_buffer;
mod gzip;
mod plan;
mod start;
mod uncached;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use kube_api::{ListOptions, Status};

use self::body::WatchBody;
use self::event_encoder::EventEncoder;
use self::plan::{StartRevision, StartWith, WatchPlan};
use self::start::{EventSource, WatchStart};
use self::uncached::StorageWatcher;
use crate::cache::WatchCache;
use crate::cache::broadcaster::interest::Interest;
use crate::metrics::Operation;
use crate::resource::filter::Filter;
use crate::resource::representation::Representation;
use crate::resource_handler::ResourceHandler;
use crate::shard::object_set::ObjectSet;
use crate::storage::error::storage_error;
use crate::storage::list_reader::ListReader;

impl ResourceHandler {
    /// Watches the objects of one namespace, or of all if `namespace` is empty. `gzip` says whether
    /// the client accepts that encoding.
    ///
    /// # Errors
    /// The Status to be sent if the options are invalid or the cache is not ready. Later failures
    /// are sent as an ERROR event in a response with code 200.
    pub async fn watch(
        &self,
        namespace: &str,
        options: &ListOptions,
        representation: Representation,
        gzip: bool,
    ) -> Result<WatchBody, Status> {
        options.validate_watch(self.gates.watch_list)?;
        let plan = WatchPlan::new(options, self.gates.watch_list)?;
        let namespace_prefix = match namespace {
            "" => String::new(),
            namespace => format!("{namespace}/"),
        };
        let filter = Filter::parse(self.resource, options, self.gates)?;
        let shard = filter.shard().map(ToString::to_string);
        let selectors = format!(
            "{}\n{}\n{}",
            options.label_selector,
            options.field_selector,
            shard.unwrap_or_default()
        );
        let interest = Arc::new(Interest::new(namespace_prefix, filter, &selectors));
        if let Some(cache) = &self.cache
            && !cache.is_ready()
        {
            return Err(cache.not_ready());
        }
        let gzip = gzip && plan.is_watch_list() && self.gates.watch_list_compression;
        let began = tokio::time::Instant::now();
        let start = match &self.cache {
            Some(cache) => self.start_from_cache(cache, &plan, &interest).await,
            None => self.start_from_storage(&plan, &interest).await,
        };
        let encoder = EventEncoder::new(self.resource, representation);
        let body = WatchBody::new(
            plan,
            interest,
            encoder,
            start,
            self.metrics.watch.clone(),
            began,
        );
        Ok(match gzip {
            true => body.compressed(),
            false => body,
        })
    }

    async fn start_from_cache(
        &self,
        cache: &Arc<WatchCache>,
        plan: &WatchPlan,
        interest: &Interest,
    ) -> Result<WatchStart, Status> {
        if plan.is_watch_list() && !cache.has_progress() {
            return Err(Status::internal_error(
                "a watch stream was requested by the client but etcd cannot report its progress",
            ));
        }
        let snapshot_at = async |revision| match cache.wait_until_fresh(revision).await {
            Ok(snapshot) => Ok(snapshot),
            Err(current) => Err(Status::too_large_resource_version(
                revision as u64,
                current as u64,
                1,
            )),
        };
        let snapshot = match plan.start {
            StartWith::InitialEvents(StartRevision::Any) => cache.snapshot(),
            StartWith::InitialEvents(StartRevision::Latest) => {
                snapshot_at(self.current_revision().await?).await?
            }
            StartWith::InitialEvents(StartRevision::At(revision)) => snapshot_at(revision).await?,
            StartWith::EventsAfter(after) => {
                let revision = match after {
                    StartRevision::Any => cache.snapshot().revision,
                    StartRevision::Latest => self.current_revision().await?,
                    StartRevision::At(revision) => revision,
                };
                let generation = cache
                    .resume_after(revision)
                    .map_err(|too_old| Status::expired_watch(revision, too_old.floor))?;
                return Ok(WatchStart {
                    objects: None,
                    revision,
                    source: EventSource::Cache(cache.clone(), generation),
                    open: None,
                });
            }
        };
        Ok(WatchStart {
            objects: Some(cache.shard(&snapshot, interest.filter()).objects),
            revision: snapshot.revision,
            source: EventSource::Cache(cache.clone(), snapshot.generation),
            open: Some(cache.open_list(&snapshot)),
        })
    }

    async fn start_from_storage(
        &self,
        plan: &WatchPlan,
        interest: &Interest,
    ) -> Result<WatchStart, Status> {
        let source = EventSource::Etcd(Box::new(StorageWatcher {
            backend: self.backend.clone(),
            resource: self.resource,
            prefix: self.prefix.clone(),
            metrics: self.metrics.clone(),
        }));
        let wanted = match plan.start {
            StartWith::InitialEvents(StartRevision::At(revision)) => revision,
            StartWith::InitialEvents(_) => 0,
            StartWith::EventsAfter(after) => {
                let revision = match after {
                    StartRevision::At(revision) => revision,
                    StartRevision::Any | StartRevision::Latest => self.current_revision().await?,
                };
                return Ok(WatchStart {
                    objects: None,
                    revision,
                    source,
                    open: None,
                });
            }
        };
        let reader = ListReader {
            backend: &*self.backend,
            decoder: self.decoder(),
            namespace_prefix: interest.namespace_prefix(),
            start: "",
            revision: 0,
        };
        let listed = reader.read(&self.streams).await.map_err(storage_error)?;
        if listed.revision < wanted {
            let (wanted, current) = (wanted as u64, listed.revision as u64);
            return Err(Status::too_large_resource_version(wanted, current, 1));
        }
        Ok(WatchStart {
            objects: Some(ObjectSet::All(listed.tree)),
            revision: listed.revision,
            source,
            open: None,
        })
    }

    async fn current_revision(&self) -> Result<i64, Status> {
        let _timed = self
            .metrics
            .etcd_request(Operation::GetCurrentResourceVersion, self.resource);
        let read = self.backend.current_revision(&self.prefix).await;
        read.map_err(storage_error)
    }
}
