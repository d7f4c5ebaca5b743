//! A case of small requests: in a closed loop, in an open loop, or searched for its highest rate.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use etcd_api::client::config::ClientConfig;
use load::arrivals::Pace;
use load::driver::calls::RequestClients;
use load::driver::closed::{Clients, Job};
use load::driver::run::Tally;
use load::endpoint::TargetEndpoint;
use load::operation::list::ListCase;
use load::operation::requests::{EtcdRequests, RequestConfig};
use load::verify::Verifier;
use report::result::Case;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use workloads::Strategy;

use super::load_intervals::IntervalRecorder;
use super::saturation::trials::RequestTrials;
use super::status::schedule;
use super::times::Span;
use super::{CaseRun, EarlyEnd, ListedData, Measured};
use crate::progress::Counted;
use crate::run::plan::waiting;
use crate::servers::running::Running;
use crate::to_result;

/// The warm-up is for connections, caches and branch predictors, not for data.
const WARM_UP: Duration = Duration::from_millis(500);
/// The largest fraction of a quantile of an open loop that may be the generator's lateness.
const MAX_LATENESS_SHARE: f64 = 0.1;
/// The fraction of its schedule that a target must achieve so as not to be saturated.
pub(super) const MIN_ACHIEVED_SHARE: f64 = 0.99;
/// The longest time, in milliseconds, for which the generator may be kept from its CPU.
const STALL_MS: f64 = 100.0;
/// The page size of the list that verifies the objects afterwards.
const PAGE: NonZeroU32 = NonZeroU32::new(10_000).expect("not zero");
/// How long reading back the written objects may take.
pub(super) const READ_BACK_TIMEOUT: Duration = Duration::from_secs(60);
/// The number of error texts that a case keeps.
pub(super) const KEPT_ERRORS: usize = 5;

impl CaseRun<'_> {
    /// Runs the measured part of a case of small requests.
    pub(super) async fn requests(
        &self,
        listed: &ListedData,
        running: &mut Running,
        measured: &mut Measured,
    ) -> Result<(), EarlyEnd> {
        let ListedData {
            endpoint, verifier, ..
        } = listed;
        let (Some(config), Some(data)) = (&endpoint.etcd, self.data()) else {
            let reason = "small requests need a data set that the run writes".to_owned();
            return Err(EarlyEnd::NotApplicable(reason));
        };
        let after = verifier.expected.as_ref().map_or(0, |e| e.revision);
        let strategy = self.strategy();
        let no_requests = || EarlyEnd::Failed(format!("`{strategy}` makes no small requests"));
        let request = strategy.small_request().ok_or_else(no_requests)?;
        let about = RequestConfig {
            keys: self.spec.keys.unwrap_or_default(),
            after,
            ..RequestConfig::new(data, &verifier.root)
        };
        let calls = Arc::new(EtcdRequests::new(request, about));
        measured.case.connections = Some(self.share_of(self.connections()));
        let duration = self.spec.duration.unwrap_or(self.scenario.duration);
        let tally = match self.spec.saturate {
            Some(saturate) => {
                measured.idle = Some(self.settled(running, measured).await?);
                let target = RequestTarget {
                    config,
                    calls: &calls,
                };
                let mut trials = RequestTrials::connect(self, target).await?;
                self.saturate(saturate, &mut trials, duration, running, measured)
                    .await?
            }
            None => {
                let callers = self.callers(config, &calls).await?;
                self.at_one_pace(&callers, calls.seed(), duration, running, measured)
                    .await?
            }
        };
        let mut after = verifier.clone();
        if let Some(expected) = after.expected.as_mut()
            && self.strategy() == Strategy::Put
        {
            // The same bytes at later revisions: each acknowledged put has one of its own.
            expected.revisions = None;
            expected.revision += (tally.requests - tally.errors) as i64;
            let read_back = timeout(READ_BACK_TIMEOUT, calls.read_back(config));
            let read_back = self.unless_stopped(read_back).await?;
            let late = || format!("puts were not read back within {READ_BACK_TIMEOUT:?}");
            let read_back = read_back.map_err(|_| EarlyEnd::Failed(late()))?;
            read_back.map_err(|e| EarlyEnd::Failed(e.to_string()))?;
        }
        self.list_once(endpoint, &after, measured).await?;
        measured.conclude(spoiled(&tally));
        Ok(())
    }
}

