//! A small storage behind the same trait as the real ones, for faults that those do not produce on demand:
//! no RangeStream, no progress, a watch that lags, a server that is down.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use etcd_api::error::{Error, Refusal};
use etcd_api::keys::prefix_end;
use etcd_api::kubernetes::{
    DeleteOptions, EventKind, Features, GetOptions, GetResponse, KubernetesEtcd, ListBatch,
    ListOptions, ListResponse, OptimisticResponse, PutOptions, Watch, WatchError, WatchEvent,
    WatchItem, WatchOptions,
};
use etcd_api::proto::etcdserverpb::RangeResponse;
use etcd_api::proto::mvccpb::KeyValue;
use futures::stream::{self, BoxStream, StreamExt};
use parking_lot::Mutex;
use prost::Message;
use tokio::sync::mpsc;

/// Storage with switches.
#[derive(Debug, Clone)]
pub(crate) struct FakeEtcd(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    data: Mutex<Data>,
    /// RangeStream is unimplemented.
    no_stream: AtomicBool,
    /// Progress requests are not answered, and events are held back.
    silent: AtomicBool,
    /// Every call fails as unreachable.
    down: AtomicBool,
    /// Every call panics.
    broken: AtomicBool,
    /// What `features` says about progress.
    has_progress: AtomicBool,
    /// `features` fails, and nothing else.
    no_features: AtomicBool,
    /// Streamed lists are not answered, and nothing else is held up.
    stuck: AtomicBool,
    revision_reads: AtomicUsize,
    progress_requests: AtomicUsize,
    streams: AtomicUsize,
    pages: AtomicUsize,
}

#[derive(Debug, Default)]
struct Data {
    /// The keys after each revision, the first at revision 1.
    states: Vec<BTreeMap<Vec<u8>, KeyValue>>,
    events: Vec<(i64, WatchEvent)>,
    compacted: i64,
    watchers: Vec<Watcher>,
}

#[derive(Debug)]
struct Watcher {
    prefix: Vec<u8>,
    stream_key: String,
    /// Revision of the last event sent, and what was held back since.
    sender: mpsc::UnboundedSender<Result<WatchItem, WatchError>>,
    held: Vec<WatchItem>,
}

impl Default for FakeEtcd {
    fn default() -> Self {
        let data = Data {
            states: vec![BTreeMap::new()],
            ..Data::default()
        };
        Self(Arc::new(Inner {
            data: Mutex::new(data),
            no_stream: AtomicBool::new(false),
            silent: AtomicBool::new(false),
            down: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            has_progress: AtomicBool::new(true),
            no_features: AtomicBool::new(false),
            stuck: AtomicBool::new(false),
            revision_reads: AtomicUsize::new(0),
            progress_requests: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
            pages: AtomicUsize::new(0),
        }))
    }
}

impl Data {
    fn revision(&self) -> i64 {
        self.states.len() as i64
    }

    fn at(&self, revision: i64) -> Result<&BTreeMap<Vec<u8>, KeyValue>, Error> {
        let revision = if revision == 0 {
            self.revision()
        } else {
            revision
        };
        if revision < self.compacted {
            return Err(Error::Refused(Refusal::Compacted));
        }
        usize::try_from(revision - 1)
            .ok()
            .and_then(|at| self.states.get(at))
            .ok_or(Error::Refused(Refusal::FutureRevision))
    }

    /// Keys of a list: those of the page, and how many there are from its start.
    fn list(&self, prefix: &[u8], options: &ListOptions) -> Result<(Vec<KeyValue>, i64), Error> {
        let start = if options.continue_key.is_empty() {
            prefix.to_vec()
        } else {
            options.continue_key.to_vec()
        };
        let all: Vec<_> = self
            .at(options.revision)?
            .range(start..prefix_end(prefix))
            .map(|(_, kv)| kv.clone())
            .collect();
        let count = all.len() as i64;
        let limit = if options.limit == 0 {
            all.len()
        } else {
            options.limit as usize
        };
        Ok((all.into_iter().take(limit).collect(), count))
    }
}

