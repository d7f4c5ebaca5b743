//! The results of loads that ran together: the measurements of each load, the outcome of the case,
//! and the check of what was written.

use std::time::{Duration, Instant};

use load::driver::deliveries::{DeliveryWatchers, ExtraEvents};
use load::driver::run::AcknowledgedWrite;
use load::endpoint::TargetEndpoint;
use report::result::{self, Case};
use tokio::time::timeout;
use workloads::Tier;
use workloads::scenario::LoadsSpec;

use super::load_result::LoadResult;
use super::{ConnectedLoad, LoadClients};
use crate::run::case::requests::{READ_BACK_TIMEOUT, is_of_the_load};
use crate::run::case::times::Span;
use crate::run::case::{CaseRun, EarlyEnd, Measured};

/// How long a stopped case waits for the last events.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the deletion of a load's objects may take on a server that keeps running. An apiserver
/// deletes a collection one object after the other, by one worker.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(600);

/// Loads that have run, and their results in the order of the case.
pub(super) struct Ran<'c> {
    pub(super) case: &'c LoadsSpec,
    /// The results of the warm-up.
    pub(super) warm: Vec<LoadResult>,
    /// The results of the measured phase.
    pub(super) results: Vec<LoadResult>,
    /// When the measured phase began.
    pub(super) begun: Instant,
    pub(super) span: Span,
}

/// The writes of loads, apart by the tier that they are sent to.
#[derive(Debug, Default)]
pub(super) struct WritesByTier {
    etcd: Writes,
    kube: Writes,
}

impl WritesByTier {
    /// Adds those of a load.
    pub(super) fn add(&mut self, tier: Tier, result: &LoadResult) {
        let writes = match tier {
            Tier::Etcd => &mut self.etcd,
            Tier::Kube => &mut self.kube,
        };
        writes.acknowledged.extend(result.writes());
        writes.failed += result.failed_requests();
    }

    pub(super) fn of(&self, tier: Tier) -> &Writes {
        match tier {
            Tier::Etcd => &self.etcd,
            Tier::Kube => &self.kube,
        }
    }
}

/// The writes of the loads of a tier, including the warm-up.
#[derive(Debug, Clone, Default)]
pub(super) struct Writes {
    /// Writes whose responses contain their revisions.
    acknowledged: Vec<AcknowledgedWrite>,
    /// The number of requests that failed. Their writes may have been applied.
    failed: u64,
}

