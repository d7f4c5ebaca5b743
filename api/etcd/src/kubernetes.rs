//! The Kubernetes-etcd interface (KEP-4743) as a trait, extended by the other operations that an
//! apiserver needs.
//!
//! KEP-4743 defines Get, List, Count, OptimisticPut and OptimisticDelete, which etcd has
//! implemented, and watches, which it has not. This trait has both, and adds: a streamed list, the
//! current revision by a linearizable read, lease grant, compaction, the compacted revision and
//! server features. Two implementations share one test suite: a client of any etcd
//! (`etcd_api::client`) and the bench server's embedded store.

pub mod requests;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;

use crate::error::Error;
use crate::proto::mvccpb::KeyValue;

/// The key by which kube-apiservers that share a storage agree on which of them compacts it. It is
/// outside of all registry prefixes. Its value is the revision of the last compaction.
pub const COMPACT_REV_KEY: &[u8] = b"compact_rev_key";

/// Options of [`KubernetesEtcd::get`].
#[derive(Debug, Clone, Copy, Default)]
pub struct GetOptions {
    /// Read at this revision; 0 is the latest.
    pub revision: i64,
}

/// Response of [`KubernetesEtcd::get`].
#[derive(Debug, Clone, Default)]
pub struct GetResponse {
    /// The key, when it exists.
    pub kv: Option<KeyValue>,
    /// Store revision when the key was read (header revision).
    pub revision: i64,
}

/// Options of [`KubernetesEtcd::list`] and [`KubernetesEtcd::list_stream`].
#[derive(Debug, Clone, Default)]
pub struct ListOptions {
    /// Read at this revision; 0 is the latest.
    pub revision: i64,
    /// At most this many keys; 0 is no limit.
    pub limit: i64,
    /// First key to read (the last key of the preceding page plus `\0`); if empty, the prefix.
    pub continue_key: Bytes,
}

/// Response of [`KubernetesEtcd::list`].
#[derive(Debug, Clone, Default)]
pub struct ListResponse {
    /// The page, in key order.
    pub kvs: Vec<KeyValue>,
    /// Number of keys from the page's start to the end of the prefix, including this page.
    pub count: i64,
    /// Store revision when the page was read (header revision, even for a read at an older
    /// revision).
    pub revision: i64,
}

impl ListResponse {
    /// Returns the number of keys of the prefix after this page.
    ///
    /// # Errors
    /// [`Error::Protocol`] when the count is less than the number of keys in the page, or is
    /// positive for an empty page. A caller that took either for the end would have an incomplete
    /// list.
    pub fn remaining(&self) -> Result<u64, Error> {
        let keys = self.kvs.len() as u64;
        match u64::try_from(self.count)
            .ok()
            .and_then(|c| c.checked_sub(keys))
        {
            Some(remaining) if keys > 0 || remaining == 0 => Ok(remaining),
            _ => Err(Error::Protocol(format!(
                "a page of {keys} keys has a count of {}",
                self.count
            ))),
        }
    }
}

/// One message of a streamed list.
#[derive(Debug, Clone)]
pub enum ListBatch {
    /// Encoded objects: consecutive whole `RangeResponse.kvs` fields (tag `0x12`, length,
    /// `KeyValue`), in key order. [`raw_objects`] iterates over them.
    Objects(Vec<Bytes>),
    /// The end of the list; always last, and exactly once.
    End {
        /// Store revision when the list was pinned. If the request set no revision, a watch
        /// continues from this revision plus one.
        revision: i64,
        /// Number of keys of the prefix from the start key on, including those beyond the limit.
        count: i64,
        /// Whether the limit truncated the list.
        more: bool,
    },
}

/// Options of [`KubernetesEtcd::optimistic_put`].
#[derive(Debug, Clone, Copy, Default)]
pub struct PutOptions {
    /// Whether to return the current key on a conflict.
    pub get_on_failure: bool,
    /// The lease to attach the key to; 0 for none.
    pub lease_id: i64,
}

/// Options of [`KubernetesEtcd::optimistic_delete`].
#[derive(Debug, Clone, Copy, Default)]
pub struct DeleteOptions {
    /// Whether to return the current key on a conflict.
    pub get_on_failure: bool,
}

/// Response of an optimistic write.
#[derive(Debug, Clone, Default)]
pub struct OptimisticResponse {
    /// Whether the key had the expected revision, so that the write was made.
    pub succeeded: bool,
    /// The current key, on a conflict with `get_on_failure`; `None` if it does not exist.
    pub kv: Option<KeyValue>,
    /// Revision of the write, or the store revision on a conflict.
    pub revision: i64,
}

/// Options of [`KubernetesEtcd::watch`].
#[derive(Debug, Clone, Default)]
pub struct WatchOptions {
    /// First revision to deliver; 0 means all after the current one.
    pub start_revision: i64,
    /// Whether to deliver the previous state with every update and delete.
    pub prev_kv: bool,
    /// Whether to request periodic progress.
    pub progress_notify: bool,
    /// Whether to watch the single key instead of the prefix.
    pub single_key: bool,
    /// Watches with the same stream key may share a gRPC stream. The server reports requested
    /// progress per stream, so a cache uses a stream key of its own.
    pub stream_key: String,
}

/// A change of a key.
#[derive(Debug, Clone)]
pub struct WatchEvent {
    /// Put or delete.
    pub kind: EventKind,
    /// The key after a put; after a delete, only the key and its mod revision.
    pub kv: KeyValue,
    /// The key before the change, if requested and not compacted.
    pub prev_kv: Option<KeyValue>,
}

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// Created or changed.
    Put,
    /// Deleted (also by its lease).
    Delete,
}