/// The connection settings and the requests of a case of small requests.
#[derive(Clone, Copy)]
pub(super) struct RequestTarget<'a> {
    pub(super) config: &'a ClientConfig,
    pub(super) calls: &'a Arc<EtcdRequests>,
}

impl CaseRun<'_> {
    /// Opens the connections of the case.
    pub(super) async fn callers(
        &self,
        config: &ClientConfig,
        calls: &Arc<EtcdRequests>,
    ) -> Result<RequestClients, EarlyEnd> {
        let calls = Arc::clone(calls);
        let waiting = waiting(self.scenario);
        let callers =
            RequestClients::connect(config, self.connections(), self.shard(), calls, waiting);
        let callers = self.unless_stopped(callers).await?;
        callers.map_err(|e| EarlyEnd::Failed(e.to_string()))
    }

    /// Sends requests at the pace of the case, for its duration.
    async fn at_one_pace(
        &self,
        callers: &RequestClients,
        seed: u64,
        duration: Duration,
        running: &Running,
        measured: &mut Measured,
    ) -> Result<Tally, EarlyEnd> {
        let profile = self.spec.profile(self.scenario.rate);
        let profile = profile.map(|profile| profile.ordered(seed));
        let part = self.part_of(self.connections());
        let offered = profile.as_ref().map(|p| p.mean_rate(duration) * part);
        measured.case.offered_per_s = offered;
        let is_open = profile.is_some();
        // An open loop does not wait for responses: its schedule stands for any number of clients.
        measured.case.clients = match is_open {
            true => 1,
            false => self.share_of_clients(self.clients(), self.connections()),
        };
        let pace = match profile {
            Some(profile) => Pace::Open(profile),
            None => Pace::closed(self.clients()),
        };

        let mut meter = self.settled(running, measured).await?;
        if matches!(&pace, Pace::Open(profile) if !profile.is_steady()) {
            meter.load_changes();
        }
        let never = CancellationToken::new();
        let warm_up = callers.run(pace.clone(), WARM_UP, &never);
        let warm_up = self.unless_stopped(warm_up).await?;
        if let Some(reason) = warm_up_error(&warm_up, &pace) {
            return Err(EarlyEnd::Failed(format!(
                "warm-up: {} of {} requests failed: {reason}",
                warm_up.errors, warm_up.requests
            )));
        }

        let title = format!("{}/{}", self.target.name, self.spec.name());
        let phase = self.progress.phase(&title, 1, Counted::Requests);
        self.begin(&mut meter).await?;
        let start = self.run_begun.elapsed();
        let strategy = self.spec.strategy_text();
        let live = self.live(&strategy, &strategy);
        if let Pace::Open(profile) = &pace {
            live.keep_to(schedule(profile, part, Duration::ZERO, duration));
        }
        let status = self.tell_status(&phase, vec![live.clone()], running);
        let intervals = IntervalRecorder::start(measured.case.id(), vec![live.clone()], duration);
        let counts = Arc::clone(live.counts());
        // If it is stopped, it returns what was measured until then.
        let tally = callers.run_counted(pace, duration, self.stop, counts).await;
        drop(status);
        measured.load_intervals = intervals.finish().await;
        let whole = tally.errors == 0 && !self.stop.is_cancelled();
        meter.end_of_round(whole).await;
        let requests = tally.requests;
        meter.end(0, requests, measured).await;
        phase.done(&format!("{requests} requests"));
        describe(&mut measured.case, &tally);
        let span = Span {
            start,
            duration: tally.elapsed,
        };
        measured.keep_requests(span, &tally);
        if self.stop.is_cancelled() {
            return Err(EarlyEnd::Interrupted);
        }
        measured.case.saturated = is_open && is_saturated(&tally, duration);
        if let Some(reason) = measured.case.error_samples.first()
            && !(measured.case.saturated && is_refused(&tally))
        {
            return Err(EarlyEnd::Failed(format!(
                "{} of {} requests failed: {reason}",
                tally.errors, tally.requests
            )));
        }
        Ok(tally)
    }

    /// Lists and verifies everything once: the objects must be those that were written.
    pub(super) async fn list_once(
        &self,
        endpoint: &TargetEndpoint,
        verifier: &Verifier,
        measured: &mut Measured,
    ) -> Result<(), EarlyEnd> {
        let case = ListCase {
            strategy: Strategy::Paged(PAGE),
            ..self.list_case()
        };
        let clients = Clients::connect(1, &case, endpoint, verifier.clone());
        let clients = self.unless_stopped(clients).await??;
        for done in self.unless_stopped(clients.round(Job::List)).await? {
            if let Some((_, Some(found))) = done.result? {
                let verified = to_result::verified(&found);
                measured.case.objects = verified.objects;
                measured.case.verified = Some(verified);
            }
        }
        Ok(())
    }
}

