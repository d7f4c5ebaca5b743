//! The Kubernetes-etcd interface (KEP-4743) over a store in the same process, without encoding and
//! sockets.
//!
//! This is a separate target (`--backend embedded`). It shows the cost of two processes with gRPC
//! between them, and is never ranked against such targets.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use etcd_api::error::{Error, Refusal};
use etcd_api::keys::KeyRange;
use etcd_api::kubernetes::{
    DeleteOptions, EventKind, Features, GetOptions, GetResponse, KubernetesEtcd, ListBatch,
    ListOptions, ListResponse, OptimisticResponse, PutOptions, Watch, WatchError, WatchEvent,
    WatchItem, WatchOptions, requests,
};
use etcd_api::proto::etcdserverpb::TxnRequest;
use etcd_tier::background;
use etcd_tier::flags::EmulatedVersion;
use etcd_tier::watch::spec;
use futures::stream::{self, BoxStream, StreamExt};
use parking_lot::Mutex;
use store::watch_hub::{Delivery, Notice, WatchStream};
use store::{Cursor, Record, Snapshot, Store};
use tokio::time::Sleep;
use wire::frame::COPY_BELOW_BYTES;

/// Size at which a batch of a streamed list ends, bytes: with the record that reaches it.
const BATCH_BYTES: usize = 256 * 1024;

/// Storage in this process. Clones share it.
#[derive(Clone)]
pub struct EmbeddedEtcd {
    store: Store,
    /// Interval of periodic progress.
    progress_interval: Duration,
    /// Watches by stream key, for requested progress. The streams are owned by the watches.
    streams: Streams,
}

type Streams = Arc<Mutex<HashMap<String, Vec<Weak<WatchStream>>>>>;

impl EmbeddedEtcd {
    /// Returns the interface over `store`. Its owner must run [`background::expire_leases`], as the
    /// etcd tier does.
    pub fn new(store: Store, progress_interval: Duration) -> Self {
        Self {
            store,
            progress_interval,
            streams: Arc::default(),
        }
    }

    async fn txn(&self, request: &TxnRequest) -> Result<OptimisticResponse, Error> {
        let response = self.store.logged(self.store.txn(request)).await;
        let response = response.map_err(Error::Refused)?;
        Ok(requests::optimistic_response(response))
    }

    /// Returns the snapshot of a list, and holds its root for the pages after a limited one.
    fn snapshot(&self, options: &ListOptions) -> Result<Snapshot, Error> {
        let snapshot = self
            .store
            .snapshot_at(options.revision)
            .map_err(Error::Refused)?;
        if options.limit > 0 {
            self.store.hold(&snapshot);
        }
        Ok(snapshot)
    }
}

#[async_trait]
impl KubernetesEtcd for EmbeddedEtcd {
    async fn get(&self, key: &[u8], options: GetOptions) -> Result<GetResponse, Error> {
        if key.is_empty() {
            return Err(Error::Refused(Refusal::EmptyKey));
        }
        let found = self.store.get_at(key, options.revision);
        let (record, revision) = found.map_err(Error::Refused)?;
        Ok(GetResponse {
            kv: record.map(|record| record.to_kv()),
            revision,
        })
    }

    async fn list(&self, prefix: &[u8], options: ListOptions) -> Result<ListResponse, Error> {
        let snapshot = self.snapshot(&options)?;
        let request = requests::list(prefix, options);
        let selection = snapshot.select(&request).map_err(Error::Refused)?;
        Ok(ListResponse {
            kvs: selection.records.iter().map(Record::to_kv).collect(),
            count: selection.count,
            revision: snapshot.head_revision(),
        })
    }

