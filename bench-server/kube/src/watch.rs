//! WATCH: the state of a resource, then its changes, as one long answer.
//!
//! - [`plan`]: where a watch begins, by the apiserver's table of resourceVersion and sendInitialEvents
//! - [`body`]: the answer as it is sent: initial events from a view, then the cache's ring, then live
//! - [`event_encoder`]: one event on the wire; [`event_buffer`]: many of them in one piece;
//!   [`gzip`]: compressed
//! - [`uncached`]: without a cache, one watch of storage for each client

pub mod body;
pub mod event_encoder;

mod event_buffer;
mod gzip;
mod plan;
mod source;
mod uncached;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use kube_api::{ListOptions, Status};

use self::body::WatchBody;
use self::event_encoder::EventEncoder;
use self::plan::{After, Plan, Start};
use self::source::{Beginning, Feed};
use self::uncached::Direct;
use crate::cache::WatchCache;
use crate::cache::broadcaster::interest::Interest;
use crate::metrics::Operation;
use crate::resource::filter::Filter;
use crate::resource::representation::Form;
use crate::resource_handler::ResourceHandler;
use crate::shard::objects::Objects;
use crate::storage::error::storage_error;
use crate::storage::list_reader::Source;

impl ResourceHandler {
    /// Answers a WATCH of all namespaces (`namespace` empty) or of one. `gzip` when the client takes it.
    ///
    /// # Errors
    /// What is refused before the answer begins: bad options, a cache that is not ready. Everything later is
    /// an ERROR event in an answer with code 200.
    pub async fn watch(
        &self,
        namespace: &str,
        options: &ListOptions,
        form: Form,
        gzip: bool,
    ) -> Result<WatchBody, Status> {
        options.validate_watch(self.gates.watch_list)?;
        let plan = Plan::new(options, self.gates.watch_list)?;
        let below = match namespace {
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
        let interest = Arc::new(Interest::new(below, filter, &selectors));
        if let Some(cache) = &self.cache
            && !cache.is_ready()
        {
            return Err(cache.not_ready());
        }
        let gzip = gzip && plan.is_watch_list() && self.gates.watch_list_compression;
        let began = tokio::time::Instant::now();
        let beginning = match &self.cache {
            Some(cache) => self.begin_cached(cache, &plan, &interest).await,
            None => self.begin_direct(&plan, &interest).await,
        };
        let encoder = EventEncoder::new(self.resource, form);
        let body = WatchBody::new(
            plan,
            interest,
            encoder,
            beginning,
            self.figures.watch.clone(),
            began,
        );
        Ok(match gzip {
            true => body.compressed(),
            false => body,
        })
    }

    async fn begin_cached(
        &self,
        cache: &Arc<WatchCache>,
        plan: &Plan,
        interest: &Interest,
    ) -> Result<Beginning, Status> {
        if plan.is_watch_list() && !cache.has_progress() {
            return Err(Status::internal_error(
                "a watch stream was requested by the client but etcd cannot report its progress",
            ));
        }
        let state_at = async |revision| match cache.reach(revision).await {
            Ok(view) => Ok(view),
            Err(current) => Err(Status::too_large_resource_version(
                revision as u64,
                current as u64,
                1,
            )),
        };
        let view = match plan.start {
            Start::State(After::Anything) => cache.view(),
            Start::State(After::Now) => state_at(self.current_revision().await?).await?,
            Start::State(After::Revision(revision)) => state_at(revision).await?,
            Start::Events(after) => {
                let revision = match after {
                    After::Anything => cache.view().revision,
                    After::Now => self.current_revision().await?,
                    After::Revision(revision) => revision,
                };
                let generation = cache
                    .can_resume(revision)
                    .map_err(|too_old| Status::expired_watch(revision, too_old.floor))?;
                return Ok(Beginning {
                    state: None,
                    revision,
                    feed: Feed::Cache(cache.clone(), generation),
                    open: None,
                });
            }
        };
        Ok(Beginning {
            state: Some(cache.shard(&view, interest.filter()).objects),
            revision: view.revision,
            feed: Feed::Cache(cache.clone(), view.generation),
            open: Some(cache.open_list(&view)),
        })
    }

    async fn begin_direct(&self, plan: &Plan, interest: &Interest) -> Result<Beginning, Status> {
        let feed = Feed::Etcd(Box::new(Direct {
            backend: self.backend.clone(),
            resource: self.resource,
            prefix: self.prefix.clone(),
            figures: self.figures.clone(),
        }));
        let wanted = match plan.start {
            Start::State(After::Revision(revision)) => revision,
            Start::State(_) => 0,
            Start::Events(after) => {
                let revision = match after {
                    After::Revision(revision) => revision,
                    After::Anything | After::Now => self.current_revision().await?,
                };
                return Ok(Beginning {
                    state: None,
                    revision,
                    feed,
                    open: None,
                });
            }
        };
        let source = Source {
            backend: &*self.backend,
            decoder: self.decoder(),
            below: interest.below(),
            start: "",
            revision: 0,
        };
        let filled = source.read(&self.streams).await.map_err(storage_error)?;
        if filled.revision < wanted {
            let (wanted, current) = (wanted as u64, filled.revision as u64);
            return Err(Status::too_large_resource_version(wanted, current, 1));
        }
        Ok(Beginning {
            state: Some(Objects::All(filled.tree)),
            revision: filled.revision,
            feed,
            open: None,
        })
    }

    async fn current_revision(&self) -> Result<i64, Status> {
        let _timed = self
            .figures
            .etcd_request(Operation::GetCurrentResourceVersion, self.resource);
        let read = self.backend.current_revision(&self.prefix).await;
        read.map_err(storage_error)
    }
}
