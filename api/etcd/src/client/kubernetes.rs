//! The Kubernetes-etcd interface (KEP-4743) over a list of etcd endpoints.
//!
//! Requests are those of etcd's `clientv3/kubernetes` package, so a server receives exactly what an
//! apiserver would send. Streamed lists use [`super::raw_list`]: their batches are slices of the
//! received frames, and only objects that straddle two frames are copied.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::join_all;
use futures::stream::{self, BoxStream, StreamExt};
use tokio::sync::Mutex;
use tokio::time::timeout;
use tonic::Code;

use super::Client;
use super::config::no_response;
use super::list_validator::{ListValidator, Object, Visitor};
use super::raw_list::{ListRpc, RawConnection, RawList};
use super::watch::WatchStreams;
use crate::error::Error;
use crate::kubernetes::{
    COMPACT_REV_KEY, DeleteOptions, Features, GetOptions, GetResponse, KubernetesEtcd, ListBatch,
    ListOptions, ListResponse, OptimisticResponse, PutOptions, Watch, WatchError, WatchOptions,
    requests,
};
use crate::proto::etcdserverpb::{
    CompactionRequest, LeaseGrantRequest, RangeRequest, RangeResponse, StatusRequest, TxnRequest,
};

/// Time allowed for a member to return its version.
const MEMBER_TIMEOUT: Duration = Duration::from_secs(1);

/// The values of [`Shared::range_stream`]: whether the endpoint supports RangeStream, if that is
/// known.
const UNTRIED: u8 = 0;
const SUPPORTED: u8 = 1;
const UNSUPPORTED: u8 = 2;

/// [`KubernetesEtcd`] over an endpoint list. Cheap to clone; clones share connections and watch
/// streams.
#[derive(Debug, Clone)]
pub struct KubernetesClient {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    client: Client,
    /// The connection for streamed lists, opened on first use.
    lists: Mutex<Option<RawConnection>>,
    streams: WatchStreams,
    /// Highest revision known to be compacted.
    compacted: AtomicI64,
    range_stream: AtomicU8,
}

impl KubernetesClient {
    /// Returns the interface over a connected client.
    pub fn new(client: Client) -> Self {
        Self {
            shared: Arc::new(Shared {
                client,
                lists: Mutex::new(None),
                streams: WatchStreams::default(),
                compacted: AtomicI64::new(0),
                range_stream: AtomicU8::new(UNTRIED),
            }),
        }
    }

    /// Returns the underlying client.
    pub fn client(&self) -> &Client {
        &self.shared.client
    }

    async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Error> {
        let client = &self.shared.client;
        let range = || {
            let request = request.clone();
            async { Ok(client.kv().range(request).await?.into_inner()) }
        };
        client.renewing(range).await
    }

    async fn txn(&self, request: TxnRequest) -> Result<OptimisticResponse, Error> {
        let client = &self.shared.client;
        let txn = || {
            let request = request.clone();
            async { Ok(client.kv().txn(request).await?.into_inner()) }
        };
        Ok(requests::optimistic_response(client.renewing(txn).await?))
    }

    /// Opens a RangeStream on the existing connection, or on a new one if that is lost.
    async fn open_list(&self, request: &RangeRequest) -> Result<RawList, Error> {
        let kept = self.shared.lists.lock().await.clone();
        if let Some(connection) = kept {
            match connection.open(ListRpc::RangeStream, request).await {
                Err(Error::Status {
                    code: Code::Unavailable,
                    message,
                }) => tracing::debug!("list connection lost ({message}), opening a new one"),
                other => return other,
            }
        }
        let connection = self.shared.client.raw().await?;
        *self.shared.lists.lock().await = Some(connection.clone());
        connection.open(ListRpc::RangeStream, request).await
    }
}

impl Shared {
    /// Records whether the server accepted a RangeStream or does not implement it.
    fn note_range_stream<T>(&self, result: &Result<T, Error>) {
        let supported = match result {
            Ok(_) => SUPPORTED,
            Err(Error::Unimplemented(_)) => UNSUPPORTED,
            Err(_) => return,
        };
        self.range_stream.store(supported, Ordering::Relaxed);
    }
}

#[async_trait]
impl KubernetesEtcd for KubernetesClient {
    async fn get(&self, key: &[u8], options: GetOptions) -> Result<GetResponse, Error> {
        let response = self
            .range(RangeRequest {
                key: Bytes::copy_from_slice(key),
                revision: options.revision,
                limit: 1,
                ..Default::default()
            })
            .await?;
        Ok(GetResponse {
            revision: revision_of(&response),
            kv: response.kvs.into_iter().next(),
        })
    }

