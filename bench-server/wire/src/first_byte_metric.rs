//! The time from a request to the first bytes of its list, measured in the server.
//!
//! The timer stops when HTTP/2 passes the first bytes on. Without TLS, a first write of 32 KiB or
//! more (any list of that size) goes to the socket immediately. A smaller one is in the coalescing
//! buffer, which is written as soon as the connection's task yields. With TLS, it is in the buffer
//! of the TLS session. The time in these buffers is not included.

use std::time::Instant;

use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Upper bounds of the histogram's buckets, seconds: the goals for first chunks are 2 and 5 ms.
const BUCKETS: [f64; 12] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5,
];

/// The histogram of a tier's lists; cheap to clone.
#[derive(Debug, Clone)]
pub struct FirstByteMetric(Histogram);

impl FirstByteMetric {
    /// Registers the histogram.
    pub fn register(registry: &mut Registry) -> Self {
        let histogram = Histogram::new(BUCKETS);
        registry.register(
            "bench_server_list_first_write_seconds",
            "From the head of a request until HTTP/2 hands down the first bytes of a list: to the socket, where they are 32 KiB or more and without TLS, else to a buffer before it",
            histogram.clone(),
        );
        Self(histogram)
    }

    /// Returns a timer that started at `began`.
    pub fn start_timer(&self, began: Instant) -> FirstByteTimer {
        FirstByteTimer {
            began,
            histogram: self.0.clone(),
        }
    }
}

/// Measures the time from the headers of one request. Dropping it records nothing, because the list
/// was cancelled.
#[derive(Debug)]
pub struct FirstByteTimer {
    began: Instant,
    histogram: Histogram,
}

impl FirstByteTimer {
    pub(super) fn stop(self) {
        self.histogram.observe(self.began.elapsed().as_secs_f64());
    }
}
