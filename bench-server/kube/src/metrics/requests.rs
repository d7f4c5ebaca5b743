//! Metrics of requests for resources, from their arrival until their responses are sent.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

/// The buckets of apiserver's histogram of requests, in seconds.
const BUCKETS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0,
    10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];

/// Labels of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RequestLabels {
    pub(crate) verb: &'static str,
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) resource: &'static str,
    /// The subresource; empty for the object itself.
    pub(crate) subresource: &'static str,
    /// The scope: `resource` (one object), `namespace` or `cluster`.
    pub(crate) scope: &'static str,
}

impl RequestLabels {
    fn is_read(&self) -> bool {
        matches!(self.verb, "GET" | "LIST")
    }

    fn is_watch(&self) -> bool {
        self.verb == "WATCH"
    }
}

/// Labels of a request, whether it is a dry run, and the component that serves it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByRequest {
    #[prometheus(flatten)]
    labels: RequestLabels,
    dry_run: &'static str,
    component: &'static str,
}

/// Labels of a request and its status code.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByCode {
    #[prometheus(flatten)]
    request: ByRequest,
    code: u16,
}

/// Labels of requests in flight: whether they are mutating.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByKind {
    request_kind: &'static str,
}

/// Metrics of requests. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct RequestMetrics {
    total: Family<ByCode, Counter>,
    seconds: Family<ByRequest, Histogram, fn() -> Histogram>,
    aborted: Family<RequestLabels, Counter>,
    reading: Gauge,
    writing: Gauge,
}

impl RequestMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let inflight: Family<ByKind, Gauge> = Family::default();
        let of = |request_kind| {
            let gauge = inflight.get_or_create(&ByKind { request_kind });
            gauge.clone()
        };
        let metrics = Self {
            total: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            aborted: Family::default(),
            reading: of("readOnly"),
            writing: of("mutating"),
        };
        let f = metrics.clone();
        registry.register("apiserver_request", "Requests by outcome", f.total);
        registry.register(
            "apiserver_request_duration_seconds",
            "Time until their responses were sent",
            f.seconds,
        );
        registry.register(
            "apiserver_request_aborts",
            "Requests whose response was cut off because it was not read in time",
            f.aborted,
        );
        registry.register(
            "apiserver_current_inflight_requests",
            "Requests in flight, watches aside",
            inflight,
        );
        metrics
    }

    /// Counts a request until the returned tracker is dropped.
    pub(crate) fn track(&self, labels: RequestLabels, dry_run: bool) -> RequestTracker {
        if let Some(gauge) = self.inflight(&labels) {
            gauge.inc();
        }
        RequestTracker {
            metrics: self.clone(),
            request: ByRequest {
                labels,
                dry_run: if dry_run { "All" } else { "" },
                component: "apiserver",
            },
            started: Instant::now(),
            code: None,
        }
    }

    fn inflight(&self, labels: &RequestLabels) -> Option<&Gauge> {
        match (labels.is_watch(), labels.is_read()) {
            (true, _) => None,
            (false, true) => Some(&self.reading),
            (false, false) => Some(&self.writing),
        }
    }
}

/// A request that is being served. Dropping it counts the request by its status code and duration.
#[derive(Debug)]
pub(crate) struct RequestTracker {
    metrics: RequestMetrics,
    request: ByRequest,
    started: Instant,
    code: Option<u16>,
}

impl RequestTracker {
    /// Returns the time at which the request arrived.
    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// Records the status code when the response begins. A request whose client disconnects earlier
    /// is not counted.
    pub(crate) fn respond(&mut self, code: http::StatusCode) {
        self.code = Some(code.as_u16());
    }

    /// Counts the response as cut off.
    pub(crate) fn abort(&self) {
        let labels = &self.request.labels;
        self.metrics.aborted.get_or_create(labels).inc();
    }
}

impl Drop for RequestTracker {
    fn drop(&mut self) {
        if let Some(gauge) = self.metrics.inflight(&self.request.labels) {
            gauge.dec();
        }
        let Some(code) = self.code else { return };
        self.metrics
            .seconds
            .get_or_create(&self.request)
            .observe(self.started.elapsed().as_secs_f64());
        let request = self.request.clone();
        self.metrics
            .total
            .get_or_create(&ByCode { request, code })
            .inc();
    }
}
