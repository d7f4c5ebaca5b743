//! Keeps the cache current for as long as the tier runs: lists, then watches, as client-go's
//! reflector does.

use std::sync::Arc;
use std::time::Duration;

use etcd_api::kubernetes::{
    EventKind, KubernetesEtcd, Watch, WatchError, WatchEvent, WatchItem, WatchOptions,
};
use index::Item;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::WatchCache;
use super::dispatcher;
use super::dispatcher::Batch;
use super::event::Event;
use super::event_history::Resized;
use super::freshness::WAIT_TIMEOUT;
use crate::metrics::watch::Stage;
use crate::resource::object::Object;
use crate::storage::list_reader::StreamSupport;

/// The interval at which storage is asked for its compacted revision.
const COMPACTION_POLL: Duration = Duration::from_secs(15);
/// The pauses before consecutive attempts to list or watch again, and to ask for storage's
/// features.
const BACKOFF: [Duration; 6] = [
    Duration::from_millis(10),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(15),
];
/// The number of these pauses for attempts to watch again. They stay short, because readers wait
/// for the cache meanwhile, and an attempt is a single request without objects in its response.
const WATCH_PAUSES: usize = 4;

/// The duration of a watch after which the pauses start over.
const STEADY: Duration = Duration::from_secs(30);

/// The reason why storage's watch has ended.
#[derive(Debug)]
enum Interruption {
    /// Events are lost, so all objects have to be listed again.
    Gap(WatchError),
    /// Storage still has the next events.
    Break(WatchError),
}

impl From<WatchError> for Interruption {
    fn from(error: WatchError) -> Self {
        match error {
            WatchError::Compacted { .. } => Self::Gap(error),
            _ => Self::Break(error),
        }
    }
}

