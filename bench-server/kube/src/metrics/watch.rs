//! Metrics of the cache's events and of watches.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::labels::ByResource;
use crate::resource::Resource;

/// The buckets of apiserver's histogram of event dispatching, in seconds.
const DISPATCH_BUCKETS: [f64; 13] = [
    0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
];
/// The buckets of apiserver's histogram of watch-lists, in seconds.
const WATCH_LIST_BUCKETS: [f64; 13] = [
    0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 15.0,
];

/// A stage of the delivery of an event from etcd to its watchers' queues, under apiserver's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The whole delivery.
    Total,
    /// From the event's arrival until the cache has applied it.
    StorageToCache,
    /// From the start of the event's dispatch until each watcher's queue contains it or is closed.
    CacheToWatcher,
}

/// Labels of an event: the stage of its delivery.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByStage {
    group: &'static str,
    resource: &'static str,
    stage: &'static str,
}

/// Labels of a closed watch: the reason.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByReason {
    group: &'static str,
    resource: &'static str,
    reason: &'static str,
}

/// Labels of a long-running request.
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

/// Metrics of events and watches. Cheap to clone.
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
            "Events that the history of the watch cache can hold",
            f.capacity,
        );
        registry.register(
            "watch_cache_capacity_increase",
            "Times that this capacity was doubled",
            f.grown,
        );
        registry.register(
            "watch_cache_capacity_decrease",
            "Times that this capacity was halved",
            f.shrunk,
        );
        registry.register(
            "apiserver_watch_cache_events_dispatched",
            "Events delivered to the queues of watchers",
            f.dispatched,
        );
        registry.register(
            "apiserver_watch_events_dispatch_duration_seconds",
            "Time that an event took, by stage",
            f.dispatch_seconds,
        );
        registry.register(
            "apiserver_init_events",
            "Initial events of watches",
            f.initial_events,
        );
        registry.register(
            "apiserver_terminated_watchers",
            "Watches closed because they did not keep up",
            f.terminated,
        );
        registry.register(
            "apiserver_watch_list_duration_seconds",
            "Time until the initial events of a watch were handed to its connection",
            f.list_seconds,
        );
        registry.register(
            "apiserver_longrunning_requests",
            "Watches that are open",
            f.watchers,
        );
        // A gauge, although its name ends like that of a counter: the name is apiserver's.
        registry.register(
            "apiserver_watch_shards_total",
            "Watches of a shard that are open",
            f.shards,
        );
        registry.register(
            "apiserver_watch_filtered_events",
            "Objects of events that watches of other shards did not receive: the old and the new one of a change",
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

    /// Records the duration of a stage.
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

    /// Counts objects of events that watches of other shards do not receive.
    pub(crate) fn filtered(&self, resource: &Resource, objects: u64) {
        if objects > 0 {
            let label = ByResource::of(resource);
            self.filtered.get_or_create(&label).inc_by(objects);
        }
    }

    /// Counts an open watch until the returned value is dropped. `namespaced` says whether it is of
    /// one namespace, `sharded` whether it is of a shard.
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

/// An open watch, counted by these gauges until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenWatch(Vec<Gauge>);

impl Drop for OpenWatch {
    fn drop(&mut self) {
        for gauge in &self.0 {
            gauge.dec();
        }
    }
}
