//! Measures the time of calls to etcd and of waits for the cache.

use prometheus_client::metrics::histogram::Histogram;
use tokio::time::Instant;

/// The buckets of calls to etcd, in seconds.
pub(super) const ETCD_BUCKETS: [f64; 11] =
    [0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.5, 3.0, 8.0, 30.0];

/// A timer that adds the elapsed time to its histogram when it is dropped.
#[derive(Debug)]
pub(crate) struct Timer {
    histogram: Histogram,
    start: Instant,
}

impl Timer {
    /// Starts a timer.
    pub(super) fn start(histogram: &Histogram) -> Self {
        Self {
            histogram: histogram.clone(),
            start: Instant::now(),
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.histogram.observe(self.start.elapsed().as_secs_f64());
    }
}
