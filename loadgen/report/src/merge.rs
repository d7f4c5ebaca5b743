//! Merges the results of several generators that produced one load together.
//!
//! Counts and rates are added, and so are histograms, value by value: quantiles are those of all
//! requests together, never means of quantiles. What every generator sampled of the same servers
//! (memory, CPU, counters, series) is taken from the first one. The merged result is valid only if
//! every part is. The metrics of each generator are kept too.
//!
//! - [`agreement`]: checks that the results are the parts of one run, and complete
//! - [`metrics`]: merges the cases and their loads; [`histograms`]: merges the latencies

mod agreement;
mod histograms;
mod metrics;

use workloads::{Scenario, ScenarioError};

use crate::result::{Generator, Report, SavedResult};
use crate::threshold;
use histograms::Histograms;

/// The result of one generator, and its name in messages.
#[derive(Debug, Clone)]
pub struct GeneratorResult {
    /// The path that the result was read from.
    pub name: String,
    /// The result.
    pub result: SavedResult,
}

/// Why results cannot be merged.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// There is nothing to merge.
    #[error("no results to merge")]
    Nothing,
    /// A result belongs to a whole run, not to one generator of several.
    #[error("{0} is no shard of a run: it was not made with --shard")]
    NoShard(String),
    /// The load of a result never began, or was stopped.
    #[error("{name} holds no whole share of the load: {reason}")]
    NotWhole {
        /// The result.
        name: String,
        /// The reason.
        reason: String,
    },
    /// Two results are of the same generator.
    #[error("generator {index} is given twice: {one} and {other}")]
    Twice {
        /// The number of the generator.
        index: u32,
        /// The first result.
        one: String,
        /// The second result.
        other: String,
    },
    /// Some generators have no result.
    #[error("of {count} generators {missing} {} missing", if .missing.contains(',') { "are" } else { "is" })]
    Missing {
        /// The numbers of the generators, as `2, 5`.
        missing: String,
        /// The number of generators.
        count: u32,
    },
    /// Two results belong to different runs.
    #[error(
        "{one} and {other} are of different runs: the {what} is {value} in one and {other_value} in the other"
    )]
    Differ {
        /// What differs.
        what: &'static str,
        /// The first result.
        one: String,
        /// The second result.
        other: String,
        /// Its value in the first result.
        value: String,
        /// Its value in the second result.
        other_value: String,
    },
    /// The histogram log lacks some of the values that the report counts.
    #[error("{name}: histograms.hlog has {found} times of `{measure}` and report.json {expected}")]
    Times {
        /// The result.
        name: String,
        /// What was timed.
        measure: String,
        /// Values in the histogram.
        found: u64,
        /// Values that the report counts.
        expected: u64,
    },
    /// Two histograms cannot be added.
    #[error("{name}: the times of `{measure}` cannot be added: {reason}")]
    Histogram {
        /// The result.
        name: String,
        /// What was timed.
        measure: String,
        /// The reason.
        reason: String,
    },
    /// The scenario cannot be parsed.
    #[error("{name}: {source}")]
    Scenario {
        /// The result.
        name: String,
        /// The error.
        source: ScenarioError,
    },
}

/// Merges the results of all generators of a run, in any order. `command` is the command line to
/// store in the merged result.
///
/// # Errors
/// [`MergeError`] unless the results are the parts of one run, each once and complete.
pub fn merge(parts: Vec<GeneratorResult>, command: Vec<String>) -> Result<SavedResult, MergeError> {
    let parts = agreement::in_order(parts)?;
    let times = Histograms::added(&parts)?;
    let first = &parts[0];
    let scenario = Scenario::parse(&first.result.scenario_toml, "scenario.toml");
    let scenario = scenario.map_err(|source| MergeError::Scenario {
        name: first.name.clone(),
        source,
    })?;
    let case = metrics::case(&parts, &times);
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
        // Those of one generator are a part of the load, and those of several do not begin at the
        // same moment.
        load_intervals: Vec::new(),
        scenario_toml: first.result.scenario_toml.clone(),
        report,
    })
}

/// Returns the metrics of one generator.
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
