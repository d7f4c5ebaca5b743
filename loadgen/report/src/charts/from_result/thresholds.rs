//! The distance of each value from its threshold.

use super::Subject;
use crate::charts::axis::Axis;
use crate::charts::rows::{ChartRow, Group, Mark, MarkShape, RowChart};
use crate::quantity::Unit;
use crate::result::Threshold;
use crate::threshold_table::{figure_text, limit_text};

/// Values are shown as parts of their limits, which have no unit.
const PART: Unit = Unit {
    name: "× the limit",
    size: 1.0,
};

impl Subject<'_> {
    /// Returns the chart of each threshold's value as a part of its limit.
    pub(in crate::charts) fn bars(&self) -> Option<RowChart> {
        let thresholds = &self.result.report.thresholds;
        let thresholds: Vec<&Threshold> = thresholds
            .iter()
            .filter(|threshold| threshold.data_set == self.data_set.name)
            .collect();
        let rows = thresholds.iter().enumerate();
        let rows: Vec<ChartRow> = rows.map(|(at, threshold)| row(at, threshold)).collect();
        let marks = rows.iter().flat_map(|row| &row.marks);
        let values: Vec<f64> = marks.map(|mark| mark.from).collect();
        if !thresholds.iter().any(|threshold| threshold.value.is_some()) {
            return None;
        }
        Some(RowChart {
            title: "Thresholds".to_owned(),
            subtitle: self
                .subtitle("left of the limit is within it; a statement about this machine"),
            measure: "figure",
            axis: Axis::of(values, |_| PART)?,
            legend: vec![
                (MarkShape::Disc, "figure over its limit"),
                (MarkShape::Stroke, "the limit"),
                (
                    MarkShape::Ring,
                    "first other target's figure over the same limit",
                ),
            ],
            groups: vec![Group {
                target: thresholds.first()?.target.clone(),
                name: self.target_title(&thresholds.first()?.target),
                rows,
            }],
        })
    }
}

fn row(at: usize, threshold: &Threshold) -> ChartRow {
    let part = |value: f64| {
        if threshold.at_least {
            threshold.limit / value
        } else {
            value / threshold.limit
        }
    };
    let mut marks = vec![Mark::at(MarkShape::Stroke, 1.0).as_reference()];
    // The ratio of another target to its own basis is not known here.
    let other = threshold
        .others
        .first()
        .filter(|_| threshold.basis.is_none());
    let other = other.and_then(|other| other.figure);
    marks.extend(other.map(|figure| Mark::at(MarkShape::Ring, part(figure)).as_reference()));
    marks.extend(
        threshold
            .value
            .map(|value| Mark::at(MarkShape::Disc, part(value))),
    );
    let row = threshold
        .row
        .split_once('/')
        .map_or(&*threshold.row, |(_, row)| row);
    ChartRow {
        // Each threshold has a line of its own, even if several are about one case.
        work: at.to_string(),
        name: row.to_owned(),
        detail: threshold.metric.clone(),
        marks,
        number: figure_text(threshold),
        number_detail: limit_text(threshold),
        note: match threshold.met {
            Some(true) | None => threshold.name.clone(),
            Some(false) => format!("{}: not met", threshold.name),
        },
        counts: true,
    }
}
