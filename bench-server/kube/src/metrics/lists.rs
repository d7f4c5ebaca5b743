//! Metrics of lists: their source, the index used, the number of objects read, and the reason for
//! reading storage.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::labels::ByResource;
use super::timer::{ETCD_BUCKETS, Timer};
use crate::resource::Resource;

/// The source of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServedFrom {
    /// The watch cache.
    Cache,
    /// etcd.
    Etcd,
}

/// The source and the cost of a list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListStats {
    pub(crate) from: ServedFrom,
    /// The index that found the objects; empty without an index.
    pub(crate) index: &'static str,
    /// The number of objects that etcd sent. For lists from the cache, the larger of `evaluated`
    /// and `returned` counts instead.
    pub(crate) fetched_from_storage: u64,
    /// The number of objects to which selectors were applied. k8s.io/apiserver counts none for
    /// lists from its cache.
    pub(crate) evaluated: u64,
    /// The number of objects in the list.
    pub(crate) returned: u64,
}

impl ListStats {
    /// Returns the statistics of a list for which no object has been read yet.
    pub(crate) fn by(from: ServedFrom, index: &'static str) -> Self {
        Self {
            from,
            index,
            fetched_from_storage: 0,
            evaluated: 0,
            returned: 0,
        }
    }

    fn fetched(&self) -> u64 {
        match self.from {
            ServedFrom::Cache => self.evaluated.max(self.returned),
            ServedFrom::Etcd => self.fetched_from_storage,
        }
    }
}

/// Labels of a list: its source.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByStorage {
    group: &'static str,
    resource: &'static str,
    storage: &'static str,
}

/// Labels of a list: its source and the index used.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByStorageAndIndex {
    group: &'static str,
    resource: &'static str,
    storage: &'static str,
    index: &'static str,
}

/// Labels of a list from the cache: the index used.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByIndex {
    group: &'static str,
    resource: &'static str,
    index: &'static str,
}

/// Labels of a list from etcd: whether it was streamed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByStreamed {
    group: &'static str,
    resource: &'static str,
    streamed: &'static str,
}

/// Labels of a list from storage: the reason.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByReason {
    group: &'static str,
    resource: &'static str,
    reason: &'static str,
}

/// Metrics of lists. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct ListMetrics {
    lists: Family<ByStorageAndIndex, Counter>,
    fetched: Family<ByStorageAndIndex, Counter>,
    evaluated: Family<ByStorage, Counter>,
    returned: Family<ByStorage, Counter>,
    cached: Family<ByIndex, Counter>,
    cached_fetched: Family<ByIndex, Counter>,
    cached_returned: Family<ByResource, Counter>,
    seconds: Family<ByStreamed, Histogram, fn() -> Histogram>,
    from_storage: Family<ByReason, Counter>,
}

impl ListMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            lists: Family::default(),
            fetched: Family::default(),
            evaluated: Family::default(),
            returned: Family::default(),
            cached: Family::default(),
            cached_fetched: Family::default(),
            cached_returned: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(ETCD_BUCKETS)),
            from_storage: Family::default(),
        };
        let f = metrics.clone();
        registry.register(
            "apiserver_storage_list",
            "Lists by what served them",
            f.lists,
        );
        registry.register(
            "apiserver_storage_list_fetched_objects",
            "Objects read for those lists",
            f.fetched,
        );
        registry.register(
            "apiserver_storage_list_evaluated_objects",
            "Objects that selectors were applied to for those lists",
            f.evaluated,
        );
        registry.register(
            "apiserver_storage_list_returned_objects",
            "Objects in those lists",
            f.returned,
        );
        registry.register(
            "apiserver_cache_list",
            "Lists that the watch cache served",
            f.cached,
        );
        registry.register(
            "apiserver_cache_list_fetched_objects",
            "Objects read from the watch cache for them",
            f.cached_fetched,
        );
        registry.register(
            "apiserver_cache_list_returned_objects",
            "Objects in them",
            f.cached_returned,
        );
        registry.register(
            "apiserver_storage_list_duration_seconds",
            "Time that etcd took for a list or a page",
            f.seconds,
        );
        registry.register(
            "bench_lists_from_storage",
            "Lists that were read from storage, by the reason why the watch cache did not serve them",
            f.from_storage,
        );
        metrics
    }

    /// Counts a list.
    pub(crate) fn count(&self, resource: &Resource, stats: ListStats) {
        let (group, name) = (resource.group, resource.name);
        let storage = match stats.from {
            ServedFrom::Cache => "watchcache",
            ServedFrom::Etcd => "etcd",
        };
        let index = stats.index;
        let labels = ByStorageAndIndex {
            group,
            resource: name,
            storage,
            index,
        };
        self.lists.get_or_create(&labels).inc();
        self.fetched.get_or_create(&labels).inc_by(stats.fetched());
        let labels = ByStorage {
            group,
            resource: name,
            storage,
        };
        self.evaluated
            .get_or_create(&labels)
            .inc_by(stats.evaluated);
        self.returned.get_or_create(&labels).inc_by(stats.returned);
        if stats.from == ServedFrom::Cache {
            let labels = ByIndex {
                group,
                resource: name,
                index,
            };
            self.cached.get_or_create(&labels).inc();
            self.cached_fetched
                .get_or_create(&labels)
                .inc_by(stats.fetched());
            self.cached_returned
                .get_or_create(&ByResource::of(resource))
                .inc_by(stats.returned);
        }
    }

    /// Counts a list that is read from storage by the reason.
    pub(crate) fn count_from_storage(&self, resource: &Resource, reason: &'static str) {
        let labels = ByReason {
            group: resource.group,
            resource: resource.name,
            reason,
        };
        self.from_storage.get_or_create(&labels).inc();
    }

    /// Times etcd's response to a list, or to a page of it, until the returned timer is dropped.
    pub(crate) fn time_request(&self, resource: &Resource, streamed: bool) -> Timer {
        let labels = ByStreamed {
            group: resource.group,
            resource: resource.name,
            streamed: if streamed { "true" } else { "false" },
        };
        Timer::start(&self.seconds.get_or_create(&labels))
    }
}
