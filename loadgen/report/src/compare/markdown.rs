//! A comparison as Markdown, for the summary of a CI job or a comment on a pull request.
//!
//! GitHub shows no inline SVG and no `data:` images there, drops a summary above 1 MiB as a whole,
//! and refuses a comment above 65,536 characters: hence bars of characters, and rows that are cut.

use super::{Comparison, Line, Verdict, wording};
use crate::quantity::Quantity;

/// Length of the document in bytes above which rows are left out.
const MOST_BYTES: usize = 60_000;
/// Bytes of it that all but the rows may take.
const AROUND_ROWS: usize = 12_000;
/// Notes that are shown.
const MOST_NOTES: usize = 12;

/// Returns the comparison as Markdown. `command` is what makes it again.
#[must_use]
pub fn markdown(comparison: &Comparison, command: &str) -> String {
    let mut rows = Rows {
        axis: wording::Axis::of(comparison.lines.iter()),
        has_targets: comparison.has_several_targets(),
        reasons: Vec::new(),
        bytes: 0,
        left_out: 0,
    };
    let mut deciding: Vec<&Line> = comparison.deciding().collect();
    deciding.sort_by_key(|line| rank(line.verdict));
    let others = comparison.lines.iter().filter(|line| !line.is_deciding);
    let others: Vec<&Line> = others.collect();
    let mut text = format!("**{}**\n\n", escaped(&wording::headline(comparison)));
    for (name, side) in [("Base", &comparison.base), ("New", &comparison.new)] {
        text.push_str(&format!("- {name}: {}\n", escaped(&wording::side(side))));
    }
    text.push('\n');
    text.push_str(&rows.table(&deciding));
    for (what, unjudged) in [
        ("Gone", &comparison.gone),
        ("Not comparable", &comparison.not_comparable),
    ] {
        for unjudged in unjudged.iter().take(MOST_NOTES) {
            let (case, reason) = (&unjudged.case, escaped(&unjudged.reason));
            text.push_str(&format!("- {what}: {}: {reason}\n", code(case)));
        }
        text.push_str(&more(unjudged.len()));
    }
    if !others.is_empty() {
        let summary = format!("{} metrics that decide nothing", others.len());
        let table = rows.table(&others);
        text.push_str(&format!(
            "\n<details><summary>{summary}</summary>\n\n{table}\n</details>\n"
        ));
    }
    if rows.left_out > 0 {
        let left_out = rows.left_out;
        text.push_str(&format!(
            "\n{left_out} rows left out; `--format text` has them.\n"
        ));
    }
    if !rows.reasons.is_empty() {
        text.push_str("\nWhy it cannot tell:\n\n");
        for (reason, n) in rows.reasons.iter().zip(1..) {
            text.push_str(&format!("{n}. {}\n", escaped(reason)));
        }
    }
    if !comparison.notes.is_empty() {
        text.push_str("\nNotes:\n\n");
        for note in comparison.notes.iter().take(MOST_NOTES) {
            text.push_str(&format!("- {}\n", escaped(note)));
        }
        text.push_str(&more(comparison.notes.len()));
    }
    text.push_str(&format!("\nMade by {}.\n", code(command)));
    text
}

/// The rows of all tables, which share an axis, reasons and a limit.
struct Rows {
    axis: wording::Axis,
    has_targets: bool,
    reasons: Vec<String>,
    bytes: usize,
    left_out: usize,
}

impl Rows {
    fn table(&mut self, lines: &[&Line]) -> String {
        if lines.is_empty() {
            return String::new();
        }
        let (lower, upper) = self.axis.ends();
        let mut table = format!(
            "| case | metric | base | new | new/base, 95 % | `{lower:.2} … {upper:.2}` | verdict |\n\
             |---|---|--:|--:|--:|---|---|\n"
        );
        for line in lines {
            let row = self.row(line);
            if self.bytes + row.len() > MOST_BYTES - AROUND_ROWS {
                self.left_out += 1;
                continue;
            }
            self.bytes += row.len();
            table.push_str(&row);
        }
        table
    }

    fn row(&mut self, line: &Line) -> String {
        let value = |starts: &[f64]| {
            let value = Line::value(starts);
            Quantity::or_absent(value.map(|value| line.metric.quantity(value)))
        };
        let case = match self.has_targets {
            true => format!("{}: {}", wording::targets(line), line.case),
            false => line.case.clone(),
        };
        let estimate = line.estimate.as_ref();
        let (sign, name) = (line.verdict.sign(), line.verdict.name());
        let verdict = match line.verdict {
            Verdict::Worse | Verdict::Better => format!("{sign} **{}**", name.to_lowercase()),
            Verdict::NoDifference => format!("{sign} {name}"),
            Verdict::CannotTell(reason) => {
                format!("{sign} {name} ({})", self.number_of(reason.to_string()))
            }
        };
        format!(
            "| {} | {} | {} | {} | {} | {} | {verdict} |\n",
            code(&case),
            line.metric,
            value(&line.base),
            value(&line.new),
            escaped(&estimate.map_or_else(String::new, wording::ratio)),
            estimate.map_or_else(String::new, |estimate| code(&self.axis.bar(estimate))),
        )
    }

    /// Returns under which number a reason stands below.
    fn number_of(&mut self, reason: String) -> usize {
        let known = self.reasons.iter().position(|known| *known == reason);
        known.map_or_else(
            || {
                self.reasons.push(reason);
                self.reasons.len()
            },
            |known| known + 1,
        )
    }
}

/// Returns in which order verdicts interest a reader.
fn rank(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Worse => 0,
        Verdict::CannotTell(_) => 1,
        Verdict::Better => 2,
        Verdict::NoDifference => 3,
    }
}

fn more(all: usize) -> String {
    match all.checked_sub(MOST_NOTES) {
        None | Some(0) => String::new(),
        Some(left_out) => format!("- and {left_out} more\n"),
    }
}

/// Returns text as it is in a code span, also within a table.
fn code(text: &str) -> String {
    let text = text
        .replace('`', "'")
        .replace('\n', " ")
        .replace('|', "\\|");
    format!("`{text}`")
}

/// Returns text that means nothing to Markdown.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => escaped.push(' '),
            '|' | '*' | '_' | '`' | '<' | '[' | '\\' => {
                escaped.push('\\');
                escaped.push(c);
            }
            _ => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_a_table_or_a_page() {
        assert_eq!(code("a|b`c\nd"), "`a\\|b'c d`");
        assert_eq!(escaped("<b>|*x*"), "\\<b>\\|\\*x\\*");
    }
}
