//! `loadgen compare`.

use std::fmt::Write as _;

use clap::ValueEnum as _;
use report::compare::{Metric, NOTABLE, Verdict, compare};
use report::result::SavedResult;

use crate::cli::CompareArgs;
use crate::exit::{Exit, Failure};

/// The comparison of two saved results as text, and [`Exit::TargetFailed`] when a threshold was given and passed.
///
/// # Errors
/// When a result cannot be read, or they are not of the same work.
pub fn run(args: &CompareArgs) -> Result<(String, Exit), Failure> {
    let load = |folder| SavedResult::load(folder).map_err(Failure::usage);
    let (base, new) = (load(&args.base)?, load(&args.new)?);
    let metrics = if args.metrics.is_empty() {
        Metric::value_variants()
    } else {
        &args.metrics
    };
    let threshold = args.fail_above.map(|limit| limit.0);
    let comparison =
        compare(&base, &new, metrics, threshold.unwrap_or(NOTABLE)).map_err(Failure::usage)?;
    let lost = comparison
        .lines
        .iter()
        .filter(|line| line.verdict == Verdict::Worse)
        .count()
        + comparison.gone.len();
    let mut text = comparison.text();
    let exit = match threshold {
        Some(limit) if lost > 0 => {
            let limit = limit * 100.0;
            writeln!(text, "LOST: {lost} worse by more than {limit} %, or gone")
                .map_err(Failure::usage)?;
            Exit::TargetFailed
        }
        _ => Exit::Done,
    };
    Ok((text, exit))
}
