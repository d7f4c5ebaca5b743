//! Two results side by side: what moved, how sure that is, and whether it is more than is allowed.
//!
//! A difference counts only when it is both sure (the samples are hardly of one population) and large (above the threshold).

mod metric;
mod significance;
mod warnings;

use comfy_table::{CellAlignment, Table};

use crate::quantity::Quantity;
use crate::result::{Case, FolderError, Report, SavedResult};
use crate::terminal::STYLE;
use metric::Evidence;
pub use metric::Metric;

/// Changes below this are not called changes when no threshold is given.
pub const NOTABLE: f64 = 0.05;

/// Why two results cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// One of them cannot be read.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// They are of different things.
    #[error(
        "these results are not of the same work: {what} is {base} in the first and {new} in the second"
    )]
    Different {
        /// What differs.
        what: String,
        /// Its value in the base.
        base: String,
        /// Its value in the new one.
        new: String,
    },
    /// No row is in both.
    #[error("these results have no row in common")]
    NothingInCommon,
}

/// A comparison, row by row.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Each number of each row that both results have.
    pub lines: Vec<Line>,
    /// What a reader should know first.
    pub warnings: Vec<String>,
    /// Rows that the base has measured and the new result has not, with the reason.
    pub gone: Vec<String>,
}

/// One number of one row.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// The row: target, tier and strategy.
    pub row: String,
    /// The number.
    pub metric: Metric,
    /// In the base.
    pub base: f64,
    /// In the new result.
    pub new: f64,
    /// Whether it moved.
    pub verdict: Verdict,
    evidence: Evidence,
}

/// Whether a number moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Smaller, sure and large enough.
    Better,
    /// Not sure, or not large enough.
    Same,
    /// Larger, sure and large enough.
    Worse,
}

impl Line {
    /// The change as a part of the base; 0 when both are 0.
    #[must_use]
    pub fn change(&self) -> f64 {
        if self.base == self.new {
            0.0
        } else {
            self.new / self.base - 1.0
        }
    }
}

/// Compares the rows that both results have measured. `threshold` is a part of the base: 0.1 for 10 %.
///
/// # Errors
/// When they differ in scenario, data or encoding, or have no row in common.
pub fn compare(
    base: &SavedResult,
    new: &SavedResult,
    metrics: &[Metric],
    threshold: f64,
) -> Result<Comparison, CompareError> {
    same_work(&base.report, &new.report)?;
    let mut comparison = Comparison {
        lines: Vec::new(),
        warnings: warnings::warnings(base, new),
        gone: Vec::new(),
    };
    let mut in_common = 0;
    for old in &base.report.cases {
        let Some(case) = new.report.cases.iter().find(|case| case.id() == old.id()) else {
            match old.counts() {
                true => comparison.gone.push(format!("{}: not measured", old.id())),
                false => comparison
                    .warnings
                    .push(format!("{} is only in the first", old.id())),
            }
            continue;
        };
        in_common += 1;
        if !old.counts() {
            continue;
        }
        if !case.counts() {
            let notes = crate::case_text::notes(case).join("; ");
            comparison.gone.push(format!("{}: {notes}", case.id()));
            continue;
        }
        same_serving(old, case)?;
        for &metric in metrics {
            let Some((old, now)) = metric.of(base, old).zip(metric.of(new, case)) else {
                continue;
            };
            let evidence = metric.evidence(&old, &now);
            let mut line = Line {
                row: case.id(),
                metric,
                base: old.value,
                new: now.value,
                verdict: Verdict::Same,
                evidence,
            };
            line.verdict = match line.change() {
                change if !evidence.is_sure() || change.abs() <= threshold => Verdict::Same,
                change if change > 0.0 => Verdict::Worse,
                _ => Verdict::Better,
            };
            comparison.lines.push(line);
        }
    }
    if in_common == 0 {
        return Err(CompareError::NothingInCommon);
    }
    Ok(comparison)
}

fn differ(
    what: impl Into<String>,
    base: impl ToString,
    new: impl ToString,
) -> Result<(), CompareError> {
    let (base, new) = (base.to_string(), new.to_string());
    if base == new {
        Ok(())
    } else {
        Err(CompareError::Different {
            what: what.into(),
            base,
            new,
        })
    }
}

fn same_work(base: &Report, new: &Report) -> Result<(), CompareError> {
    differ("the scenario", &base.scenario, &new.scenario)?;
    for data_set in &base.data_sets {
        let Some(other) = new
            .data_sets
            .iter()
            .find(|other| other.name == data_set.name)
        else {
            continue;
        };
        let name = &data_set.name;
        differ(
            format!("objects of {name}"),
            Quantity::Count(data_set.objects),
            Quantity::Count(other.objects),
        )?;
        differ(format!("bytes of {name}"), data_set.bytes, other.bytes)?;
        let fingerprint = |fingerprint: &Option<String>| {
            fingerprint.clone().unwrap_or_else(|| "unknown".to_owned())
        };
        differ(
            format!("fingerprint of {name}"),
            fingerprint(&data_set.fingerprint),
            fingerprint(&other.fingerprint),
        )?;
    }
    Ok(())
}

fn same_serving(base: &Case, new: &Case) -> Result<(), CompareError> {
    let encoding = |case: &Case| {
        case.encoding
            .clone()
            .unwrap_or_else(|| "unknown".to_owned())
    };
    differ(
        format!("the encoding of {}", base.id()),
        encoding(base),
        encoding(new),
    )
}

impl Comparison {
    /// The comparison as a table, with what does not fit into one around it.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for warning in &self.warnings {
            text.push_str(&format!("note: {warning}\n"));
        }
        let mut table = Table::new();
        table.load_style(STYLE).set_header([
            "row", "number", "base", "new", "change", "evidence", "verdict",
        ]);
        for line in &self.lines {
            table.add_row([
                line.row.clone(),
                line.metric.to_string(),
                line.metric.quantity(line.base).to_string(),
                line.metric.quantity(line.new).to_string(),
                Quantity::Change(line.change()).to_string(),
                line.evidence.to_string(),
                match line.verdict {
                    Verdict::Better => "better",
                    Verdict::Same => "same",
                    Verdict::Worse => "WORSE",
                }
                .to_owned(),
            ]);
        }
        for (at, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            if (2..5).contains(&at) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        text.push_str(&format!("{}\n", table.trim_fmt()));
        for gone in &self.gone {
            text.push_str(&format!("GONE: {gone}\n"));
        }
        text
    }
}
