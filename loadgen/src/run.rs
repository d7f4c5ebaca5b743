//! Runs scenarios: data set by data set, case by case, each on all targets that are started for it;
//! then existing endpoints, one by one, each with all cases.
//!
//! - [`plan`]: what was asked for, checked before anything starts
//! - [`mod@target`]: what is measured
//! - [`availability`]: whether a target can have a case, and this machine can hold it
//! - [`case`]: one case, phase by phase
//! - [`conformance`]: what endpoints that are there honour of the contract
//! - [`ab`]: pairs of starts of two targets, until the verdict is sure
//! - [`foreign`]: existing endpoints: precautions, seeding and cleaning up
//! - [`generators`]: several generators that make one load together

pub mod ab;
mod availability;
mod case;
mod conformance;
mod foreign;
mod generators;
mod plan;
mod target;

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use report::quantity::Quantity;
use report::result::{
    self, Case, Environment, Outcome, Report, ResultFolder, SCHEMA_VERSION, SavedResult,
};
use report::{growth, threshold};
use tokio_util::sync::CancellationToken;
use workloads::{CaseSpec, DataSet, Scenario, Tier};

use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::servers::target_spec::TargetSpec;
use crate::to_result;
use case::{CaseRun, Measured, Source};
use foreign::{InNamespaces, Listed, Precautions, Seeded, survey_lines};
use generators::Beginning;
pub use plan::{Plan, connect_config, kube_access, run_id, target_names};
pub use target::Target;
use target::{answered, unusable};

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
                let source = Source::Fresh(Arc::clone(data));
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

    /// Cases on an existing endpoint: seeded once, listed by every strategy, cleaned up
    /// whatever happens.
    async fn foreign(&mut self, target: &Target, data: &Arc<DataSet>) -> Result<(), Failure> {
        let together = self.plan.together;
        if let Some(at) = together.start_at.filter(|_| !together.shard.is_whole()) {
            return self.share(target, data, at).await;
        }
        if let TargetSpec::Kube(_) | TargetSpec::Kubeconfig(_) = target.spec {
            return match self.plan.seed_data {
                true => self.in_namespaces(target, data).await,
                false => self.whatever_is_there(target, &data.spec().name).await,
            };
        }
        let seeded = Seeded::create(self.plan, target, data, self.progress, self.stop);
        let Some(seeded) = seeded.await? else {
            self.result.report.interrupted = true;
            return Ok(());
        };
        let source = seeded.source();
        // One that held nothing is there to be measured, as hard as one of our own.
        let measured = if seeded.others > 0 {
            let listed = Listed::ours(data, &seeded.root);
            self.with_care(target, listed, &source, None).await
        } else {
            for (tier, spec) in self.scenario.cases.all() {
                self.case(target, tier, spec, source.clone(), None).await;
            }
            Ok(())
        };
        let deleted = seeded.clean_up(self.plan.keep_data, self.progress).await;
        let deleted = deleted.map_err(|left| unusable(target, left));
        both(measured, deleted)
    }

    /// Cases on an existing Kubernetes API, in namespaces that are made for them and removed
    /// whatever happens.
    async fn in_namespaces(&mut self, target: &Target, data: &Arc<DataSet>) -> Result<(), Failure> {
        if let Some(reason) =
            availability::combination::needs_kubernetes(data.spec().kind, Tier::Kube)
        {
            self.progress.say(&format!("{target}: {reason}"));
            return Ok(());
        }
        if !self.reach(target, &data.spec().name).await? {
            return Ok(());
        }
        self.loads += 1;
        let (plan, progress) = (self.plan, self.progress);
        let nth = self.loads;
        let made = InNamespaces::create(plan, target, data, nth, progress, self.stop).await?;
        let Some((namespaces, loaded)) = made else {
            self.result.report.interrupted = true;
            return Ok(());
        };
        let collection = plan.collection(self.scenario, &data.spec().name);
        let source = Source::Loaded(Arc::clone(&loaded));
        let listed = Listed::Collection(collection);
        let measured = self.with_care(target, listed, &source, None).await;
        let removed = namespaces.clean_up(plan.keep_data, progress).await;
        let removed = removed.map_err(|left| unusable(target, left));
        both(measured, removed)
    }

    /// `--prefix`: everything below it, as it is.
    async fn prefix(&mut self) -> Result<(), Failure> {
        let name = format!("prefix:{}", self.plan.prefix.as_deref().unwrap_or_default());
        for target in &self.plan.targets {
            if !target.spec.is_started() && !self.is_over {
                self.whatever_is_there(target, &name).await?;
            }
        }
        Ok(())
    }

    /// Returns an endpoint that cannot be reached, or that refuses us, is a wrong command line and
    /// not a failed case. False when stopped meanwhile.
    async fn reach(&mut self, target: &Target, data_set: &str) -> Result<bool, Failure> {
        let collection = self.plan.collection(self.scenario, data_set);
        let reach = async {
            let launcher = &self.plan.launcher;
            let (path, accept) = (collection.path(), collection.media_type());
            let reached = launcher.reach(&target.spec, &path, accept).await;
            reached.map_err(|e| unusable(target, e))
        };
        tokio::select! {
            reached = answered(target, reach) => reached.map(|()| true),
            () = self.stop.cancelled() => {
                self.result.report.interrupted = true;
                Ok(false)
            }
        }
    }

    async fn whatever_is_there(&mut self, target: &Target, name: &str) -> Result<(), Failure> {
        if !self.reach(target, name).await? {
            return Ok(());
        }
        let plan = self.plan;
        let listed = Listed::there(plan, target, self.scenario, name);
        let collection = plan.collection(self.scenario, name);
        let name = plan.name_of(&collection, name);
        let source = Source::There {
            prefix: plan.prefix.clone().unwrap_or_default(),
            collection,
        };
        self.with_care(target, listed, &source, Some(&name)).await
    }

    /// Cases on an endpoint that holds other people's data, from the cheapest to the most expensive
    /// and with all precautions.
    async fn with_care(
        &mut self,
        target: &Target,
        listed: Listed,
        source: &Source,
        name: Option<&str>,
    ) -> Result<(), Failure> {
        let (plan, scenario) = (self.plan, self.scenario);
        let begun = Precautions::begin(plan, target, listed, scenario, self.progress, self.stop);
        let Some(care) = begun.await? else {
            self.result.report.interrupted = true;
            return Ok(());
        };
        // Of several generators the first asks for all.
        if plan.together.shard.index() == 0 {
            self.conformance(target, care.stop()).await?;
        }
        for (tier, spec) in care.in_order(scenario) {
            self.careful_case(target, tier, spec, source.clone(), name, Some(&care))
                .await;
        }
        self.is_over |= care.stopped().is_some();
        Ok(())
    }

    async fn case(
        &mut self,
        target: &Target,
        tier: Tier,
        spec: &CaseSpec,
        source: Source,
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
        source: Source,
        name: Option<&str>,
        care: Option<&Precautions>,
    ) {
        if self.stop.is_cancelled() {
            self.result.report.interrupted = true;
            return;
        }
        let data_set = match (&source, name) {
            (Source::Fresh(data) | Source::Seeded { data, .. }, _) => data.spec().name.clone(),
            (Source::Loaded(loaded), _) => loaded.data().spec().name.clone(),
            (Source::There { .. }, name) => name.unwrap_or("there").to_owned(),
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
        };
        let measured = run.measure().await;
        self.take(measured);
    }

    /// Keeps what a case came to, and writes everything so far.
    fn take(&mut self, measured: Measured) {
        let Measured {
            mut case,
            histograms,
            series,
            profiles,
            setup,
            data_set,
            ..
        } = measured;
        let profiles = profiles.into_iter();
        let profiles = profiles.map(|taken| taken.kept(&case, self.folder, self.progress));
        case.profiles = profiles.collect();
        self.progress.say(&one_line(&case));
        let servers = &mut self.result.report.environment.servers;
        if let Some(setup) = setup
            && !servers
                .iter()
                .any(|s| s.target == setup.target && s.lasting_flags() == setup.lasting_flags())
        {
            servers.push(setup);
        }
        self.listed(data_set, &case);
        self.result.report.interrupted |= case.outcome == Outcome::Interrupted;
        self.result.report.cases.push(case);
        self.result.histograms.extend(histograms);
        self.result.series.extend(series);
        self.keep();
    }

    /// Writes the results so far, since the run may be killed at any time.
    fn keep(&mut self) {
        self.judge();
        let interrupted = std::mem::replace(&mut self.result.report.interrupted, true);
        if let Err(error) = self.folder.write(&self.result) {
            self.progress.say(&format!("not kept so far: {error}"));
        }
        self.result.report.interrupted = interrupted;
    }

    fn judge(&mut self) {
        let report = &mut self.result.report;
        report.elapsed_s = self.begun.elapsed().as_secs_f64();
        report.thresholds = threshold::judge(self.scenario, report);
        report.growth = growth::fit(report);
    }

    /// Notes what was listed. What is there, and what was never loaded, is a data set, too: its
    /// cases and their reasons are shown below it.
    fn listed(&mut self, seeded: Option<result::DataSet>, case: &Case) {
        let of = |verified: &result::Verified| (verified.objects, verified.bytes);
        let (objects, bytes) = case.verified.as_ref().map_or((0, 0), of);
        let listed = seeded.unwrap_or_else(|| result::DataSet {
            name: case.data_set.clone(),
            objects,
            bytes,
            ..result::DataSet::default()
        });
        let known = &mut self.result.report.data_sets;
        match known.iter_mut().find(|known| known.name == listed.name) {
            None => known.push(listed),
            Some(known) if known.fingerprint.is_none() && listed.objects > known.objects => {
                *known = listed;
            }
            Some(_) => {}
        }
    }

    fn finish(mut self, failure: Option<Failure>) -> Finished {
        self.result.report.interrupted |= failure.is_some() && self.stop.is_cancelled();
        if self.result.report.environment.disk.is_none()
            && self
                .plan
                .targets
                .iter()
                .any(|t| matches!(t.spec, TargetSpec::EtcdBinary { .. }))
        {
            self.result.report.environment.disk = measure::disk(&std::env::temp_dir())
                .ok()
                .map(to_result::disk);
        }
        self.judge();
        let mut exit = Exit::Done;
        for case in &self.result.report.cases {
            exit = exit.and(match case.outcome {
                Outcome::Failed { .. } => Exit::TargetFailed,
                Outcome::Invalid { .. } => Exit::Invalid,
                Outcome::Stopped { .. } => Exit::Protected,
                _ => Exit::Done,
            });
        }
        if self.plan.fail_on_threshold {
            for threshold in &self.result.report.thresholds {
                exit = exit.and(match threshold.met {
                    Some(true) => Exit::Done,
                    Some(false) => Exit::TargetFailed,
                    None => Exit::Invalid,
                });
            }
        }
        // Also where a server suffered before its first case began.
        if self.is_over {
            exit = exit.and(Exit::Protected);
        }
        if self.stop.is_cancelled() {
            exit = Exit::Interrupted;
        }
        Finished {
            result: self.result,
            exit,
            failure,
        }
    }
}

