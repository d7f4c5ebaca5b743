//! A comparison as Markdown, for the summary of a CI job or a comment on a pull request: its end
//! and the next step, the deciding lines, and everything else folded.
//!
//! There GitHub shows no inline SVG and no `data:` images, drops a summary above 1 MiB entirely,
//! and refuses a comment above 65,536 characters. Therefore the bars are drawn with characters, and
//! the number of rows is limited.

use super::{Comparison, Line, Method, Verdict, wording};
use crate::quantity::Quantity;

/// The maximal total size of all rows and the reasons that they refer to, in bytes.
const ROWS_BYTES: usize = 36_000;
/// The maximal number of entries of a list.
const MAX_ENTRIES: usize = 12;
/// The maximal size of each of the two parts of an entry, in bytes.
const ENTRY_BYTES: usize = 250;
/// The maximal size of a line about a side, or of the command, in bytes.
const SIDE_BYTES: usize = 1_000;

/// Returns the comparison as Markdown of at most 60,000 bytes. `command` is the command line that
/// reproduces it.
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
    let headline = escaped(&wording::headline(comparison), SIDE_BYTES);
    let mut text = format!("**{headline}**\n\n");
    if let Some(step) = wording::next_step(comparison) {
        text.push_str(&format!("{step}\n\n"));
    }
    text.push_str(&rows.table(&deciding));
    for (what, unjudged) in [
        ("Gone", &comparison.gone),
        ("Not comparable", &comparison.not_comparable),
    ] {
        let entries = unjudged.iter().map(|unjudged| {
            let case = code(&unjudged.case, ENTRY_BYTES);
            format!("{what}: {case}: {}", escaped(&unjudged.reason, ENTRY_BYTES))
        });
        text.push_str(&list(entries));
    }
    // This table must be made before the reasons are listed, since it adds reasons.
    let others_table = rows.table(&others);
    let reasons = rows.reasons.iter().zip(1..);
    let reasons = reasons.map(|(reason, n)| format!("{n}. {reason}\n"));
    text.push_str(&folded("Why it cannot tell", &reasons.collect::<String>()));
    let summary = format!("Metrics that decide nothing ({})", others.len());
    text.push_str(&folded(&summary, &others_table));
    let notes = comparison.notes.iter();
    let notes = list(notes.map(|note| escaped(note, ENTRY_BYTES)));
    let summary = format!("Notes ({})", comparison.notes.len());
    text.push_str(&folded(&summary, &notes));
    let sides = [("Base", &comparison.base), ("New", &comparison.new)];
    let mut how = list(sides.into_iter().map(|(name, side)| {
        let side = escaped(&wording::side(side), SIDE_BYTES);
        format!("{name}: {side}")
    }));
    how.push_str(&list(wording::machines(comparison).map(|machines| {
        let machines = escaped(&machines, SIDE_BYTES);
        format!("Machine: {machines}")
    })));
    text.push_str(&folded("What was measured, and where", &how));
    if rows.left_out > 0 {
        let left_out = rows.left_out;
        text.push_str(&format!(
            "\n{left_out} rows left out; `--format text` has them.\n"
        ));
    }
    text.push_str(&format!("\nMade by {}.\n", code(command, SIDE_BYTES)));
    text
}

/// Returns a folded section; empty if it has no content.
fn folded(summary: &str, content: &str) -> String {
    match content.is_empty() {
        true => String::new(),
        false => format!("\n<details><summary>{summary}</summary>\n\n{content}\n</details>\n"),
    }
}

/// Returns the first entries as a list, and the number of the others.
fn list(entries: impl IntoIterator<Item = String>) -> String {
    let mut entries = entries.into_iter();
    let shown = entries.by_ref().take(MAX_ENTRIES);
    let mut text: String = shown.map(|entry| format!("- {entry}\n")).collect();
    let more = entries.count();
    if more > 0 {
        text.push_str(&format!("- and {more} more\n"));
    }
    text
}

