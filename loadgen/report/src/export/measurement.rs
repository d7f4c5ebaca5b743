//! One metric of one case over all given runs of one build on one machine: the unit of export for
//! formats that have one value for each name.

use clap::ValueEnum as _;

use super::target_names::TargetNames;
use super::{ExportError, setup};
use crate::compare::{Condition, Metric, of_runs};
use crate::result::{Case, SavedResult, Spread};

/// One metric of one case.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Measurement {
    /// The benchmark that was run.
    pub(super) benchmark: Benchmark,
    /// The metric.
    pub(super) metric: Metric,
    /// The value of each start, in [`Metric::unit`]; never empty.
    pub(super) starts: Vec<f64>,
}

/// The work and its target, which have the same name in every run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Benchmark {
    pub(super) scenario: String,
    pub(super) data_set: String,
    pub(super) target: String,
    /// Tier, strategy and options.
    pub(super) work: String,
    /// Program and version of the target, and the commit of the generator, where they are known.
    pub(super) built_from: Vec<String>,
}

impl Measurement {
    /// Returns the median, the smallest and the largest of the starts' values.
    pub(super) fn spread(&self) -> Spread {
        Spread::of(self.starts.iter().copied()).expect("a measurement has a value")
    }

    /// Returns the spread if there are at least two values.
    pub(super) fn spread_of_several(&self) -> Option<Spread> {
        (self.starts.len() > 1).then(|| self.spread())
    }
}

impl Benchmark {
    pub(super) fn of(result: &SavedResult, case: &Case, names: &TargetNames) -> Self {
        let report = &result.report;
        let setup = setup(&report.environment, &case.target);
        let program = setup.map(|setup| setup.program.clone());
        let commit = report.environment.commit.as_ref();
        let commit = commit.map(|commit| format!("loadgen {commit}"));
        Self {
            scenario: report.scenario.clone(),
            data_set: case.data_set.clone(),
            target: names.get(&case.target).to_owned(),
            work: case.work(),
            built_from: program.into_iter().chain(commit).collect(),
        }
    }

    /// Returns the scenario and the data set (only once if they have the same name), and the case.
    pub(super) fn case(&self) -> String {
        let Self {
            scenario,
            data_set,
            work,
            ..
        } = self;
        match scenario == data_set {
            true => format!("{data_set}/{work}"),
            false => format!("{scenario}/{data_set}/{work}"),
        }
    }

    /// Returns the benchmark's name: `pods-150k/etcd/stream/bench`.
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.case(), self.target)
    }

    fn is(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

/// Returns every value that counts. The starts of one case in all results are combined.
///
/// # Errors
/// When a run is given twice, runs of one scenario are of different machines or builds, or no case
/// counts.
pub(super) fn measurements(results: &[SavedResult]) -> Result<Vec<Measurement>, ExportError> {
    check_runs(results, Apart::MachinesAndBuilds)?;
    let mut found: Vec<Measurement> = Vec::new();
    for result in results {
        for measurement in of_run(result) {
            let known = found.iter_mut().find(|known| {
                known.metric == measurement.metric && known.benchmark.is(&measurement.benchmark)
            });
            match known {
                None => found.push(measurement),
                Some(known) => {
                    check_builds(&known.benchmark, &measurement.benchmark)?;
                    known.starts.extend(measurement.starts);
                }
            }
        }
    }
    match found.is_empty() {
        true => Err(ExportError::Nothing),
        false => Ok(found),
    }
}

/// Returns every value of one run that counts.
pub(super) fn of_run(result: &SavedResult) -> Vec<Measurement> {
    let names = TargetNames::of(&result.report);
    let cases = result.report.cases.iter().filter(|case| case.counts());
    let of_case = |case: &Case| {
        let benchmark = Benchmark::of(result, case, &names);
        let starts = case.server_starts();
        let metrics = Metric::value_variants().iter();
        let of_metric = metrics.map(|&metric| Measurement {
            benchmark: benchmark.clone(),
            metric,
            starts: starts.iter().filter_map(|start| metric.of(start)).collect(),
        });
        let of_metric: Vec<Measurement> = of_metric.collect();
        of_metric
    };
    let all = cases.flat_map(of_case);
    all.filter(|measurement| !measurement.starts.is_empty())
        .collect()
}

/// The conditions that runs of one scenario must share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Apart {
    /// The machine. Builds may differ, as in a history.
    Machines,
    /// The machine and the build.
    MachinesAndBuilds,
}

/// Rejects a run that is given twice, and runs of one scenario that must not be combined.
pub(super) fn check_runs(results: &[SavedResult], apart: Apart) -> Result<(), ExportError> {
    for (at, result) in results.iter().enumerate() {
        let (report, host) = (&result.report, &result.report.environment.host);
        let is_same_scenario = |it: &&SavedResult| it.report.scenario == report.scenario;
        let before: Vec<_> = results[..at].iter().filter(is_same_scenario).collect();
        let is_same_run = |it: &&SavedResult| {
            it.report.started == report.started && it.report.environment.host == *host
        };
        if before.iter().any(is_same_run) {
            return Err(ExportError::SameRun {
                started: report.started.clone(),
                host: host.clone(),
            });
        }
        let Some(first) = before.first() else {
            continue;
        };
        let is_kept_apart =
            |condition| condition == Some(Condition::Machine) || apart == Apart::MachinesAndBuilds;
        let mut differences = of_runs(first, result).into_iter();
        if let Some(difference) = differences.find(|it| is_kept_apart(it.condition)) {
            return Err(ExportError::Mixed {
                scenario: report.scenario.clone(),
                what: difference.what,
                first: difference.base,
                other: difference.new,
            });
        }
    }
    Ok(())
}

fn check_builds(known: &Benchmark, other: &Benchmark) -> Result<(), ExportError> {
    match known.built_from == other.built_from {
        true => Ok(()),
        false => Err(ExportError::Mixed {
            scenario: known.scenario.clone(),
            what: format!("the build of {}", known.target),
            first: known.built_from.join(" by "),
            other: other.built_from.join(" by "),
        }),
    }
}
