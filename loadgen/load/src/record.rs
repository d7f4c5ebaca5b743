//! Recording while it happens: latency histograms, one per worker and merged at the end.

mod latency;

pub use latency::LatencyHistogram;
