//! Precautions on an endpoint that holds other people's data. The run estimates the cost of a list
//! before the first one, rejects cases that would harm the server, proceeds from the cheapest case
//! to the most expensive with pauses between lists, and stops when the server shows distress. Each
//! step is reported in one line.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use etcd_api::error::{Error as EtcdError, Refusal};
use load::operation::list::ListError;
use parking_lot::Mutex;
use report::quantity::Quantity;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tonic::Code;
use workloads::scenario::LoadSpec;
use workloads::{CaseSpec, DataSet, Scenario, SmallRequest, Strategy, Tier};

use super::collection::Collection;
use super::endpoint::Endpoint;
use crate::exit::Failure;
use crate::progress::Progress;
use crate::run::plan::Plan;
use crate::run::target::{Target, unusable};
use crate::safety::canary::Canary;
use crate::safety::census::Census;
use crate::safety::cost::Cost;
use crate::safety::limits::{ASK_ABOVE_PERCENT, Allowed, ServerMemory};
use crate::safety::stored_bytes;
use crate::servers::target_spec::TargetSpec;

/// The duration of the canary's baseline in pauses: half a minute, unless another pause is given.
const BASELINE_PAUSES: u32 = 6;

/// The reason why a case whose workers filter on the client runs only if the command line names it.
const NOT_NAMED: &str = "each of its workers reads everything: on a server with other people's data it runs only when --strategies names it";

/// The reason why a case that creates keys or leases does not run: only the size of the data set
/// was compared with the quota.
const MAKES_KEYS: &str = "it makes keys or leases beside the objects: only on servers that we start, and on an etcd that holds no keys";

/// The objects to list on an endpoint.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::run) enum Listed {
    /// The keys below a prefix of an etcd.
    Prefix(String),
    /// A data set that loadgen wrote, whose size is known.
    Ours {
        /// The prefix of its keys.
        root: String,
        /// Its size.
        census: Census,
    },
    /// A collection of a Kubernetes API.
    Collection(Collection),
}

impl Listed {
    /// Returns the objects of a data set that loadgen wrote below `root`.
    pub(in crate::run) fn ours(data: &DataSet, root: &str) -> Self {
        Self::Ours {
            root: root.to_owned(),
            census: Census {
                keys: data.len(),
                bytes: Some(stored_bytes(data, root)),
                ..Census::default()
            },
        }
    }

    /// Returns the existing contents to list: the keys below the plan's prefix, or the collection
    /// that stands for the scenario's data set of this name.
    pub(in crate::run) fn there(
        plan: &Plan,
        target: &Target,
        scenario: &Scenario,
        data_set: &str,
    ) -> Self {
        match target.spec {
            TargetSpec::Kube(_) | TargetSpec::Kubeconfig(_) => {
                Self::Collection(plan.collection(scenario, data_set))
            }
            _ => Self::Prefix(plan.prefix.clone().unwrap_or_default()),
        }
    }
}

/// The results of surveying an endpoint, before anything is listed.
#[derive(Debug)]
pub(in crate::run) struct Surveyed {
    /// The endpoint's identity and contents, one line each.
    pub(in crate::run) lines: Vec<String>,
    allowed: Allowed,
    is_named: bool,
    census: Census,
    memory: ServerMemory,
    endpoint: Endpoint,
}

/// An endpoint that is watched by a canary. Dropping it ends the watch.
pub(in crate::run) struct Precautions {
    allowed: Allowed,
    /// Whether the command line names the strategies.
    is_named: bool,
    census: Census,
    memory: ServerMemory,
    canary: Canary,
    /// Cancelled by the run's own token, or by the canary.
    stop: CancellationToken,
    /// Why a case was stopped, if the canary was not the cause.
    reason: OnceLock<String>,
    /// The number of bytes that lists have read so far.
    spent: AtomicU64,
    /// The time before which nothing may be listed.
    rests_until: Mutex<Instant>,
}

