//! A comparison as a table for a terminal.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, ContentArrangement, Table};

use super::{Comparison, Line, wording};
use crate::quantity::Quantity;
use crate::terminal::STYLE;

/// Returns the comparison as text. The table is wrapped to `width` columns where one is given.
#[must_use]
pub fn text(comparison: &Comparison, width: Option<u16>) -> String {
    let mut text = String::new();
    let mut write = |args: std::fmt::Arguments<'_>| {
        text.write_fmt(args).expect("a string takes everything");
    };
    write(format_args!("base: {}\n", wording::side(&comparison.base)));
    write(format_args!("new:  {}\n", wording::side(&comparison.new)));
    for note in &comparison.notes {
        write(format_args!("note: {note}\n"));
    }
    let (table, reasons) = table(comparison, width);
    if !comparison.lines.is_empty() {
        write(format_args!("\n{table}\n"));
    }
    for (reason, n) in reasons.iter().zip(1..) {
        write(format_args!("[{n}] {reason}\n"));
    }
    if comparison.lines.iter().any(|line| line.is_deciding) {
        write(format_args!("* decides how the comparison ends\n"));
    }
    for unjudged in &comparison.not_comparable {
        write(format_args!(
            "NOT COMPARABLE: {}: {}\n",
            unjudged.case, unjudged.reason
        ));
    }
    for gone in &comparison.gone {
        write(format_args!("GONE: {}: {}\n", gone.case, gone.reason));
    }
    write(format_args!("\n{}\n", wording::headline(comparison)));
    text
}

/// Returns the table, and the reasons that its cells refer to by number.
fn table(comparison: &Comparison, width: Option<u16>) -> (String, Vec<String>) {
    let has_targets = comparison.has_several_targets();
    let mut titles = vec![
        "case",
        "metric",
        "base",
        "new",
        "new/base [95 %]",
        "verdict",
    ];
    if has_targets {
        titles.insert(0, "target");
    }
    let first_number = titles.len() - 4;
    let mut table = Table::new();
    table.load_style(STYLE).set_header(titles);
    if let Some(width) = width {
        table
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width);
    }
    let mut reasons: Vec<String> = Vec::new();
    for line in &comparison.lines {
        let mut cells = cells(line, &mut reasons);
        if has_targets {
            cells.insert(0, wording::targets(line));
        }
        table.add_row(cells);
    }
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if (first_number..first_number + 3).contains(&at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    (table.trim_fmt(), reasons)
}

fn cells(line: &Line, reasons: &mut Vec<String>) -> Vec<String> {
    let value = |starts: &[f64]| {
        let value = Line::value(starts);
        Quantity::or_absent(value.map(|value| line.metric.quantity(value)))
    };
    let mark = if line.is_deciding { " *" } else { "" };
    let mut verdict = line.verdict.name().to_owned();
    if let Some(reason) = line.verdict.reason() {
        let reason = reason.to_string();
        let known = reasons.iter().position(|known| *known == reason);
        let known = known.unwrap_or_else(|| {
            reasons.push(reason);
            reasons.len() - 1
        });
        verdict.push_str(&format!(" [{}]", known + 1));
    }
    if line.is_within == Some(true) && line.verdict.reason().is_some() {
        verdict.push_str(", within the limit");
    }
    vec![
        line.case.clone(),
        format!("{}{mark}", line.metric),
        value(&line.base),
        value(&line.new),
        line.estimate
            .as_ref()
            .map_or_else(String::new, wording::ratio),
        verdict,
    ]
}
