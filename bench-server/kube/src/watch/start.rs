//! The start of a watch: its initial objects, and the source of the events that follow.

use std::sync::Arc;

use memory::open_lists::OpenList;

use super::uncached::StorageWatcher;
use crate::cache::WatchCache;
use crate::shard::object_set::ObjectSet;

/// The start of a watch.
pub(crate) struct WatchStart {
    /// The objects of the initial events, if there are to be any.
    pub(crate) objects: Option<ObjectSet>,
    /// The revision up to which all changes are in those objects or do not have to be sent.
    pub(crate) revision: i64,
    pub(crate) source: EventSource,
    /// Counts the snapshot as an open list, if the objects are from the cache.
    pub(crate) open: Option<OpenList>,
}

/// The source of events.
#[derive(Debug)]
pub(crate) enum EventSource {
    /// The watch cache, in one of its generations.
    Cache(Arc<WatchCache>, u64),
    /// A watch of storage.
    Etcd(Box<StorageWatcher>),
}
