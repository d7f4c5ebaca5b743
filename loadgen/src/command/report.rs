//! `loadgen report`: draws saved results again in their folders, or prints them for other programs.

use std::io::Write as _;
use std::path::PathBuf;

use report::draw;
use report::export::bencher::bencher;
use report::export::csv::csv;
use report::export::github_action_benchmark::github_action_benchmark;
use report::export::go_benchmark::go_benchmark;
use report::export::openmetrics::openmetrics;
use report::export::perfdash::perfdash;
use report::result::SavedResult;
use report::suite;

use crate::cli::{ReportArgs, ReportFormat};
use crate::exit::{Exit, Failure};

/// Draws or prints the results. Prints nothing if the results cannot be combined in the format.
///
/// # Errors
/// If a folder holds no result, a result cannot be drawn, or the results cannot be combined.
pub(super) fn run(args: &ReportArgs) -> Result<Exit, Failure> {
    let mut out = std::io::stdout();
    let load = |folder: &PathBuf| SavedResult::load(folder).map_err(Failure::usage);
    let results = || args.folders.iter().map(load).collect::<Result<Vec<_>, _>>();
    let text = match args.format {
        ReportFormat::Text => {
            for folder in &args.folders {
                let table = match suite::is_suite(folder) {
                    true => suite::draw_again(folder).map_err(Failure::usage)?,
                    false => draw::draw_again(folder).map_err(Failure::usage)?,
                };
                write!(out, "{table}")?;
            }
            return Ok(Exit::Done);
        }
        ReportFormat::Go => go_benchmark(&results()?),
        ReportFormat::Csv => {
            let name = |folder: &PathBuf| {
                let name = folder.file_name().unwrap_or(folder.as_os_str());
                name.to_string_lossy().into_owned()
            };
            let results = results()?;
            csv(args.folders.iter().map(name).zip(&results)).map_err(Failure::usage)?
        }
        ReportFormat::Perfdash => perfdash(&results()?).map_err(Failure::usage)?,
        ReportFormat::GithubActionBenchmark => {
            github_action_benchmark(&results()?).map_err(Failure::usage)?
        }
        ReportFormat::Bencher => bencher(&results()?).map_err(Failure::usage)?,
        ReportFormat::Openmetrics => openmetrics(&results()?).map_err(Failure::usage)?,
    };
    write!(out, "{text}")?;
    Ok(Exit::Done)
}
