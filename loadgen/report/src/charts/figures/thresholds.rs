//! How far each figure is from its bar.

use super::Subject;
use crate::charts::axis::Axis;
use crate::charts::rows::{FigureRow, Group, Mark, RowsFigure, Shape};
use crate::quantity::Unit;
use crate::result::Bar;
use crate::threshold_table::{figure_text, limit_text};

/// Figures are parts of their limits, which have no unit.
const PART: Unit = Unit {
    name: "× the limit",
    size: 1.0,
};

impl Subject<'_> {
    /// Each bar's value as a part of its limit.
    pub(in crate::charts) fn bars(&self) -> Option<RowsFigure> {
        let bars = &self.result.report.bars;
        let bars: Vec<&Bar> = bars
            .iter()
            .filter(|bar| bar.data_set == self.data_set.name)
            .collect();
        let rows = bars.iter().enumerate();
        let rows: Vec<FigureRow> = rows.map(|(at, bar)| row(at, bar)).collect();
        let marks = rows.iter().flat_map(|row| &row.marks);
        let values: Vec<f64> = marks.map(|mark| mark.from).collect();
        if !bars.iter().any(|bar| bar.value.is_some()) {
            return None;
        }
        Some(RowsFigure {
            title: "Thresholds".to_owned(),
            subtitle: self
                .subtitle("left of the limit is within it; a statement about this machine"),
            measure: "figure",
            axis: Axis::of(values, |_| PART)?,
            legend: vec![
                (Shape::Disc, "figure over its limit"),
                (Shape::Stroke, "the limit"),
                (
                    Shape::Ring,
                    "first other target's figure over the same limit",
                ),
            ],
            groups: vec![Group {
                target: bars.first()?.target.clone(),
                name: self.target_title(&bars.first()?.target),
                rows,
            }],
        })
    }
}

fn row(at: usize, bar: &Bar) -> FigureRow {
    let part = |value: f64| {
        if bar.at_least {
            bar.limit / value
        } else {
            value / bar.limit
        }
    };
    let mut marks = vec![Mark::at(Shape::Stroke, 1.0).as_reference()];
    // Another target's ratio to its own basis is not known here.
    let other = bar.others.first().filter(|_| bar.basis.is_none());
    let other = other.and_then(|other| other.figure);
    marks.extend(other.map(|figure| Mark::at(Shape::Ring, part(figure)).as_reference()));
    marks.extend(bar.value.map(|value| Mark::at(Shape::Disc, part(value))));
    let row = bar.row.split_once('/').map_or(&*bar.row, |(_, row)| row);
    FigureRow {
        // Each is a line of its own, also where several are of one case.
        work: at.to_string(),
        name: row.to_owned(),
        detail: bar.metric.clone(),
        marks,
        number: figure_text(bar),
        number_detail: limit_text(bar),
        note: match bar.met {
            Some(true) | None => bar.name.clone(),
            Some(false) => format!("{}: not met", bar.name),
        },
        counts: true,
    }
}
