//! Runs scenarios. For each data set, each case runs on one started target after the other; then
//! each existing endpoint runs all cases.
//!
//! - [`plan`]: the checked command line
//! - [`mod@target`]: a target and its name in results
//! - [`availability`]: whether a target supports a case, and whether this machine has the memory
//!   and disk for it
//! - [`case`]: one case, phase by phase
//! - [`conformance`]: which rules of the API contract an existing endpoint follows
//! - [`endpoints`]: cases on existing endpoints
//! - [`ab`]: two targets, started in pairs until the comparison has a verdict
//! - [`foreign`]: precautions, seeding and cleaning up on existing endpoints
//! - [`generators`]: several generators that produce one load together
//! - [`outcome`]: the results of the cases, and the run's exit code

pub mod ab;
mod availability;
mod case;
mod conformance;
mod endpoints;
mod foreign;
mod generators;
mod outcome;
mod plan;
mod starts;
mod target;

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use report::result::{Environment, Report, ResultFolder, SCHEMA_VERSION, SavedResult};
use tokio_util::sync::CancellationToken;
use workloads::{CaseSpec, DataSet, Scenario, Tier};

use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use case::{CaseRun, Measured, ObjectSource};
use foreign::{Listed, Precautions, survey_lines};
use generators::StartTime;
pub use plan::{Plan, connect_config, kube_access, run_id, target_names};
pub use target::Target;

/// The result of a run, ready to be saved, and the exit code that follows from it.
#[derive(Debug)]
pub struct Finished {
    /// All measurements.
    pub result: SavedResult,
    /// The exit code: [`Exit::Done`], [`Exit::TargetFailed`], [`Exit::Invalid`],
    /// [`Exit::Protected`] or [`Exit::Interrupted`].
    pub exit: Exit,
    /// Why cases were not measured, or what was left behind: a foreign endpoint could not be
    /// reached, or rejected writes or the cleanup.
    pub failure: Option<Failure>,
}

/// Runs one scenario on every target of the plan.
///
/// When `stop` is cancelled or a foreign endpoint cannot be used, returns what was measured up to
/// then; the result is marked as interrupted only if `stop` was cancelled. A target that fails
/// while it is measured makes its case fail. Started servers have ended when this function returns
/// or its future is dropped. After each case, all results so far are written to `folder`, marked as
/// interrupted, so that a killed run loses only the case it was in.
pub async fn run(
    plan: &Plan,
    scenario: &Scenario,
    environment: Environment,
    folder: &ResultFolder,
    progress: &Progress,
    stop: &CancellationToken,
) -> Finished {
    let mut run = Run::new(plan, scenario, environment, folder, progress, stop);
    let failure = run.all().await.err();
    run.finish(failure)
}

/// Returns one line for each thing that a run would find on endpoints that hold other people's
/// data, and do there. Endpoints are identified, counted and sampled; nothing is listed.
///
/// # Errors
/// [`Failure`] with exit code 2 when an endpoint does not respond, or refuses.
pub async fn survey(plan: &Plan) -> Result<Vec<String>, Failure> {
    let mut lines = Vec::new();
    for scenario in &plan.scenarios {
        for target in plan.targets.iter().filter(|t| plan.only_reads(t)) {
            // Each resource is surveyed once, whatever is measured on it.
            let mut known = Vec::new();
            for spec in &scenario.data_sets {
                let listed = Listed::there(plan, target, scenario, &spec.name);
                if known.contains(&listed) {
                    continue;
                }
                let found =
                    survey_lines(plan, target, listed.clone(), scenario, &spec.name).await?;
                lines.extend(found.iter().map(|line| format!("{target}: {line}")));
                known.push(listed);
            }
        }
    }
    Ok(lines)
}

/// A run in progress.
struct Run<'a> {
    plan: &'a Plan,
    scenario: &'a Scenario,
    folder: &'a ResultFolder,
    progress: &'a Progress,
    stop: &'a CancellationToken,
    begun: Instant,
    result: SavedResult,
    /// The number of data sets that were seeded through a Kubernetes API so far.
    loads: usize,
    /// Whether a server that holds other people's data showed distress. Nothing else is measured
    /// then.
    is_over: bool,
    /// When the run's only case begins, if `--start-at` was given.
    beginning: Option<Arc<StartTime>>,
}

