//! The tables that compare targets: one line for each work and one column for each metric and
//! target, with the ratio to the first target's value.

mod loads;

use serde::Serialize;

use crate::case_text;
use crate::compare::{Metric, Verdict};
use crate::quantity::{ABSENT, Quantity, three_digits};
use crate::result::{Case, DataSet, Outcome};

use super::pairs::{Pair, Pairs, extremes, figure};
use super::side_by_side::{SideBySide, Work};

/// A table.
#[derive(Debug, Serialize)]
pub(super) struct Matrix {
    /// Whether there is more than one target, so that columns must name theirs.
    has_targets: bool,
    /// The metrics. Each spans one column for each target.
    groups: Vec<ColumnGroup>,
    targets: Vec<String>,
    sections: Vec<Section>,
}

#[derive(Debug, Serialize)]
struct ColumnGroup {
    title: &'static str,
    /// A short explanation of the metric.
    about: &'static str,
}

/// The lines of one data set, or of one case's loads.
#[derive(Debug, Serialize)]
struct Section {
    name: String,
    about: String,
    lines: Vec<MatrixLine>,
}

#[derive(Debug, Serialize)]
struct MatrixLine {
    name: String,
    detail: String,
    cells: Vec<Cell>,
}

/// One metric of one target.
#[derive(Debug, Default, Serialize)]
struct Cell {
    /// Metric and target, for narrow windows in which the head of the table is hidden.
    label: String,
    /// The value as text.
    value: String,
    /// The ratio to the first target's value: `3.24 ×`.
    ratio: String,
    /// The confidence interval of the ratio, from the starts: `[3.1, 3.4]`.
    interval: String,
    /// The sign and the name of a certain verdict. Only certain verdicts are coloured.
    verdict: Option<(char, &'static str)>,
    /// Further values, each on a line of its own: range, higher quantiles.
    details: Vec<String>,
    /// Why the value needs care.
    flag: String,
    /// The value that the column is sorted by. Cells without one come last.
    sort: Option<f64>,
    counts: bool,
}

/// A column of the main table.
struct Column {
    title: &'static str,
    about: &'static str,
    metric: Metric,
}

const COLUMNS: [Column; 4] = [
    Column {
        title: "Time",
        about: "median; least … most",
        metric: Metric::P50,
    },
    Column {
        title: "Rate",
        about: "answered a second",
        metric: Metric::Rate,
    },
    Column {
        title: "Memory above idle",
        about: "private, at its peak",
        metric: Metric::PeakMemory,
    },
    Column {
        title: "Server CPU",
        about: "of one list or request; cores, of several loads",
        metric: Metric::ServerCpu,
    },
];

impl Matrix {
    /// Returns the main table, with every case of every data set.
    pub(super) fn of_cases(data_sets: &[DataSet], cases: &SideBySide<'_>, pairs: &Pairs) -> Self {
        let all = || cases.works.iter().flat_map(Work::present);
        let columns = COLUMNS.iter().filter(|column| {
            let has = |(_, case): (usize, &Case)| worded(case, column.metric).is_some();
            column.metric == Metric::P50 || all().any(has)
        });
        let columns: Vec<&Column> = columns.collect();
        let sections = data_sets.iter().map(|data_set| Section {
            name: data_set.name.clone(),
            about: about(data_set),
            lines: cases
                .of_data_set(&data_set.name)
                .map(|work| line(work, &columns, cases, pairs))
                .collect(),
        });
        Self {
            has_targets: cases.targets.len() > 1,
            groups: columns
                .iter()
                .map(|column| ColumnGroup {
                    title: column.title,
                    about: column.about,
                })
                .collect(),
            targets: cases.targets.iter().map(|it| (*it).to_owned()).collect(),
            sections: sections
                .filter(|section| !section.lines.is_empty())
                .collect(),
        }
    }
}

/// Returns a short description of a data set.
pub(super) fn about(data_set: &DataSet) -> String {
    format!(
        "{} objects, {} of keys and values",
        Quantity::Count(data_set.objects),
        Quantity::bytes(data_set.bytes)
    )
}

fn line(work: &Work<'_>, columns: &[&Column], cases: &SideBySide<'_>, pairs: &Pairs) -> MatrixLine {
    let cells = columns.iter().flat_map(|column| {
        let targets = cases.targets.iter().enumerate();
        targets.map(|(at, target)| {
            let pair = pairs.of_metric(work, at, column.metric);
            let label = label(column.title, target, cases);
            cell(label, work.cases[at], column.metric, pair.as_ref())
        })
    });
    MatrixLine {
        name: work.name.clone(),
        detail: work.detail.clone(),
        cells: cells.collect(),
    }
}

/// Returns the label of a cell, for windows in which the table's head is hidden.
fn label(title: &str, target: &str, cases: &SideBySide<'_>) -> String {
    match cases.targets.len() {
        1 => title.to_owned(),
        _ => format!("{title}, {target}"),
    }
}

fn cell(label: String, case: Option<&Case>, metric: Metric, pair: Option<&Pair>) -> Cell {
    let Some(case) = case else {
        return Cell {
            label,
            value: ABSENT.to_owned(),
            ..Cell::default()
        };
    };
    let value = figure(case, metric);
    let mut cell = Cell {
        label,
        value: shown(case, metric),
        sort: value.filter(|_| case.counts()),
        counts: case.counts(),
        ..Cell::default()
    };
    if metric == Metric::P50 {
        cell.flag = flag(case).to_owned();
    }
    let range = extremes(case, metric).filter(|_| value.is_some());
    if metric == Metric::P50 {
        let p99 = case.latency_ms.as_ref().and_then(|it| it.p99);
        let p99 = p99.map(|ms| format!("p99 {}", Quantity::Milliseconds(ms)));
        cell.details.extend(p99);
    }
    if metric != Metric::PeakMemory {
        cell.details.extend(
            range.map(|[least, most]| between(metric.quantity(least), metric.quantity(most))),
        );
    }
    if metric == Metric::PeakMemory {
        let mapped = case.server.as_ref().and_then(|it| it.mapped_above_idle());
        let mapped = mapped.map(|bytes| format!("+ {} of files", Quantity::bytes(bytes)));
        cell.details.extend(mapped);
    }
    if let Some(pair) = pair {
        cell.ratio = ratio(pair.ratio);
        if let (Some(verdict), Some([lower, upper])) = (pair.verdict, pair.ends) {
            cell.interval = format!("[{}, {}]", three_digits(lower), three_digits(upper));
            cell.verdict = match verdict {
                Verdict::CannotTell(_) => None,
                sure => Some((sure.sign(), sure.name())),
            };
        }
    }
    cell
}

/// Returns a ratio with three significant digits, but at most three decimals: `3.24 ×`, `0.017 ×`,
/// `< 0.001 ×`.
pub(super) fn ratio(ratio: f64) -> String {
    match ratio {
        small if small < 0.001 => "< 0.001 ×".to_owned(),
        ratio => format!("{} ×", three_digits(ratio)),
    }
}

fn shown(case: &Case, metric: Metric) -> String {
    worded(case, metric).unwrap_or_else(|| {
        let text = match (&case.outcome, metric) {
            (Outcome::NotApplicable { .. }, Metric::P50) => "N/A",
            _ => ABSENT,
        };
        text.to_owned()
    })
}

/// Returns a metric as the result's other tables show it; `None` where the case has none.
fn worded(case: &Case, metric: Metric) -> Option<String> {
    let server = case.server.as_ref();
    match metric {
        // This may be a number of cores instead of a time per request, which has no ratio.
        Metric::ServerCpu => case_text::server_cpu(case),
        Metric::PeakMemory => figure(case, metric).and(server).map(|server| {
            Quantity::bytes_within(server.peak_above_idle, server.rss_resolution).to_string()
        }),
        _ => figure(case, metric).map(|value| metric.quantity(value).to_string()),
    }
}

/// Returns a warning about the case's time. The notes contain the details.
fn flag(case: &Case) -> &'static str {
    match &case.outcome {
        Outcome::Failed { .. } => "FAILED",
        Outcome::Invalid { .. } => "INVALID",
        Outcome::Stopped { .. } => "stopped",
        Outcome::Interrupted => "interrupted",
        Outcome::NotApplicable { .. } => "",
        Outcome::Measured if case.saturated => "saturated",
        Outcome::Measured if case.errors > 0 => "WRONG",
        Outcome::Measured if !case.valid => "INVALID",
        Outcome::Measured if case.is_profiled() => "profiled",
        Outcome::Measured if case.client_limited => "client-limited",
        Outcome::Measured => "",
    }
}

