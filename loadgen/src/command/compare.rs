//! `loadgen compare`: reads both sides, compares them, and prints the comparison.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use report::compare::annotations::annotations;
use report::compare::json::Document;
use report::compare::{CompareError, Comparison, Sides, chart, compare, junit, markdown, text};
use report::result::{REPORT_FILE, SavedResult};
use report::terminal;

use crate::cli::{CompareArgs, CompareFormat, shown_command};
use crate::exit::{Exit, Failure};

/// Compares the two sides and returns the text to print and the exit code.
///
/// # Errors
/// If a result cannot be read, the sides cannot be compared, or the chart cannot be written.
pub(crate) fn run(args: &CompareArgs) -> Result<(String, Exit), Failure> {
    let comparison = compared(args)?;
    if let Some(path) = &args.chart {
        fs::write(path, chart::svg(&comparison))
            .with_context(|| format!("cannot write {}", path.display()))
            .map_err(Failure::usage)?;
    }
    if args.verdict.annotate {
        eprint!("{}", annotations(&comparison));
    }
    let shown = shown(&comparison, args.format)?;
    Ok((shown, comparison.end().into()))
}

/// Formats a comparison.
///
/// # Errors
/// If it cannot be written as JSON.
pub(super) fn shown(comparison: &Comparison, format: CompareFormat) -> Result<String, Failure> {
    Ok(match format {
        CompareFormat::Text => text::text(comparison, terminal::width()),
        CompareFormat::Markdown => {
            let command = shown_command(std::env::args()).join(" ");
            markdown::markdown(comparison, &command)
        }
        CompareFormat::Json => {
            let document = Document::from(comparison);
            let mut json = serde_json::to_string_pretty(&document).map_err(Failure::usage)?;
            json.push('\n');
            json
        }
        CompareFormat::Junit => junit::junit(comparison),
    })
}

fn compared(args: &CompareArgs) -> Result<Comparison, Failure> {
    let options = args.verdict.options(args.allow.clone());
    let targets = args.base_target.as_deref().zip(args.new_target.as_deref());
    let base = read(&args.base)?;
    let is_same = |new: &PathBuf| {
        let (base, new) = (fs::canonicalize(&args.base), fs::canonicalize(new));
        matches!((base, new), (Ok(base), Ok(new)) if base == new)
    };
    // With targets given, a folder that is named twice is treated as if it were named once.
    let other = args
        .new
        .as_ref()
        .filter(|new| targets.is_none() || !is_same(new));
    let compared = match (other, targets) {
        (Some(new), targets) => {
            let new = read(new)?;
            compare(&Sides::of_runs(&base, &new, targets), &options)
        }
        (None, Some((base_target, new_target))) => {
            compare(&Sides::of_targets(&base, base_target, new_target), &options)
        }
        (None, None) => Err(CompareError::NoResult),
    };
    compared.map_err(Failure::usage)
}

/// Reads the result in a folder, or all results in its subfolders, the oldest first.
fn read(folder: &Path) -> Result<Vec<SavedResult>, Failure> {
    let results = results_in(folder)?;
    let results = results
        .iter()
        .map(|path| SavedResult::load(path).map_err(Failure::usage));
    let mut results: Vec<SavedResult> = results.collect::<Result<_, _>>()?;
    let shards = results.iter().filter_map(|it| it.report.shard.as_ref());
    if let Some(shard) = shards.into_iter().find(|shard| shard.count > 1) {
        return Err(Failure::usage(anyhow!(
            "{} holds the share of generator {} of {}: merge all of them first (loadgen merge)",
            folder.display(),
            shard.index,
            shard.count
        )));
    }
    results.sort_by(|a, b| a.report.started.cmp(&b.report.started));
    Ok(results)
}

/// Returns the folder if it is a result, or else its subfolders that are results. Returns the
/// folder itself if there are none, so that reading it reports what is missing.
///
/// # Errors
/// If the folder cannot be read.
pub(super) fn results_in(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    if folder.join(REPORT_FILE).exists() || !folder.is_dir() {
        return Ok(vec![folder.to_owned()]);
    }
    let unreadable = || format!("cannot read {}", folder.display());
    let mut found: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder)
        .with_context(unreadable)
        .map_err(Failure::usage)?
    {
        let entry = entry.with_context(unreadable).map_err(Failure::usage)?;
        let path = entry.path();
        if path.join(REPORT_FILE).exists() {
            found.push(path);
        }
    }
    if found.is_empty() {
        found.push(folder.to_owned());
    }
    Ok(found)
}
