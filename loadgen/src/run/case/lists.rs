//! A case of whole lists: measured in rounds with verification, then unverified, then cancelled
//! after their first object.

use std::time::{Duration, Instant};

use load::driver::closed::{Clients, Done, Job};
use load::operation::list::ListError;
use load::operation::list::attempts::Restarts;
use load::record::{Errors, LatencyHistogram};
use load::verify::Contents;
use report::quantity::Quantity;
use report::result::{self, Case, ServedFrom};
use workloads::{EtcdResponse, Strategy, Tier};

use super::meter::Meter;
use super::programs::Programs;
use super::requests::KEPT_ERRORS;
use super::round_starts::RoundStarts;
use super::{CaseRun, EarlyEnd, ListedData, Measured};
use crate::live::LiveLoad;
use crate::progress::{Counted, Phase};
use crate::run::foreign::Precautions;
use crate::servers::running::Running;
use crate::to_result;

/// An apiserver ends a request after a minute. A list that was ended sooner than this was not ended
/// for being slow.
const MIN_REQUEST_TIME: Duration = Duration::from_secs(55);
/// How long the first-object phase may take by default: a server that builds its whole response
/// first needs seconds for each.
const FIRST_OBJECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The most lists for first objects on a server that holds other people's data, or in one of many
/// starts: enough for a median.
const MAX_FIRST_OBJECTS: u32 = 20;
/// The same as [`FIRST_OBJECT_TIMEOUT`] while background loads run, which delay the lists.
const FIRST_OBJECT_TIMEOUT_WITH_BACKGROUND: Duration = Duration::from_secs(20);

/// Returns why the server cannot select the objects that the lists ask for, if that is so.
fn not_selectable(round: &[Done]) -> Option<String> {
    round.iter().find_map(|done| match &done.result {
        Err(ListError::NotSelectable(reason)) => Some(reason.clone()),
        _ => None,
    })
}

