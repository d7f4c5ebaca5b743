//! Records measurements: latency histograms, one per worker and merged at the end, and counters
//! that are read during the run.

mod errors;
mod latency;
mod live;

pub use errors::{Class, Errors};
pub use latency::LatencyHistogram;
pub use live::{Counts, Live};
