//! What a watch is made from: the state that it begins with, and where its events come from.

use std::sync::Arc;

use memory::open_lists::OpenList;

use super::uncached::StorageWatcher;
use crate::cache::WatchCache;
use crate::shard::object_set::ObjectSet;

/// Where a watch begins: which objects it shows first, and the revision that it follows.
pub(crate) struct WatchStart {
    /// The state to show first.
    pub(crate) state: Option<ObjectSet>,
    /// Everything up to here is in that state, or is not to be shown.
    pub(crate) revision: i64,
    pub(crate) source: EventSource,
    /// Counts the state among those that lists are read from, where it is a cache's.
    pub(crate) open: Option<OpenList>,
}

/// Where events come from.
#[derive(Debug)]
pub(crate) enum EventSource {
    /// The watch cache, as of one of its fills.
    Cache(Arc<WatchCache>, u64),
    /// Storage.
    Etcd(Box<StorageWatcher>),
}
