//! The results of several generators that made one load together, merged into one.
//!
//! Counts and rates are added, and so are histograms, value by value: quantiles are those of all
//! requests together, never means of quantiles. What every generator saw of the same servers
//! (memory, CPU, counters, series) is taken once, from the first. The whole is valid when every
//! part is. The figures of each generator are kept, too.
//!
//! - [`agreement`]: whether results are the parts of one run, and all of them
//! - [`figures`]: the case and its loads; [`histograms`]: the times

mod agreement;
mod figures;
mod histograms;

use workloads::{Scenario, ScenarioError};

use crate::result::{Generator, Report, SavedResult};
use crate::threshold;
use histograms::Histograms;

/// The result of one generator, and what messages call it.
#[derive(Debug, Clone)]
pub struct GeneratorResult {
    /// Where it was read.
    pub name: String,
    /// What it measured.
    pub result: SavedResult,
}

/// Why results are not merged.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// There is nothing to merge.
    #[error("no results to merge")]
    Nothing,
    /// A result of a whole run.
    #[error("{0} is no shard of a run: it was not made with --shard")]
    NoShard(String),
    /// A result whose load never began, or was stopped.
    #[error("{name} holds no whole share of the load: {reason}")]
    NotWhole {
        /// Which.
        name: String,
        /// Why not.
        reason: String,
    },
    /// Two of one generator.
    #[error("generator {index} is there twice: {one} and {other}")]
    Twice {
        /// Its number.
        index: u32,
        /// The one.
        one: String,
        /// The other.
        other: String,
    },
    /// Generators without a result.
    #[error("of {count} generators {missing} {} missing", if .missing.contains(',') { "are" } else { "is" })]
    Missing {
        /// Which, as `2, 5`.
        missing: String,
        /// How many there were.
        count: u32,
    },
    /// Results of different runs.
    #[error(
        "{one} and {other} are of different runs: the {what} is {ours} in one and {theirs} in the other"
    )]
    Differ {
        /// What differs.
        what: &'static str,
        /// The one.
        one: String,
        /// The other.
        other: String,
        /// What it is in the one.
        ours: String,
        /// What it is in the other.
        theirs: String,
    },
    /// A file that lacks a part of what the report counts.
    #[error("{name}: histograms.hlog has {found} times of `{measure}` and report.json {expected}")]
    Times {
        /// Which.
        name: String,
        /// What was timed.
        measure: String,
        /// Values in the histogram.
        found: u64,
        /// Values that the report counts.
        expected: u64,
    },
    /// Histograms that cannot be added.
    #[error("{name}: the times of `{measure}` cannot be added: {reason}")]
    Histogram {
        /// Which.
        name: String,
        /// What was timed.
        measure: String,
        /// Why not.
        reason: String,
    },
    /// A scenario that is none.
    #[error("{name}: {source}")]
    Scenario {
        /// Of which result.
        name: String,
        /// What is wrong in it.
        source: ScenarioError,
    },
}

/// Merges the results of all generators of a run, in any order. `command` is how it was asked for,
/// for the result.
///
/// # Errors
/// [`MergeError`] where they are not all parts of one run, each once and whole.
pub fn merge(parts: Vec<GeneratorResult>, command: Vec<String>) -> Result<SavedResult, MergeError> {
    let parts = agreement::in_order(parts)?;
    let times = Histograms::added(&parts)?;
    let first = &parts[0];
    let scenario = Scenario::parse(&first.result.scenario_toml, "scenario.toml");
    let scenario = scenario.map_err(|source| MergeError::Scenario {
        name: first.name.clone(),
        source,
    })?;
    let case = figures::case(&parts, &times);
    let id = case.id();
    let mut report = Report {
        shard: None,
        generators: parts.iter().filter_map(generator).collect(),
        cases: vec![case],
        ..first.result.report.clone()
    };
    report.environment.command = command;
    for part in &parts {
        let of_part = &part.result.report;
        report.elapsed_s = report.elapsed_s.max(of_part.elapsed_s);
        if of_part.started < report.started {
            report.started.clone_from(&of_part.started);
        }
    }
    report.thresholds = threshold::judge(&scenario, &report);
    let mut series = first.result.series.clone();
    for one in &mut series {
        one.case.clone_from(&id);
    }
    Ok(SavedResult {
        histograms: times.tagged(&id),
        series,
        scenario_toml: first.result.scenario_toml.clone(),
        report,
    })
}

/// Returns what one generator had.
fn generator(part: &GeneratorResult) -> Option<Generator> {
    let report = &part.result.report;
    let case = report.cases.first()?;
    let client = case.client.as_ref();
    Some(Generator {
        shard: report.shard.clone()?,
        host: report.environment.host.clone(),
        cores: report.environment.cores,
        cpu_s: client.and_then(|client| client.cpu_s),
        requests: case.requests,
        errors: case.errors,
        requests_per_s: case.requests_per_s,
        latency_ms: case.latency_ms.clone(),
        lag_ms: client.and_then(|client| client.lag_ms.clone()),
    })
}

#[cfg(test)]
mod tests;
