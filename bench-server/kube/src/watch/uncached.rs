//! Watches without a cache. Each client has its own watch of storage, which also sends the object
//! before each change.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use etcd_api::kubernetes::{
    EventKind, KubernetesEtcd, WatchError, WatchEvent, WatchItem, WatchOptions,
};
use kube_api::Status;
use parking_lot::Mutex;
use tokio::task::AbortHandle;

use crate::cache::broadcaster::interest::Interest;
use crate::cache::event::{CachingEvent, Event};
use crate::cache::watcher_queue::{Delivery, WatcherQueue};
use crate::metrics::Metrics;
use crate::resource::Resource;
use crate::storage::decoder::Decoder;

/// The number of events that may wait for the client. At this number, reading from storage's watch
/// pauses.
const QUEUE: usize = 100;

/// The number of the next gRPC stream. Each client has its own, so that none waits for another.
static STREAMS: AtomicU64 = AtomicU64::new(0);

/// Opens watches of storage for one resource.
#[derive(Clone)]
pub(crate) struct StorageWatcher {
    pub(super) backend: Arc<dyn KubernetesEtcd>,
    pub(super) resource: &'static Resource,
    pub(super) prefix: Vec<u8>,
    pub(super) metrics: Metrics,
}

impl std::fmt::Debug for StorageWatcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StorageWatcher({})", self.resource.name)
    }
}

/// A watch of storage. Dropping it ends the watch.
#[derive(Debug)]
pub(super) struct StorageWatch {
    pub(super) queue: Arc<WatcherQueue>,
    shared: Arc<Shared>,
    task: AbortHandle,
}

#[derive(Debug)]
struct Shared {
    revision: AtomicI64,
    failed: Mutex<Option<Status>>,
}

impl StorageWatch {
    /// Returns the revision up to which every event is in the queue.
    pub(super) fn revision(&self) -> i64 {
        self.shared.revision.load(Ordering::Acquire)
    }

    /// Returns the failure that has ended the watch, if any. The next call returns `None`.
    pub(super) fn failure(&self) -> Option<Status> {
        self.shared.failed.lock().take()
    }
}

impl Drop for StorageWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl StorageWatcher {
    /// Watches the changes after `revision`.
    pub(super) fn watch(&self, revision: i64, interest: Arc<Interest>) -> StorageWatch {
        let queue = Arc::new(WatcherQueue::new(QUEUE));
        let shared = Arc::new(Shared {
            revision: AtomicI64::new(revision),
            failed: Mutex::default(),
        });
        let (watcher, into, with) = (self.clone(), queue.clone(), shared.clone());
        let task = tokio::spawn(async move {
            let end = watcher.run(revision, &interest, &into, &with).await;
            *with.failed.lock() = end.err().map(|error| match error {
                WatchError::Compacted { .. } => Status::expired_storage_watch(),
                other => Status::internal_error(other),
            });
            into.close();
        });
        StorageWatch {
            queue,
            shared,
            task: task.abort_handle(),
        }
    }

    async fn run(
        &self,
        revision: i64,
        interest: &Interest,
        queue: &WatcherQueue,
        shared: &Shared,
    ) -> Result<(), WatchError> {
        let prefix = [&self.prefix[..], interest.namespace_prefix().as_bytes()].concat();
        let options = WatchOptions {
            start_revision: revision.saturating_add(1),
            prev_kv: true,
            progress_notify: true,
            stream_key: format!("uncached/{}", STREAMS.fetch_add(1, Ordering::Relaxed)),
            ..WatchOptions::default()
        };
        let mut watch = self.backend.watch(&prefix, options).await?;
        let mut reached = revision;
        while let Some(item) = watch.next().await {
            let revision = match item? {
                WatchItem::Revision { revision, events } => {
                    for event in &events {
                        self.deliver(revision, event, interest, queue).await;
                    }
                    revision
                }
                WatchItem::Progress { revision } => revision,
            };
            // A progress notification may arrive after events that it does not include.
            reached = revision.max(reached);
            shared.revision.store(reached, Ordering::Release);
        }
        Ok(())
    }

    async fn deliver(
        &self,
        revision: i64,
        event: &WatchEvent,
        interest: &Interest,
        queue: &WatcherQueue,
    ) {
        let decoder = Decoder {
            resource: self.resource,
            prefix: &self.prefix,
            metrics: &self.metrics,
        };
        let read = |value: &[u8], revision| decoder.object(&event.kv.key, value, revision);
        let new = match event.kind {
            EventKind::Put => read(&event.kv.value, revision),
            EventKind::Delete => None,
        };
        let old = event.prev_kv.as_ref();
        let old = old.and_then(|old| read(&old.value, old.mod_revision));
        let Some(event) = Event::new(revision, old, new) else {
            return;
        };
        let filtered = interest.shard_misses(&event);
        self.metrics.watch.filtered(self.resource, filtered);
        let Some(event_type) = interest.event_type(&event) else {
            return;
        };
        let event = Arc::new(CachingEvent::new(Arc::new(event)));
        let mut delivery = Delivery { event, event_type };
        while let Err(back) = queue.try_send(delivery) {
            delivery = back;
            queue.wait_for_room().await;
        }
    }
}