impl<'a> Run<'a> {
    /// Returns a run that has measured nothing yet.
    fn new(
        plan: &'a Plan,
        scenario: &'a Scenario,
        environment: Environment,
        folder: &'a ResultFolder,
        progress: &'a Progress,
        stop: &'a CancellationToken,
    ) -> Self {
        let report = Report {
            schema_version: SCHEMA_VERSION,
            scenario: scenario.name.clone(),
            started: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
            elapsed_s: 0.0,
            interrupted: false,
            environment: Environment {
                client: plan.client_settings(),
                ..environment
            },
            shard: plan.together.shown(),
            generators: Vec::new(),
            data_sets: Vec::new(),
            ab: None,
            cases: Vec::new(),
            growth: Vec::new(),
            thresholds: Vec::new(),
            conformance: Vec::new(),
        };
        Self {
            plan,
            scenario,
            folder,
            progress,
            stop,
            begun: Instant::now(),
            result: SavedResult {
                report,
                histograms: Vec::new(),
                series: Vec::new(),
                load_intervals: Vec::new(),
                scenario_toml: scenario.to_toml(),
            },
            loads: 0,
            is_over: false,
            beginning: plan.together.start_at.map(StartTime::alone),
        }
    }

    async fn all(&mut self) -> Result<(), Failure> {
        if self.plan.prefix.is_some() {
            return self.prefix().await;
        }
        for spec in &self.scenario.data_sets {
            if self.is_over {
                break;
            }
            if self.scenario.cases_on(&spec.name).next().is_none() {
                continue;
            }
            let data = Arc::new(DataSet::new(spec));
            let measured = self.data_set(&data).await;
            both(measured, self.begun_in_time())?;
        }
        Ok(())
    }

    /// Runs each case on all started servers, one after the other, so that the cases that are
    /// compared with each other were measured within minutes. An existing endpoint is seeded once,
    /// for all cases.
    async fn data_set(&mut self, data: &Arc<DataSet>) -> Result<(), Failure> {
        let plan = self.plan;
        let (started, there): (Vec<_>, Vec<_>) =
            plan.targets.iter().partition(|t| t.spec.is_started());
        for (tier, spec) in self.scenario.cases_on(&data.spec().name) {
            self.on_fresh_starts(&started, data, tier, spec).await;
        }
        for target in there {
            if self.is_over {
                break;
            }
            self.foreign(target, data).await?;
        }
        Ok(())
    }

    async fn case(
        &mut self,
        target: &Target,
        tier: Tier,
        spec: &CaseSpec,
        source: ObjectSource,
        name: Option<&str>,
    ) {
        self.case_with_precautions(target, tier, spec, source, name, None)
            .await;
    }

    async fn case_with_precautions(
        &mut self,
        target: &Target,
        tier: Tier,
        spec: &CaseSpec,
        source: ObjectSource,
        name: Option<&str>,
        care: Option<&Precautions>,
    ) {
        if self.stop.is_cancelled() {
            self.result.report.interrupted = true;
            return;
        }
        if let Some(measured) = self.measure(target, tier, spec, source, name, care).await {
            self.take(measured);
        }
    }

    /// Measures a case; `None` where its tier is one that the target does not have and the scenario
    /// has another one: such a case needs no line.
    async fn measure(
        &self,
        target: &Target,
        tier: Tier,
        spec: &CaseSpec,
        source: ObjectSource,
        name: Option<&str>,
        care: Option<&Precautions>,
    ) -> Option<Measured> {
        let data_set = match (&source, name) {
            (ObjectSource::Fresh(data) | ObjectSource::Seeded { data, .. }, _) => {
                data.spec().name.clone()
            }
            (ObjectSource::SeededNamespaces(seeded), _) => seeded.data().spec().name.clone(),
            (ObjectSource::Existing { .. }, name) => name.unwrap_or("there").to_owned(),
        };
        if target.spec.lacks(tier).is_some()
            && self.scenario.cases.all().any(|(other, _)| other != tier)
        {
            return None;
        }
        let run = CaseRun {
            plan: self.plan,
            scenario: self.scenario,
            target,
            tier,
            spec,
            source,
            data_set,
            run_begun: self.begun,
            progress: self.progress,
            stop: care.map_or(self.stop, Precautions::stop),
            care,
            beginning: self.beginning.clone(),
            is_one_of_many: false,
        };
        Some(run.measure().await)
    }
}

/// Returns the error of measuring or of cleaning up after it, or both in one line.
fn both(measured: Result<(), Failure>, cleaned: Result<(), Failure>) -> Result<(), Failure> {
    match (measured, cleaned) {
        (Err(one), Err(other)) => Err(one.and(other)),
        (one, other) => one.and(other),
    }
}
