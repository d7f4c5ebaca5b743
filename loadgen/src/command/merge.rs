//! `loadgen merge`: reads the results of several generators, merges them and writes one result.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use report::draw;
use report::merge::{GeneratorResult, merge};
use report::result::{Outcome, Report, ResultFolder, SavedResult, folder_name};

use super::compare::results_in;
use super::show;
use crate::cli::{MergeArgs, shown_command};
use crate::exit::{Exit, Failure};

/// Merges the results and reports the path of the merged one. The exit code is that of a run with
/// the merged outcomes.
///
/// # Errors
/// If a result cannot be read, the results are not all parts of one run, or the merged one cannot
/// be written.
pub(super) fn run(args: &MergeArgs) -> Result<Exit, Failure> {
    let mut parts = Vec::new();
    for folder in &args.folders {
        for path in results_in(folder)? {
            parts.push(GeneratorResult {
                result: SavedResult::load(&path).map_err(Failure::usage)?,
                name: path.display().to_string(),
            });
        }
    }
    let merged = merge(parts, shown_command(std::env::args())).map_err(Failure::usage)?;
    let exit = end(&merged.report);
    // Printed before it is saved, as a run is: if saving fails, the table is all that is left.
    show(&mut std::io::stdout(), args.format, &merged.report)?;
    let path = save(&merged, &args.out)?;
    writeln!(std::io::stderr(), "result: {}", path.display()).ok();
    Ok(exit)
}

fn save(merged: &SavedResult, out: &Path) -> Result<PathBuf, Failure> {
    let report = &merged.report;
    let started = humantime::parse_rfc3339(&report.started).unwrap_or_else(|_| SystemTime::now());
    let host = format!("{}-generators", report.generators.len());
    let name = folder_name(started, &host, &report.scenario);
    let folder = ResultFolder::create(out, &name).map_err(Failure::usage)?;
    let (path, failures) = draw::publish(merged, folder).map_err(Failure::usage)?;
    for failure in failures {
        writeln!(std::io::stderr(), "not drawn: {failure}").ok();
    }
    Ok(path)
}

/// Returns the exit code of a run with these outcomes.
fn end(report: &Report) -> Exit {
    let ends = report.cases.iter().map(|case| match case.outcome {
        Outcome::Failed { .. } => Exit::TargetFailed,
        Outcome::Invalid { .. } => Exit::Invalid,
        _ => Exit::Done,
    });
    ends.fold(Exit::Done, Exit::and)
}