impl Measured {
    /// Keeps the latency histograms of small requests.
    pub(super) fn keep_requests(&mut self, span: Span, tally: &Tally) {
        let saved = [
            ("latency", &tally.latency),
            ("service", &tally.service),
            ("lag", &tally.lag),
        ];
        for (measure, histogram) in saved {
            if histogram.n() > 0 {
                self.keep(measure, span, histogram.clone());
            }
        }
    }
}

pub(super) fn describe(case: &mut Case, tally: &Tally) {
    case.requests = tally.requests;
    case.errors = tally.errors;
    case.latency_ms = to_result::quantiles_ms(&tally.latency);
    case.service_ms = to_result::quantiles_ms(&tally.service);
    let answered = tally.requests.saturating_sub(tally.errors);
    case.requests_per_s = Some(answered as f64 / tally.elapsed.as_secs_f64());
    if let Some(client) = &mut case.client {
        client.lag_ms = to_result::quantiles_ms(&tally.lag);
        let is_open = client.lag_ms.is_some();
        client.stall_ms = is_open.then_some(tally.stall.as_secs_f64() * 1e3);
    }
    case.error_samples = tally.reasons.most_frequent(KEPT_ERRORS);
}

/// Returns why a case's measurements say nothing about the target; `None` if they do. A closed loop
/// waits for its generator, so it is invalid only without any request.
fn spoiled(tally: &Tally) -> Option<String> {
    if tally.requests == 0 {
        let reason = "not one request was sent: none was due at this rate in this time";
        return Some(reason.to_owned());
    }
    if tally.lag.n() == 0 {
        return None;
    }
    stall_of(tally).or_else(|| late(tally))
}

/// Returns a reason if the generator was kept from its CPU for too long.
pub(super) fn stall_of(tally: &Tally) -> Option<String> {
    let stall_ms = tally.stall.as_secs_f64() * 1e3;
    (stall_ms > STALL_MS).then(|| format!("the generator lost its CPU for {stall_ms:.0} ms"))
}

/// Returns whether a target did not keep the rate of an open loop, so that latencies grow for as
/// long as the load lasts. Compares with the number of requests that were due in `duration`, all of
/// which were sent, rather than with the mean rate: a few random arrivals are seldom as many as the
/// mean.
pub(super) fn is_saturated(tally: &Tally, duration: Duration) -> bool {
    let answered = tally.requests.saturating_sub(tally.errors) as f64;
    let due = tally.requests as f64 / duration.as_secs_f64();
    tally.overrun || answered / tally.elapsed.as_secs_f64() < MIN_ACHIEVED_SHARE * due
}

/// Returns the most frequent error of a warm-up; `None` if an overloaded target rejected requests
/// of a schedule, since the measured time decides whether it keeps the rate. Requests that are left
/// without a response fail the case: a late response would be mistaken for one of a measured
/// request.
pub(super) fn warm_up_error(tally: &Tally, pace: &Pace) -> Option<String> {
    let is_open = matches!(pace, Pace::Open(_));
    let is_expected = is_open && tally.errors == tally.reasons.refused;
    let reason = tally.reasons.most_frequent(1).into_iter().next();
    reason.filter(|_| !is_expected)
}