impl CaseRun<'_> {
    /// Runs the measured part of a case of lists.
    pub(super) async fn lists(
        &self,
        listed: &ListedData,
        running: &mut Running,
        measured: &mut Measured,
    ) -> Result<(), EarlyEnd> {
        let ListedData {
            case,
            endpoint,
            verifier,
        } = listed;
        let clients = Clients::connect(self.clients(), case, endpoint, verifier.clone());
        let clients = self.unless_stopped(clients).await??;
        let mut meter = self.settled(running, measured).await?;
        let is_timed = self.rounds(&clients, &mut meter, running, measured).await?;
        measured.case.valid = true;
        // A client that is a separate program only decodes whole lists.
        if self.strategy().go_client().is_some() {
            return Ok(());
        }
        if let Some(care) = self.care {
            return self.few_first_objects(care, &clients, measured).await;
        }
        // The latency of a slow reader is its own, verified or not.
        if !is_timed || self.spec.read_per_s.is_some() {
            return Ok(());
        }
        // A case without verification would only repeat itself, and lists at a pace are not
        // comparable with lists without one.
        if measured.case.verified.is_some() && self.spec.every.is_none() {
            let list = async |job| {
                let mut times = Vec::new();
                for done in self.unless_stopped(clients.round(job)).await? {
                    done.result?;
                    times.push(done.latency);
                }
                Ok(times)
            };
            self.unchecked(measured, list).await?;
        }
        self.baseline(&clients, case, running, &meter, measured)
            .await?;
        self.first_objects(&clients, measured).await
    }

    /// Returns the number of measured rounds.
    pub(super) fn repeats(&self) -> u32 {
        let own = self.spec.repeats.map(std::num::NonZeroU32::get);
        own.unwrap_or(self.scenario.repeats)
    }

    /// Lists in rounds and verifies every object. Returns whether the clients recorded latencies.
    /// Idle clients record none, and zeros in their place would be the lowest points of every
    /// chart.
    async fn rounds(
        &self,
        clients: &Clients,
        meter: &mut Meter,
        running: &mut Running,
        measured: &mut Measured,
    ) -> Result<bool, EarlyEnd> {
        let total = u64::from(self.repeats()) * u64::from(self.clients());
        let title = format!("{}/{}: listing", self.target.name, self.spec.name());
        let phase = self.progress.phase(&title, total, Counted::Lists);
        let list = async || self.unmeasured_round(clients).await;
        self.warm_up(meter, measured, list).await?;
        if let Some(time) = self.lists_last(&measured.case) {
            meter.expect(time);
        }
        meter.begin().await?;
        let mut lists = Lists::new();
        let listed = self
            .measured_rounds(clients, meter, running, &phase, &mut lists)
            .await;
        let span = self.since(lists.begun);
        let in_flight = lists.bytes_of_one() * u64::from(self.clients());
        meter.end(in_flight, lists.requests, measured).await;
        lists
            .programs
            .describe(&mut measured.case, lists.requests, span.duration);
        if self.tier == Tier::Kube {
            measured.case.served_from = served_from(measured.case.server.as_ref());
        }
        lists.describe(&mut measured.case, span.duration);
        let is_timed = lists.latency.n() > 0;
        for (measure, times) in [
            ("latency", &lists.latency),
            ("service", &lists.service),
            ("longest_gap", &lists.longest_gap),
        ] {
            if times.n() > 0 {
                measured.keep(measure, span, times.clone());
            }
        }
        listed?;
        if let Some(reason) = self.too_slow(&lists)
            && running.death().await.is_none()
        {
            measured.case.errors = 0;
            measured.case.error_samples.clear();
            return Err(EarlyEnd::NotApplicable(reason));
        }
        if let Some(reason) = measured.case.error_samples.first() {
            return Err(EarlyEnd::Failed(format!(
                "{} of {} lists failed: {reason}",
                measured.case.errors, measured.case.requests
            )));
        }
        measured.case.saturated = lists.is_behind;
        phase.done(&format!("{} lists", lists.requests));
        Ok(is_timed)
    }

    /// Runs one round before the measured phase. Returns the latency of its longest list.
    async fn unmeasured_round(&self, clients: &Clients) -> Result<Duration, EarlyEnd> {
        let mut longest = Duration::ZERO;
        self.rest().await?;
        let round = self.unless_stopped(clients.round(Job::List)).await?;
        self.record_round(&round);
        for done in round {
            longest = longest.max(done.latency);
            done.result?;
        }
        for done in self.check_round(clients).await? {
            done.result?;
        }
        Ok(longest)
    }

    /// Runs the rounds of the measured phase and adds them to `lists`: as many as are wanted, or
    /// until the server has ended or, if it holds other people's data, a list has failed.
    ///
    /// # Errors
    /// What ends the phase early. Lists that failed are counted in `lists` and are no error here.
    async fn measured_rounds(
        &self,
        clients: &Clients,
        meter: &mut Meter,
        running: &mut Running,
        phase: &Phase,
        lists: &mut Lists,
    ) -> Result<(), EarlyEnd> {
        let strategy = self.spec.strategy_text();
        let live = self.live(&strategy, &strategy);
        let mut starts = RoundStarts::new(self.spec.every);
        for _ in 0..self.repeats() {
            self.unless_stopped(starts.next()).await?;
            self.rest().await?;
            meter.begin_round()?;
            let errors = lists.errors;
            let begun = Instant::now();
            let done = self.unless_stopped(clients.round(Job::List)).await?;
            let waited = starts.ended(begun.elapsed());
            if let Some(reason) = not_selectable(&done) {
                return Err(EarlyEnd::NotApplicable(reason));
            }
            count(&live, &done);
            let goes_on = self.record_round(&done);
            lists.take(done, waited);
            lists.is_behind = starts.is_behind();
            let is_whole = lists.errors == errors;
            meter.end_of_round(is_whole).await;
            if !goes_on {
                break;
            }
            if is_whole {
                let begun = Instant::now();
                let checks = self.check_round(clients).await?;
                lists.take_checks(checks, begun.elapsed());
            }
            phase.advance(u64::from(self.clients()));
            if running.death().await.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// Returns why a slow reader cannot complete its list: the server limits how long a request may
    /// take. Other errors are failures, and so is a list that the server ended before that limit.
    fn too_slow(&self, lists: &Lists) -> Option<String> {
        let (after, bytes) = lists.cut_off?;
        if lists.cut_offs < lists.errors || after < MIN_REQUEST_TIME {
            return None;
        }
        let per_second = Quantity::bytes(self.spec.read_per_s?.0.into());
        Some(format!(
            "the server ended the list after {:.0} s, with {} of it read at {per_second} a second",
            after.as_secs_f64(),
            Quantity::bytes(bytes)
        ))
    }

    /// Measures first objects on a server that holds other people's data: only a few, and only if
    /// the server reads no more than it sends.
    async fn few_first_objects(
        &self,
        care: &Precautions,
        clients: &Clients,
        measured: &mut Measured,
    ) -> Result<(), EarlyEnd> {
        let is_stream = self.strategy().etcd_response() == Some(EtcdResponse::Stream);
        if !is_stream && !matches!(self.strategy(), Strategy::Paged(_)) {
            return Ok(());
        }
        let mut lists = Lists::new();
        let wanted = self.scenario.first_chunk_streams.min(MAX_FIRST_OBJECTS);
        for _ in 0..wanted {
            self.unless_stopped(tokio::time::sleep(care.short_pause()))
                .await?;
            for done in self.unless_stopped(clients.round(Job::FirstObject)).await? {
                lists.latency.record(done.latency);
                done.result.map_err(|error| self.record_failure(error))?;
            }
        }
        if wanted > 0 {
            let span = self.since(lists.begun);
            measured.case.first_chunk_ms = to_result::quantiles_ms(&lists.latency);
            measured.keep("first_chunk", span, lists.latency);
        }
        Ok(())
    }

    /// Measures lists that are cancelled after their first object: as many as the scenario wants,
    /// or as the time allows.
    async fn first_objects(
        &self,
        clients: &Clients,
        measured: &mut Measured,
    ) -> Result<(), EarlyEnd> {
        let most = match self.is_one_of_many {
            true => MAX_FIRST_OBJECTS,
            false => u32::MAX,
        };
        let wanted = u64::from(self.scenario.first_chunk_streams.min(most));
        if wanted == 0 {
            return Ok(());
        }
        let mut lists = Lists::new();
        let usual = match self.spec.background.is_empty() {
            true => FIRST_OBJECT_TIMEOUT,
            false => FIRST_OBJECT_TIMEOUT_WITH_BACKGROUND,
        };
        let within = self.scenario.first_chunk_within.unwrap_or(usual);
        while lists.latency.n() < wanted && lists.begun.elapsed() < within {
            let done = self.unless_stopped(clients.round(Job::FirstObject)).await?;
            for done in done {
                lists.latency.record(done.latency);
                done.result?;
            }
        }
        let span = self.since(lists.begun);
        measured.case.first_chunk_ms = to_result::quantiles_ms(&lists.latency);
        measured.keep("first_chunk", span, lists.latency);
        Ok(())
    }
}

/// The totals of the lists of a phase.
struct Lists {
    begun: Instant,
    /// The times of the lists, from their intended starts if rounds start at fixed times.
    latency: LatencyHistogram,
    /// The times from the calls, if rounds start at fixed times.
    service: LatencyHistogram,
    /// The longest time in each list in which no object arrived, after the first one.
    longest_gap: LatencyHistogram,
    /// Whether rounds that start at fixed times started late because lists took too long.
    is_behind: bool,
    requests: u64,
    errors: u64,
    reasons: Errors,
    wire_bytes: u64,
    chunks: Option<u64>,
    found: Option<Contents>,
    /// How long the latest list ran that the server ended early, and how many bytes of it were
    /// received.
    cut_off: Option<(Duration, u64)>,
    /// How many lists the server ended early.
    cut_offs: u64,
    /// Lists that were started again after a compaction, and the time of the attempts that were
    /// lost.
    restarts: Restarts,
    programs: Programs,
}

impl Lists {
    fn new() -> Self {
        Self {
            begun: Instant::now(),
            latency: LatencyHistogram::default(),
            service: LatencyHistogram::default(),
            longest_gap: LatencyHistogram::default(),
            is_behind: false,
            requests: 0,
            errors: 0,
            reasons: Errors::default(),
            wire_bytes: 0,
            chunks: None,
            found: None,
            cut_off: None,
            cut_offs: 0,
            restarts: Restarts::default(),
            programs: Programs::default(),
        }
    }

    /// Adds a round. `waited` is how long it waited for the round before, if rounds start at fixed
    /// times.
    fn take(&mut self, round: Vec<Done>, waited: Option<Duration>) {
        for done in round {
            self.requests += 1;
            self.restarts.count += done.restarts.count;
            self.restarts.time += done.restarts.time;
            self.programs.take_list(&done);
            match done.result {
                Ok(Some((listed, found))) => {
                    self.latency
                        .record(done.latency + waited.unwrap_or_default());
                    if waited.is_some() {
                        self.service.record(done.latency);
                    }
                    if let Some(gap) = done.objects.longest_gap() {
                        self.longest_gap.record(gap);
                    }
                    self.wire_bytes += listed.wire_bytes;
                    self.chunks = Some(listed.chunks);
                    self.found = found;
                }
                Ok(None) => {}
                Err(error) => {
                    if let ListError::CutOff { bytes, .. } = error {
                        self.cut_off = Some((done.latency, bytes));
                        self.cut_offs += 1;
                    }
                    self.fail(&error);
                }
            }
        }
    }

    /// Adds the verification of a round of lists, where that follows the round.
    fn take_checks(&mut self, round: Vec<Done>, took: Duration) {
        self.programs.checking += took;
        for done in round {
            self.programs.take_check(&done);
            match done.result {
                Ok(Some((listed, found))) => {
                    self.wire_bytes += listed.wire_bytes;
                    self.found = found;
                }
                Ok(None) => {}
                Err(error) => self.fail(&error),
            }
        }
    }

    fn fail(&mut self, error: &ListError) {
        self.errors += 1;
        self.reasons.add(1, error.class(), error.to_string());
    }

    /// Returns the bytes of one list as received; 0 before the first list.
    fn bytes_of_one(&self) -> u64 {
        self.wire_bytes / (self.requests - self.errors).max(1)
    }

    fn describe(&self, case: &mut Case, elapsed: Duration) {
        let elapsed = elapsed.saturating_sub(self.programs.checking);
        case.requests = self.requests;
        case.errors = self.errors;
        case.bytes = self.bytes_of_one();
        case.chunks = self.chunks;
        case.restarts = self.restarts.count;
        case.restarted_ms =
            (self.restarts.count > 0).then_some(self.restarts.time.as_secs_f64() * 1e3);
        case.latency_ms = to_result::quantiles_ms(&self.latency);
        case.service_ms = to_result::quantiles_ms(&self.service);
        case.longest_gap_ms = to_result::quantiles_ms(&self.longest_gap);
        case.throughput_bytes_per_s =
            (self.wire_bytes > 0).then(|| self.wire_bytes as f64 / elapsed.as_secs_f64());
        case.verified = self.found.as_ref().map(to_result::verified);
        case.objects = case.verified.as_ref().map_or(0, |v| v.objects);
        case.error_samples = self.reasons.most_frequent(KEPT_ERRORS);
    }
}

/// Returns which part of the Kubernetes tier served the lists, according to its own counters of the
/// measured phase.
pub(super) fn served_from(server: Option<&result::ServerMetrics>) -> ServedFrom {
    let Some(server) = server else {
        return ServedFrom::Unknown;
    };
    let counted = |part: &str| {
        let matching = server.counters.iter();
        matching
            .filter(|(name, _)| {
                name.starts_with("apiserver_storage_list_total") && name.contains(part)
            })
            .map(|(_, count)| count)
            .sum::<u64>()
    };
    let from_watches = server.counters.keys();
    let is_watch = from_watches
        .into_iter()
        .any(|name| name.starts_with("apiserver_init_events_total"));
    match (
        counted("storage=\"watchcache\""),
        counted("storage=\"etcd\""),
    ) {
        (0, 0) if is_watch => ServedFrom::WatchCache,
        (0, 0) => ServedFrom::Unknown,
        (_, 0) => ServedFrom::WatchCache,
        (0, _) => ServedFrom::Store,
        _ => ServedFrom::Unknown,
    }
}

/// Counts the lists of a round for the status line and the metrics.
fn count(live: &LiveLoad, round: &[Done]) {
    for done in round {
        match done.result {
            Ok(Some(_)) => live.counts().ended(done.latency),
            // A client that sends no requests.
            Ok(None) => {}
            Err(_) => live.counts().failed(1),
        }
    }
}
