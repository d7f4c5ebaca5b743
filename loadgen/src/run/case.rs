//! One case, phase by phase: start, probe, check the machine's memory and disk, seed, restart
//! servers that keep their data on disk, settle, and then the measured part, which the strategy's
//! driver chooses. If a case ends early, what was measured until then is in its result.
//!
//! - [`object_source`]: where the objects come from; [`selection`]: which of them the lists select;
//!   [`super::availability`] has the reasons why a case cannot run
//! - [`lists`]: whole lists in rounds, and lists cancelled after their first object;
//!   [`round_starts`]: when the rounds start; [`unchecked`]: interleaved with lists that the client
//!   does not verify; [`baseline`]: interleaved with a baseline of the same bytes
//! - [`warm_up`]: lists before the measured phase, until their latency and the servers' memory are
//!   stable
//! - [`programs`]: the cost of lists whose clients are separate programs
//! - [`shards`]: the objects divided between several workers; [`sharded_watch`]: the same while the
//!   objects are written; [`resharding`]: and divided anew when a worker joins; [`writing`]: the
//!   part in which they are written, and cases without any watch
//! - [`requests`]: small requests, in a closed or an open loop; [`saturation`]: the highest rate of
//!   small requests that meets an objective
//! - [`loads`]: several loads together; [`at_rest`]: loads in rounds, and what the servers hold
//!   between rounds
//! - [`delivery`]: puts that must reach watchers
//! - [`status`]: the progress of loads while they are measured; [`load_intervals`]: the same for
//!   the result, interval by interval; [`start_time`]: when the measured time begins
//! - [`background`]: loads that run in the background of the case
//! - [`network`]: a slower network between clients and servers
//! - [`pacing`]: pauses between lists on a server that holds other people's data
//! - [`meter`]: memory, CPU and counters of the servers and the generator; [`profile`]: CPU
//!   profiles of the servers; [`times`]: the time spans of phases and the latency histograms that
//!   are kept

use std::sync::Arc;
use std::time::{Duration, Instant};

use load::driver::writers::WriteError;
use load::endpoint::TargetEndpoint;
use load::operation::list::{ListCase, ListError};
use load::verify::Verifier;
use measure::ProcessError;
use report::result::histogram_log::TaggedHistogram;
use report::result::load_intervals::LoadInterval;
use report::result::series::Series;
use report::result::{self, Case, Outcome, ServerSetup};
use tokio_util::sync::CancellationToken;
use workloads::scenario::Background;
use workloads::{CaseSpec, Driver, GeneratorShard, Scenario, Strategy, Tier};

use super::availability::target;
use super::foreign::Precautions;
use super::generators::StartTime;
use super::plan::Plan;
use super::target::Target;
use crate::progress::Progress;
use crate::servers::running::Running;
use meter::{Meter, MeterError};
pub(super) use object_source::{ObjectSource, created_root};
use profile::ProfileResult;

mod at_rest;
mod background;
mod baseline;
mod delivery;
mod lists;
mod load_intervals;
mod loads;
mod meter;
mod network;
mod object_source;
mod pacing;
mod profile;
mod programs;
mod requests;
mod resharding;
mod round_starts;
mod saturation;
mod selection;
mod sharded_watch;
mod shards;
mod start_time;
mod status;
mod times;
mod unchecked;
mod warm_up;
mod writing;

/// How long to wait, after a list failed, for its server to be found dead.
const DEATH_TIMEOUT: Duration = Duration::from_secs(2);

/// A case to run.
pub(super) struct CaseRun<'a> {
    pub(super) plan: &'a Plan,
    pub(super) scenario: &'a Scenario,
    pub(super) target: &'a Target,
    pub(super) tier: Tier,
    pub(super) spec: &'a CaseSpec,
    pub(super) source: ObjectSource,
    pub(super) data_set: String,
    pub(super) run_begun: Instant,
    pub(super) progress: &'a Progress,
    pub(super) stop: &'a CancellationToken,
    /// The precautions on a server that holds other people's data. `stop` is then their token,
    /// which is also cancelled with the run's.
    pub(super) care: Option<&'a Precautions>,
    /// When the measured time begins, if `--start-at` was given.
    pub(super) beginning: Option<Arc<StartTime>>,
    /// Whether this is one of many starts of the case. Secondary measurements then take few lists,
    /// so that there is time for more starts.
    pub(super) is_one_of_many: bool,
}

