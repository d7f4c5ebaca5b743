//! What loads that ran together came to: the figures of each, what they make of the case, and
//! whether what was written is there.

use std::time::{Duration, Instant};

use load::driver::deliveries::{Beside, DeliveryWatchers};
use load::driver::run::Written;
use load::endpoint::TargetEndpoint;
use report::result::{self, Case, Outcome};
use tokio::time::timeout;
use workloads::Tier;
use workloads::scenario::LoadsSpec;

use super::figures::Came;
use super::{Load, Worker};
use crate::run::case::requests::{READ_BACK_WITHIN, is_of_the_load};
use crate::run::case::times::Span;
use crate::run::case::{CaseRun, Early, Measured};

/// How long a stopped case waits for the last events.
const STOPPED_WITHIN: Duration = Duration::from_secs(2);
/// How long objects that a load made on a server that goes on may take to be deleted. An apiserver
/// deletes a collection one object after the other, by one worker.
const REMOVED_WITHIN: Duration = Duration::from_secs(600);

/// Loads that have run; of each, in the order of the case, what it came to.
pub(super) struct Ran<'c> {
    pub(super) case: &'c LoadsSpec,
    /// In the warm-up.
    pub(super) warm: Vec<Came>,
    /// In the measured phase.
    pub(super) came: Vec<Came>,
    /// When the measured phase began.
    pub(super) begun: Instant,
    pub(super) span: Span,
}

/// What the loads of a tier wrote, in the warm-up too.
#[derive(Clone, Default)]
struct Writes {
    /// Those whose responses tell their revisions.
    told: Vec<Written>,
    /// Requests that failed: what they were to write may be there.
    failed: u64,
}

