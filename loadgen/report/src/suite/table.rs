//! A suite's verdict as text: a headline, notes, and a line for each threshold.

use comfy_table::{CellAlignment, ContentArrangement, Table};

use super::{SuiteLine, SuiteResult, Verdict};
use crate::quantity::Quantity;
use crate::terminal::STYLE;
use crate::threshold_table::{figure_text, limit_text, met_text, other_text};

const TITLES: [&str; 8] = [
    "scenario",
    "threshold",
    "case",
    "figure",
    "limit",
    "met",
    "held",
    "beside",
];

/// The columns that contain numbers.
const NUMBERS: std::ops::Range<usize> = 3..5;

/// The columns that are not empty, and the rows of the table.
struct Rows {
    columns: Vec<usize>,
    rows: Vec<[String; TITLES.len()]>,
}

impl Rows {
    fn of(result: &SuiteResult) -> Self {
        let rows: Vec<_> = result.thresholds.iter().map(cells).collect();
        let says = |at: &usize| rows.iter().any(|cells| !cells[*at].is_empty());
        let columns = (0..TITLES.len()).filter(says).collect();
        Self { columns, rows }
    }
}

/// The note for a suite with few objects and repeats.
const SMALL: &str = "Few objects and repeats, to see whether all of it works: limits that depend on the number of objects are not judged.";

/// Returns the verdict as a table. It is wrapped to `width` columns where one is given.
#[must_use]
pub fn text(result: &SuiteResult, width: Option<u16>) -> String {
    let Rows { columns, rows } = &Rows::of(result);
    let mut table = Table::new();
    let titles = columns.iter().map(|at| TITLES[*at]);
    table.load_style(STYLE).set_header(titles);
    if let Some(width) = width {
        table
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width);
    }
    for row in rows {
        table.add_row(columns.iter().map(|at| &row[*at]));
    }
    for (column, at) in table.column_iter_mut().zip(columns) {
        column.set_padding((0, 2));
        if NUMBERS.contains(at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = match result.thresholds.is_empty() {
        true => String::new(),
        false => format!("{}\n\n", table.trim_fmt()),
    };
    text.push_str(&format!("{}\n", headline(result)));
    for note in notes(result) {
        text.push_str(&format!("- {note}\n"));
    }
    text
}

/// Returns the verdict as a page in Markdown, with links to the runs next to it.
#[must_use]
pub fn markdown(result: &SuiteResult) -> String {
    let mut page = format!(
        "# {}, {}\n\n```\n{}\n```\n\nTook {}. **{}**\n",
        result.suite,
        result.started,
        result.command.join(" "),
        Quantity::seconds(result.elapsed_s),
        headline(result)
    );
    for note in notes(result) {
        page.push_str(&format!("- {}\n", cell(note)));
    }
    if result.thresholds.is_empty() {
        return page;
    }
    page.push('\n');
    let Rows { columns, rows } = &Rows::of(result);
    let rule = |at: &usize| if NUMBERS.contains(at) { "--:" } else { "---" };
    let mut push = |cells: Vec<&str>| page.push_str(&format!("| {} |\n", cells.join(" | ")));
    push(columns.iter().map(|at| TITLES[*at]).collect());
    push(columns.iter().map(rule).collect());
    for (line, row) in result.thresholds.iter().zip(rows) {
        let mut row = row.clone().map(|text| cell(&text));
        row[0] = format!("[{}](../{}/README.md)", row[0], line.folder);
        push(columns.iter().map(|at| row[*at].as_str()).collect());
    }
    page
}

/// Returns the number of thresholds with each verdict, as text.
fn headline(result: &SuiteResult) -> String {
    let Verdict {
        met,
        missed,
        undecided,
        unmeasured,
    } = result.verdict();
    let all = match result.thresholds.len() {
        1 => "1 threshold".to_owned(),
        n => format!("{n} thresholds"),
    };
    format!(
        "{}: {all}: {met} met, {missed} missed, {undecided} undecided, {unmeasured} not measured",
        result.suite
    )
}

fn notes(result: &SuiteResult) -> impl Iterator<Item = &str> {
    let small = result.small.then_some(SMALL);
    let interrupted = result
        .interrupted
        .then_some("INTERRUPTED: this is what was measured until then.");
    let notes = result.notes.iter().map(String::as_str);
    small.into_iter().chain(interrupted).chain(notes)
}

fn cells(line: &SuiteLine) -> [String; TITLES.len()] {
    let threshold = &line.threshold;
    let others = threshold.others.iter().map(|other| {
        let figure = other_text(threshold, other);
        format!("{} {figure}", other.target)
    });
    [
        line.scenario.clone(),
        threshold.name.clone(),
        format!("{} {}", threshold.data_set, threshold.row),
        figure_text(threshold),
        limit_text(threshold),
        met_text(threshold).to_owned(),
        line.held.map(|held| held.to_string()).unwrap_or_default(),
        others.collect::<Vec<_>>().join(", "),
    ]
}

/// Escapes text for a table in Markdown.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
