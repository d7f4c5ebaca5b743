//! The tables at the end of a run: one per data set, followed by notes on what must not be
//! compared.

use std::fmt::Write as _;

use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle,
};

use crate::at_rest_table;
use crate::case_text::{CaseRow, FIRST_LIST, NOTES, SOCKETS, TITLES};
use crate::load_table::{self, LoadRow};
use crate::quantity::Quantity;
use crate::result::{DataSet, Report};
use crate::threshold_table::{self, ThresholdTable};
use crate::{generator_lines, growth, machine, profile_lines, warm_up};

/// The style of tables: a line below the titles and none between rows, which are short.
pub(crate) const STYLE: TableStyle =
    TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// The index of the first column with numbers, which are aligned to the right. Those before it are
/// names, aligned to the left.
const FIRST_NUMBER: usize = 4;

/// The columns that are hidden in a narrow terminal (the page contains them), and the width from
/// which on they are shown.
const NEEDS_ROOM: [&str; 2] = [FIRST_LIST, SOCKETS];
const ROOM_FOR_ALL: u16 = 150;

/// Returns the report as text. Tables are wrapped to `width` columns where one is given, such as
/// the width of a terminal.
#[must_use]
pub fn text(report: &Report, width: Option<u16>) -> String {
    let mut text = report
        .environment
        .shared_line()
        .map_or_else(String::new, |line| format!("{line}\n"));
    for data_set in &report.data_sets {
        if !text.is_empty() {
            text.push('\n');
        }
        data_set_text(report, data_set, width, &mut text).expect("a string takes everything");
    }
    for line in growth::lines(report)
        .into_iter()
        .chain(generator_lines::lines(report))
    {
        text.push_str(&format!("{line}\n"));
    }
    bars_text(report, width, &mut text);
    if report.environment.profile == "debug" {
        text.push_str(
            "\nThe generator was a debug build: its figures say nothing about a target.\n",
        );
    }
    if report.interrupted {
        text.push_str("\nINTERRUPTED: this is what was measured until then.\n");
    }
    text
}

fn data_set_text(
    report: &Report,
    data_set: &DataSet,
    width: Option<u16>,
    text: &mut String,
) -> std::fmt::Result {
    let DataSet {
        name,
        objects,
        bytes,
        ..
    } = data_set;
    writeln!(
        text,
        "{name}: {} objects, {} of keys and values",
        Quantity::Count(*objects),
        Quantity::bytes(*bytes)
    )?;
    let cases = || report.cases.iter().filter(|case| case.data_set == *name);
    let rows: Vec<CaseRow> = cases().map(CaseRow::of).collect();
    let mut table = Table::new();
    table.load_style(STYLE).set_header(&TITLES[..NOTES]);
    if let Some(width) = width {
        table
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width);
    }
    let mut notes: Vec<&String> = Vec::new();
    for row in &rows {
        let mut cells = row.cells[..NOTES].to_vec();
        let note = &row.cells[NOTES];
        if !note.is_empty() {
            // A note that applies to several rows is written once.
            let at = notes.iter().position(|known| *known == note);
            let at = at.unwrap_or_else(|| {
                notes.push(note);
                notes.len() - 1
            });
            cells[2] = format!("{} [{}]", cells[2], at + 1);
        }
        table.add_row(cells);
    }
    let is_narrow = width.is_some_and(|width| width < ROOM_FOR_ALL);
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if at >= FIRST_NUMBER {
            column.set_cell_alignment(CellAlignment::Right);
        }
        if is_narrow && NEEDS_ROOM.contains(&TITLES[at]) {
            column.set_constraint(ColumnConstraint::Hidden);
        }
    }
    writeln!(text, "{}", table.trim_fmt())?;
    for (note, n) in notes.iter().zip(1..) {
        writeln!(text, "[{n}] {note}")?;
    }
    loads_text(&load_table::rows(cases()), width, text);
    at_rest_text(&at_rest_table::rows(cases()), width, text);
    let lines = [machine::line(cases()), warm_up::line(cases())];
    let profiles = profile_lines::lines(cases());
    let profiles = profiles.iter().map(profile_lines::text);
    for line in lines.into_iter().flatten().chain(profiles) {
        writeln!(text, "{line}")?;
    }
    Ok(())
}

/// Appends the table of the loads that ran together, if there are any.
fn loads_text(rows: &[LoadRow], width: Option<u16>, text: &mut String) {
    if rows.is_empty() {
        return;
    }
    let last = load_table::TITLES.len() - 1;
    let mut table = Table::new();
    table
        .load_style(STYLE)
        .set_header(&load_table::TITLES[..last]);
    if let Some(width) = width {
        table
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width);
    }
    let mut notes: Vec<&String> = Vec::new();
    for row in rows {
        let mut cells = row.cells[..last].to_vec();
        let note = &row.cells[last];
        if !note.is_empty() {
            notes.push(note);
            cells[2] = format!("{} [{}]", cells[2], letters(notes.len()));
        }
        table.add_row(cells);
    }
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if at >= load_table::FIRST_NUMBER {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    text.push_str(&format!("Loads that ran together:\n{}\n", table.trim_fmt()));
    for (note, n) in notes.iter().zip(1..) {
        text.push_str(&format!("[{}] {note}\n", letters(n)));
    }
}

/// Appends the table of what servers held at rest between rounds, if cases have any.
fn at_rest_text(rows: &[at_rest_table::AtRestRow], width: Option<u16>, text: &mut String) {
    if rows.is_empty() {
        return;
    }
    let mut table = Table::new();
    table.load_style(STYLE).set_header(at_rest_table::TITLES);
    if let Some(width) = width {
        table
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width);
    }
    for row in rows {
        table.add_row(row);
    }
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if at_rest_table::NUMBERS.contains(&at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    text.push_str(&format!(
        "Held at rest, before the first round and after each:\n{}\n",
        table.trim_fmt()
    ));
}

/// Returns the mark of the nth note, from 1: a, b, … z, aa, …. Letters distinguish them from the
/// notes of cases, which have numbers.
fn letters(mut n: usize) -> String {
    let mut mark = Vec::new();
    while n > 0 {
        n -= 1;
        mark.insert(0, b'a' + (n % 26) as u8);
        n /= 26;
    }
    String::from_utf8_lossy(&mark).into_owned()
}

/// Appends the table of thresholds. Its cells are sentences rather than numbers, so it is wrapped
/// only where a width is given.
fn bars_text(report: &Report, width: Option<u16>, text: &mut String) {
    let thresholds = ThresholdTable::of(report);
    if thresholds.rows.is_empty() {
        return;
    }
    let mut table = Table::new();
    table.load_style(STYLE).set_header(&thresholds.titles);
    if let Some(width) = width {
        table
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width);
    }
    for row in thresholds.rows {
        table.add_row(row.cells);
    }
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if at >= threshold_table::FIRST_NUMBER {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    text.push_str(&format!("\n{}\n", table.trim_fmt()));
}

/// Returns the terminal's width, if standard output is a terminal.
#[must_use]
pub fn width() -> Option<u16> {
    terminal_size::terminal_size_of(std::io::stdout()).map(|(terminal_size::Width(width), _)| width)
}