impl CaseRun<'_> {
    /// Records the results of each load. Compares what watchers received with what was written.
    ///
    /// # Errors
    /// The first mismatch of a watcher. The measurements of all loads are recorded in that case,
    /// too.
    pub(super) async fn note_loads(
        &self,
        loads: &mut [ConnectedLoad<'_>],
        ran: Ran<'_>,
        measured: &mut Measured,
    ) -> Result<(), EarlyEnd> {
        let mut writes = WritesByTier::default();
        for results in [&ran.warm, &ran.results] {
            for (load, result) in loads.iter().zip(results) {
                writes.add(load.spec.tier(), result);
            }
        }
        let mut agree = Ok(());
        for (load, mut result) in loads.iter_mut().zip(ran.results) {
            if let LoadClients::Watch(watchers) = &mut load.clients
                && let Some(watchers) = watchers.take()
            {
                let writes = writes.of(load.spec.tier()).clone();
                result = self.delivered(watchers, writes, ran.begun).await?;
                if let LoadResult::Broken(why) = &result {
                    let reason = format!("load {}: {why}", load.spec.name);
                    agree = agree.and(Err(EarlyEnd::Failed(reason)));
                }
            }
            let reported = load.to_report(&result, ran.case.lasts(self.scenario.duration));
            for (measure, histogram) in result.histograms() {
                let name = format!("{}.{measure}", load.spec.name);
                measured.keep(&name, ran.span, histogram.clone());
            }
            if std::ptr::eq(load.spec, ran.case.headline()) {
                stand_for(&mut measured.case, &reported);
                if let Some((_, histogram)) = result.histograms().first() {
                    measured.keep("latency", ran.span, (*histogram).clone());
                }
            }
            measured.case.loads.push(reported);
        }
        agree
    }

    /// Returns what watchers received since `begun`, or [`LoadResult::Broken`] if that is not what
    /// was written. A stopped case waits at most [`STOP_TIMEOUT`], and ignores mismatches.
    pub(super) async fn delivered(
        &self,
        watchers: DeliveryWatchers,
        writes: Writes,
        begun: Instant,
    ) -> Result<LoadResult, EarlyEnd> {
        let beside = match (self.shard().is_whole(), writes.failed) {
            (false, _) => ExtraEvents::Anything,
            (true, 0) => ExtraEvents::Nothing,
            (true, failed) => ExtraEvents::UpTo(failed),
        };
        let delivered = watchers.finish(writes.acknowledged, begun, beside);
        if self.stop.is_cancelled() {
            // These writes were acknowledged, so their events are waited for only briefly.
            let delivered = timeout(STOP_TIMEOUT, delivered).await;
            let delivered = delivered.ok().and_then(Result::ok);
            return Ok(LoadResult::Watch(Box::new(delivered.unwrap_or_default())));
        }
        Ok(match self.unless_stopped(delivered).await? {
            Ok(delivered) => LoadResult::Watch(Box::new(delivered)),
            Err(error) => LoadResult::Broken(error.to_string()),
        })
    }

    /// Sets the outcome of the case from its loads.
    ///
    /// # Errors
    /// When a load failed other than by requests that a saturated target rejects or leaves without
    /// a response.
    pub(super) fn judge_loads(
        &self,
        case: &LoadsSpec,
        measured: &mut Measured,
    ) -> Result<(), EarlyEnd> {
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
            return Err(EarlyEnd::Failed(format!(
                "load {}: {} of {} failed: {reason}",
                load.name, load.errors, load.requests
            )));
        }
        let mut spoiled = loads.iter().filter(|load| load.measured);
        let spoiled = spoiled.find_map(|load| Some((load, load.invalid.as_ref()?)));
        measured.case.saturated = loads
            .iter()
            .any(|load| load.name == case.headline().name && load.saturated);
        let spoiled = spoiled.map(|(load, why)| format!("load {}: {why}", load.name));
        measured.conclude(spoiled);
        Ok(())
    }

    /// Checks that all writes are present. Deletes the objects that loads created, on a server that
    /// keeps running.
    ///
    /// # Errors
    /// When a write is missing, or an object that a load created cannot be deleted.
    pub(super) async fn check_written(
        &self,
        case: &LoadsSpec,
        loads: &[ConnectedLoad<'_>],
        endpoint: &TargetEndpoint,
    ) -> Result<(), EarlyEnd> {
        // A server that was started for the case ends with its objects, unless the case has rounds.
        // Objects of several generators are shared, and are deleted with their namespaces.
        let goes_on = !self.target.spec.is_started() || case.rounds.is_some();
        let removes = goes_on && self.shard().is_whole();
        // All loads on etcd share one record of writes, so it is checked once.
        let mut is_read = false;
        for load in loads {
            let read_back = async {
                match (&load.clients, &endpoint.etcd) {
                    (LoadClients::Small(..), _) if is_read => Ok(()),
                    (LoadClients::Small(_, calls), Some(config)) => {
                        is_read = true;
                        calls.read_back(config).await
                    }
                    (LoadClients::SmallThroughApi(_, calls), _) => calls.read_back(endpoint).await,
                    _ => Ok(()),
                }
            };
            let read_back = timeout(READ_BACK_TIMEOUT, read_back);
            let read_back = self.unless_stopped(read_back).await?;
            let late = || format!("writes were not read back within {READ_BACK_TIMEOUT:?}");
            let read_back = read_back.map_err(|_| EarlyEnd::Failed(late()))?;
            read_back.map_err(|e| EarlyEnd::Failed(e.to_string()))?;
            let LoadClients::SmallThroughApi(_, calls) = &load.clients else {
                continue;
            };
            if removes {
                let removed = self.unless_stopped(timeout(REMOVAL_TIMEOUT, calls.remove(endpoint)));
                let left = match removed.await? {
                    Ok(Ok(())) => continue,
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => format!("not deleted within {REMOVAL_TIMEOUT:?}"),
                };
                return Err(EarlyEnd::Failed(format!(
                    "objects that load {} made are left: {left}",
                    load.spec.name
                )));
            }
        }
        Ok(())
    }
}

/// Reports a load's measurements as those of its case.
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