/// Returns a range, with the unit only once where both values share it: `450 … 610 ms`.
pub(super) fn between(least: Quantity, most: Quantity) -> String {
    let (least, most) = (least.to_string(), most.to_string());
    let unit = |text: &str| text.rsplit_once(' ').map(|(_, unit)| unit.to_owned());
    match (least.rsplit_once(' '), unit(&most)) {
        (Some((number, of)), Some(unit)) if of == unit => format!("{number} … {most}"),
        _ => format!("{least} … {most}"),
    }
}

/// Returns the notes to read before comparing cases: the case, the target, the notes.
pub(super) fn notes(cases: &SideBySide<'_>) -> Vec<(String, String, String)> {
    let all = cases
        .works
        .iter()
        .flat_map(|work| work.present().map(move |(at, case)| (work, at, case)));
    let counted = all.filter(|(_, _, case)| case.counts());
    counted
        .filter_map(|(work, at, case)| {
            let notes = case_text::notes(case);
            let target = cases.targets[at].to_owned();
            (!notes.is_empty()).then(|| (title(work), target, notes.join("; ")))
        })
        .collect()
}

/// Returns a work's name and detail in one line.
pub(super) fn title(work: &Work<'_>) -> String {
    match work.detail.is_empty() {
        true => work.name.clone(),
        false => format!("{} ({})", work.name, work.detail),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::fixture;
    use crate::result::{Load, Round, SavedResult, ServerMetrics};

    fn matrix(report: &crate::result::Report) -> Matrix {
        let result = SavedResult {
            report: report.clone(),
            histograms: Vec::new(),
            series: Vec::new(),
            load_intervals: Vec::new(),
            scenario_toml: String::new(),
        };
        let cases = SideBySide::of(report);
        Matrix::of_cases(&report.data_sets, &cases, &Pairs::of(&result, &cases))
    }

    #[test]
    fn targets_stand_side_by_side_with_their_ratio_to_the_first() {
        let report = fixture::report(&[("bench", "stream", 500.0), ("etcd", "stream", 1_640.0)]);
        let table = matrix(&report);
        let titles: Vec<&str> = table.groups.iter().map(|group| group.title).collect();
        assert_eq!(titles, ["Time", "Memory above idle", "Server CPU"]);
        let cells = &table.sections[0].lines[0].cells;
        assert_eq!(cells.len(), 6, "each figure of each target");
        let (bench, etcd) = (&cells[0], &cells[1]);
        assert_eq!((&*bench.value, &*bench.ratio), ("500 ms", ""));
        assert_eq!((&*etcd.value, &*etcd.ratio), ("1.64 s", "3.28 ×"));
        assert_eq!(bench.details, ["450 … 550 ms"], "least and most are there");
        assert_eq!(etcd.label, "Time, etcd");
        assert!(etcd.verdict.is_none(), "of one start each");
    }

    #[test]
    fn several_loads_have_the_cores_that_the_server_used_as_in_every_table() {
        let mut report = fixture::report(&[("bench", "mixed", 1.0), ("etcd", "mixed", 2.0)]);
        for case in &mut report.cases {
            case.loads = vec![Load::default(), Load::default()];
            case.rounds = vec![Round {
                ms: 10_000.0,
                server_cpu_ms: None,
            }];
            case.server = Some(ServerMetrics {
                cpu_s: Some(4.3),
                ..ServerMetrics::default()
            });
        }
        let table = matrix(&report);
        let groups = table.groups.iter();
        let column = groups.clone().position(|group| group.title == "Server CPU");
        let at = 2 * column.expect("the column is there for cores alone");
        let cell = &table.sections[0].lines[0].cells[at + 1];
        assert_eq!((&*cell.value, &*cell.ratio), ("0.43 cores", ""));
        let row = case_text::CaseRow::of(&report.cases[1]);
        assert!(row.cells.contains(&cell.value), "{row:?}");
        report.cases[1].loads.clear();
        let table = matrix(&report);
        assert_eq!(table.sections[0].lines[0].cells[at + 1].value, ABSENT);
    }

    #[test]
    fn what_was_not_measured_has_neither_figure_nor_ratio_and_sorts_last() {
        let mut report = fixture::report(&[("bench", "stream", 500.0)]);
        let reason = "no RangeStream".to_owned();
        let na = Outcome::NotApplicable { reason };
        report.cases.push(Case::new(
            "pods",
            "etcd",
            workloads::strategy::Tier::Etcd,
            "stream",
            na,
        ));
        let table = matrix(&report);
        let cell = &table.sections[0].lines[0].cells[1];
        assert_eq!((&*cell.value, &*cell.ratio, cell.sort), ("N/A", "", None));
    }

    #[test]
    fn a_range_names_its_unit_once_where_it_can() {
        let ms = Quantity::Milliseconds;
        assert_eq!(between(ms(450.0), ms(610.0)), "450 … 610 ms");
        assert_eq!(between(ms(450.0), ms(6_100.0)), "450 ms … 6.10 s");
    }
}
