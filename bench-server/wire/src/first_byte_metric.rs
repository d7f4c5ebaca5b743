//! How long a list waits for its first bytes, as the server sees it.
//!
//! The watch stops when HTTP/2 has handed the first bytes down. Without TLS a first write of 32 KiB or more (any list of
//! that size) goes to the socket there and then. A smaller one is in the gathering buffer, which is written as soon as the
//! connection's task yields; with TLS it is in the session. What those add is not in the figure.

use std::time::Instant;

use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Upper bounds of the histogram, seconds: the goals for first chunks are 2 and 5 ms.
const BUCKETS: [f64; 12] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5,
];

/// The histogram of all lists of a tier; cheap to clone.
#[derive(Debug, Clone)]
pub struct FirstWrites(Histogram);

impl FirstWrites {
    /// A histogram that `registry` shows.
    pub fn register(registry: &mut Registry) -> Self {
        let histogram = Histogram::new(BUCKETS);
        registry.register(
            "bench_server_list_first_write_seconds",
            "From the head of a request until HTTP/2 hands down the first bytes of a list: to the socket, where they are 32 KiB or more and without TLS, else to a buffer before it",
            histogram.clone(),
        );
        Self(histogram)
    }

    /// A stopwatch that runs since `began`.
    pub fn stopwatch(&self, began: Instant) -> Stopwatch {
        Stopwatch {
            began,
            histogram: self.0.clone(),
        }
    }
}

/// Runs from the head of one request. Dropping it counts nothing: that list was cancelled before.
#[derive(Debug)]
pub struct Stopwatch {
    began: Instant,
    histogram: Histogram,
}

impl Stopwatch {
    pub(super) fn stop(self) {
        self.histogram.observe(self.began.elapsed().as_secs_f64());
    }
}
