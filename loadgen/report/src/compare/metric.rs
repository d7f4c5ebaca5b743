//! The metrics that are compared. Each has one value per start of a server.

use std::fmt;

use clap::ValueEnum;

use crate::quantity::Quantity;
use crate::result::{Quantiles, ServerStart};

/// The least size that is added to both sizes before they are compared, in bytes. A peak of 0 has
/// no ratio, and peaks that are closer than this differ by an allocator's slab or a thread's stack.
const MIN_FLOOR_BYTES: f64 = 1_048_576.0;

/// A metric that can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Metric {
    /// Median latency, in ms.
    P50,
    /// 90th percentile of the latency, in ms.
    P90,
    /// 99th percentile of the latency, in ms.
    P99,
    /// Median time to the first chunk, in ms.
    FirstChunkP50,
    /// 99th percentile of the time to the first chunk, in ms.
    FirstChunkP99,
    /// Median time of a list divided by that of its baseline: the same bytes from one buffer.
    OverBaseline,
    /// CPU time of the servers for each request, in ms.
    ServerCpu,
    /// CPU time of the clients for each request, in ms.
    ClientCpu,
    /// Peak private memory of the servers above idle, in bytes.
    PeakMemory,
    /// Private memory of the servers at rest, in bytes.
    IdleMemory,
    /// Bytes of one list as received.
    Bytes,
    /// Achieved rate: requests per second. Higher is better.
    Rate,
}

/// The direction in which a metric improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Smaller values are better.
    Lower,
    /// Larger values are better.
    Higher,
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

impl Metric {
    /// The metrics that decide the end of a comparison when none is named. They are few, since each
    /// line at 95 % may be wrong by chance.
    pub const DECIDING: [Self; 4] = [
        Self::P50,
        Self::ServerCpu,
        Self::PeakMemory,
        Self::IdleMemory,
    ];

    /// Returns the direction in which the metric improves.
    #[must_use]
    pub fn better(self) -> Better {
        match self {
            Self::Rate => Better::Higher,
            _ => Better::Lower,
        }
    }

    /// Returns the largest change that counts as no difference by default, as a part of the base.
    #[must_use]
    pub fn default_margin(self) -> f64 {
        match self {
            Self::P50 | Self::OverBaseline | Self::ServerCpu | Self::ClientCpu | Self::Rate => 0.05,
            Self::P90
            | Self::P99
            | Self::FirstChunkP50
            | Self::FirstChunkP99
            | Self::PeakMemory
            | Self::IdleMemory => 0.10,
            Self::Bytes => 0.01,
        }
    }

    /// Returns whether every start has the same value, apart from varying lengths of revision
    /// numbers and tokens. One start is then enough for a verdict.
    #[must_use]
    pub fn is_exact(self) -> bool {
        self == Self::Bytes
    }

