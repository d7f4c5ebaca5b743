//! Latency on a schedule: from the intended start, as a user experiences it, compared with what a
//! generator that waits for responses would have recorded.

use super::Subject;
use crate::charts::rows::{Mark, MarkShape, RowChart};
use crate::quantity::{Quantity, Unit};

impl Subject<'_> {
    /// Returns the chart of the latency of open-loop cases from their intended start and from
    /// sending, and of how late the generator sent.
    pub(in crate::charts) fn open_loop(&self) -> Option<RowChart> {
        let legend = vec![
            (MarkShape::Disc, "median"),
            (MarkShape::Cross, "p99"),
            (MarkShape::Ring, "p99 from sending"),
            (MarkShape::Stroke, "p99 of sending late"),
        ];
        let mut chart = self.rows(
            "Latency in open loop",
            "lower is better; from the intended start, whatever kept the request from leaving then",
            "time of one request",
            Unit::of_time,
            legend,
            |case, mut row| {
                let (Some(latency), Some(offered)) = (&case.latency_ms, case.offered_per_s) else {
                    return row;
                };
                // The latency of events counts from the writes, so the schedule does not apply.
                if case.shards.is_some() {
                    return row;
                }
                let uncorrected = case.service_ms.as_ref().and_then(|q| q.p99);
                let client = case.client.as_ref();
                let late = client.and_then(|c| c.lag_ms.as_ref()).and_then(|q| q.p99);
                let span = latency.p50.zip(latency.p99);
                row.marks
                    .extend(span.map(|(from, to)| Mark::span(from, to)));
                let marks = [
                    (MarkShape::Stroke, late, true),
                    (MarkShape::Ring, uncorrected, true),
                    (MarkShape::Cross, latency.p99, false),
                    (MarkShape::Disc, latency.p50, false),
                ];
                for (shape, value, is_reference) in marks {
                    let mark = value.map(|ms| Mark::at(shape, ms));
                    row.marks.extend(mark.map(|mark| Mark {
                        is_reference,
                        ..mark
                    }));
                }
                let p99 = latency.p99.map(Quantity::Milliseconds);
                row.number = format!("p99 {}", Quantity::or_absent(p99));
                row.number_detail = format!("at {}", Quantity::PerSecond(offered));
                row
            },
        )?;
        // Cases of a closed loop have no schedule to compare with.
        for group in &mut chart.groups {
            group.rows.retain(|row| !row.marks.is_empty());
        }
        chart.groups.retain(|group| !group.rows.is_empty());
        Some(chart)
    }
}