impl Surveyed {
    /// Reads the endpoint's identity, counts and samples its objects.
    ///
    /// # Errors
    /// [`Failure`] with exit code 2 when the endpoint does not respond, refuses, or has an alarm.
    pub(in crate::run) async fn take(
        plan: &Plan,
        target: &Target,
        listed: Listed,
    ) -> Result<Self, Failure> {
        let survey = async {
            let mut endpoint = Endpoint::open(&plan.launcher, target).await?;
            let identity = endpoint.identify(plan.allowed.yes).await?;
            let mut lines = vec![identity];
            let census = endpoint.census(&listed).await?;
            lines.push(match &listed {
                Listed::Prefix(prefix) => format!("below {prefix}: {census}"),
                Listed::Ours { root, .. } => format!("below {root}: {census}"),
                Listed::Collection(collection) => format!("{collection}: {census}"),
            });
            lines.extend(endpoint.unmetered());
            let memory = ServerMemory::new(plan.allowed.server_memory, endpoint.resident());
            Ok(Self {
                lines,
                allowed: plan.allowed,
                is_named: plan.names_strategies,
                census,
                memory,
                endpoint,
            })
        };
        let surveyed: Result<Self, String> = survey.await;
        surveyed.map_err(|error| unusable(target, error))
    }

    /// Returns the cases on a data set from the cheapest to the most expensive, each with its cost
    /// and, if it is rejected, the reason.
    pub(in crate::run) fn in_order<'s>(
        &self,
        scenario: &'s Scenario,
        data_set: &str,
    ) -> Vec<(Tier, &'s CaseSpec, Cost, Option<String>)> {
        let mut spent = 0;
        let mut cases: Vec<_> = scenario
            .cases_on(data_set)
            .map(|(tier, case)| {
                let cost = Cost::of(tier, case, clients_of(scenario, case), &self.census);
                (tier, case, cost)
            })
            .collect();
        cases.sort_by_key(|(_, _, cost)| cost.order());
        let judged = cases.into_iter().map(|(tier, case, cost)| {
            let rounds = rounds_of(scenario, case);
            let refused = makes_keys(case)
                .or_else(|| self.allowed.refuse(&cost, rounds, spent, &self.memory));
            if refused.is_none() {
                spent += cost.round.unwrap_or(0) * rounds;
            }
            (tier, case, cost, refused)
        });
        judged.collect()
    }

    /// Returns one line for each case: its cost, or why it does not run.
    pub(in crate::run) fn shown(
        &self,
        target: &Target,
        scenario: &Scenario,
        data_set: &str,
    ) -> Vec<String> {
        let cases = self.in_order(scenario, data_set).into_iter();
        let cases = cases.filter(|(tier, ..)| target.spec.lacks(*tier).is_none());
        cases
            .map(|(tier, case, cost, refused)| {
                let name = case.name();
                if let Some(reason) = refused {
                    return format!("{tier}/{name}: N/A: {reason}");
                }
                let peak = cost.peak.map(Quantity::bytes);
                let rounds = rounds_of(scenario, case);
                let reads = cost.round.map(|round| Quantity::bytes(round * rounds));
                format!(
                    "{tier}/{name}: reads {} in {rounds} rounds, takes up to {} of the server's memory ({})",
                    Quantity::or_absent(reads),
                    Quantity::or_absent(peak),
                    self.memory
                )
            })
            .collect()
    }

    /// Starts to watch the endpoint. Measuring the canary's baseline takes half a minute by
    /// default. `None` when stopped meanwhile.
    ///
    /// # Errors
    /// [`Failure`] with exit code 2 when the server shows distress before there is any load.
    pub(in crate::run) async fn watch(
        self,
        target: &Target,
        progress: &Progress,
        stop: &CancellationToken,
    ) -> Result<Option<Precautions>, Failure> {
        let baseline = self.allowed.pause * BASELINE_PAUSES;
        let pause = self.allowed.pause;
        progress.say(&format!(
            "{target}: watching it by a small read every 200 ms; {} s of baseline before the first list, {} s between lists at least",
            baseline.as_secs_f64(),
            pause.as_secs_f64()
        ));
        let own_stop = stop.child_token();
        let (read, status) = self.endpoint.watched();
        let canary = Canary::start(read, status, baseline, own_stop.clone());
        let canary = tokio::select! {
            canary = canary => canary,
            () = stop.cancelled() => return Ok(None),
        };
        let canary = canary.map_err(|reason| {
            unusable(
                target,
                format!("not measured, since the server is in distress before any load: {reason}"),
            )
        })?;
        progress.say(&format!(
            "{target}: a small read takes {} before the load",
            Quantity::seconds(canary.baseline().as_secs_f64())
        ));
        Ok(Some(Precautions {
            allowed: self.allowed,
            is_named: self.is_named,
            census: self.census,
            memory: self.memory,
            canary,
            stop: own_stop,
            reason: OnceLock::new(),
            spent: AtomicU64::new(0),
            rests_until: Mutex::new(Instant::now()),
        }))
    }
}