/// An item that a watch delivers, in order.
#[derive(Debug, Clone)]
pub enum WatchItem {
    /// All events of one revision: multi-key transactions and fragments are joined.
    Revision {
        /// The revision.
        revision: i64,
        /// Its events on the watched keys, in the order in which they were made.
        events: Vec<WatchEvent>,
    },
    /// All events up to this revision have been delivered on this watch. Progress uses the same
    /// queue as events, so it can never overtake them.
    Progress {
        /// The revision.
        revision: i64,
    },
}

impl WatchItem {
    /// Groups events, which must be in the order of their revisions, into one item per revision.
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

/// The reason why a watch ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The start revision is compacted. The caller must list again.
    #[error("watch start revision is compacted, compacted revision is {compact_revision}")]
    Compacted {
        /// Oldest revision that can still be watched.
        compact_revision: i64,
    },
    /// The server cancelled the watch, with this reason.
    #[error("watch cancelled by the server: {0}")]
    Canceled(String),
    /// The connection or the call failed.
    #[error(transparent)]
    Transport(#[from] Error),
}

/// A running watch. Dropping it cancels it.
#[async_trait]
pub trait Watch: Send {
    /// Returns the next item, or `None` after an orderly end. Cancel safe.
    async fn next(&mut self) -> Option<Result<WatchItem, WatchError>>;
}

/// The features of the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Features {
    /// Version text of `Maintenance.Status`: the lowest of all endpoints.
    pub version: String,
    /// Whether manual watch progress is safe: etcd ≥ 3.4.31 and not in [3.5.0, 3.5.13).
    pub request_progress: bool,
    /// Whether RangeStream is implemented; `None` if that was never tried.
    pub range_stream: Option<bool>,
}

/// The storage operations that an apiserver uses.
#[async_trait]
pub trait KubernetesEtcd: Send + Sync + 'static {
    /// Reads one key. The read is linearizable.
    async fn get(&self, key: &[u8], options: GetOptions) -> Result<GetResponse, Error>;

    /// Reads one page of a prefix with a unary Range, in key order.
    async fn list(&self, prefix: &[u8], options: ListOptions) -> Result<ListResponse, Error>;

    /// Reads a prefix as a stream of encoded objects with RangeStream. If the server does not
    /// implement that, fails with `Error::Unimplemented`, either at once or with the first item.
    /// There is no fallback.
    async fn list_stream(
        &self,
        prefix: &[u8],
        options: ListOptions,
    ) -> Result<BoxStream<'static, Result<ListBatch, Error>>, Error>;

    /// Returns the number of keys with the prefix.
    async fn count(&self, prefix: &[u8]) -> Result<i64, Error>;

    /// Writes `key` if its mod revision is `expected_revision`; 0 means that it must not exist.
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

    /// Returns the store's revision, which is never 0, by a linearizable read of `key`. (An
    /// apiserver reads its resource prefix, a key that does not exist.)
    async fn current_revision(&self, key: &[u8]) -> Result<i64, Error>;

    /// Grants a lease of at least `ttl_s` seconds; returns the lease's id.
    async fn lease_grant(&self, ttl_s: i64) -> Result<i64, Error>;

    /// Drops history below `revision`.
    async fn compact(&self, revision: i64) -> Result<(), Error>;

    /// Returns the last known compacted revision; 0 if none is known.
    async fn compacted_revision(&self) -> Result<i64, Error>;

    /// Returns the features that all endpoints have.
    async fn features(&self) -> Result<Features, Error>;

    /// Watches a prefix (or one key). Returns once the server has created the watch.
    async fn watch(
        &self,
        prefix: &[u8],
        options: WatchOptions,
    ) -> Result<Box<dyn Watch>, WatchError>;

    /// Requests a [`WatchItem::Progress`] on every watch of the stream key, and does not wait for
    /// it.
    async fn request_progress(&self, stream_key: &str) -> Result<(), Error>;
}

/// One object of a [`ListBatch::Objects`].
#[derive(Debug, Clone, Copy)]
pub struct RawObject<'a> {
    /// Key, never empty.
    pub key: &'a [u8],
    /// Value.
    pub value: &'a [u8],
    /// Revision of the last write.
    pub mod_revision: i64,
    /// Revision of the creation.
    pub create_revision: i64,
    /// The whole record: tag, length, `KeyValue`.
    pub record: &'a [u8],
}

/// Iterates over encoded objects in place.
///
/// # Errors
/// An item is [`Error::Protocol`] if the bytes are not whole `RangeResponse.kvs` fields. It is then
/// the last item.
pub fn raw_objects(records: &[u8]) -> impl Iterator<Item = Result<RawObject<'_>, Error>> {
    crate::client::list_validator::objects(records).map(|item| {
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
    fn a_page_with_an_impossible_count_is_an_error() {
        let page = |keys: usize, count| ListResponse {
            kvs: vec![KeyValue::default(); keys],
            count,
            revision: 1,
        };
        for (keys, count, remaining) in [(0, 0, 0), (2, 2, 0), (2, 5, 3)] {
            assert_eq!(page(keys, count).remaining().ok(), Some(remaining));
        }
        for (keys, count) in [(2, 1), (2, 0), (0, 3), (0, -1)] {
            let error = page(keys, count).remaining().expect_err("it is wrong");
            assert!(error.to_string().ends_with(&format!("count of {count}")));
        }
    }
}
