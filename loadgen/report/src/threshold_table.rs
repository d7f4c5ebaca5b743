//! The table of thresholds: the limits, the measured values, and the values of the other targets.

use serde::Serialize;

use crate::quantity::{ABSENT, Quantity, three_digits};
use crate::result::{OtherTarget, Report, Threshold};
use crate::threshold::quantity;

/// The table as text. The terminal, the page and the README share it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ThresholdTable {
    /// Column titles: five fixed ones, then one for each other target.
    pub titles: Vec<String>,
    /// One row for each threshold.
    pub rows: Vec<ThresholdRow>,
    /// Whether a row is about growth of memory, whose ratios to other targets have a floor.
    pub has_floor: bool,
}

/// The row of one threshold, as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThresholdRow {
    /// One cell per title.
    pub cells: Vec<String>,
    /// False when the limit is not kept; null when that is undecided or there is no value.
    pub met: Option<bool>,
}

/// The text where the limit lies within the uncertainty of the value.
const UNDECIDED: &str = "undecided";

/// The index of the first column with numbers. Those before it contain text.
pub const FIRST_NUMBER: usize = 2;

impl ThresholdTable {
    /// Returns the thresholds of a report; no rows when it has none.
    #[must_use]
    pub fn of(report: &Report) -> Self {
        let Some(first) = report.thresholds.first() else {
            return Self::default();
        };
        let mut titles: Vec<String> = ["threshold", "case", &first.target, "limit", "met"]
            .map(str::to_owned)
            .into();
        titles.extend(first.others.iter().map(|other| other.target.clone()));
        let mut compared = report.thresholds.iter().filter(|it| !it.others.is_empty());
        Self {
            titles,
            has_floor: compared.any(|it| it.resolution.is_some()),
            rows: report.thresholds.iter().map(row).collect(),
        }
    }
}

/// Returns the value with its resolution, the range of which it is the median, its interval where
/// that is not the range, and its ratio to the basis.
pub(super) fn figure_text(threshold: &Threshold) -> String {
    let mut figure = shown(threshold, threshold.figure);
    let resolution = threshold.resolution.zip(threshold.figure);
    if let Some((resolution, _)) = resolution.filter(|(within, of)| *within > of / 200.0) {
        figure.push_str(&format!(" ± {}", Quantity::Bytes(resolution)));
    }
    if let (Some(_), Some([least, most])) = (threshold.figure, threshold.range) {
        let text = |ends: [f64; 2]| {
            let [least, most] = ends.map(|end| shown(threshold, Some(end)));
            format!("{least} … {most}")
        };
        let interval = threshold.likely.filter(|likely| *likely != [least, most]);
        let interval = interval.map(|likely| format!("; 95 %: {}", text(likely)));
        let range = text([least, most]);
        figure.push_str(&format!(" ({range}{})", interval.unwrap_or_default()));
    }
    match (&threshold.basis, threshold.value) {
        (Some(_), Some(value)) => format!("{figure} = {} ×", three_digits(value)),
        _ => figure,
    }
}

/// Returns the limit, and the basis that it is a factor of.
pub(super) fn limit_text(threshold: &Threshold) -> String {
    let sign = if threshold.at_least { '≥' } else { '≤' };
    match &threshold.basis {
        None => format!("{sign} {}", quantity(&threshold.metric, threshold.limit)),
        Some(basis) => {
            let factor = three_digits(threshold.limit);
            format!(
                "{sign} {factor} × {basis} ({})",
                shown(threshold, threshold.base)
            )
        }
    }
}

/// Returns whether the limit is kept, as text.
pub(super) fn met_text(threshold: &Threshold) -> &'static str {
    match threshold.met {
        Some(true) => "yes",
        Some(false) => "NO",
        None if threshold.value.is_some() => UNDECIDED,
        None => ABSENT,
    }
}

/// Returns another target's value, and its ratio to that of the threshold's target.
pub(super) fn other_text(threshold: &Threshold, other: &OtherTarget) -> String {
    let figure = shown(threshold, other.figure);
    match other.ratio {
        Some(ratio) => format!("{figure} ({} ×)", three_digits(ratio)),
        None => figure,
    }
}

fn shown(threshold: &Threshold, figure: Option<f64>) -> String {
    match figure {
        Some(figure) => quantity(&threshold.metric, figure).to_string(),
        None => ABSENT.to_owned(),
    }
}

fn row(threshold: &Threshold) -> ThresholdRow {
    let mut cells = vec![
        match &threshold.source {
            Some(source) => format!("{} (published: {source})", threshold.name),
            None => threshold.name.clone(),
        },
        format!("{} {}", threshold.data_set, threshold.row),
        figure_text(threshold),
        limit_text(threshold),
        met_text(threshold).to_owned(),
    ];
    cells.extend(
        threshold
            .others
            .iter()
            .map(|other| other_text(threshold, other)),
    );
    ThresholdRow {
        cells,
        met: threshold.met,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_says_figure_limit_basis_and_what_the_others_have() {
        let mut threshold = Threshold {
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
            likely: None,
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
        assert_eq!(row(&threshold).cells, expected);
        threshold.range = Some([450.0, 610.0]);
        assert_eq!(
            row(&threshold).cells[2],
            "500 ms (450 ms … 610 ms) = 1.25 ×"
        );
        threshold.basis = None;
        threshold.likely = Some([480.0, 520.0]);
        assert_eq!(
            row(&threshold).cells[2],
            "500 ms (450 ms … 610 ms; 95 %: 480 ms … 520 ms)"
        );
        threshold.likely = None;
        threshold.range = None;
        threshold.limit = 600.0;
        threshold.met = None;
        threshold.others[0] = OtherTarget {
            target: "etcd-3.7.1".into(),
            figure: None,
            ratio: None,
        };
        let cells = row(&threshold).cells;
        assert_eq!(&cells[2..], ["500 ms", "≤ 600 ms", "undecided", "–"]);
        threshold.value = None;
        assert_eq!(row(&threshold).cells[4], "–");
        threshold.metric = "server.peak_above_idle".into();
        threshold.resolution = Some(262_144.0);
        threshold.figure = Some(1_310_720.0);
        assert_eq!(row(&threshold).cells[2], "1.25 MiB ± 256 KiB");
        threshold.figure = Some(262_144_000.0);
        assert_eq!(row(&threshold).cells[2], "250 MiB", "to its last digit");
    }
}
