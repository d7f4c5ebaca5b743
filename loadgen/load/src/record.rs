//! Recording while it happens: latency histograms, one per worker and merged at the end, and
//! counts that are read meanwhile.

mod latency;
mod live;

pub use latency::LatencyHistogram;
pub use live::{Counts, Live};