impl Precautions {
    /// Surveys an endpoint, reports each step, and watches it. `None` when stopped meanwhile.
    ///
    /// # Errors
    /// Those of [`Surveyed::take`] and [`Surveyed::watch`].
    pub(in crate::run) async fn begin(
        plan: &Plan,
        target: &Target,
        listed: Listed,
        scenario: &Scenario,
        data_set: &str,
        progress: &Progress,
        stop: &CancellationToken,
    ) -> Result<Option<Self>, Failure> {
        let survey = Surveyed::take(plan, target, listed);
        let surveyed = tokio::select! {
            surveyed = survey => surveyed?,
            () = stop.cancelled() => return Ok(None),
        };
        let cases = surveyed.shown(target, scenario, data_set);
        for line in surveyed.lines.iter().chain(&cases) {
            progress.say(&format!("{target}: {line}"));
        }
        surveyed.watch(target, progress, stop).await
    }

    /// Returns the cases on a data set from the cheapest to the most expensive.
    pub(in crate::run) fn in_order<'s>(
        &self,
        scenario: &'s Scenario,
        data_set: &str,
    ) -> Vec<(Tier, &'s CaseSpec)> {
        let mut cases: Vec<_> = scenario.cases_on(data_set).collect();
        cases.sort_by_key(|(tier, case)| self.cost(scenario, *tier, case).order());
        cases
    }

    /// Returns the token that stops a case on this endpoint.
    pub(in crate::run) fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Returns the pause between two lists that are cancelled after their first object.
    pub(in crate::run) fn short_pause(&self) -> Duration {
        self.allowed.pause.min(Duration::from_secs(1))
    }

    /// Returns why a case must not start; `None` if it may. In that case, the canary allows the
    /// server's memory to grow by the case's cost from now on.
    pub(in crate::run) fn refuse(
        &self,
        scenario: &Scenario,
        tier: Tier,
        case: &CaseSpec,
    ) -> Option<String> {
        if let Some(reason) = self.stopped() {
            return Some(format!("not begun, since the run was stopped: {reason}"));
        }
        if !self.is_named
            && let Strategy::ClientFiltered(_) | Strategy::WatchClientFiltered(_) = case.strategy
        {
            return Some(NOT_NAMED.to_owned());
        }
        if let Some(reason) = makes_keys(case) {
            return Some(reason);
        }
        let cost = self.cost(scenario, tier, case);
        let rounds = rounds_of(scenario, case);
        let spent = self.spent.load(Ordering::Relaxed);
        let refused = self.allowed.refuse(&cost, rounds, spent, &self.memory);
        if refused.is_none() {
            // A server's memory varies by less than [`ASK_ABOVE_PERCENT`] without any load, so at
            // least that growth is allowed.
            let unasked = self.memory.bytes / 100 * ASK_ABOVE_PERCENT;
            let growth = cost.peak.map_or(u64::MAX, |peak| peak.max(unasked));
            self.canary.allow_growth(growth);
        }
        refused
    }

    /// Waits until the pause after the last list is over.
    pub(in crate::run) async fn rest(&self) {
        let until = *self.rests_until.lock();
        sleep_until(until).await;
    }

    /// Records a round of lists that has ended: the latency of its longest list, and the bytes
    /// read. Stops the run when more than `--max-bytes` were read.
    pub(in crate::run) fn listed(&self, longest: Duration, bytes: u64) {
        *self.rests_until.lock() = Instant::now() + self.allowed.pause_after(longest);
        let spent = self.spent.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if let Some(most) = self.allowed.max_bytes.filter(|&most| spent > most) {
            self.stop_for(format!(
                "{} were read, more than --max-bytes {}",
                Quantity::bytes(spent),
                Quantity::bytes(most)
            ));
        }
    }

    /// Records a list that failed. If the server is in distress, nothing else is listed.
    pub(in crate::run) fn failed(&self, error: &ListError) {
        if is_distress(error) {
            self.stop_for(format!("a list failed: {error}"));
        }
    }

    /// Returns why nothing else may be listed, if so.
    pub(in crate::run) fn stopped(&self) -> Option<&str> {
        let own = self.reason.get().map(String::as_str);
        self.canary.reason().or(own)
    }

    fn stop_for(&self, reason: String) {
        self.reason.get_or_init(|| reason);
        self.stop.cancel();
    }

    fn cost(&self, scenario: &Scenario, tier: Tier, case: &CaseSpec) -> Cost {
        Cost::of(tier, case, clients_of(scenario, case), &self.census)
    }
}

