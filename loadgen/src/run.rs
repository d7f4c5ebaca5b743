//! Runs scenarios: data set by data set, case by case, each on all targets that are started for it;
//! then existing endpoints, one by one, each with all cases.
//!
//! - [`plan`]: what was asked for, checked before anything starts
//! - [`mod@target`]: what is measured
//! - [`availability`]: whether a target can have a case, and this machine can hold it
//! - [`case`]: one case, phase by phase
//! - [`conformance`]: what endpoints that are there honour of the contract
//! - [`endpoints`]: cases on endpoints that are there
//! - [`ab`]: pairs of starts of two targets, until the verdict is sure
//! - [`foreign`]: existing endpoints: precautions, seeding and cleaning up
//! - [`generators`]: several generators that make one load together
//! - [`outcome`]: what a run came to

pub mod ab;
mod availability;
mod case;
mod conformance;
mod endpoints;
mod foreign;
mod generators;
mod outcome;
mod plan;
mod target;

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use report::result::{Environment, Report, ResultFolder, SCHEMA_VERSION, SavedResult};
use tokio_util::sync::CancellationToken;
use workloads::{CaseSpec, DataSet, Scenario, Tier};

use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use case::{CaseRun, ObjectSource};
use foreign::{Listed, Precautions, survey_lines};
use generators::Beginning;
pub use plan::{Plan, connect_config, kube_access, run_id, target_names};
pub use target::Target;

/// A run's result, ready to be saved, and how the program should end for it.
#[derive(Debug)]
pub struct Finished {
    /// Everything measured.
    pub result: SavedResult,
    /// The end that it means: [`Exit::Done`], [`Exit::TargetFailed`], [`Exit::Invalid`],
    /// [`Exit::Protected`] or [`Exit::Interrupted`].
    pub exit: Exit,
    /// Why the rest was not measured, or what is left behind: a foreign endpoint could not be
    /// reached, or refused to be written to or cleaned up.
    pub failure: Option<Failure>,
}

/// Runs one scenario on every target of the plan. When `stop` is cancelled or a foreign endpoint
/// cannot be used, what was measured up to then is answered; marked as interrupted only where it
/// was stopped. A target that fails while it is measured is a failed case. Servers that were
/// started are gone when this returns, or when its future is dropped. After each case everything so
/// far is written to `folder`, marked as interrupted: a run that is killed has lost the case that
/// it was in.
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

/// Returns what a run would find on endpoints that hold other people's data, and do to them: a line
/// each. They are asked what they are, counted and sampled; nothing is listed.
///
/// # Errors
/// [`Failure`] with exit code 2 when one does not answer, or refuses.
pub async fn survey(plan: &Plan) -> Result<Vec<String>, Failure> {
    let mut lines = Vec::new();
    for scenario in &plan.scenarios {
        for target in plan.targets.iter().filter(|t| plan.only_reads(t)) {
            // Each resource once, whatever is measured on it.
            let mut known = Vec::new();
            for spec in &scenario.data_sets {
                let listed = Listed::there(plan, target, scenario, &spec.name);
                if known.contains(&listed) {
                    continue;
                }
                let found = survey_lines(plan, target, listed.clone(), scenario).await?;
                lines.extend(found.iter().map(|line| format!("{target}: {line}")));
                known.push(listed);
            }
        }
    }
    Ok(lines)
}

/// A run under way.
struct Run<'a> {
    plan: &'a Plan,
    scenario: &'a Scenario,
    folder: &'a ResultFolder,
    progress: &'a Progress,
    stop: &'a CancellationToken,
    begun: Instant,
    result: SavedResult,
    /// Data sets that were loaded through a Kubernetes API so far.
    loads: usize,
    /// A server that holds other people's data suffered: nothing else is measured.
    is_over: bool,
    /// When the only case begins, where that is asked for.
    beginning: Option<Arc<Beginning>>,
}

impl<'a> Run<'a> {
    /// One that has measured nothing yet.
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
                scenario_toml: scenario.to_toml(),
            },
            loads: 0,
            is_over: false,
            beginning: plan.together.start_at.map(Beginning::alone),
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
            let data = Arc::new(DataSet::new(spec));
            let measured = self.data_set(&data).await;
            both(measured, self.begun_in_time())?;
        }
        Ok(())
    }

    /// Case by case, each on all servers that are started for it one after the other: what is held
    /// side by side was measured within minutes. An existing endpoint is seeded once, for all
    /// cases.
    async fn data_set(&mut self, data: &Arc<DataSet>) -> Result<(), Failure> {
        let plan = self.plan;
        let (started, there): (Vec<_>, Vec<_>) =
            plan.targets.iter().partition(|t| t.spec.is_started());
        for (tier, spec) in self.scenario.cases.all() {
            for target in &started {
                let source = ObjectSource::Fresh(Arc::clone(data));
                self.case(target, tier, spec, source, None).await;
            }
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
        self.careful_case(target, tier, spec, source, name, None)
            .await;
    }

    async fn careful_case(
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
        let data_set = match (&source, name) {
            (ObjectSource::Fresh(data) | ObjectSource::Seeded { data, .. }, _) => {
                data.spec().name.clone()
            }
            (ObjectSource::Loaded(loaded), _) => loaded.data().spec().name.clone(),
            (ObjectSource::There { .. }, name) => name.unwrap_or("there").to_owned(),
        };
        // A case of a tier that the target plainly does not have needs no line.
        if target.spec.lacks(tier).is_some()
            && self.scenario.cases.all().any(|(other, _)| other != tier)
        {
            return;
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
        let measured = run.measure().await;
        self.take(measured);
    }
}

/// The first error of measuring and of cleaning up after it, or both in one line.
fn both(measured: Result<(), Failure>, cleaned: Result<(), Failure>) -> Result<(), Failure> {
    match (measured, cleaned) {
        (Err(one), Err(other)) => Err(one.and(other)),
        (one, other) => one.and(other),
    }
}
