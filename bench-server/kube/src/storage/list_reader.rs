//! Reads all keys below a prefix from storage, at one revision: by RangeStream, or in pages if
//! storage does not support it.

use std::time::Duration;

use bytes::Bytes;
use etcd_api::error::Error;
use etcd_api::kubernetes::{KubernetesEtcd, ListBatch, ListOptions};
use futures::StreamExt;
use index::Tree;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::bulk_load::{CHANNEL_CHUNKS, ListChunk, build_tree};
use super::decoder::Decoder;
use crate::metrics::Operation;
use crate::resource::object::Object;

/// The number of keys per page, if RangeStream is not supported.
pub(crate) const PAGE: i64 = 10_000;

/// The number of keys of a page that are sent in one chunk.
const KEYS_PER_CHUNK: usize = 100;

/// The time after which RangeStream is tried again if storage did not support it.
const RETRY_STREAM_AFTER: Duration = Duration::from_secs(600);

/// All objects of a resource, or those of one namespace, at one revision.
#[derive(Debug)]
pub(crate) struct ObjectsAtRevision {
    pub(crate) tree: Tree<Object>,
    /// The revision of the list.
    pub(crate) revision: i64,
}

/// A reader of a whole list.
pub(crate) struct ListReader<'a> {
    pub(crate) backend: &'a dyn KubernetesEtcd,
    /// The decoder of the resource's objects.
    pub(crate) decoder: Decoder<'a>,
    /// The part of the resource to read: empty for all of it, or `NAMESPACE/`.
    pub(crate) namespace_prefix: &'a str,
    /// The first key, without the resource's prefix; empty to begin with the first of all.
    pub(crate) start: &'a str,
    /// The revision to read at; 0 for the latest.
    pub(crate) revision: i64,
}

/// Whether storage is expected to support RangeStream.
#[derive(Debug)]
pub struct StreamSupport {
    enabled: bool,
    refused: parking_lot::Mutex<Option<Instant>>,
}

impl StreamSupport {
    /// Assumes that storage supports RangeStream, if `enabled`, the feature gate `EtcdRangeStream`,
    /// is on.
    pub fn new(enabled: bool) -> Self {
        Self {
            enabled,
            refused: parking_lot::Mutex::new(None),
        }
    }

    fn expected(&self) -> bool {
        self.enabled
            && self
                .refused
                .lock()
                .is_none_or(|at| at.elapsed() >= RETRY_STREAM_AFTER)
    }
}

impl ListReader<'_> {
    fn whole_prefix(&self) -> Vec<u8> {
        [self.decoder.prefix, self.namespace_prefix.as_bytes()].concat()
    }

    fn continue_key(&self) -> Bytes {
        if self.start.is_empty() {
            return Bytes::new();
        }
        Bytes::from([self.decoder.prefix, self.start.as_bytes()].concat())
    }

    /// Reads all objects. Values that do not decode are omitted, counted and logged.
    ///
    /// # Errors
    /// Those of storage.
    pub(crate) async fn read(&self, streams: &StreamSupport) -> Result<ObjectsAtRevision, Error> {
        let (chunks, incoming) = mpsc::channel(CHANNEL_CHUNKS);
        let (revision, tree) = tokio::try_join!(
            self.each(streams, chunks),
            build_tree(self.decoder, incoming)
        )?;
        Ok(ObjectsAtRevision { tree, revision })
    }

    /// Sends all stored objects to `chunks`, in key order. Returns the revision of the list.
    ///
    /// # Errors
    /// Those of storage. Some chunks may have been sent before.
    pub(crate) async fn each(
        &self,
        streams: &StreamSupport,
        chunks: mpsc::Sender<ListChunk>,
    ) -> Result<i64, Error> {
        if streams.expected() {
            match self.stream(&chunks).await {
                // The call was refused before its first chunk.
                Err(Error::Unimplemented(text)) => {
                    tracing::info!(
                        "{}: storage does not support RangeStream ({text}); listing in pages for the next {} s",
                        self.decoder.resource.name,
                        RETRY_STREAM_AFTER.as_secs()
                    );
                    *streams.refused.lock() = Some(Instant::now());
                }
                other => return other,
            }
        }
        self.pages(&chunks).await
    }

    async fn stream(&self, chunks: &mpsc::Sender<ListChunk>) -> Result<i64, Error> {
        let _timed = self
            .decoder
            .metrics
            .etcd_request(Operation::ListStream, self.decoder.resource);
        let lists = &self.decoder.metrics.lists;
        let _listed = lists.time_request(self.decoder.resource, true);
        let options = ListOptions {
            revision: self.revision,
            limit: 0,
            continue_key: self.continue_key(),
        };
        let mut batches = self
            .backend
            .list_stream(&self.whole_prefix(), options)
            .await?;
        while let Some(batch) = batches.next().await {
            match batch? {
                ListBatch::Objects(runs) => send_chunk(chunks, ListChunk::Runs(runs)).await?,
                // For a list at a given revision, the final message contains the latest revision of
                // storage instead.
                ListBatch::End { revision, .. } => {
                    return Ok(match self.revision {
                        0 => revision,
                        pinned => pinned,
                    });
                }
            }
        }
        Err(Error::Protocol(
            "a RangeStream ended without its final message".into(),
        ))
    }

    async fn pages(&self, chunks: &mpsc::Sender<ListChunk>) -> Result<i64, Error> {
        let prefix = self.whole_prefix();
        let mut options = ListOptions {
            revision: self.revision,
            limit: PAGE,
            continue_key: self.continue_key(),
        };
        loop {
            let timed = self
                .decoder
                .metrics
                .etcd_request(Operation::List, self.decoder.resource);
            let lists = &self.decoder.metrics.lists;
            let list_timed = lists.time_request(self.decoder.resource, false);
            let page = self.backend.list(&prefix, options.clone()).await?;
            drop((timed, list_timed));
            // Further pages are read at the revision of the first.
            if options.revision == 0 {
                options.revision = page.revision;
            }
            let more = page.remaining()? > 0;
            let last = page.kvs.last().map(|last| [&last.key[..], b"\0"].concat());
            let mut kvs = page.kvs.into_iter();
            while !kvs.as_slice().is_empty() {
                let part = kvs.by_ref().take(KEYS_PER_CHUNK).collect();
                send_chunk(chunks, ListChunk::Page(part)).await?;
            }
            match last {
                Some(next) if more => options.continue_key = next.into(),
                _ => return Ok(options.revision),
            }
        }
    }
}

pub(crate) async fn send_chunk(
    chunks: &mpsc::Sender<ListChunk>,
    chunk: ListChunk,
) -> Result<(), Error> {
    let sent = chunks.send(chunk).await;
    sent.map_err(|_| Error::Protocol("the objects of a list are not decoded any more".into()))
}
