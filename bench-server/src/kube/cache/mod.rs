//! The watch cache of one resource: filled by a list, kept by a watch, read without waiting for writers.
//!
//! - [`fill`]: the first list
//! - [`snapshots`]: older states, for pages and exact reads
//! - [`freshness`]: waiting for a revision

pub mod fill;
pub(crate) mod freshness;
pub(crate) mod snapshots;

use std::sync::Arc;
use std::time::Duration;

use etcd_api::kubernetes::{
    EventKind, KubernetesEtcd, WatchError, WatchEvent, WatchItem, WatchOptions,
};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use self::fill::{Source, StreamSupport, decode};
use self::freshness::{Freshness, Position};
use self::snapshots::Snapshots;
use super::figures::Figures;
use super::object::Object;
use super::resource::Resource;
use crate::store::index::Tree;

/// How often storage is asked what it compacted.
const COMPACTION_POLL: Duration = Duration::from_secs(15);
/// Pauses between attempts to list or watch again.
const BACKOFF: [Duration; 6] = [
    Duration::from_millis(10),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(15),
];

/// One resource's cache.
#[derive(Debug)]
pub struct WatchCache {
    resource: &'static Resource,
    prefix: Vec<u8>,
    /// Its watch has a stream of its own, since progress is answered per stream.
    stream_key: String,
    /// Held to clone or replace the tree's root, never while filtering or encoding.
    state: Mutex<State>,
    freshness: Freshness,
    figures: Figures,
    created: Instant,
}

#[derive(Debug, Default)]
struct State {
    ready: bool,
    /// When readiness was lost; `None` before the first fill.
    lost: Option<Instant>,
    revision: i64,
    tree: Tree<Object>,
    snapshots: Snapshots,
    /// Whether storage can report progress, as far as it was asked.
    progress: bool,
}

/// The cache's content at one revision.
#[derive(Debug, Clone)]
pub struct View {
    /// The revision.
    pub revision: i64,
    /// The objects.
    pub tree: Tree<Object>,
}

impl WatchCache {
    /// An empty cache; [`Self::run`] fills and keeps it.
    pub fn new(resource: &'static Resource, prefix: Vec<u8>, figures: Figures) -> Arc<Self> {
        Arc::new(Self {
            resource,
            prefix,
            stream_key: format!("cache/{}", resource.name),
            state: Mutex::default(),
            freshness: Freshness::default(),
            figures,
            created: Instant::now(),
        })
    }

    /// Whether it is filled and kept.
    pub fn is_ready(&self) -> bool {
        self.freshness.position().ready
    }

    /// Whether storage can report progress, without which no read from the cache is consistent.
    pub fn has_progress(&self) -> bool {
        self.state.lock().progress
    }

    /// How long it has not been ready.
    pub fn down(&self) -> Duration {
        self.state.lock().lost.unwrap_or(self.created).elapsed()
    }

    /// What it holds now. Constant time.
    pub fn view(&self) -> View {
        let state = self.state.lock();
        View {
            revision: state.revision,
            tree: state.tree.clone(),
        }
    }

    /// Waits until it is not older than `revision`, three seconds at most.
    ///
    /// # Errors
    /// The revision that it has then.
    pub async fn reach(&self, revision: i64) -> Result<View, i64> {
        let _timed = self.figures.wait(self.resource);
        match self.freshness.reach(revision).await {
            true => Ok(self.view()),
            false => Err(self.freshness.position().revision),
        }
    }

    /// What it held at `revision`; `None` when that is not kept (any more), or not reached yet.
    pub fn snapshot(&self, revision: i64) -> Option<View> {
        let state = self.state.lock();
        if revision > state.revision {
            return None;
        }
        state.snapshots.at(revision).map(|tree| View {
            revision,
            tree: tree.clone(),
        })
    }

    /// Fills the cache and keeps it current; never returns.
    pub async fn run(
        self: Arc<Self>,
        backend: Arc<dyn KubernetesEtcd>,
        streams: Arc<StreamSupport>,
    ) {
        let keep = self.keep(&backend, &streams);
        let progress = self.freshness.request_progress(
            backend.clone(),
            &self.stream_key,
            self.resource,
            &self.figures,
        );
        let compaction = self.follow_compaction(&backend);
        tokio::join!(keep, progress, compaction);
    }

    async fn keep(&self, backend: &Arc<dyn KubernetesEtcd>, streams: &StreamSupport) {
        let mut failures = 0;
        loop {
            let started = Instant::now();
            match self.fill(&**backend, streams).await {
                Ok(()) => {
                    self.figures
                        .filled(self.resource, started.elapsed().as_secs_f64());
                    failures = 0;
                    let gap = self.follow(&**backend).await;
                    tracing::warn!("{}: {gap}; listing again", self.resource.name);
                    self.lose();
                }
                Err(error) => {
                    self.figures.fill_failed(self.resource);
                    tracing::warn!("{}: cache fill failed: {error}", self.resource.name);
                    pause(&mut failures).await;
                }
            }
        }
    }