impl Writes {
    fn of(tier: Tier, loads: &[Load<'_>], ran: &Ran<'_>) -> Self {
        let mut writes = Self::default();
        let all = loads.iter().zip(&ran.warm);
        let all = all.chain(loads.iter().zip(&ran.came));
        for (_, came) in all.filter(|(load, _)| load.spec.tier() == tier) {
            writes.told.extend(came.writes());
            writes.failed += came.failed_requests();
        }
        writes
    }
}

impl CaseRun<'_> {
    /// Notes what each load came to. Watchers are held against what was written.
    ///
    /// # Errors
    /// What the first watchers did not agree with; the figures of all loads are noted then, too.
    pub(super) async fn note_loads(
        &self,
        loads: &mut [Load<'_>],
        ran: Ran<'_>,
        measured: &mut Measured,
    ) -> Result<(), Early> {
        let to_etcd = Writes::of(Tier::Etcd, loads, &ran);
        let through_api = Writes::of(Tier::Kube, loads, &ran);
        let mut agree = Ok(());
        for (load, mut came) in loads.iter_mut().zip(ran.came) {
            if let Worker::Watch(watchers) = &mut load.worker
                && let Some(watchers) = watchers.take()
            {
                let writes = match load.spec.tier() {
                    Tier::Kube => through_api.clone(),
                    Tier::Etcd => to_etcd.clone(),
                };
                came = self.delivered(watchers, writes, ran.begun).await?;
                if let Came::Broken(why) = &came {
                    let reason = format!("load {}: {why}", load.spec.name);
                    agree = agree.and(Err(Early::Failed(reason)));
                }
            }
            let figures = load.figures(&came, ran.case.lasts(self.scenario.duration));
            for (measure, histogram) in came.histograms() {
                let name = format!("{}.{measure}", load.spec.name);
                measured.keep(&name, ran.span, histogram.clone());
            }
            if std::ptr::eq(load.spec, ran.case.headline()) {
                stand_for(&mut measured.case, &figures);
                if let Some((_, histogram)) = came.histograms().first() {
                    measured.keep("latency", ran.span, (*histogram).clone());
                }
            }
            measured.case.loads.push(figures);
        }
        agree
    }

    /// Returns what watchers received since `begun`; broken where that is not what was written. A
    /// stopped case does not wait for it.
    async fn delivered(
        &self,
        watchers: DeliveryWatchers,
        writes: Writes,
        begun: Instant,
    ) -> Result<Came, Early> {
        let beside = match (self.shard().is_whole(), writes.failed) {
            (false, _) => Beside::Anything,
            (true, 0) => Beside::Nothing,
            (true, failed) => Beside::UpTo(failed),
        };
        let delivered = watchers.finish(writes.told, begun, beside);
        if self.stop.is_cancelled() {
            // What was written has been acknowledged: its events are there, or not waited for.
            let delivered = timeout(STOPPED_WITHIN, delivered).await;
            let delivered = delivered.ok().and_then(Result::ok);
            return Ok(Came::Watch(Box::new(delivered.unwrap_or_default())));
        }
        Ok(match self.unless_stopped(delivered).await? {
            Ok(delivered) => Came::Watch(Box::new(delivered)),
            Err(error) => Came::Broken(error.to_string()),
        })
    }

    /// Judges the case by its loads.
    ///
    /// # Errors
    /// When one failed, other than by what a saturated target refuses.
    pub(super) fn judge_loads(
        &self,
        case: &LoadsSpec,
        measured: &mut Measured,
    ) -> Result<(), Early> {
        let loads = &measured.case.loads;
        let is_refused = |load: &result::Load| {
            let (refused, unanswered) = (load.refused, load.unanswered);
            load.saturated && is_of_the_load(load.requests, refused, unanswered, load.errors)
        };
        let wrong = loads
            .iter()
            .find(|load| load.errors > 0 && !is_refused(load));
        if let Some(load) = wrong {
            let reason = load.error_samples.first().cloned().unwrap_or_default();
            return Err(Early::Failed(format!(
                "load {}: {} of {} failed: {reason}",
                load.name, load.errors, load.requests
            )));
        }
        let mut spoiled = loads.iter().filter(|load| load.measured);
        let spoiled = spoiled.find_map(|load| Some((load, load.invalid.as_ref()?)));
        measured.case.saturated = loads
            .iter()
            .any(|load| load.name == case.headline().name && load.saturated);
        match spoiled {
            Some((load, why)) => {
                let reason = format!("load {}: {why}", load.name);
                measured.case.outcome = Outcome::Invalid { reason };
            }
            None => measured.case.valid = true,
        }
        Ok(())
    }

    /// Checks that what was written is there. What loads made is deleted where the server goes on.
    ///
    /// # Errors
    /// When a write is not there, or what a load made cannot be deleted.
    pub(super) async fn check_written(
        &self,
        case: &LoadsSpec,
        loads: &[Load<'_>],
        endpoint: &TargetEndpoint,
    ) -> Result<(), Early> {
        // A server that was started for the case ends with its objects, unless it has rounds. Those
        // of several generators are the objects of all, and go with the namespaces that they are
        // in.
        let goes_on = !self.target.spec.is_started() || case.rounds.is_some();
        let removes = goes_on && self.shard().is_whole();
        // Loads on etcd share what they wrote.
        let mut is_read = false;
        for load in loads {
            let read_back = async {
                match (&load.worker, &endpoint.etcd) {
                    (Worker::Small(..), _) if is_read => Ok(()),
                    (Worker::Small(_, calls), Some(config)) => {
                        is_read = true;
                        calls.read_back(config).await
                    }
                    (Worker::SmallThroughApi(_, calls), _) => calls.read_back(endpoint).await,
                    _ => Ok(()),
                }
            };
            let read_back = timeout(READ_BACK_WITHIN, read_back);
            let read_back = self.unless_stopped(read_back).await?;
            let late = || format!("writes were not read back within {READ_BACK_WITHIN:?}");
            let read_back = read_back.map_err(|_| Early::Failed(late()))?;
            read_back.map_err(|e| Early::Failed(e.to_string()))?;
            let Worker::SmallThroughApi(_, calls) = &load.worker else {
                continue;
            };
            if removes {
                let removed = self.unless_stopped(timeout(REMOVED_WITHIN, calls.remove(endpoint)));
                let left = match removed.await? {
                    Ok(Ok(())) => continue,
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => format!("not deleted within {REMOVED_WITHIN:?}"),
                };
                return Err(Early::Failed(format!(
                    "objects that load {} made are left: {left}",
                    load.spec.name
                )));
            }
        }
        Ok(())
    }
}

/// Has a load stand for its case.
fn stand_for(case: &mut Case, load: &result::Load) {
    case.requests = load.requests;
    case.errors = load.errors;
    case.latency_ms.clone_from(&load.latency_ms);
    case.service_ms.clone_from(&load.service_ms);
    case.requests_per_s = load.achieved_per_s;
    if let Some(client) = &mut case.client {
        client.lag_ms.clone_from(&load.lag_ms);
    }
}