    async fn list_stream(
        &self,
        prefix: &[u8],
        options: ListOptions,
    ) -> Result<BoxStream<'static, Result<ListBatch, Error>>, Error> {
        let snapshot = self.snapshot(&options)?;
        let request = requests::list(prefix, options);
        let range = KeyRange::new(&request.key, &request.range_end);
        let cursor = snapshot.cursor(range);
        let count = cursor.remaining();
        let limit = u64::try_from(request.limit).ok().filter(|limit| *limit > 0);
        let list = List {
            left: limit.unwrap_or(count).min(count),
            snapshot,
            cursor,
            count,
        };
        let batches = stream::unfold(Some(list), |list| async {
            let mut list = list?;
            let batch = list.next_batch();
            let goes_on = matches!(batch, Ok(ListBatch::Objects(_)));
            Some((batch, goes_on.then_some(list)))
        });
        Ok(batches.boxed())
    }

    async fn count(&self, prefix: &[u8]) -> Result<i64, Error> {
        let request = requests::list(prefix, ListOptions::default());
        let range = KeyRange::new(&request.key, &request.range_end);
        Ok(self.store.snapshot().count(range) as i64)
    }

    async fn optimistic_put(
        &self,
        key: &[u8],
        value: Bytes,
        expected_revision: i64,
        options: PutOptions,
    ) -> Result<OptimisticResponse, Error> {
        self.txn(&requests::optimistic_put(
            key,
            value,
            expected_revision,
            options,
        ))
        .await
    }

    async fn optimistic_delete(
        &self,
        key: &[u8],
        expected_revision: i64,
        options: DeleteOptions,
    ) -> Result<OptimisticResponse, Error> {
        self.txn(&requests::optimistic_delete(
            key,
            expected_revision,
            options,
        ))
        .await
    }

    async fn current_revision(&self, _key: &[u8]) -> Result<i64, Error> {
        Ok(self.store.revision())
    }

    async fn lease_grant(&self, ttl_s: i64) -> Result<i64, Error> {
        let granted = self.store.lease_grant(0, ttl_s, background::now());
        let granted = self.store.logged(granted).await;
        Ok(granted.map_err(Error::Refused)?.id)
    }

    async fn compact(&self, revision: i64) -> Result<(), Error> {
        let outcome = self.store.logged(self.store.compact(revision)).await;
        outcome.map_err(Error::Refused)?;
        Ok(())
    }

    async fn compacted_revision(&self) -> Result<i64, Error> {
        Ok(self.store.compact_revision().max(0))
    }

    async fn features(&self) -> Result<Features, Error> {
        Ok(Features {
            version: EmulatedVersion { minor: 7 }.server_version(),
            request_progress: true,
            range_stream: Some(true),
        })
    }

    async fn watch(
        &self,
        prefix: &[u8],
        options: WatchOptions,
    ) -> Result<Box<dyn Watch>, WatchError> {
        let watchers = Arc::new(self.store.watch());
        watchers.create(spec(requests::watch(prefix, &options)));
        let mut watch = EmbeddedWatch {
            watchers: watchers.clone(),
            ready: VecDeque::new(),
            progress: None,
            progress_interval: self.progress_interval,
            ended: false,
            streams: self.streams.clone(),
            stream_key: options.stream_key,
        };
        // The result of the creation is already queued.
        let created = std::future::poll_fn(|context| watchers.poll_next(context)).await;
        if let Notice::Refused { reason, .. } = created {
            return Err(WatchError::Canceled(reason.to_owned()));
        }
        if options.progress_notify {
            watch.progress = Some(Box::pin(tokio::time::sleep(self.progress_interval)));
        }
        let mut streams = self.streams.lock();
        let stream = streams.entry(watch.stream_key.clone()).or_default();
        stream.push(Arc::downgrade(&watchers));
        drop(streams);
        Ok(Box::new(watch))
    }

    async fn request_progress(&self, stream_key: &str) -> Result<(), Error> {
        if let Some(stream) = self.streams.lock().get(stream_key) {
            let alive = stream.iter().filter_map(Weak::upgrade);
            alive.for_each(|watchers| watchers.request_progress());
        }
        Ok(())
    }
}

/// A streamed list being read.
struct List {
    snapshot: Snapshot,
    cursor: Cursor,
    /// Number of records to deliver.
    left: u64,
    /// Number of records from the start key on.
    count: u64,
}

