//! How a watch starts: the objects that it begins with, and the source of the events that follow.

use std::sync::Arc;

use memory::open_lists::OpenList;

use super::uncached::StorageWatcher;
use crate::cache::WatchCache;
use crate::shard::object_set::ObjectSet;

/// How a watch starts.
pub(crate) struct WatchStart {
    /// The objects of the initial events.
    pub(crate) objects: Option<ObjectSet>,
    /// Everything up to this revision is in those objects, or is not to be sent.
    pub(crate) revision: i64,
    pub(crate) source: EventSource,
    /// Counts their snapshot as an open list's, if they are a cache's.
    pub(crate) open: Option<OpenList>,
}

/// Where events come from.
#[derive(Debug)]
pub(crate) enum EventSource {
    /// The watch cache, in one of its generations.
    Cache(Arc<WatchCache>, u64),
    /// Storage's own watch.
    Etcd(Box<StorageWatcher>),
}
