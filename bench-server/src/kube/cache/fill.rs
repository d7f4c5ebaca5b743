//! The first list of a cache: one RangeStream, or pages where storage has none.

use std::time::Duration;

use bytes::Bytes;
use etcd_api::error::Error;
use etcd_api::kubernetes::{KubernetesEtcd, ListBatch, ListOptions, raw_objects};
use futures::StreamExt;
use tokio::time::Instant;

use crate::kube::figures::{Figures, Operation};
use crate::kube::object::Object;
use crate::kube::resource::Resource;
use crate::store::index::Tree;

/// Keys per page where RangeStream is not there.
pub(crate) const PAGE: i64 = 10_000;

/// After RangeStream was refused as unimplemented, it is not tried again for so long.
const RETRY_STREAM_AFTER: Duration = Duration::from_secs(600);

/// Everything that storage holds of a resource (or of a namespace of it), at one revision.
#[derive(Debug)]
pub(crate) struct Filled {
    pub(crate) tree: Tree<Object>,
    /// The revision at which it is true.
    pub(crate) revision: i64,
}

/// Takes the objects of a whole list: key below the resource's prefix, value, revision.
pub(crate) type Sink<'s> = &'s mut (dyn FnMut(&[u8], &[u8], i64) + Send);

/// What a whole list is read from.
pub(crate) struct Source<'a> {
    pub(crate) backend: &'a dyn KubernetesEtcd,
    pub(crate) resource: &'static Resource,
    /// Prefix of the resource, which is left off the keys in the tree.
    pub(crate) prefix: &'a [u8],
    /// What to read below the prefix: everything, or `NAMESPACE/`.
    pub(crate) below: &'a str,
    /// First key below the prefix; empty for all.
    pub(crate) start: &'a str,
    /// 0 is the latest.
    pub(crate) revision: i64,
    pub(crate) figures: &'a Figures,
}

/// Whether RangeStream is worth trying.
#[derive(Debug)]
pub struct StreamSupport {
    enabled: bool,
    refused: parking_lot::Mutex<Option<Instant>>,
}

impl StreamSupport {
    /// `enabled` is the feature gate.
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

impl Source<'_> {
    fn whole_prefix(&self) -> Vec<u8> {
        [self.prefix, self.below.as_bytes()].concat()
    }

    fn continue_key(&self) -> Bytes {
        if self.start.is_empty() {
            return Bytes::new();
        }
        Bytes::from([self.prefix, self.start.as_bytes()].concat())
    }

    /// Reads everything. Objects that do not decode are left out, counted and logged.
    ///
    /// # Errors
    /// Storage's.
    pub(crate) async fn read(&self, streams: &StreamSupport) -> Result<Filled, Error> {
        let mut tree = Tree::default();
        let revision = self
            .each(streams, &mut |key, value, mod_revision| {
                let decoded = decode(self.resource, key, value, mod_revision, self.figures);
                if let Some(object) = decoded {
                    tree.insert(object);
                }
            })
            .await?;
        Ok(Filled { tree, revision })
    }

    /// Hands every stored object to `sink`, in key order: its key below the resource's prefix, its value and
    /// its revision. Answers the revision at which that is everything.
    ///
    /// # Errors
    /// Storage's; some objects may have been handed over.
    pub(crate) async fn each(&self, streams: &StreamSupport, sink: Sink<'_>) -> Result<i64, Error> {
        if streams.expected() {
            match self.stream(sink).await {
                // Refused as a whole, so nothing was handed over.
                Err(Error::Unimplemented(text)) => {
                    tracing::info!(
                        "{}: no RangeStream ({text}), listing in pages",
                        self.resource.name
                    );
                    *streams.refused.lock() = Some(Instant::now());
                }
                other => return other,
            }
        }
        self.pages(sink).await
    }

    async fn stream(&self, sink: Sink<'_>) -> Result<i64, Error> {
        let _timed = self
            .figures
            .etcd_request(Operation::ListStream, self.resource);
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
                ListBatch::Objects(runs) => {
                    for run in runs {
                        for object in raw_objects(&run) {
                            let object = object?;
                            sink(self.relative(object.key), object.value, object.mod_revision);
                        }
                    }
                }
                // A pinned list's end shows storage's latest revision, not its own.
                ListBatch::End { revision, .. } => {
                    return Ok(match self.revision {
                        0 => revision,
                        pinned => pinned,
                    });
                }
            }
        }
        Err(Error::Protocol(
            "a streamed list ended without its end".into(),
        ))
    }

    async fn pages(&self, sink: Sink<'_>) -> Result<i64, Error> {
        let prefix = self.whole_prefix();
        let mut options = ListOptions {
            revision: self.revision,
            limit: PAGE,
            continue_key: self.continue_key(),
        };
        loop {
            let timed = self.figures.etcd_request(Operation::List, self.resource);
            let page = self.backend.list(&prefix, options.clone()).await?;
            drop(timed);
            // The first page pins the others.
            if options.revision == 0 {
                options.revision = page.revision;
            }
            let more = page.count > page.kvs.len() as i64;
            for kv in &page.kvs {
                sink(self.relative(&kv.key), &kv.value, kv.mod_revision);
            }
            match page.kvs.last() {
                Some(last) if more => options.continue_key = [&last.key[..], b"\0"].concat().into(),
                _ => return Ok(options.revision),
            }
        }
    }

    fn relative<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        key.strip_prefix(self.prefix).unwrap_or(key)
    }
}

/// Decodes a stored object; what does not decode is counted and named in the log.
pub(crate) fn decode(
    resource: &Resource,
    key: &[u8],
    value: &[u8],
    mod_revision: i64,
    figures: &Figures,
) -> Option<Object> {
    match Object::decode(resource, key, value, mod_revision) {
        Ok(object) => Some(object),
        Err(error) => {
            tracing::warn!(
                "{} {} at revision {mod_revision} is left out: {error}",
                resource.name,
                key.escape_ascii()
            );
            figures.undecodable(resource);
            None
        }
    }
}