    async fn list(&self, prefix: &[u8], options: ListOptions) -> Result<ListResponse, Error> {
        let response = self.range(requests::list(prefix, options)).await?;
        Ok(ListResponse {
            revision: revision_of(&response),
            count: response.count,
            kvs: response.kvs,
        })
    }

    async fn list_stream(
        &self,
        prefix: &[u8],
        options: ListOptions,
    ) -> Result<BoxStream<'static, Result<ListBatch, Error>>, Error> {
        let request = requests::list(prefix, options);
        let client = &self.shared.client;
        let opened = client.renewing(|| self.open_list(&request)).await;
        if opened.is_err() {
            self.shared.note_range_stream(&opened);
        }
        let state = Some((opened?, ListValidator::new(ListRpc::RangeStream)));
        let shared = Arc::clone(&self.shared);
        let batches = stream::unfold(state, move |state| {
            let shared = Arc::clone(&shared);
            async move {
                let (mut list, mut validator) = state?;
                let batch = next_batch(&mut list, &mut validator).await;
                shared.note_range_stream(&batch);
                let goes_on = matches!(batch, Ok(ListBatch::Objects(_)));
                Some((batch, goes_on.then_some((list, validator))))
            }
        });
        Ok(batches.boxed())
    }

    async fn count(&self, prefix: &[u8]) -> Result<i64, Error> {
        let request = RangeRequest {
            count_only: true,
            ..requests::list(prefix, ListOptions::default())
        };
        Ok(self.range(request).await?.count)
    }

    async fn optimistic_put(
        &self,
        key: &[u8],
        value: Bytes,
        expected_revision: i64,
        options: PutOptions,
    ) -> Result<OptimisticResponse, Error> {
        self.txn(requests::optimistic_put(
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
        self.txn(requests::optimistic_delete(key, expected_revision, options))
            .await
    }

    async fn current_revision(&self, key: &[u8]) -> Result<i64, Error> {
        match self.get(key, GetOptions::default()).await?.revision {
            0 => Err(Error::Protocol("the Range response has no revision".into())),
            revision => Ok(revision),
        }
    }

    async fn lease_grant(&self, ttl_s: i64) -> Result<i64, Error> {
        let request = LeaseGrantRequest { ttl: ttl_s, id: 0 };
        let client = &self.shared.client;
        let grant = || async { Ok(client.lease().lease_grant(request).await?.into_inner().id) };
        client.renewing(grant).await
    }

    async fn compact(&self, revision: i64) -> Result<(), Error> {
        let request = CompactionRequest {
            revision,
            physical: false,
        };
        let client = &self.shared.client;
        let compact = || async { Ok(client.kv().compact(request).await?) };
        client.renewing(compact).await?;
        self.shared.compacted.fetch_max(revision, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the highest of three revisions: the one that this client compacted, the one that a
    /// cancelled watch reported, and the one that apiservers wrote into [`COMPACT_REV_KEY`]. etcd
    /// has no RPC that returns it.
    async fn compacted_revision(&self) -> Result<i64, Error> {
        let agreed = self.get(COMPACT_REV_KEY, GetOptions::default()).await?.kv;
        let agreed = agreed
            .and_then(|kv| std::str::from_utf8(&kv.value).ok()?.parse().ok())
            .unwrap_or(0);
        let before = self.shared.compacted.fetch_max(agreed, Ordering::Relaxed);
        Ok(before.max(agreed))
    }

    /// Requests the status of all members concurrently. Members that do not respond cannot serve
    /// other requests either, so they are ignored unless no member responds.
    async fn features(&self) -> Result<Features, Error> {
        let client = &self.shared.client;
        let endpoints = client.config().endpoints.iter();
        let requests = endpoints.map(|endpoint| async move {
            let mut maintenance = client.maintenance_of(endpoint)?;
            let status = timeout(MEMBER_TIMEOUT, maintenance.status(StatusRequest {})).await;
            let status = status.map_err(|_| Error::Unreachable {
                endpoint: endpoint.to_string(),
                reason: no_response(MEMBER_TIMEOUT),
            })??;
            let text = status.into_inner().version;
            Ok::<_, Error>((Version::parse(&text).unwrap_or_default(), text))
        });
        let (mut versions, mut failure) = (Vec::new(), None);
        for response in join_all(requests).await {
            match response {
                Ok(version) => versions.push(version),
                Err(error) => failure = Some(error),
            }
        }
        if let (true, Some(failure)) = (versions.is_empty(), failure) {
            return Err(failure);
        }
        let request_progress = versions
            .iter()
            .all(|(version, _)| version.has_safe_progress());
        let lowest = versions.into_iter().min_by(|(a, _), (b, _)| a.cmp(b));
        Ok(Features {
            version: lowest.map(|(_, text)| text).unwrap_or_default(),
            request_progress,
            range_stream: match self.shared.range_stream.load(Ordering::Relaxed) {
                SUPPORTED => Some(true),
                UNSUPPORTED => Some(false),
                _ => None,
            },
        })
    }

    async fn watch(
        &self,
        prefix: &[u8],
        options: WatchOptions,
    ) -> Result<Box<dyn Watch>, WatchError> {
        let request = requests::watch(prefix, &options);
        let streams = &self.shared.streams;
        let watched = streams
            .watch(&self.shared.client, &options.stream_key, request)
            .await;
        if let Err(WatchError::Compacted { compact_revision }) = &watched {
            self.shared
                .compacted
                .fetch_max(*compact_revision, Ordering::Relaxed);
        }
        watched
    }

    async fn request_progress(&self, stream_key: &str) -> Result<(), Error> {
        self.shared.streams.request_progress(stream_key);
        Ok(())
    }
}

fn revision_of(response: &RangeResponse) -> i64 {
    response.header.as_ref().map_or(0, |header| header.revision)
}

/// Reads frames until one completes an object, or the list ends.
async fn next_batch(list: &mut RawList, validator: &mut ListValidator) -> Result<ListBatch, Error> {
    while let Some(frame) = list.data().await? {
        let mut records = AdjacentRecords {
            frame: &frame,
            open: None,
            slices: Vec::new(),
        };
        validator.feed(&frame, &mut records)?;
        let slices = records.finish();
        if !slices.is_empty() {
            return Ok(ListBatch::Objects(slices));
        }
    }
    let summary = validator.finish()?;
    Ok(ListBatch::End {
        revision: summary.revision,
        count: summary.count,
        more: summary.more,
    })
}

/// Collects the objects of a frame; adjacent records become one slice of it.
struct AdjacentRecords<'a> {
    frame: &'a Bytes,
    /// The slice being extended, as `start..end` in the frame.
    open: Option<(usize, usize)>,
    slices: Vec<Bytes>,
}

impl AdjacentRecords<'_> {
    fn close(&mut self) {
        if let Some((start, end)) = self.open.take() {
            self.slices.push(self.frame.slice(start..end));
        }
    }

    fn finish(mut self) -> Vec<Bytes> {
        self.close();
        self.slices
    }
}

impl Visitor for AdjacentRecords<'_> {
    fn on_object(&mut self, _object: Object<'_>, record: &[u8], offset: Option<usize>) {
        match (offset, self.open.as_mut()) {
            (Some(start), Some((_, end))) if *end == start => *end += record.len(),
            (Some(start), _) => {
                self.close();
                self.open = Some((start, start + record.len()));
            }
            (None, _) => {
                self.close();
                self.slices.push(Bytes::copy_from_slice(record));
            }
        }
    }
}