/// The first error of measuring and of cleaning up after it, or both in one line.
fn both(measured: Result<(), Failure>, cleaned: Result<(), Failure>) -> Result<(), Failure> {
    match (measured, cleaned) {
        (Err(one), Err(other)) => Err(one.and(other)),
        (one, other) => one.and(other),
    }
}

/// Returns the outcome of a case in one line.
fn one_line(case: &Case) -> String {
    let id = case.id();
    if let Some(reason) = case.outcome.reason() {
        let state = match case.outcome {
            Outcome::NotApplicable { .. } => "N/A",
            Outcome::Failed { .. } => "FAILED",
            Outcome::Invalid { .. } => "invalid",
            Outcome::Stopped { .. } => "STOPPED",
            _ => "stopped",
        };
        return format!("{id}: {state}: {reason}");
    }
    let time = case.latency_ms.as_ref().and_then(|q| {
        let median = q.p50.map(|ms| ("median", ms));
        median.or(q.mean.map(|ms| ("mean", ms)))
    });
    let above = case.server.as_ref();
    let above = above.map(|s| Quantity::bytes_within(s.peak_above_idle, s.rss_resolution));
    format!(
        "{id}: {}, server {} above idle",
        time.map_or_else(|| "-".to_owned(), |(what, ms)| format!("{what} {ms:.1} ms")),
        Quantity::or_absent(above),
    )
}