impl WatchCache {
    /// Fills the cache and keeps it current. Never returns.
    pub async fn run(
        self: Arc<Self>,
        backend: Arc<dyn KubernetesEtcd>,
        streams: Arc<StreamSupport>,
    ) {
        let (incoming, batches) = mpsc::channel(dispatcher::QUEUE);
        // Each has a task of its own, so that none waits while another computes.
        let mut tasks = JoinSet::new();
        let part = || (self.clone(), backend.clone(), streams.clone());
        let (cache, storage, support) = part();
        tasks.spawn(async move { cache.list_and_watch(&*storage, &support, &incoming).await });
        let (cache, ..) = part();
        tasks.spawn(async move {
            dispatcher::run(&cache.broadcaster, batches, cache.resource, &cache.metrics).await;
        });
        let (cache, storage, _) = part();
        tasks.spawn(async move { cache.retry_progress_check(&*storage).await });
        let (cache, storage, _) = part();
        tasks.spawn(async move {
            let (key, metrics) = (&cache.stream_key, &cache.metrics);
            let requests = cache
                .freshness
                .request_progress(storage, key, cache.resource, metrics);
            requests.await;
        });
        let (cache, storage, _) = part();
        tasks.spawn(async move { cache.watch_compaction(&*storage).await });
        let (cache, ..) = part();
        tasks.spawn(async move { cache.build_indexes().await });
        let (cache, storage, support) = part();
        tasks.spawn(async move { cache.check_consistency(&*storage, &support).await });
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended
                && error.is_panic()
            {
                // A cache without one of its tasks would silently be wrong. The tier reports the
                // panic.
                std::panic::resume_unwind(error.into_panic());
            }
        }
    }

    async fn list_and_watch(
        &self,
        backend: &dyn KubernetesEtcd,
        streams: &StreamSupport,
        incoming: &mpsc::Sender<Batch>,
    ) {
        // The numbers of consecutive lists that failed, and of consecutive watches that ended soon.
        let (mut failures, mut losses) = (0, 0);
        loop {
            let started = Instant::now();
            match self.initial_list(backend, streams).await {
                Ok(revision) => {
                    self.metrics
                        .initialized(self.resource, started.elapsed().as_secs_f64());
                    failures = 0;
                    self.send(incoming, Batch::reached(revision)).await;
                    let followed = Instant::now();
                    let gap = self.watch_storage(backend, incoming).await;
                    tracing::warn!(
                        "{}: storage's watch lost events ({gap}); listing everything again",
                        self.resource.name
                    );
                    self.lose_readiness(incoming).await;
                    // If storage ended every watch immediately, listing everything again without a
                    // pause would overload it.
                    if followed.elapsed() >= STEADY {
                        losses = 0;
                    }
                    pause(&BACKOFF, &mut losses).await;
                }
                Err(error) => {
                    self.metrics.initialization_failed(self.resource);
                    tracing::warn!(
                        "{}: the watch cache's initial list failed, trying again: {error}",
                        self.resource.name
                    );
                    pause(&BACKOFF, &mut failures).await;
                }
            }
        }
    }

    /// Asks storage whether its progress notifications can be relied on. Unless storage confirms
    /// it, the cache does not rely on them, and asks again later.
    pub(super) async fn check_progress_support(&self, backend: &dyn KubernetesEtcd) {
        let progress = match timeout(WAIT_TIMEOUT, backend.features()).await {
            Ok(Ok(features)) => Some(features.request_progress),
            Ok(Err(error)) => {
                tracing::debug!(
                    "{}: cannot read storage's features, asking again: {error}",
                    self.resource.name
                );
                None
            }
            Err(_) => None,
        };
        let believed = progress == Some(true);
        self.metrics.progress_supported(self.resource, believed);
        self.change(|state| state.progress = progress);
        if !believed {
            self.progress_unknown.notify_one();
        }
    }

    /// Asks again, at growing intervals, while storage is not known to report progress, because
    /// servers may be upgraded.
    async fn retry_progress_check(&self, backend: &dyn KubernetesEtcd) {
        loop {
            self.progress_unknown.notified().await;
            let mut failures = 0;
            while !self.has_progress() {
                pause(&BACKOFF, &mut failures).await;
                self.check_progress_support(backend).await;
            }
        }
    }

    /// Applies the events of storage's watch until some are lost, and returns the reason. After
    /// other failures, watches again from the revision that the cache has reached.
    async fn watch_storage(
        &self,
        backend: &dyn KubernetesEtcd,
        incoming: &mpsc::Sender<Batch>,
    ) -> WatchError {
        let mut failures = 0;
        loop {
            let interruption = match self.open_watch(backend).await {
                Ok(mut watch) => loop {
                    let batch = match watch.next().await {
                        Some(Ok(WatchItem::Revision { revision, events })) => {
                            self.apply(revision, &events, Instant::now())
                        }
                        Some(Ok(WatchItem::Progress { revision })) => self.note_progress(revision),
                        Some(Err(ended)) => break Some(Interruption::from(ended)),
                        None => break None,
                    };
                    self.send(incoming, batch).await;
                    failures = 0;
                },
                Err(failed) => Some(failed),
            };
            match interruption {
                Some(Interruption::Gap(error)) => return error,
                Some(Interruption::Break(error)) if failures == 0 => tracing::warn!(
                    "{}: storage's watch failed, watching again: {error}",
                    self.resource.name
                ),
                // It is tried again each second, for as long as storage is gone.
                Some(Interruption::Break(error)) => tracing::debug!(
                    "{}: storage's watch failed again: {error}",
                    self.resource.name
                ),
                None => tracing::info!(
                    "{}: storage's watch ended, watching again",
                    self.resource.name
                ),
            }
            pause(&BACKOFF[..WATCH_PAUSES], &mut failures).await;
        }
    }

    /// Watches storage from the revision that the cache has reached, after checking that storage
    /// has that revision, too. Storage that was restarted empty, or restored, does not have it at
    /// first. A watch from a future revision would wait for it, and miss all earlier events. The
    /// check comes after the watch is opened, so that a restart after the check breaks the watch.
    /// Storage that has written up to that revision again before the check is not detected.
    async fn open_watch(
        &self,
        backend: &dyn KubernetesEtcd,
    ) -> Result<Box<dyn Watch>, Interruption> {
        let reached = self.snapshot().revision;
        let options = WatchOptions {
            start_revision: reached + 1,
            progress_notify: true,
            stream_key: self.stream_key.clone(),
            ..WatchOptions::default()
        };
        let watch = backend.watch(&self.prefix, options).await?;
        // Events wait meanwhile, and those of many caches may fill the connection on which the
        // response is to arrive.
        let asked = timeout(WAIT_TIMEOUT, backend.current_revision(&self.prefix)).await;
        let current = match asked {
            Ok(answer) => answer.map_err(WatchError::from)?,
            Err(_) => {
                let reason = format!("storage did not report its revision within {WAIT_TIMEOUT:?}");
                return Err(Interruption::Break(WatchError::Canceled(reason)));
            }
        };
        if current < reached {
            return Err(Interruption::Gap(WatchError::Canceled(format!(
                "storage is at revision {current}, but revision {reached} was read from it before: it was restored or \
                 restarted empty"
            ))));
        }
        Ok(watch)
    }

    /// Applies all events of one revision, which arrived at `received`. Readers see all of them or
    /// none. Returns the batch for the watchers.
    fn apply(&self, revision: i64, events: &[WatchEvent], received: Instant) -> Batch {
        let decoder = self.decoder();
        let decoded: Vec<_> = events
            .iter()
            .map(|event| {
                let object = match event.kind {
                    EventKind::Put => {
                        decoder.object(&event.kv.key, &event.kv.value, event.kv.mod_revision)
                    }
                    EventKind::Delete => None,
                };
                (decoder.relative_key(&event.kv.key), object)
            })
            .collect();
        self.metrics.events(self.resource, events.len());
        let batch = self.change(|state| {
            let mut changes = Vec::with_capacity(decoded.len());
            if revision <= state.revision {
                return Batch::reached(state.revision);
            }
            for (key, new) in decoded {
                let old = match &new {
                    Some(new) => state.tree.insert(new.clone()),
                    // Deleted, or not readable any more: keeping the old object would be wrong.
                    None => state.tree.remove(key),
                };
                state.replaced_bytes += old.as_ref().map_or(0, Object::weight);
                if !state.indexes.is_empty() {
                    Arc::make_mut(&mut state.indexes).change(
                        self.resource,
                        old.as_ref(),
                        new.as_ref(),
                    );
                }
                let Some(event) = Event::new(revision, old, new) else {
                    continue;
                };
                let event = Arc::new(event);
                match state.history.push(event.clone()) {
                    None => {}
                    Some(Resized::Grown) => self.metrics.watch.history_grown(self.resource),
                    Some(Resized::Shrunk) => self.metrics.watch.history_shrunk(self.resource),
                }
                changes.push(event);
            }
            state.revision = revision;
            if self.gates.list_from_cache_snapshot {
                let snapshot = state.past_snapshot();
                state.past_snapshots.push(revision, snapshot);
            }
            Batch::Events {
                revision,
                events: changes,
                received,
            }
        });
        let (watch, took) = (&self.metrics.watch, received.elapsed());
        watch.stage(self.resource, Stage::StorageToCache, took);
        batch
    }

    /// Applies a progress notification: everything up to `revision` has been delivered. `revision`
    /// may be lower than that of the cache.
    fn note_progress(&self, revision: i64) -> Batch {
        self.metrics.bookmark(self.resource);
        let reached = self.change(|state| {
            state.revision = state.revision.max(revision);
            state.revision
        });
        Batch::reached(reached)
    }

    /// Makes the cache unready until the next initial list, and ends every watch.
    async fn lose_readiness(&self, incoming: &mpsc::Sender<Batch>) {
        self.change(|state| {
            state.ready = false;
            state.not_ready_since = Some(Instant::now());
        });
        self.broadcaster.close_all();
        // Batches from before must not reach watchers that subscribe after the next list.
        let (done, flushed) = oneshot::channel();
        self.send(incoming, Batch::Flush(done)).await;
        flushed.await.ok();
    }

    async fn send(&self, incoming: &mpsc::Sender<Batch>, batch: Batch) {
        // Cannot fail: the dispatcher runs as long as the cache.
        incoming.send(batch).await.ok();
    }

    /// Drops past snapshots from before storage's last compaction, for as long as the cache runs.
    async fn watch_compaction(&self, backend: &dyn KubernetesEtcd) {
        loop {
            sleep(COMPACTION_POLL).await;
            match backend.compacted_revision().await {
                Ok(revision) => self.change(|state| state.past_snapshots.compact(revision)),
                Err(error) => {
                    tracing::debug!(
                        "{}: cannot read the compacted revision, asking again: {error}",
                        self.resource.name
                    )
                }
            }
        }
    }
}

async fn pause(backoff: &[Duration], failures: &mut usize) {
    sleep(backoff[(*failures).min(backoff.len() - 1)]).await;
    *failures += 1;
}
