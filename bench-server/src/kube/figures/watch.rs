//! Figures of the cache's events and of watches.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::{ByResource, label};
use crate::kube::cache::ring::Resized;
use crate::kube::resource::Resource;

/// Upper bounds for handing out one event, seconds.
const DISPATCH_BUCKETS: [f64; 9] = [
    0.000_01, 0.000_05, 0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1,
];
/// Upper bounds of upstream's watch-list histogram, seconds.
const WATCH_LIST_BUCKETS: [f64; 13] = [
    0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 15.0,
];

/// Figures of events and watches. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct WatchFigures {
    capacity: Family<ByResource, Gauge>,
    grown: Family<ByResource, Counter>,
    shrunk: Family<ByResource, Counter>,
    dispatched: Family<ByResource, Counter>,
    dispatch_seconds: Family<ByResource, Histogram, fn() -> Histogram>,
    initial_events: Family<ByResource, Counter>,
    terminated: Family<ByResource, Counter>,
    list_seconds: Family<ByResource, Histogram, fn() -> Histogram>,
    watchers: Family<ByResource, Gauge>,
    encoded: Family<ByResource, Counter>,
}

impl WatchFigures {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let figures = Self {
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
        };
        let f = figures.clone();
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
            "Time to put one event into the queues of all who watch it",
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
        registry.register(
            "bench_watch_encodings",
            "Live events encoded: once for all watches of a media type",
            f.encoded,
        );
        figures
    }

    pub(super) fn ring_capacity(&self, resource: &Resource, capacity: usize) {
        self.capacity
            .get_or_create(&label(resource))
            .set(capacity as i64);
    }

    pub(crate) fn ring_resized(&self, resource: &Resource, resized: Resized) {
        let family = match resized {
            Resized::Grown => &self.grown,
            Resized::Shrunk => &self.shrunk,
        };
        family.get_or_create(&label(resource)).inc();
    }

    pub(crate) fn dispatched(&self, resource: &Resource, took: Duration) {
        self.dispatched.get_or_create(&label(resource)).inc();
        self.dispatch_seconds
            .get_or_create(&label(resource))
            .observe(took.as_secs_f64());
    }

    pub(crate) fn initial_events(&self, resource: &Resource, count: u64) {
        self.initial_events
            .get_or_create(&label(resource))
            .inc_by(count);
    }

    pub(crate) fn initial_done(&self, resource: &Resource, took: Duration) {
        self.list_seconds
            .get_or_create(&label(resource))
            .observe(took.as_secs_f64());
    }

    pub(crate) fn terminated(&self, resource: &Resource) {
        self.terminated.get_or_create(&label(resource)).inc();
    }

    pub(crate) fn encoded(&self, resource: &Resource) {
        self.encoded.get_or_create(&label(resource)).inc();
    }

    /// Counts an open watch until the answer is dropped.
    pub(crate) fn open(&self, resource: &Resource) -> Open {
        let gauge = self.watchers.get_or_create(&label(resource)).clone();
        gauge.inc();
        Open(gauge)
    }
}

/// An open watch.
#[derive(Debug)]
pub(crate) struct Open(Gauge);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}
