//! When the phases of a case were, and the times that are kept of them.

use std::time::{Duration, Instant};

use load::record::LatencyHistogram;
use report::result::histogram_log::TaggedHistogram;

use super::{CaseRun, Measured};
use crate::to_result;

/// When something was done.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    /// Since the run began.
    pub(super) start: Duration,
    pub(super) duration: Duration,
}

impl CaseRun<'_> {
    /// From `begun` until now.
    pub(super) fn since(&self, begun: Instant) -> Span {
        Span {
            start: begun.saturating_duration_since(self.run_begun),
            duration: begun.elapsed(),
        }
    }
}

impl Measured {
    /// Keeps the times of what was done then.
    pub(super) fn keep(&mut self, measure: &str, span: Span, histogram: LatencyHistogram) {
        self.histograms.push(TaggedHistogram {
            measure: measure.to_owned(),
            case: self.case.id(),
            start: span.start,
            duration: span.duration,
            histogram: to_result::latencies(&histogram),
        });
    }

    /// Keeps those that are the case's own.
    pub(super) fn keep_latency(&mut self, span: Span, latency: LatencyHistogram) {
        self.case.latency_ms = (latency.n() > 0).then(|| to_result::quantiles_ms(&latency));
        self.keep("latency", span, latency);
    }
}
