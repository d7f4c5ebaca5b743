//! Recording while it happens: latency histograms, one per worker and merged at the end, and time series of a process.

mod latency;
mod log;
mod series;

pub use latency::{LatencyHistogram, quantile_needs};
pub(crate) use log::log_name;
pub use log::{LogError, TaggedHistogram, read_log, write_log};
pub use series::{Sample, Series, SeriesError, read_series, write_series};
