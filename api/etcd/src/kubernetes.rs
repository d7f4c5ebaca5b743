//! The Kubernetes-etcd interface (KEP-4743) as a trait, extended to what an apiserver really needs.
//!
//! KEP-4743 names Get, List, Count, OptimisticPut and OptimisticDelete; upstream built those and
//! never built its watch half. This trait has both, and adds what the KEP left out: a list that
//! streams, the current revision by a linearizable read, lease grant, compaction, the compacted
//! revision and server features. Two implementations share one test suite: any etcd endpoint
//! (`etcd_api::client`) and the bench server's embedded store.

pub mod requests;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;

use crate::error::Error;
use crate::proto::mvccpb::KeyValue;

/// Options of [`KubernetesEtcd::get`].
#[derive(Debug, Clone, Copy, Default)]
pub struct GetOptions {
    /// Read at this revision; 0 is the latest.
    pub revision: i64,
}

/// Answer of [`KubernetesEtcd::get`].
#[derive(Debug, Clone, Default)]
pub struct GetResponse {
    /// The key, when it exists.
    pub kv: Option<KeyValue>,
    /// Store revision when it was read (header revision).
    pub revision: i64,
}

/// Options of [`KubernetesEtcd::list`] and [`KubernetesEtcd::list_stream`].
#[derive(Debug, Clone, Default)]
pub struct ListOptions {
    /// Read at this revision; 0 is the latest.
    pub revision: i64,
    /// At most this many keys; 0 is no limit.
    pub limit: i64,
    /// First key to read (the last key of the page before plus `\0`); empty starts at the prefix.
    pub continue_key: Bytes,
}

/// Answer of [`KubernetesEtcd::list`].
#[derive(Debug, Clone, Default)]
pub struct ListResponse {
    /// The page, in key order.
    pub kvs: Vec<KeyValue>,
    /// Keys from the page's start to the end of the prefix, this page included.
    pub count: i64,
    /// Store revision when it was read (header revision, even of a read in the past).
    pub revision: i64,
}

impl ListResponse {
    /// Keys of the prefix behind this page.
    ///
    /// # Errors
    /// [`Error::Protocol`] where the count is less than what came with it, or says that there are keys and none came: who took
    /// that for the end would have a short list and not know.
    pub fn behind(&self) -> Result<u64, Error> {
        let keys = self.kvs.len() as u64;
        match u64::try_from(self.count)
            .ok()
            .and_then(|c| c.checked_sub(keys))
        {
            Some(behind) if keys > 0 || behind == 0 => Ok(behind),
            _ => Err(Error::Protocol(format!(
                "a page of {keys} keys says that there are {}",
                self.count
            ))),
        }
    }
}

/// One message of a streamed list.
#[derive(Debug, Clone)]
pub enum ListBatch {
    /// Encoded objects: a run of `RangeResponse.kvs` fields (tag `0x12`, length, `KeyValue`),
    /// whole objects only, in key order. [`crate::kubernetes::raw_objects`] walks them.
    Objects(Vec<Bytes>),
    /// The end: always last, exactly once.
    End {
        /// Store revision when the list was pinned; the revision to watch from is this plus one
        /// when the request named no revision.
        revision: i64,
        /// Keys in the prefix from the start key, including those past the limit.
        count: i64,
        /// Whether the limit cut the list.
        more: bool,
    },
}

/// Options of [`KubernetesEtcd::optimistic_put`].
#[derive(Debug, Clone, Copy, Default)]
pub struct PutOptions {
    /// On a conflict, answer with the key as it stands.
    pub get_on_failure: bool,
    /// Attach to this lease; 0 is none.
    pub lease_id: i64,
}

/// Options of [`KubernetesEtcd::optimistic_delete`].
#[derive(Debug, Clone, Copy, Default)]
pub struct DeleteOptions {
    /// On a conflict, answer with the key as it stands.
    pub get_on_failure: bool,
}

