//! Recording while it happens: latency histograms, one per worker and merged at the end, and
//! counts that are read meanwhile.

mod errors;
mod latency;
mod live;

pub use errors::Errors;
pub(crate) use errors::NO_ANSWER;
pub use latency::LatencyHistogram;
pub use live::{Counts, Live};