/// The rows of all tables. They share an axis, numbered reasons and a size limit.
struct Rows {
    axis: wording::Axis,
    has_targets: bool,
    reasons: Vec<String>,
    bytes: usize,
    left_out: usize,
}

impl Rows {
    /// Returns the lines as a table, with as many rows as there is room for; empty without a row.
    fn table(&mut self, lines: &[&Line]) -> String {
        let mut rows = String::new();
        for line in lines {
            let known = self.reasons.len();
            let row = self.row(line);
            let reasons = self.reasons[known..].iter();
            // The size includes the reason's number.
            let bytes = row.len() + reasons.map(|reason| reason.len() + 6).sum::<usize>();
            if self.bytes + bytes > ROWS_BYTES {
                self.reasons.truncate(known);
                self.left_out += 1;
                continue;
            }
            self.bytes += bytes;
            rows.push_str(&row);
        }
        if rows.is_empty() {
            return rows;
        }
        let ends = self.axis.label();
        format!(
            "| case | metric | base | new | n | new/base, 95 % | `{ends}` | verdict |\n\
             |---|---|--:|--:|--:|--:|---|---|\n{rows}"
        )
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
                format!("{sign} {name} ({})", self.number_of(&reason.to_string()))
            }
        };
        format!(
            "| {} | {} | {} | {} | {} | {} | {} | {verdict} |\n",
            code(&case, ENTRY_BYTES),
            line.metric,
            value(&line.base),
            value(&line.new),
            starts(line),
            escaped(
                &estimate.map_or_else(String::new, wording::ratio),
                ENTRY_BYTES
            ),
            estimate.map_or_else(String::new, |estimate| {
                code(&self.axis.bar(estimate), ENTRY_BYTES)
            }),
        )
    }

    /// Returns the number under which a reason is listed.
    fn number_of(&mut self, reason: &str) -> usize {
        let reason = escaped(reason, ENTRY_BYTES);
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

/// Returns the sort key of a verdict: the most important verdicts come first.
fn rank(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Worse => 0,
        Verdict::CannotTell(_) => 1,
        Verdict::Better => 2,
        Verdict::NoDifference => 3,
    }
}

/// Returns the number of starts of a line: of pairs, or of both sides.
fn starts(line: &Line) -> String {
    let paired = |method| {
        matches!(
            method,
            Method::Paired | Method::Sequential | Method::Drifting
        )
    };
    match line.estimate {
        Some(estimate) if paired(estimate.method) => match estimate.new_starts {
            1 => "1 pair".to_owned(),
            pairs => format!("{pairs} pairs"),
        },
        _ => format!("{} + {}", line.base.len(), line.new.len()),
    }
}

/// Returns text as a code span that is valid within a table too.
fn code(text: &str, most: usize) -> String {
    let text = text
        .replace('`', "'")
        .replace(['\n', '\r'], " ")
        .replace('|', "\\|");
    format!("`{}`", cut(text, most))
}

/// Escapes the characters that are special in Markdown.
fn escaped(text: &str, most: usize) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' => escaped.push(' '),
            '|' | '*' | '_' | '`' | '<' | '[' | '\\' => {
                escaped.push('\\');
                escaped.push(c);
            }
            _ => escaped.push(c),
        }
    }
    cut(escaped, most)
}

/// Cuts text to at most `most` bytes and appends `…` if it was longer.
fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        // A cut escape sequence would escape what follows.
        text.truncate(text.trim_end_matches('\\').len());
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_a_table_or_a_page() {
        assert_eq!(code("a|b`c\nd", 100), "`a\\|b'c d`");
        assert_eq!(escaped("<b>|*x*", 100), "\\<b>\\|\\*x\\*");
    }

    #[test]
    fn what_is_cut_ends_between_characters() {
        assert_eq!(escaped("·····", 5), "··…");
        assert_eq!(escaped("ab|cd", 3), "ab…", "not within an escaped one");
        assert_eq!(code("abc", 3), "`abc`");
    }
}
