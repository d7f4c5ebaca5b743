//! The time spans of a case's phases, and the latency histograms that are kept of them.

use std::time::{Duration, Instant};

use load::record::LatencyHistogram;
use report::result::histogram_log::TaggedHistogram;

use super::{CaseRun, Measured};
use crate::to_result;

/// The time span of a phase.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    /// The start, relative to that of the run.
    pub(super) start: Duration,
    pub(super) duration: Duration,
}

impl CaseRun<'_> {
    /// Returns the span from `begun` until now.
    pub(super) fn since(&self, begun: Instant) -> Span {
        Span {
            start: begun.saturating_duration_since(self.run_begun),
            duration: begun.elapsed(),
        }
    }
}

impl Measured {
    /// Keeps a histogram of what was measured in a span.
    pub(super) fn keep(&mut self, measure: &str, span: Span, histogram: LatencyHistogram) {
        self.histograms.push(TaggedHistogram {
            measure: measure.to_owned(),
            case: self.case.id(),
            start: span.start,
            duration: span.duration,
            histogram: to_result::latencies(&histogram),
        });
    }

    /// Keeps the histogram that is the case's own latency.
    pub(super) fn keep_latency(&mut self, span: Span, latency: LatencyHistogram) {
        self.case.latency_ms = to_result::quantiles_ms(&latency);
        self.keep("latency", span, latency);
    }
}