/// The data that the measured part of a case lists.
struct ListedData {
    /// How it is listed.
    case: ListCase,
    /// Where, through the emulated network if there is one.
    endpoint: TargetEndpoint,
    /// What the lists must contain.
    verifier: Verifier,
}

/// The result of a case.
pub(super) struct Measured {
    pub(super) case: Case,
    pub(super) histograms: Vec<TaggedHistogram>,
    pub(super) series: Vec<Series>,
    pub(super) load_intervals: Vec<LoadInterval>,
    /// The servers' profiles. They are added to the case when it is recorded.
    pub(super) profiles: Vec<ProfileResult>,
    pub(super) setup: Option<ServerSetup>,
    pub(super) data_set: Option<result::DataSet>,
    /// The meter with the servers' idle memory, until the measured part takes it.
    idle: Option<Meter>,
}

/// Why a case ended before its last phase.
pub(super) enum EarlyEnd {
    NotApplicable(String),
    Failed(String),
    Interrupted,
}

impl From<ListError> for EarlyEnd {
    fn from(error: ListError) -> Self {
        match error {
            ListError::NotSelectable(reason) => Self::NotApplicable(reason),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<WriteError> for EarlyEnd {
    fn from(error: WriteError) -> Self {
        Self::Failed(format!("writing: {error}"))
    }
}

impl From<ProcessError> for EarlyEnd {
    fn from(error: ProcessError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<MeterError> for EarlyEnd {
    fn from(error: MeterError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl CaseRun<'_> {
    /// Runs the case to its end, or until it must stop.
    pub(super) async fn measure(&self) -> Measured {
        let mut case = Case::new(
            &self.data_set,
            &self.target.name,
            self.tier,
            &self.spec.strategy_text(),
            Outcome::Measured,
        );
        case.row = self.spec.name();
        case.clients = self.clients();
        case.background = self.background();
        let saturate = self.spec.saturate;
        let saturate = saturate.map(|saturate| format!("saturate-{}", saturate.objective));
        let arrivals = self.spec.arrivals.as_ref().map(ToString::to_string);
        case.arrivals = arrivals.or(saturate);
        case.keys = self.spec.keys.map(|keys| keys.to_string());
        case.frame_bytes = self.spec.frame.map(|size| size.0);
        case.kube_options = self.spec.kube_options();
        case.network = self.spec.network.map(|network| network.to_string());
        let mut measured = Measured {
            case,
            histograms: Vec::new(),
            series: Vec::new(),
            load_intervals: Vec::new(),
            profiles: Vec::new(),
            setup: None,
            data_set: None,
            idle: None,
        };
        if let Err(early) = self.start_and_run(&mut measured).await {
            let case = &mut measured.case;
            case.valid = false;
            let stopped = self.care.and_then(Precautions::stopped);
            case.outcome = match (early, stopped) {
                (EarlyEnd::NotApplicable(reason), _) => Outcome::NotApplicable { reason },
                // Failures after that have the same cause.
                (_, Some(reason)) => Outcome::Stopped {
                    reason: reason.to_owned(),
                },
                (EarlyEnd::Failed(reason), None) => Outcome::Failed { reason },
                (EarlyEnd::Interrupted, None) => Outcome::Interrupted,
            };
        }
        measured
    }

    /// Starts the servers, runs the phases on them, and stops them.
    async fn start_and_run(&self, measured: &mut Measured) -> Result<(), EarlyEnd> {
        self.check_possible()?;
        self.check_allowed()?;
        let Target { build, given, .. } = self.target.clone();
        let launcher = self.plan.launcher_of(self.scenario);
        let launcher = launcher.of_target(build, given);
        let started = launcher.start(&self.target.spec, self.strategy());
        let mut running = self
            .unless_stopped(started)
            .await?
            .map_err(|e| EarlyEnd::Failed(e.to_string()))?;
        let outcome = self.run_phases(&mut running, measured).await;
        running.setup.target = self.target.name.clone();
        measured.setup = Some(running.setup.clone());
        let outcome = match outcome {
            // Report the first cause: lists fail because the server has ended.
            Err(EarlyEnd::Failed(reason)) => Err(EarlyEnd::Failed(
                match running.death_within(DEATH_TIMEOUT).await {
                    Some(death) => format!("{death} (then: {reason})"),
                    None => reason,
                },
            )),
            Ok(()) => match running.death().await {
                Some(death) => Err(EarlyEnd::Failed(death.to_string())),
                None => Ok(()),
            },
            early => early,
        };
        running.stop().await;
        outcome
    }

    /// Runs the phases of the case on servers that have started.
    async fn run_phases(
        &self,
        running: &mut Running,
        measured: &mut Measured,
    ) -> Result<(), EarlyEnd> {
        let mut case = self.list_case();
        self.probe_support(&case, running, measured).await?;
        self.check_fits()?;
        let mut verifier = self.seed_and_restart(running, measured).await?;
        if let Some(nodes) = self.narrow(self.strategy(), &mut verifier).await? {
            case.parameters.nodes = nodes;
        }
        if self.tier == Tier::Kube {
            let started = running.start_kube(&self.spec.server);
            let started = self.unless_stopped(started).await?;
            started.map_err(|e| EarlyEnd::Failed(e.to_string()))?;
        }
        // Kept until the case ends: dropping a relay closes its connections.
        let (endpoint, _relays) = self.through_network(self.endpoint(running)).await?;
        if let Some(expected) = &mut verifier.expected
            && self.backgrounds().any(Background::rewrites_data)
        {
            // Background writes give the same objects revisions that are not known beforehand.
            expected.revisions = None;
        }
        if !self.spec.background.is_empty() {
            // What the background loads make the servers hold counts as above idle, too.
            measured.idle = Some(self.settled(running, measured).await?);
        }
        let listed = ListedData {
            case,
            endpoint,
            verifier,
        };
        let loads = self.start_background(&listed).await?;
        let measured_part = self.measured_part(&listed, running, measured).await;
        // Also after a failure: the errors of the background loads may explain it.
        measured.case.background = loads.stop().await;
        let broken = measured.case.background.iter().find(|load| load.errors > 0);
        match (measured_part, broken) {
            (Ok(()), Some(load)) => Err(EarlyEnd::Failed(format!(
                "background {}: {} of {} requests failed",
                load.name, load.errors, load.requests
            ))),
            (outcome, _) => outcome,
        }
    }

    /// Checks, also by requests, that the servers support what the case lists. Records how they
    /// serve it.
    async fn probe_support(
        &self,
        case: &ListCase,
        running: &Running,
        measured: &mut Measured,
    ) -> Result<(), EarlyEnd> {
        let refused = target::refused(case, running);
        if let Some(reason) = refused.or_else(|| self.refused_list(case, running)) {
            return Err(EarlyEnd::NotApplicable(reason));
        }
        // The lists of a case of several loads, if any, stand for the case.
        let lists: Vec<ListCase> = match self.strategy().driver() {
            Driver::List => vec![case.clone()],
            _ => self.lists_of_case(case).collect(),
        };
        let shown = lists.first().unwrap_or(case);
        measured.case.encoding = Some(target::encoding(shown, running).to_owned());
        measured.case.served_from = target::served_from(case);
        if self.tier == Tier::Etcd {
            for list in &lists {
                self.probe(list, running).await?;
            }
        }
        Ok(())
    }

    /// Seeds the servers, and restarts those that keep their data on disk. Returns the verifier for
    /// the lists.
    async fn seed_and_restart(
        &self,
        running: &mut Running,
        measured: &mut Measured,
    ) -> Result<Verifier, EarlyEnd> {
        let verifier = self.seeded(running, measured).await?;
        if let ObjectSource::Fresh(_) = &self.source {
            let restarted = running.restart_on_disk();
            let restarted = self.unless_stopped(restarted).await?;
            restarted.map_err(|e| EarlyEnd::Failed(format!("restarting after seeding: {e}")))?;
        }
        Ok(verifier)
    }

    /// Runs the measured part, by the driver of the case's strategy.
    async fn measured_part(
        &self,
        listed: &ListedData,
        running: &mut Running,
        measured: &mut Measured,
    ) -> Result<(), EarlyEnd> {
        match self.strategy().driver() {
            Driver::List => self.lists(listed, running, measured).await,
            Driver::Shards => self.shards(listed, running, measured).await,
            Driver::ShardedWatch => self.sharded_watch(listed, running, measured).await,
            Driver::Requests => self.requests(listed, running, measured).await,
            Driver::Delivery => self.deliveries(listed, running, measured).await,
            // A scenario that measures nothing was rejected before.
            Driver::Idle => Ok(()),
            Driver::Loads => match &self.spec.loads {
                Some(case) if let Some(saturate) = case.saturate => {
                    self.saturate_loads(saturate, case, listed, running, measured)
                        .await
                }
                Some(case) if case.rounds.is_some() => {
                    self.rounds_of_loads(case, listed, running, measured).await
                }
                Some(case) => self.loads(case, listed, running, measured).await,
                None => Err(EarlyEnd::Failed("a case without loads".to_owned())),
            },
        }
    }

    /// Waits until the servers are idle, and records their idle memory. Done once for a case.
    async fn settled(&self, running: &Running, measured: &mut Measured) -> Result<Meter, EarlyEnd> {
        if let Some(meter) = measured.idle.take() {
            return Ok(meter);
        }
        let stored = measured.data_set.as_ref().map(|data| data.bytes);
        let mut meter = self
            .unless_stopped(Meter::settled(running, stored))
            .await??;
        if self.spec.every.is_some() || self.spec.read_per_s.is_some() {
            meter.ask_seldom();
        }
        meter.profile_by(self.profilers(running).await);
        if let Some(reason) = meter.unmetered() {
            let target = self.target;
            self.progress
                .say(&format!("{target}: no figures of the server: {reason}"));
        }
        Ok(meter)
    }

    pub(super) fn strategy(&self) -> Strategy {
        self.spec.strategy
    }

    /// Returns the number of concurrent requests.
    pub(super) fn clients(&self) -> u32 {
        if self.strategy().driver() == Driver::Delivery || self.strategy().workers().is_some() {
            return 1;
        }
        let own = self.spec.clients.map(std::num::NonZeroU32::get);
        own.unwrap_or(self.scenario.clients)
    }

    /// Returns the share of this generator among several.
    fn shard(&self) -> GeneratorShard {
        self.plan.together.shard
    }

    /// Returns how many of the numbers below `total` belong to this generator.
    fn share_of(&self, total: u32) -> u32 {
        self.shard().numbers(total).count() as u32
    }

    /// Returns how many of a closed loop's clients belong to this generator. Client `i` uses
    /// connection `i % connections`, and the connections are divided between the generators.
    fn share_of_clients(&self, clients: u32, connections: u32) -> u32 {
        let is_ours =
            |client: &u32| (client % connections) % self.shard().count() == self.shard().index();
        (0..clients).filter(is_ours).count() as u32
    }

    /// Returns the fraction of a rate that this generator sends, if the rate is divided over
    /// `total` connections or clients.
    fn part_of(&self, total: u32) -> f64 {
        f64::from(self.share_of(total)) / f64::from(total)
    }

    /// Returns the number of connections that small requests or watchers share, including those of
    /// other generators.
    fn connections(&self) -> u32 {
        self.spec.connections.map_or(1, std::num::NonZeroU32::get)
    }

    /// Returns the address and settings by which this case's clients reach the target.
    fn endpoint(&self, running: &Running) -> TargetEndpoint {
        let mut endpoint = TargetEndpoint::from(running);
        if let (Some(etcd), Some(frame)) = (&mut endpoint.etcd, self.spec.frame) {
            etcd.http2.max_frame_bytes = frame.0;
        }
        endpoint
    }

    pub(super) async fn unless_stopped<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> Result<T, EarlyEnd> {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(EarlyEnd::Interrupted),
            done = work => Ok(done),
        }
    }
}
