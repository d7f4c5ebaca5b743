//! The metrics of the tier, under the names of k8s.io/apiserver where it has the same metric.
//!
//! The names of additional metrics begin with `bench_`. They show the cost of lists and the reason
//! for it (`bench_lists_from_storage`, revision reads, progress requests), which the metrics of
//! k8s.io/apiserver do not.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use self::labels::ByResource;
use self::lists::ListMetrics;
pub use self::lists::ServedFrom;
use self::requests::RequestMetrics;
use self::timer::{ETCD_BUCKETS, Timer};
pub use self::undecodable::Undecodable;
use self::watch::WatchMetrics;
use crate::resource::Resource;

pub(crate) mod labels;
pub(crate) mod lists;
pub(crate) mod requests;
mod timer;
mod undecodable;
pub(crate) mod watch;

/// The buckets of apiserver's read_wait histogram, in seconds.
const WAIT_BUCKETS: [f64; 13] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0,
];
/// The buckets of apiserver's histogram of cache initializations, in seconds.
const FILL_BUCKETS: [f64; 12] = [
    0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0, 600.0,
];

/// The outcome of a consistent list.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOutcome {
    group: &'static str,
    resource: &'static str,
    success: &'static str,
    fallback: &'static str,
}

/// The outcome of a consistency check.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByCheck {
    group: &'static str,
    resource: &'static str,
    status: &'static str,
}

/// A call to etcd.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOperation {
    operation: &'static str,
    group: &'static str,
    resource: &'static str,
}

/// The operations on etcd, under apiserver's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A read of a single key.
    Get,
    /// A read of a page.
    List,
    /// A read by RangeStream.
    ListStream,
    /// The current revision, by a linearizable read.
    GetCurrentResourceVersion,
    /// The creation of an object.
    Create,
    /// An update of an object.
    Update,
    /// The deletion of an object.
    Delete,
}

/// All metrics of the tier. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Metrics {
    read_wait: Family<ByResource, Histogram, fn() -> Histogram>,
    consistent_reads: Family<ByOutcome, Counter>,
    initializations: Family<ByResource, Counter>,
    initialization_errors: Family<ByResource, Counter>,
    initialization_seconds: Family<ByResource, Histogram, fn() -> Histogram>,
    events_received: Family<ByResource, Counter>,
    resource_version: Family<ByResource, Gauge>,
    etcd_requests: Family<ByOperation, Histogram, fn() -> Histogram>,
    bookmarks: Family<ByResource, Counter>,
    revision_reads: Family<ByResource, Counter>,
    progress_requests: Family<ByResource, Counter>,
    fallbacks: Family<ByResource, Counter>,
    undecodable: Family<ByResource, Counter>,
    cached_objects: Family<ByResource, Gauge>,
    cached_bytes: Family<ByResource, Gauge>,
    snapshots: Family<ByResource, Gauge>,
    progress_supported: Family<ByResource, Gauge>,
    consistency_checks: Family<ByCheck, Counter>,
    size_estimate: Family<ByResource, Gauge>,
    stored_objects: Family<ByResource, Gauge>,
    decode_errors: Family<ByResource, Counter>,
    /// Metrics of lists.
    pub(crate) lists: ListMetrics,
    /// Metrics of requests.
    pub(crate) requests: RequestMetrics,
    /// Metrics of the watch cache's events and of watches.
    pub(crate) watch: WatchMetrics,
}

impl Metrics {
    /// Registers every metric.
    pub fn new(registry: &mut Registry) -> Self {
        // Each line has a field, its metric family, and the name and help text with which it is
        // registered.
        macro_rules! registered {
            ($($field:ident: $family:expr, $name:literal, $help:literal;)*) => {{
                let metrics = Self {
                    $($field: $family,)*
                    lists: ListMetrics::new(registry),
                    requests: RequestMetrics::new(registry),
                    watch: WatchMetrics::new(registry),
                };
                $(registry.register($name, $help, metrics.$field.clone());)*
                metrics
            }};
        }
        registered! {
            read_wait: Family::new_with_constructor(|| Histogram::new(WAIT_BUCKETS)),
                "apiserver_watch_cache_read_wait_seconds", "Time that a consistent read waited for the cache";
            consistent_reads: Family::default(),
                "apiserver_watch_cache_consistent_read", "Consistent reads by outcome";
            initializations: Family::default(),
                "apiserver_watch_cache_initializations", "Initial lists of the watch cache";
            initialization_errors: Family::default(),
                "apiserver_watch_cache_initialization_errors", "Initial lists that failed";
            initialization_seconds: Family::new_with_constructor(|| Histogram::new(FILL_BUCKETS)),
                "apiserver_watch_cache_initialization_duration_seconds", "Duration of initial lists that succeeded";
            events_received: Family::default(),
                "apiserver_watch_cache_events_received", "Events from etcd";
            resource_version: Family::default(),
                "apiserver_watch_cache_resource_version", "Revision that the cache has reached";
            etcd_requests: Family::new_with_constructor(|| Histogram::new(ETCD_BUCKETS)),
                "etcd_request_duration_seconds", "Calls to etcd";
            bookmarks: Family::default(),
                "etcd_bookmark", "Progress notifications from etcd";
            revision_reads: Family::default(),
                "bench_revision_reads", "Linearizable reads of the current revision";
            progress_requests: Family::default(),
                "bench_progress_requests", "Watch progress requests sent";
            fallbacks: Family::default(),
                "bench_list_fallbacks", "Consistent lists that etcd served because the cache was late";
            undecodable: Family::default(),
                "bench_undecodable_objects", "Stored values that do not decode";
            cached_objects: Family::default(),
                "bench_cache_objects", "Objects in the cache";
            cached_bytes: Family::default(),
                "bench_cache_bytes", "Their encoded bytes";
            snapshots: Family::default(),
                "bench_cache_snapshots", "Past snapshots that the cache keeps";
            progress_supported: Family::default(),
                "bench_progress_supported", "1 where etcd can report watch progress; without, consistent lists come from etcd";
            consistency_checks: Family::default(),
                "apiserver_storage_consistency_checks", "Comparisons of the cache with etcd, by outcome";
            size_estimate: Family::default(),
                "apiserver_resource_size_estimate_bytes", "Bytes of all objects of the resource";
            stored_objects: Family::default(),
                "apiserver_resource_objects", "Objects of the resource";
            decode_errors: Family::default(),
                "apiserver_storage_decode_errors", "Stored values that do not decode";
        }
    }