impl List {
    fn next_batch(&mut self) -> Result<ListBatch, Error> {
        self.snapshot.check().map_err(Error::Refused)?;
        let (mut runs, mut run, mut bytes) = (Vec::new(), BytesMut::new(), 0);
        while self.left > 0
            && bytes < BATCH_BYTES
            && let Some(record) = self.cursor.next_ref()
        {
            self.left -= 1;
            bytes += record.wire_len();
            if record.wire_len() < COPY_BELOW_BYTES {
                let pieces = record.wire().into_iter();
                pieces.for_each(|piece| run.extend_from_slice(piece));
                continue;
            }
            if !run.is_empty() {
                runs.push(run.split().freeze());
            }
            runs.push(record.to_bytes());
        }
        if !run.is_empty() {
            runs.push(run.freeze());
        }
        if !runs.is_empty() {
            return Ok(ListBatch::Objects(runs));
        }
        Ok(ListBatch::End {
            revision: self.snapshot.head_revision(),
            count: self.count as i64,
            more: self.cursor.remaining() > 0,
        })
    }
}

/// One watch with its own stream. Progress is requested of all streams with the same key.
struct EmbeddedWatch {
    watchers: Arc<WatchStream>,
    ready: VecDeque<WatchItem>,
    progress: Option<Pin<Box<Sleep>>>,
    progress_interval: Duration,
    ended: bool,
    streams: Streams,
    stream_key: String,
}

impl Drop for EmbeddedWatch {
    fn drop(&mut self) {
        let mut streams = self.streams.lock();
        if let Entry::Occupied(mut stream) = streams.entry(std::mem::take(&mut self.stream_key)) {
            let own = Arc::as_ptr(&self.watchers);
            stream.get_mut().retain(|watchers| watchers.as_ptr() != own);
            if stream.get().is_empty() {
                stream.remove();
            }
        }
    }
}

impl EmbeddedWatch {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<WatchItem, WatchError>>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(item)));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            if let Some(progress) = &mut self.progress
                && progress.as_mut().poll(context).is_ready()
            {
                let due = tokio::time::Instant::now() + self.progress_interval;
                progress.as_mut().reset(due);
                self.watchers.tick_progress();
                continue;
            }
            match std::task::ready!(self.watchers.poll_next(context)) {
                Notice::Events(delivery) => self.ready.extend(revisions(&delivery)),
                Notice::Progress { revision, .. } => {
                    self.ready.push_back(WatchItem::Progress { revision });
                }
                Notice::Compacted {
                    compact_revision, ..
                } => {
                    self.ended = true;
                    let lost = WatchError::Compacted { compact_revision };
                    return Poll::Ready(Some(Err(lost)));
                }
                Notice::Created { .. } | Notice::Refused { .. } | Notice::Canceled { .. } => {}
            }
        }
    }
}

#[async_trait]
impl Watch for EmbeddedWatch {
    async fn next(&mut self) -> Option<Result<WatchItem, WatchError>> {
        std::future::poll_fn(|context| self.poll(context)).await
    }
}

/// Returns the events of a delivery, by revision.
fn revisions(delivery: &Delivery) -> Vec<WatchItem> {
    WatchItem::by_revision(delivery.events().map(|(event, prev)| WatchEvent {
        kind: match event.record.is_tombstone() {
            true => EventKind::Delete,
            false => EventKind::Put,
        },
        kv: event.record.to_kv(),
        prev_kv: prev.map(Record::to_kv),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::Config;

    #[tokio::test]
    async fn an_ended_watch_is_removed() {
        let etcd = EmbeddedEtcd::new(Store::new(Config::default()), Duration::from_secs(600));
        let watch = async |key: &str| {
            let options = WatchOptions {
                stream_key: key.to_owned(),
                ..WatchOptions::default()
            };
            etcd.watch(b"/registry/", options).await.expect("a watch")
        };
        let (first, second, other) = (watch("a").await, watch("a").await, watch("b").await);
        let held = || {
            let streams = etcd.streams.lock();
            let mut held: Vec<_> = streams.iter().map(|(k, v)| (k.clone(), v.len())).collect();
            held.sort();
            held
        };
        assert_eq!(held(), [("a".to_owned(), 2), ("b".to_owned(), 1)]);
        drop((first, other));
        assert_eq!(held(), [("a".to_owned(), 1)]);
        drop(second);
        assert_eq!(held(), []);
    }
}