/// A server version, to the extent that features depend on it. One that cannot be parsed is lower
/// than all others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Version(u64, u64, u64);

impl Version {
    fn parse(text: &str) -> Option<Self> {
        let core = text.split(['-', '+']).next()?;
        let mut parts = core.split('.').map(|part| part.parse().ok());
        let version = Self(parts.next()??, parts.next()??, parts.next()??);
        parts.next().is_none().then_some(version)
    }

    /// Returns whether manual progress never overtakes events (etcd #15220) and works on new
    /// watches (#17507).
    fn has_safe_progress(self) -> bool {
        self >= Self(3, 4, 31) && !(Self(3, 5, 0)..Self(3, 5, 13)).contains(&self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_safe_where_upstream_says_so() {
        let safe = |text| Version::parse(text).unwrap_or_default().has_safe_progress();
        for good in ["3.4.31", "3.5.13", "3.6.0", "3.7.1", "3.8.0-alpha.0"] {
            assert!(safe(good), "{good} is safe");
        }
        for bad in ["3.4.30", "3.5.0", "3.5.12", "3.3.27", "", "3.7", "devel"] {
            assert!(!safe(bad), "{bad} is not safe");
        }
    }

    #[test]
    fn lists_start_at_the_prefix_or_where_they_left_off() {
        let first = requests::list(b"/a/", ListOptions::default());
        assert_eq!(
            (&first.key[..], &first.range_end[..]),
            (&b"/a/"[..], &b"/a0"[..])
        );
        let options = ListOptions {
            continue_key: Bytes::from_static(b"/a/x\0"),
            ..Default::default()
        };
        let next = requests::list(b"/a/", options);
        assert_eq!(
            (&next.key[..], &next.range_end[..]),
            (&b"/a/x\0"[..], &b"/a0"[..])
        );
        let all = requests::list(b"", ListOptions::default());
        assert_eq!((&all.key[..], &all.range_end[..]), (&b"\0"[..], &b"\0"[..]));
    }
}