    /// Times a call to etcd until the returned timer is dropped.
    pub(crate) fn etcd_request(&self, operation: Operation, resource: &Resource) -> Timer {
        if operation == Operation::GetCurrentResourceVersion {
            self.revision_reads
                .get_or_create(&ByResource::of(resource))
                .inc();
        }
        let operation = match operation {
            Operation::Get => "get",
            Operation::List => "list",
            Operation::ListStream => "listStream",
            Operation::GetCurrentResourceVersion => "getCurrentResourceVersion",
            Operation::Create => "create",
            Operation::Update => "update",
            Operation::Delete => "delete",
        };
        let labels = ByOperation {
            operation,
            group: resource.group,
            resource: resource.name,
        };
        Timer::start(&self.etcd_requests.get_or_create(&labels))
    }

    /// Times a wait for the cache until the returned timer is dropped.
    pub(crate) fn wait(&self, resource: &Resource) -> Timer {
        Timer::start(&self.read_wait.get_or_create(&ByResource::of(resource)))
    }

    pub(crate) fn consistent_read(&self, resource: &Resource, fresh: bool) {
        let labels = ByOutcome {
            group: resource.group,
            resource: resource.name,
            success: if fresh { "true" } else { "false" },
            fallback: if fresh { "false" } else { "true" },
        };
        self.consistent_reads.get_or_create(&labels).inc();
        if !fresh {
            self.fallbacks
                .get_or_create(&ByResource::of(resource))
                .inc();
        }
    }

    pub(crate) fn initialized(&self, resource: &Resource, seconds: f64) {
        self.initializations
            .get_or_create(&ByResource::of(resource))
            .inc();
        self.initialization_seconds
            .get_or_create(&ByResource::of(resource))
            .observe(seconds);
    }

    pub(crate) fn initialization_failed(&self, resource: &Resource) {
        self.initialization_errors
            .get_or_create(&ByResource::of(resource))
            .inc();
    }

    pub(crate) fn events(&self, resource: &Resource, count: usize) {
        self.events_received
            .get_or_create(&ByResource::of(resource))
            .inc_by(count as u64);
    }

    pub(crate) fn bookmark(&self, resource: &Resource) {
        self.bookmarks
            .get_or_create(&ByResource::of(resource))
            .inc();
    }

    pub(crate) fn progress_request(&self, resource: &Resource) {
        self.progress_requests
            .get_or_create(&ByResource::of(resource))
            .inc();
    }

    pub(crate) fn progress_supported(&self, resource: &Resource, supported: bool) {
        self.progress_supported
            .get_or_create(&ByResource::of(resource))
            .set(supported.into());
    }

    pub(crate) fn consistency_check(&self, resource: &Resource, status: &'static str) {
        let labels = ByCheck {
            group: resource.group,
            resource: resource.name,
            status,
        };
        self.consistency_checks.get_or_create(&labels).inc();
    }

    /// Returns the counters of objects of `resource` that cannot be decoded or converted.
    pub(crate) fn undecodable(&self, resource: &Resource) -> Undecodable {
        let label = ByResource::of(resource);
        let both = [&self.decode_errors, &self.undecodable];
        Undecodable(both.map(|family| family.get_or_create(&label).clone()))
    }

    /// Returns the gauges of a resource's cache.
    pub(crate) fn cache(&self, resource: &Resource) -> CacheGauges {
        let label = ByResource::of(resource);
        let gauge = |family: &Family<ByResource, Gauge>| family.get_or_create(&label).clone();
        CacheGauges {
            resource_version: gauge(&self.resource_version),
            cached_objects: gauge(&self.cached_objects),
            stored_objects: gauge(&self.stored_objects),
            cached_bytes: gauge(&self.cached_bytes),
            size_estimate: gauge(&self.size_estimate),
            snapshots: gauge(&self.snapshots),
            history_capacity: self.watch.history_capacity(resource),
        }
    }
}

/// The gauges of one cache. They are looked up once, because every write sets all of them under the
/// cache's lock.
#[derive(Debug)]
pub(crate) struct CacheGauges {
    resource_version: Gauge,
    cached_objects: Gauge,
    stored_objects: Gauge,
    cached_bytes: Gauge,
    size_estimate: Gauge,
    snapshots: Gauge,
    history_capacity: Gauge,
}

impl CacheGauges {
    /// Sets all gauges after a change of the cache.
    pub(crate) fn set(
        &self,
        revision: i64,
        objects: u64,
        bytes: u64,
        snapshots: usize,
        history_capacity: usize,
    ) {
        self.resource_version.set(revision);
        self.cached_objects.set(objects as i64);
        self.stored_objects.set(objects as i64);
        self.cached_bytes.set(bytes as i64);
        self.size_estimate.set(bytes as i64);
        self.snapshots.set(snapshots as i64);
        self.history_capacity.set(history_capacity as i64);
    }
}
