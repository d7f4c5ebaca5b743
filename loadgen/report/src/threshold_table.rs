//! The table of bars: what was promised, what came out, and what the others have.

use serde::Serialize;

use crate::quantity::{ABSENT, Quantity, three_digits};
use crate::result::{Bar, OtherTarget, Report};
use crate::threshold::quantity;

/// The table in words; the same for the terminal, the page and the README.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ThresholdTable {
    /// Titles of the cells: after the fifth, one for each other target.
    pub titles: Vec<String>,
    /// A line for each bar.
    pub rows: Vec<BarRow>,
}

/// One bar in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BarRow {
    /// As many as there are titles.
    pub cells: Vec<String>,
    /// False when the limit is passed; null when there is nothing to hold against it.
    pub met: Option<bool>,
}

/// What is said where a limit lies within what a figure may be.
const UNDECIDED: &str = "undecided";

/// Cells before this one are words, the others numbers.
pub const FIRST_NUMBER: usize = 2;

impl ThresholdTable {
    /// The bars of a report; no rows when it has none.
    #[must_use]
    pub fn of(report: &Report) -> Self {
        let Some(first) = report.bars.first() else {
            return Self::default();
        };
        let mut titles: Vec<String> = ["threshold", "case", &first.target, "limit", "met"]
            .map(str::to_owned)
            .into();
        titles.extend(first.others.iter().map(|other| other.target.clone()));
        Self {
            titles,
            rows: report.bars.iter().map(row).collect(),
        }
    }
}

/// The figure, of what range it is the median, and what it is of its basis.
pub(super) fn figure_text(bar: &Bar) -> String {
    let mut figure = shown(bar, bar.figure);
    let resolution = bar.resolution.zip(bar.figure);
    if let Some((resolution, _)) = resolution.filter(|(within, of)| *within > of / 200.0) {
        figure.push_str(&format!(" ± {}", Quantity::Bytes(resolution)));
    }
    if let (Some(_), Some([least, most])) = (bar.figure, bar.range) {
        let [least, most] = [least, most].map(|end| shown(bar, Some(end)));
        figure.push_str(&format!(" ({least} … {most})"));
    }
    match (&bar.basis, bar.value) {
        (Some(_), Some(value)) => format!("{figure} = {} ×", three_digits(value)),
        _ => figure,
    }
}

/// The limit, and what it is a factor of.
pub(super) fn limit_text(bar: &Bar) -> String {
    let sign = if bar.at_least { '≥' } else { '≤' };
    match &bar.basis {
        None => format!("{sign} {}", quantity(&bar.metric, bar.limit)),
        Some(basis) => {
            let factor = three_digits(bar.limit);
            format!("{sign} {factor} × {basis} ({})", shown(bar, bar.base))
        }
    }
}

/// Whether the limit is kept.
pub(super) fn met_text(bar: &Bar) -> &'static str {
    match bar.met {
        Some(true) => "yes",
        Some(false) => "NO",
        None if bar.value.is_some() => UNDECIDED,
        None => ABSENT,
    }
}

/// Another target's figure, and what it is of ours.
pub(super) fn other_text(bar: &Bar, other: &OtherTarget) -> String {
    let figure = shown(bar, other.figure);
    match other.ratio {
        Some(ratio) => format!("{figure} ({} ×)", three_digits(ratio)),
        None => figure,
    }
}

fn shown(bar: &Bar, figure: Option<f64>) -> String {
    match figure {
        Some(figure) => quantity(&bar.metric, figure).to_string(),
        None => ABSENT.to_owned(),
    }
}

fn row(bar: &Bar) -> BarRow {
    let mut cells = vec![
        match &bar.source {
            Some(source) => format!("{} (published: {source})", bar.name),
            None => bar.name.clone(),
        },
        format!("{} {}", bar.data_set, bar.row),
        figure_text(bar),
        limit_text(bar),
        met_text(bar).to_owned(),
    ];
    cells.extend(bar.others.iter().map(|other| other_text(bar, other)));
    BarRow {
        cells,
        met: bar.met,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_says_figure_limit_basis_and_what_the_others_have() {
        let mut bar = Bar {
            name: "against the unary list".into(),
            source: None,
            data_set: "pods".into(),
            row: "etcd/stream".into(),
            metric: "latency_ms.p50".into(),
            target: "bench".into(),
            limit: 1.2,
            at_least: false,
            basis: Some("etcd/unary".into()),
            figure: Some(500.0),
            range: None,
            base: Some(400.0),
            resolution: None,
            value: Some(1.25),
            met: Some(false),
            others: vec![OtherTarget {
                target: "etcd-3.7.1".into(),
                figure: Some(1_250.0),
                ratio: Some(2.5),
            }],
        };
        let expected = [
            "against the unary list",
            "pods etcd/stream",
            "500 ms = 1.25 ×",
            "≤ 1.20 × etcd/unary (400 ms)",
            "NO",
            "1.25 s (2.50 ×)",
        ];
        assert_eq!(row(&bar).cells, expected);
        bar.range = Some([450.0, 610.0]);
        assert_eq!(row(&bar).cells[2], "500 ms (450 ms … 610 ms) = 1.25 ×");
        bar.range = None;
        bar.basis = None;
        bar.limit = 600.0;
        bar.met = None;
        bar.others[0] = OtherTarget {
            target: "etcd-3.7.1".into(),
            figure: None,
            ratio: None,
        };
        let cells = row(&bar).cells;
        assert_eq!(&cells[2..], ["500 ms", "≤ 600 ms", "undecided", "–"]);
        bar.value = None;
        assert_eq!(row(&bar).cells[4], "–");
        bar.metric = "server.peak_above_idle".into();
        bar.resolution = Some(262_144.0);
        bar.figure = Some(1_310_720.0);
        assert_eq!(row(&bar).cells[2], "1.25 MiB ± 256 KiB");
        bar.figure = Some(262_144_000.0);
        assert_eq!(row(&bar).cells[2], "250 MiB", "to its last digit");
    }
}