impl FakeEtcd {
    /// Puts (value given) and deletes keys in one revision; answers it.
    pub(crate) fn write(&self, changes: &[(&str, Option<Vec<u8>>)]) -> i64 {
        let mut data = self.0.data.lock();
        let mut state = data.states.last().cloned().unwrap_or_default();
        let revision = data.revision() + 1;
        let mut events = Vec::new();
        for (key, value) in changes {
            let key = key.as_bytes().to_vec();
            let mut kv = KeyValue {
                key: Bytes::from(key.clone()),
                mod_revision: revision,
                ..KeyValue::default()
            };
            let prev_kv = state.get(&key).cloned();
            let kind = match value {
                Some(value) => {
                    kv.value = Bytes::from(value.clone());
                    kv.create_revision =
                        state.get(&key).map_or(revision, |old| old.create_revision);
                    kv.version = state.get(&key).map_or(1, |old| old.version + 1);
                    state.insert(key, kv.clone());
                    EventKind::Put
                }
                None => {
                    state.remove(&key);
                    EventKind::Delete
                }
            };
            events.push(WatchEvent { kind, kv, prev_kv });
        }
        data.states.push(state);
        data.events
            .extend(events.iter().map(|event| (revision, event.clone())));
        let silent = self.0.silent.load(Ordering::SeqCst);
        for watcher in &mut data.watchers {
            let events: Vec<_> = events
                .iter()
                .filter(|event| event.kv.key.starts_with(&watcher.prefix))
                .cloned()
                .collect();
            if events.is_empty() {
                continue;
            }
            let item = WatchItem::Revision { revision, events };
            if silent {
                watcher.held.push(item);
            } else {
                watcher.sender.send(Ok(item)).ok();
            }
        }
        revision
    }

    /// As [`Self::write`], but no watch is told: an event that got lost.
    pub(crate) fn write_unseen(&self, changes: &[(&str, Option<Vec<u8>>)]) -> i64 {
        let watchers = std::mem::take(&mut self.0.data.lock().watchers);
        let revision = self.write(changes);
        let mut data = self.0.data.lock();
        data.events.retain(|(made_at, _)| *made_at != revision);
        data.watchers = watchers;
        revision
    }

    /// Starts over as an empty storage at revision 1; every watch breaks.
    pub(crate) fn restart_empty(&self) {
        let mut data = self.0.data.lock();
        let ended = std::mem::take(&mut *data);
        data.states = vec![BTreeMap::new()];
        for watcher in ended.watchers {
            let error = WatchError::Canceled("connection lost".into());
            watcher.sender.send(Err(error)).ok();
        }
    }

    /// Goes back to what it held at `revision`, as one that is restored from a backup; every watch breaks.
    pub(crate) fn restore(&self, revision: i64) {
        {
            let mut data = self.0.data.lock();
            let states = usize::try_from(revision).expect("a revision");
            data.states.truncate(states);
            data.events.retain(|(made_at, _)| *made_at <= revision);
        }
        self.break_watches(|| WatchError::Canceled("connection lost".into()));
    }

    pub(crate) fn compact_at(&self, revision: i64) {
        self.0.data.lock().compacted = revision;
    }

    /// Ends every watch with this error.
    pub(crate) fn break_watches(&self, error: impl Fn() -> WatchError) {
        for watcher in self.0.data.lock().watchers.drain(..) {
            watcher.sender.send(Err(error())).ok();
        }
    }

    pub(crate) fn set_no_stream(&self, no_stream: bool) {
        self.0.no_stream.store(no_stream, Ordering::SeqCst);
    }

    pub(crate) fn set_silent(&self, silent: bool) {
        self.0.silent.store(silent, Ordering::SeqCst);
    }

    pub(crate) fn set_down(&self, down: bool) {
        self.0.down.store(down, Ordering::SeqCst);
    }

    pub(crate) fn set_broken(&self, broken: bool) {
        self.0.broken.store(broken, Ordering::SeqCst);
    }

