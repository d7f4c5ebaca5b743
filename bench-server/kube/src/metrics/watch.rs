//! Figures of the cache's events and of watches.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::labels::ByResource;
use crate::resource::Resource;

/// Upper bounds of upstream's histogram of an event's way, seconds.
const DISPATCH_BUCKETS: [f64; 13] = [
    0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
];
/// Upper bounds of upstream's watch-list histogram, seconds.
const WATCH_LIST_BUCKETS: [f64; 13] = [
    0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 15.0,
];

/// A part of an event's way from etcd to its watchers' queues, by upstream's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// All of it.
    Total,
    /// From its arrival until the cache has it.
    StorageToCache,
    /// From the dispatcher taking it until everybody who watches it has been given it, or up.
    CacheToWatcher,
}

/// A part of an event's way.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByStage {
    group: &'static str,
    resource: &'static str,
    stage: &'static str,
}

/// Why a watch was closed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByReason {
    group: &'static str,
    resource: &'static str,
    reason: &'static str,
}

/// A kind of request that stays.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByRequest {
    verb: &'static str,
    group: &'static str,
    version: &'static str,
    resource: &'static str,
    subresource: &'static str,
    scope: &'static str,
    component: &'static str,
}

/// Figures of events and watches. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct WatchMetrics {
    capacity: Family<ByResource, Gauge>,
    grown: Family<ByResource, Counter>,
    shrunk: Family<ByResource, Counter>,
    dispatched: Family<ByResource, Counter>,
    dispatch_seconds: Family<ByStage, Histogram, fn() -> Histogram>,
    initial_events: Family<ByResource, Counter>,
    terminated: Family<ByReason, Counter>,
    list_seconds: Family<ByResource, Histogram, fn() -> Histogram>,
    watchers: Family<ByRequest, Gauge>,
    encoded: Family<ByResource, Counter>,
    shards: Family<ByResource, Gauge>,
    filtered: Family<ByResource, Counter>,
}

impl WatchMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            capacity: Family::default(),
            grown: Family::default(),
            shrunk: Family::default(),
            dispatched: Family::default(),
            dispatch_seconds: Family::new_with_constructor(|| Histogram::new(DISPATCH_BUCKETS)),
            initial_events: Family::default(),
            terminated: Family::default(),
            list_seconds: Family::new_with_constructor(|| Histogram::new(WATCH_LIST_BUCKETS)),
            watchers: Family::default(),
            encoded: Family::default(),
            shards: Family::default(),
            filtered: Family::default(),
        };
        let f = metrics.clone();
        registry.register(
            "watch_cache_capacity",
            "Events that the ring of the watch cache holds",
            f.capacity,
        );
        registry.register(
            "watch_cache_capacity_increase",
            "Times that the ring grew",
            f.grown,
        );
        registry.register(
            "watch_cache_capacity_decrease",
            "Times that the ring shrank",
            f.shrunk,
        );
        registry.register(
            "apiserver_watch_cache_events_dispatched",
            "Events handed out",
            f.dispatched,
        );
        registry.register(
            "apiserver_watch_events_dispatch_duration_seconds",
            "Time that an event took, by the part of its way",
            f.dispatch_seconds,
        );
        registry.register(
            "apiserver_init_events",
            "Events that watches began with",
            f.initial_events,
        );
        registry.register(
            "apiserver_terminated_watchers",
            "Watches closed because they did not keep up",
            f.terminated,
        );
        registry.register(
            "apiserver_watch_list_duration_seconds",
            "Time until a watch's initial events were handed to the connection",
            f.list_seconds,
        );
        registry.register(
            "apiserver_longrunning_requests",
            "Watches that are open",
            f.watchers,
        );
        // A gauge, although its name ends like a counter's: upstream's choice.
        registry.register(
            "apiserver_watch_shards_total",
            "Watches of a shard that are open",
            f.shards,
        );
        registry.register(
            "apiserver_watch_filtered_events",
            "Events that watches of a shard were not told: a change counts for the object before and after it",
            f.filtered,
        );
        registry.register(
            "bench_watch_encodings",
            "Live events encoded: once for all watches of a media type",
            f.encoded,
        );
        metrics
    }

    pub(super) fn history_capacity(&self, resource: &Resource) -> Gauge {
        self.capacity
            .get_or_create(&ByResource::of(resource))
            .clone()
    }

    pub(crate) fn history_grown(&self, resource: &Resource) {
        self.grown.get_or_create(&ByResource::of(resource)).inc();
    }

    pub(crate) fn history_shrunk(&self, resource: &Resource) {
        self.shrunk.get_or_create(&ByResource::of(resource)).inc();
    }

    pub(crate) fn dispatched(&self, resource: &Resource) {
        self.dispatched
            .get_or_create(&ByResource::of(resource))
            .inc();
    }

    /// Notes what a part of an event's way took.
    pub(crate) fn stage(&self, resource: &Resource, stage: Stage, took: Duration) {
        let labels = ByStage {
            group: resource.group,
            resource: resource.name,
            stage: match stage {
                Stage::Total => "total",
                Stage::StorageToCache => "storage_to_cache",
                Stage::CacheToWatcher => "cache_to_watcher",
            },
        };
        self.dispatch_seconds
            .get_or_create(&labels)
            .observe(took.as_secs_f64());
    }

    pub(crate) fn initial_events(&self, resource: &Resource, count: u64) {
        self.initial_events
            .get_or_create(&ByResource::of(resource))
            .inc_by(count);
    }

    pub(crate) fn initial_done(&self, resource: &Resource, took: Duration) {
        self.list_seconds
            .get_or_create(&ByResource::of(resource))
            .observe(took.as_secs_f64());
    }

    pub(crate) fn terminated(&self, resource: &Resource) {
        let labels = ByReason {
            group: resource.group,
            resource: resource.name,
            reason: "unresponsive",
        };
        self.terminated.get_or_create(&labels).inc();
    }

    pub(crate) fn encoded(&self, resource: &Resource) {
        self.encoded.get_or_create(&ByResource::of(resource)).inc();
    }

    /// Counts objects of events that watches of a shard were not told of.
    pub(crate) fn filtered(&self, resource: &Resource, objects: u64) {
        if objects > 0 {
            let label = ByResource::of(resource);
            self.filtered.get_or_create(&label).inc_by(objects);
        }
    }

    /// Counts an open watch, of one namespace or of the cluster, of a shard or of everything, until the answer
    /// is dropped.
    pub(crate) fn open(&self, resource: &Resource, namespaced: bool, sharded: bool) -> OpenWatch {
        let labels = ByRequest {
            verb: "WATCH",
            group: resource.group,
            version: resource.version(),
            resource: resource.name,
            subresource: "",
            scope: if namespaced { "namespace" } else { "cluster" },
            component: "apiserver",
        };
        let watchers = self.watchers.get_or_create(&labels).clone();
        let label = ByResource::of(resource);
        let shards = sharded.then(|| self.shards.get_or_create(&label).clone());
        let gauges: Vec<_> = [Some(watchers), shards].into_iter().flatten().collect();
        for gauge in &gauges {
            gauge.inc();
        }
        OpenWatch(gauges)
    }
}

/// An open watch.
#[derive(Debug)]
pub(crate) struct OpenWatch(Vec<Gauge>);

impl Drop for OpenWatch {
    fn drop(&mut self) {
        for gauge in &self.0 {
            gauge.dec();
        }
    }
}
