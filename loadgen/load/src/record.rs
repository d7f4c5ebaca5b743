//! Recording while it happens: latency histograms, one per worker and merged at the end, and
//! counts that are read meanwhile.

mod errors;
mod latency;
mod live;

pub use errors::{Class, Errors};
pub use latency::LatencyHistogram;
pub use live::{Counts, Live};