/// Answer of an optimistic write.
#[derive(Debug, Clone, Default)]
pub struct OptimisticResponse {
    /// Whether the key stood at the expected revision and the write was done.
    pub succeeded: bool,
    /// The key as it stands, on a conflict with `get_on_failure`; `None` when it does not exist.
    pub kv: Option<KeyValue>,
    /// Revision of the write, or the store revision on a conflict.
    pub revision: i64,
}

/// Options of [`KubernetesEtcd::watch`].
#[derive(Debug, Clone, Default)]
pub struct WatchOptions {
    /// First revision to deliver; 0 is "after now".
    pub start_revision: i64,
    /// Deliver the previous state with every update and delete.
    pub prev_kv: bool,
    /// Ask for periodic progress.
    pub progress_notify: bool,
    /// Watch the single key instead of the prefix.
    pub single_key: bool,
    /// Watches with the same stream key may share a connection's watch stream; manual progress is
    /// answered per stream, so a cache gives its watch a key of its own.
    pub stream_key: String,
}

/// One change of one key.
#[derive(Debug, Clone)]
pub struct WatchEvent {
    /// Put or delete.
    pub kind: EventKind,
    /// The key after a put; key and mod revision only after a delete.
    pub kv: KeyValue,
    /// The key before, when asked for and not compacted away.
    pub prev_kv: Option<KeyValue>,
}

/// What happened to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// Created or changed.
    Put,
    /// Deleted (also by its lease).
    Delete,
}

/// What a watch delivers, in order.
#[derive(Debug, Clone)]
pub enum WatchItem {
    /// Every event of one revision: multi-key transactions and fragments are joined.
    Revision {
        /// The revision.
        revision: i64,
        /// Its events on the watched keys, in the order they were made.
        events: Vec<WatchEvent>,
    },
    /// Everything up to this revision has been delivered on this watch. Travels in the same queue
    /// as events, so that it can never overtake them.
    Progress {
        /// The revision.
        revision: i64,
    },
}

impl WatchItem {
    /// Joins events, which come in the order of their revisions, into one item for each revision.
    pub fn by_revision(events: impl IntoIterator<Item = WatchEvent>) -> Vec<Self> {
        let mut items: Vec<Self> = Vec::new();
        for event in events {
            let made_at = event.kv.mod_revision;
            match items.last_mut() {
                Some(Self::Revision { revision, events }) if *revision == made_at => {
                    events.push(event);
                }
                _ => items.push(Self::Revision {
                    revision: made_at,
                    events: vec![event],
                }),
            }
        }
        items
    }
}

/// Why a watch ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The start revision was compacted; list again.
    #[error("watch start revision is compacted, compacted revision is {compact_revision}")]
    Compacted {
        /// Oldest revision that can still be watched.
        compact_revision: i64,
    },
    /// The server cancelled it with a reason.
    #[error("watch cancelled by the server: {0}")]
    Canceled(String),
    /// The connection or the call failed.
    #[error(transparent)]
    Transport(#[from] Error),
}

/// A running watch; dropping it cancels it.
#[async_trait]
pub trait Watch: Send {
    /// The next item, `None` after an orderly end. Cancel safe.
    async fn next(&mut self) -> Option<Result<WatchItem, WatchError>>;
}

/// What the server behind the interface can do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Features {
    /// Version text of `Maintenance.Status`, lowest of all endpoints.
    pub version: String,
    /// Manual watch progress is safe: etcd ≥ 3.4.31 and not in [3.5.0, 3.5.13).
    pub request_progress: bool,
    /// RangeStream was not refused so far (`None`: never tried).
    pub range_stream: Option<bool>,
}