    async fn fill(
        &self,
        backend: &dyn KubernetesEtcd,
        streams: &StreamSupport,
    ) -> Result<(), etcd_api::error::Error> {
        let progress = backend.features().await?.request_progress;
        let source = Source {
            backend,
            resource: self.resource,
            prefix: &self.prefix,
            below: "",
            start: "",
            revision: 0,
            figures: &self.figures,
        };
        let filled = source.read(streams).await?;
        tracing::info!(
            "{}: {} objects at revision {}",
            self.resource.name,
            filled.tree.len(),
            filled.revision
        );
        self.change(|state| {
            state.snapshots.reset(filled.revision, filled.tree.clone());
            state.revision = filled.revision;
            state.tree = filled.tree;
            state.progress = progress;
            state.ready = true;
        });
        Ok(())
    }

    /// Applies what the watch delivers until events are lost; answers how. Other failures are retried from
    /// the revision reached.
    async fn follow(&self, backend: &dyn KubernetesEtcd) -> WatchError {
        let mut failures = 0;
        loop {
            let options = WatchOptions {
                start_revision: self.view().revision + 1,
                progress_notify: true,
                stream_key: self.stream_key.clone(),
                ..WatchOptions::default()
            };
            let mut error = None;
            match backend.watch(&self.prefix, options).await {
                Ok(mut watch) => loop {
                    match watch.next().await {
                        Some(Ok(WatchItem::Revision { revision, events })) => {
                            self.apply(revision, &events)
                        }
                        Some(Ok(WatchItem::Progress { revision })) => self.advance(revision),
                        Some(Err(ended)) => {
                            error = Some(ended);
                            break;
                        }
                        None => break,
                    }
                    failures = 0;
                },
                Err(refused) => error = Some(refused),
            }
            match error {
                Some(compacted @ WatchError::Compacted { .. }) => return compacted,
                Some(error) => tracing::warn!("{}: watch failed: {error}", self.resource.name),
                None => tracing::info!("{}: watch ended, watching again", self.resource.name),
            }
            pause(&mut failures).await;
        }
    }

    /// Applies one whole revision; readers see all of it or nothing.
    fn apply(&self, revision: i64, events: &[WatchEvent]) {
        let decoded: Vec<_> = events
            .iter()
            .map(|event| {
                let key = event
                    .kv
                    .key
                    .strip_prefix(&self.prefix[..])
                    .unwrap_or(&event.kv.key);
                let object = match event.kind {
                    EventKind::Put => decode(
                        self.resource,
                        key,
                        &event.kv.value,
                        event.kv.mod_revision,
                        &self.figures,
                    ),
                    EventKind::Delete => None,
                };
                (key, object)
            })
            .collect();
        self.figures.events(self.resource, events.len());
        self.change(|state| {
            if revision <= state.revision {
                return;
            }
            for (key, object) in decoded {
                match object {
                    Some(object) => drop(state.tree.insert(object)),
                    // Deleted, or not readable any more: its old state would be wrong.
                    None => drop(state.tree.remove(key)),
                }
            }
            state.revision = revision;
            let tree = state.tree.clone();
            state.snapshots.push(revision, tree);
        });
    }

    /// Everything up to `revision` was delivered.
    fn advance(&self, revision: i64) {
        self.figures.bookmark(self.resource);
        self.change(|state| state.revision = state.revision.max(revision));
    }

    fn lose(&self) {
        self.change(|state| {
            state.ready = false;
            state.lost = Some(Instant::now());
        });
    }

    /// Changes the state, then tells those who wait for it.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let position = {
            let mut state = self.state.lock();
            change(&mut state);
            let (objects, bytes) = (state.tree.len(), state.tree.weight());
            self.figures.cache(
                self.resource,
                state.revision,
                objects,
                bytes,
                state.snapshots.len(),
            );
            Position {
                ready: state.ready,
                revision: state.revision,
            }
        };
        self.freshness.publish(position);
    }

    /// Forgets snapshots that storage could not serve any more either.
    async fn follow_compaction(&self, backend: &Arc<dyn KubernetesEtcd>) {
        loop {
            sleep(COMPACTION_POLL).await;
            match backend.compacted_revision().await {
                Ok(revision) => self.change(|state| state.snapshots.compact(revision)),
                Err(error) => {
                    tracing::debug!("{}: compacted revision: {error}", self.resource.name)
                }
            }
        }
    }
}

async fn pause(failures: &mut usize) {
    sleep(BACKOFF[(*failures).min(BACKOFF.len() - 1)]).await;
    *failures += 1;
}