    /// Returns the unit of [`Metric::of`].
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Self::P50
            | Self::P90
            | Self::P99
            | Self::FirstChunkP50
            | Self::FirstChunkP99
            | Self::ServerCpu
            | Self::ClientCpu => "ms",
            Self::OverBaseline => "ratio",
            Self::PeakMemory | Self::IdleMemory | Self::Bytes => "bytes",
            Self::Rate => "per second",
        }
    }

    /// Returns the value with its unit.
    #[must_use]
    pub fn quantity(self, value: f64) -> Quantity {
        match self {
            Self::PeakMemory | Self::IdleMemory | Self::Bytes => Quantity::Bytes(value),
            Self::OverBaseline => Quantity::PerByte(value),
            Self::Rate => Quantity::PerSecond(value),
            _ => Quantity::Milliseconds(value),
        }
    }

    /// Returns the metric's value of a start; `None` where it is missing or impossible. A time of 0
    /// is missing and not the best one. Of a start on which every request failed no metric is used,
    /// since failed requests have other costs.
    #[must_use]
    pub fn of(self, start: &ServerStart) -> Option<f64> {
        if start.errors > 0 && start.errors >= start.requests {
            return None;
        }
        let of = |quantiles: &Option<Quantiles>, pick: fn(&Quantiles) -> Option<f64>| {
            quantiles.as_ref().and_then(pick)
        };
        let value = match self {
            Self::P50 => of(&start.latency_ms, middle),
            Self::P90 => of(&start.latency_ms, |quantiles| quantiles.p90),
            Self::P99 => of(&start.latency_ms, |quantiles| quantiles.p99),
            Self::FirstChunkP50 => of(&start.first_chunk_ms, middle),
            Self::FirstChunkP99 => of(&start.first_chunk_ms, |quantiles| quantiles.p99),
            Self::OverBaseline => start.over_baseline,
            Self::ServerCpu => start.server_cpu_s_per_request.map(|s| s * 1e3),
            Self::ClientCpu => start.client_cpu_s_per_request.map(|s| s * 1e3),
            Self::PeakMemory => start.peak_above_idle.map(|bytes| bytes as f64),
            Self::IdleMemory => start.rss_anon_idle.map(|bytes| bytes as f64),
            Self::Bytes => Some(start.bytes as f64),
            Self::Rate => start.requests_per_s,
        }?;
        let least = match self {
            Self::PeakMemory => 0.0,
            _ => f64::MIN_POSITIVE,
        };
        (value.is_finite() && value >= least).then_some(value)
    }

    /// Returns what is added to both values before their ratio is computed, given the coarsest
    /// resolution of either side, in bytes.
    pub(crate) fn floor(self, resolution: Option<u64>) -> f64 {
        match self {
            Self::PeakMemory | Self::IdleMemory => {
                MIN_FLOOR_BYTES.max(resolution.unwrap_or_default() as f64)
            }
            _ => 0.0,
        }
    }

    /// Returns whether the metric is a latency, which says nothing about a target that cannot keep
    /// up with an open loop.
    pub(crate) fn is_latency(self) -> bool {
        matches!(self, Self::P50 | Self::P90 | Self::P99 | Self::OverBaseline)
    }

    /// Returns whether the metric is read from the servers' processes, or from what they export.
    pub(super) fn is_of_processes(self) -> bool {
        matches!(self, Self::ServerCpu | Self::PeakMemory | Self::IdleMemory)
    }
}

/// Returns the median; for one or two values, of which results save no median, their mean.
fn middle(quantiles: &Quantiles) -> Option<f64> {
    quantiles.p50.or(match quantiles.n {
        1 | 2 => quantiles.mean,
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_called_as_on_the_command_line() {
        assert_eq!(Metric::PeakMemory.to_string(), "peak_memory");
        assert_eq!(
            Metric::from_str("first_chunk_p99", false),
            Ok(Metric::FirstChunkP99)
        );
    }

    #[test]
    fn what_is_missing_is_neither_nothing_nor_the_best() {
        let start = ServerStart {
            latency_ms: Some(Quantiles {
                n: 5,
                ..Quantiles::default()
            }),
            server_cpu_s_per_request: Some(0.0),
            requests_per_s: Some(-1.0),
            ..ServerStart::default()
        };
        for metric in Metric::value_variants() {
            assert_eq!(metric.of(&start), None, "{metric}");
        }
    }

    #[test]
    fn a_start_without_a_success_has_no_numbers() {
        let mut start = ServerStart {
            requests: 5,
            errors: 4,
            bytes: 10,
            server_cpu_s_per_request: Some(0.001),
            ..ServerStart::default()
        };
        assert_eq!(Metric::ServerCpu.of(&start), Some(1.0));
        start.errors = 5;
        for metric in Metric::value_variants() {
            assert_eq!(metric.of(&start), None, "{metric}");
        }
    }

    #[test]
    fn a_server_that_needs_no_memory_has_a_peak_of_nothing() {
        let start = ServerStart {
            peak_above_idle: Some(0),
            ..ServerStart::default()
        };
        assert_eq!(Metric::PeakMemory.of(&start), Some(0.0));
        assert_eq!(Metric::PeakMemory.floor(None), MIN_FLOOR_BYTES);
        assert_eq!(Metric::PeakMemory.floor(Some(8 << 20)), f64::from(8 << 20));
        assert_eq!(Metric::P50.floor(Some(8 << 20)), 0.0);
    }

    #[test]
    fn one_list_is_the_median_of_itself() {
        let of = |n, p50| {
            let latency_ms = Some(Quantiles {
                n,
                mean: Some(7.0),
                p50,
                ..Quantiles::default()
            });
            Metric::P50.of(&ServerStart {
                latency_ms,
                ..ServerStart::default()
            })
        };
        assert_eq!(of(1, None), Some(7.0));
        assert_eq!(of(3, Some(6.0)), Some(6.0));
        assert_eq!(of(3, None), None, "of three the mean is none");
        assert_eq!(of(0, None), None);
    }
}