/// Storage as an apiserver sees it.
#[async_trait]
pub trait KubernetesEtcd: Send + Sync + 'static {
    /// One key. A linearizable read.
    async fn get(&self, key: &[u8], options: GetOptions) -> Result<GetResponse, Error>;

    /// One page of a prefix by unary Range, in key order.
    async fn list(&self, prefix: &[u8], options: ListOptions) -> Result<ListResponse, Error>;

    /// A prefix as a stream of encoded objects by RangeStream. `Err(Error::Unimplemented)` on open
    /// or first item where the server lacks it; no fallback here, the caller decides.
    async fn list_stream(
        &self,
        prefix: &[u8],
        options: ListOptions,
    ) -> Result<BoxStream<'static, Result<ListBatch, Error>>, Error>;

    /// How many keys have the prefix.
    async fn count(&self, prefix: &[u8]) -> Result<i64, Error>;

    /// Writes `key` if its mod revision is `expected_revision` (0: must not exist).
    async fn optimistic_put(
        &self,
        key: &[u8],
        value: Bytes,
        expected_revision: i64,
        options: PutOptions,
    ) -> Result<OptimisticResponse, Error>;

    /// Deletes `key` if its mod revision is `expected_revision`.
    async fn optimistic_delete(
        &self,
        key: &[u8],
        expected_revision: i64,
        options: DeleteOptions,
    ) -> Result<OptimisticResponse, Error>;

    /// The store's revision by a linearizable single-key read of `key` (an apiserver reads its
    /// resource prefix, a key that does not exist); never 0.
    async fn current_revision(&self, key: &[u8]) -> Result<i64, Error>;

    /// Grants a lease of at least `ttl_s` seconds; answers its id.
    async fn lease_grant(&self, ttl_s: i64) -> Result<i64, Error>;

    /// Drops history below `revision`.
    async fn compact(&self, revision: i64) -> Result<(), Error>;

    /// The last compacted revision this handle knows of; 0 when none.
    async fn compacted_revision(&self) -> Result<i64, Error>;

    /// What the server can do, asked of every endpoint.
    async fn features(&self) -> Result<Features, Error>;

    /// Watches a prefix (or one key). Returns once the server has created the watch.
    async fn watch(
        &self,
        prefix: &[u8],
        options: WatchOptions,
    ) -> Result<Box<dyn Watch>, WatchError>;

    /// Asks for a [`WatchItem::Progress`] on every watch of the stream key. Fire and forget.
    async fn request_progress(&self, stream_key: &str) -> Result<(), Error>;
}

/// One object of a [`ListBatch::Objects`] run.
#[derive(Debug, Clone, Copy)]
pub struct RawObject<'a> {
    /// Key, never empty.
    pub key: &'a [u8],
    /// Value.
    pub value: &'a [u8],
    /// Revision of its last change.
    pub mod_revision: i64,
    /// Revision of its creation.
    pub create_revision: i64,
    /// Its whole record: tag, length, `KeyValue`.
    pub record: &'a [u8],
}

/// Walks a run of encoded objects in place.
///
/// # Errors
/// An item is [`Error::Protocol`] where the bytes are not whole `RangeResponse.kvs` fields; it is
/// the last one.
pub fn raw_objects(run: &[u8]) -> impl Iterator<Item = Result<RawObject<'_>, Error>> {
    crate::client::walk::objects(run).map(|item| {
        let (object, record) =
            item.ok_or_else(|| Error::Protocol("malformed object in a streamed list".into()))?;
        Ok(RawObject {
            key: object.key,
            value: object.value,
            mod_revision: object.mod_revision,
            create_revision: object.create_revision,
            record,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_what_is_behind_it_or_is_no_page() {
        let page = |keys: usize, count| ListResponse {
            kvs: vec![KeyValue::default(); keys],
            count,
            revision: 1,
        };
        for (keys, count, behind) in [(0, 0, 0), (2, 2, 0), (2, 5, 3)] {
            assert_eq!(page(keys, count).behind().ok(), Some(behind));
        }
        for (keys, count) in [(2, 1), (2, 0), (0, 3), (0, -1)] {
            let error = page(keys, count).behind().expect_err("it is wrong");
            assert!(error.to_string().ends_with(&format!("there are {count}")));
        }
    }
}