    pub(crate) fn set_has_progress(&self, has_progress: bool) {
        self.0.has_progress.store(has_progress, Ordering::SeqCst);
    }

    pub(crate) fn set_no_features(&self, no_features: bool) {
        self.0.no_features.store(no_features, Ordering::SeqCst);
    }

    pub(crate) fn set_stuck(&self, stuck: bool) {
        self.0.stuck.store(stuck, Ordering::SeqCst);
    }

    /// Reports this progress on every watch, true or not.
    pub(crate) fn report_progress(&self, revision: i64) {
        for watcher in &self.0.data.lock().watchers {
            let item = WatchItem::Progress { revision };
            watcher.sender.send(Ok(item)).ok();
        }
    }

    /// Makes the change if the key is at revision `expected`; 0 is that there is none.
    fn write_if(
        &self,
        key: &[u8],
        expected: i64,
        value: Option<Vec<u8>>,
        get_on_failure: bool,
    ) -> Result<OptimisticResponse, Error> {
        self.up()?;
        let (kv, revision) = {
            let data = self.0.data.lock();
            (data.at(0)?.get(key).cloned(), data.revision())
        };
        if kv.as_ref().map_or(0, |kv| kv.mod_revision) != expected {
            return Ok(OptimisticResponse {
                succeeded: false,
                kv: kv.filter(|_| get_on_failure),
                revision,
            });
        }
        let key = String::from_utf8_lossy(key);
        Ok(OptimisticResponse {
            succeeded: true,
            kv: None,
            revision: self.write(&[(&key, value)]),
        })
    }

    pub(crate) fn revision_reads(&self) -> usize {
        self.0.revision_reads.load(Ordering::SeqCst)
    }

    pub(crate) fn progress_requests(&self) -> usize {
        self.0.progress_requests.load(Ordering::SeqCst)
    }

    /// Lists answered: by RangeStream, by pages.
    pub(crate) fn lists(&self) -> (usize, usize) {
        (
            self.0.streams.load(Ordering::SeqCst),
            self.0.pages.load(Ordering::SeqCst),
        )
    }