fn clients_of(scenario: &Scenario, case: &CaseSpec) -> u32 {
    case.clients
        .map_or(scenario.clients, std::num::NonZeroU32::get)
}

/// Returns why a case that creates keys of its own on an etcd must not run; `None` if it creates
/// none.
fn makes_keys(case: &CaseSpec) -> Option<String> {
    let loads = case.loads.iter().flat_map(|case| &case.load);
    let mut requests = loads
        .filter(|load| load.tier() == Tier::Etcd)
        .flat_map(LoadSpec::small_requests);
    let makes = requests.any(SmallRequest::is_of_own_keys);
    makes.then(|| MAKES_KEYS.to_owned())
}

/// Returns the number of rounds of lists: the measured ones, and at most one of warm-up on an
/// existing endpoint.
fn rounds_of(scenario: &Scenario, case: &CaseSpec) -> u64 {
    let measured = case
        .repeats
        .map_or(scenario.repeats, std::num::NonZeroU32::get);
    u64::from(measured) + u64::from(scenario.warmup.min(1))
}

/// Returns whether a list failed because the server is in distress, rather than because its
/// response was wrong.
fn is_distress(error: &ListError) -> bool {
    match error {
        ListError::Etcd(EtcdError::Status { code, .. }) => matches!(
            code,
            Code::Unavailable | Code::ResourceExhausted | Code::DeadlineExceeded
        ),
        ListError::Etcd(EtcdError::Refused(refusal)) => matches!(
            refusal,
            Refusal::TooManyRequests
                | Refusal::NoSpace
                | Refusal::NoLeader
                | Refusal::LeaderChanged
                | Refusal::Stopped
                | Refusal::Timeout
                | Refusal::DeadlineExceeded
        ),
        ListError::Overloaded(_) | ListError::Slow(_) => true,
        _ => false,
    }
}

/// Surveys an endpoint for a dry run. Returns its identity, its contents, and what the run would do
/// in each case.
///
/// # Errors
/// Those of [`Surveyed::take`].
pub(in crate::run) async fn survey_lines(
    plan: &Plan,
    target: &Target,
    listed: Listed,
    scenario: &Scenario,
    data_set: &str,
) -> Result<Vec<String>, Failure> {
    let surveyed = Surveyed::take(plan, target, listed).await?;
    let lines = surveyed.lines.iter().cloned();
    Ok(lines
        .chain(surveyed.shown(target, scenario, data_set))
        .collect())
}