/// Returns whether all errors were caused by the load.
fn is_refused(tally: &Tally) -> bool {
    let reasons = &tally.reasons;
    is_of_the_load(
        tally.requests,
        reasons.refused,
        reasons.unanswered,
        tally.errors,
    )
}

/// Returns whether requests failed because there were too many: they were rejected, or still
/// waiting when most others had a response. A target that responds to next to nothing hangs
/// instead.
pub(super) fn is_of_the_load(requests: u64, refused: u64, unanswered: u64, failed: u64) -> bool {
    let mostly_answered = 2 * failed < requests;
    failed == refused + unanswered && (unanswered == 0 || mostly_answered)
}

/// Returns why the median of an open loop measures the generator rather than the target. The
/// generator is late by the time between the intended start and sending. A generator that is never
/// late would measure a latency between the one from sending and the one from the intended start.
/// The report has both for each quantile.
fn late(tally: &Tally) -> Option<String> {
    let latency = to_result::quantiles_ms(&tally.latency)?.p50?;
    let late = latency - to_result::quantiles_ms(&tally.service)?.p50?;
    (late > MAX_LATENESS_SHARE * latency).then(|| {
        format!(
            "the generator was late: {late:.3} of the {latency:.3} ms of the median passed before \
             requests were sent, and more than a tenth says nothing about the target; give both \
             CPUs of their own (--server-cpus, --client-cpus), or ask for another rate"
        )
    })
}

#[cfg(test)]
mod tests {
    use load::record::Class;

    use super::*;

    /// Returns a thousand requests, each sent `late_us` late, with its response after `service_us`.
    fn tally(late_us: u64, service_us: u64, stall_ms: u64) -> Tally {
        let mut tally = Tally {
            requests: 1_000,
            stall: Duration::from_millis(stall_ms),
            ..Tally::default()
        };
        for _ in 0..1_000 {
            tally.lag.record(Duration::from_micros(late_us));
            tally.service.record(Duration::from_micros(service_us));
            let latency = Duration::from_micros(late_us + service_us);
            tally.latency.record(latency);
        }
        tally
    }

    #[test]
    fn an_open_loop_is_spoiled_by_a_late_generator_and_a_closed_one_has_none() {
        assert_eq!(spoiled(&tally(20, 1_000, 2)), None);
        // A millisecond is much compared with one millisecond, and little compared with twenty.
        let late = spoiled(&tally(1_000, 1_000, 2));
        assert!(late.is_some_and(|why| why.contains("ms of the median passed before")));
        assert_eq!(spoiled(&tally(1_000, 20_000, 2)), None);
        let stalled = spoiled(&tally(20, 1_000, 150));
        assert!(stalled.is_some_and(|why| why.contains("lost its CPU")));
        let closed = Tally {
            requests: 1,
            ..Tally::default()
        };
        assert_eq!(spoiled(&closed), None);
        assert!(spoiled(&Tally::default()).is_some_and(|why| why.contains("not one request")));
    }

    #[test]
    fn a_target_that_does_not_keep_the_rate_is_saturated_and_may_refuse() {
        let mut tally = tally(0, 1_000, 0);
        tally.elapsed = Duration::from_secs(10);
        let took = |ms| is_saturated(&tally, Duration::from_millis(ms));
        assert!(!took(9_950) && took(9_800));
        let overrun = Tally {
            overrun: true,
            ..tally.clone()
        };
        assert!(is_saturated(&overrun, Duration::from_secs(10)) && spoiled(&overrun).is_none());
        tally.failed(
            10,
            Class::Refused,
            "etcdserver: too many requests".to_owned(),
        );
        assert!(is_refused(&tally));
        tally.failed(
            1,
            Class::Wrong,
            "the response for /a is not the object that was written".to_owned(),
        );
        assert!(!is_refused(&tally));
    }
}