    fn up(&self) -> Result<(), Error> {
        assert!(!self.0.broken.load(Ordering::SeqCst), "this fake is broken");
        match self.0.down.load(Ordering::SeqCst) {
            true => Err(Error::Unreachable {
                endpoint: "fake".into(),
                reason: "switched off".into(),
            }),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl KubernetesEtcd for FakeEtcd {
    async fn get(&self, key: &[u8], options: GetOptions) -> Result<GetResponse, Error> {
        self.up()?;
        let data = self.0.data.lock();
        Ok(GetResponse {
            kv: data.at(options.revision)?.get(key).cloned(),
            revision: data.revision(),
        })
    }

    async fn list(&self, prefix: &[u8], options: ListOptions) -> Result<ListResponse, Error> {
        self.up()?;
        self.0.pages.fetch_add(1, Ordering::SeqCst);
        let data = self.0.data.lock();
        let (kvs, count) = data.list(prefix, &options)?;
        Ok(ListResponse {
            kvs,
            count,
            revision: data.revision(),
        })
    }

    async fn list_stream(
        &self,
        prefix: &[u8],
        options: ListOptions,
    ) -> Result<BoxStream<'static, Result<ListBatch, Error>>, Error> {
        self.up()?;
        if self.0.stuck.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if self.0.no_stream.load(Ordering::SeqCst) {
            return Err(Error::Unimplemented("unknown method RangeStream".into()));
        }
        self.0.streams.fetch_add(1, Ordering::SeqCst);
        let data = self.0.data.lock();
        let (kvs, count) = data.list(prefix, &options)?;
        let more = count > kvs.len() as i64;
        let mut batches: Vec<_> = kvs
            .chunks(7)
            .map(|chunk| {
                let response = RangeResponse {
                    kvs: chunk.to_vec(),
                    ..RangeResponse::default()
                };
                Ok(ListBatch::Objects(vec![response.encode_to_vec().into()]))
            })
            .collect();
        batches.push(Ok(ListBatch::End {
            revision: data.revision(),
            count,
            more,
        }));
        Ok(stream::iter(batches).boxed())
    }

    async fn count(&self, prefix: &[u8]) -> Result<i64, Error> {
        Ok(self.0.data.lock().list(prefix, &ListOptions::default())?.1)
    }

    async fn optimistic_put(
        &self,
        key: &[u8],
        value: Bytes,
        expected_revision: i64,
        options: PutOptions,
    ) -> Result<OptimisticResponse, Error> {
        let value = Some(value.to_vec());
        self.write_if(key, expected_revision, value, options.get_on_failure)
    }

    async fn optimistic_delete(
        &self,
        key: &[u8],
        expected_revision: i64,
        options: DeleteOptions,
    ) -> Result<OptimisticResponse, Error> {
        self.write_if(key, expected_revision, None, options.get_on_failure)
    }

    async fn current_revision(&self, _: &[u8]) -> Result<i64, Error> {
        self.up()?;
        self.0.revision_reads.fetch_add(1, Ordering::SeqCst);
        Ok(self.0.data.lock().revision())
    }

    async fn lease_grant(&self, _: i64) -> Result<i64, Error> {
        Err(Error::Unimplemented("no leases".into()))
    }

    async fn compact(&self, revision: i64) -> Result<(), Error> {
        self.compact_at(revision);
        Ok(())
    }

    async fn compacted_revision(&self) -> Result<i64, Error> {
        self.up()?;
        Ok(self.0.data.lock().compacted)
    }

    async fn features(&self) -> Result<Features, Error> {
        self.up()?;
        if self.0.no_features.load(Ordering::SeqCst) {
            return Err(Error::Protocol("no features today".into()));
        }
        let request_progress = self.0.has_progress.load(Ordering::SeqCst);
        Ok(Features {
            version: "3.7.1".into(),
            request_progress,
            range_stream: None,
        })
    }

    async fn watch(
        &self,
        prefix: &[u8],
        options: WatchOptions,
    ) -> Result<Box<dyn Watch>, WatchError> {
        self.up()?;
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut data = self.0.data.lock();
        if options.start_revision < data.compacted {
            return Err(WatchError::Compacted {
                compact_revision: data.compacted,
            });
        }
        let mut missed: BTreeMap<i64, Vec<WatchEvent>> = BTreeMap::new();
        for (revision, event) in &data.events {
            if *revision >= options.start_revision && event.kv.key.starts_with(prefix) {
                missed.entry(*revision).or_default().push(event.clone());
            }
        }
        for (revision, events) in missed {
            sender
                .send(Ok(WatchItem::Revision { revision, events }))
                .ok();
        }
        data.watchers.push(Watcher {
            prefix: prefix.to_vec(),
            stream_key: options.stream_key,
            sender,
            held: Vec::new(),
        });
        Ok(Box::new(FakeWatch(receiver)))
    }

    async fn request_progress(&self, stream_key: &str) -> Result<(), Error> {
        self.0.progress_requests.fetch_add(1, Ordering::SeqCst);
        if self.0.silent.load(Ordering::SeqCst) {
            return Ok(());
        }
        let mut data = self.0.data.lock();
        let revision = data.revision();
        for watcher in data
            .watchers
            .iter_mut()
            .filter(|watcher| watcher.stream_key == stream_key)
        {
            for item in watcher.held.drain(..) {
                watcher.sender.send(Ok(item)).ok();
            }
            watcher
                .sender
                .send(Ok(WatchItem::Progress { revision }))
                .ok();
        }
        Ok(())
    }
}

#[derive(Debug)]
struct FakeWatch(mpsc::UnboundedReceiver<Result<WatchItem, WatchError>>);

#[async_trait]
impl Watch for FakeWatch {
    async fn next(&mut self) -> Option<Result<WatchItem, WatchError>> {
        self.0.recv().await
    }
}
