//! A case of several loads that run together: small requests, lists and watchers, each on its own
//! schedule or in a closed loop.
//!
//! - [`connect`]: the loads with their clients; [`through_api`]: loads of small requests to the
//!   Kubernetes tier, whose objects are created beforehand
//! - [`trials`]: the same loads in a search for the highest rate
//! - [`outcome`]: the results of the loads, and the check of what they wrote
//! - [`load_result`]: the measurements of a load for the report, and whether they are valid

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use load::arrivals::Pace;
use load::driver::calls::RequestClients;
use load::driver::closed::{Clients, Job};
use load::driver::deliveries::DeliveryWatchers;
use load::driver::lists;
use load::operation::kube_requests::KubeRequests;
use load::operation::list::ListCase;
use load::operation::requests::EtcdRequests;
use load::record::Live;
use load::verify::Verifier;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use workloads::scenario::{LoadSpec, LoadsSpec, Operation};
use workloads::{DataSet, GeneratorShard};

use self::connect::Connector;
use self::load_result::{LoadResult, to_report};
use self::outcome::Ran;
use super::load_intervals::IntervalRecorder;
use super::meter::Meter;
use super::status::schedule;
use super::{CaseRun, DEATH_TIMEOUT, EarlyEnd, ListedData, Measured};
use crate::live::LiveLoad;
use crate::progress::Counted;
use crate::run::availability::target;
use crate::servers::running::Running;

mod connect;
mod load_result;
mod outcome;
mod through_api;
mod trials;

/// The default duration of the warm-up.
const WARM_UP: Duration = Duration::from_secs(2);

/// The clients that make the requests of a load.
enum LoadClients {
    Small(RequestClients, Arc<EtcdRequests>),
    SmallThroughApi(RequestClients, Arc<KubeRequests>),
    KeepAlives(RequestClients),
    Lists(Clients, Job),
    /// `None` once their results were taken.
    Watch(Option<DeliveryWatchers>),
}

/// A load with its clients connected.
struct ConnectedLoad<'a> {
    spec: &'a LoadSpec,
    clients: LoadClients,
    pace: Pace,
    seed: u64,
    share: Share,
    live: LiveLoad,
}

/// This generator's share of a load: all of it, if there is no other generator.
#[derive(Debug, Clone, Copy)]
struct Share {
    shard: GeneratorShard,
    /// The fraction of the rate.
    part: f64,
    clients: u32,
    connections: Option<u32>,
}

impl CaseRun<'_> {
    /// Returns why the target does not support one of the case's lists; `None` if it supports them
    /// all.
    pub(super) fn refused_list(&self, case: &ListCase, running: &Running) -> Option<String> {
        let mut lists = self.lists_of_case(case);
        lists.find_map(|list| target::refused(&list, running))
    }

    /// Returns the lists of the case, each as a case of its own.
    pub(super) fn lists_of_case(&self, case: &ListCase) -> impl Iterator<Item = ListCase> {
        let loads = self.spec.loads.iter().flat_map(|case| &case.load);
        loads.filter_map(|load| match load.operation {
            Operation::List(strategy) => Some(ListCase {
                strategy,
                ..case.clone()
            }),
            Operation::Small(_) | Operation::Watch => None,
        })
    }

    /// Runs the measured part of a case of several loads.
    pub(super) async fn loads(
        &self,
        case: &LoadsSpec,
        listed: &ListedData,
        running: &mut Running,
        measured: &mut Measured,
    ) -> Result<(), EarlyEnd> {
        let data = self.data_of_loads()?;
        let endpoint = &listed.endpoint;
        let verifier = verifier_after(case, listed);
        let duration = case.lasts(self.scenario.duration);
        let mut meter = self.settled_for_loads(case, running, measured).await?;
        if case.load.iter().any(|load| !load.is_steady(duration)) {
            meter.load_changes();
        }
        let connector = Connector::new(self, case, &data, endpoint, &verifier);
        let mut loads = connector.loads().await?;
        let never = CancellationToken::new();
        let warm_up = (Duration::ZERO, case.warm_up.unwrap_or(WARM_UP));
        let warm = loads.iter();
        let warm = join_all(warm.map(|load| load.run(warm_up, Arc::default(), &never)));
        let warm = self.unless_stopped(warm).await?;
        for (load, result) in loads.iter().zip(&warm) {
            if let Some(reason) = result.warm_up_error(&load.pace) {
                let name = &load.spec.name;
                return Err(EarlyEnd::Failed(format!(
                    "warm-up of load {name}: {reason}"
                )));
            }
        }

        let title = format!("{}/{}", self.target.name, self.spec.name());
        let phase = self.progress.phase(&title, 1, Counted::Requests);
        self.begin(&mut meter).await?;
        let begun = Instant::now();
        loads.iter().for_each(|load| load.begins(duration));
        let live: Vec<LiveLoad> = loads.iter().map(|load| load.live.clone()).collect();
        let intervals = IntervalRecorder::start(measured.case.id(), live.clone(), duration);
        let status = self.tell_status(&phase, live, running);
        // Loads that are stopped return what they have measured until then.
        let results = loads.iter().map(|load| {
            let window = load.spec.window(duration);
            load.run(window, Arc::clone(load.live.counts()), self.stop)
        });
        let results = join_all(results).await;
        drop(status);
        measured.load_intervals = intervals.finish().await;
        let whole = results.iter().all(|result| result.first_error().is_none());
        let span = self.since(begun);
        meter.end_of_round(whole && !self.stop.is_cancelled()).await;
        let requests: u64 = results.iter().map(LoadResult::requests).sum();
        meter
            .end(0, priced_requests(case, requests), measured)
            .await;
        phase.done(&format!("{requests} requests"));
        if !whole && running.death_within(DEATH_TIMEOUT).await.is_some() {
            // A server that has ended has no events for its watchers.
            loads.iter_mut().for_each(ConnectedLoad::stop_watching);
        }
        let ran = Ran {
            case,
            warm,
            results,
            begun,
            span,
        };
        self.note_loads(&mut loads, ran, measured).await?;
        if self.stop.is_cancelled() {
            return Err(EarlyEnd::Interrupted);
        }
        self.judge_loads(case, measured)?;
        self.check_written(case, &loads, endpoint).await?;
        self.list_once(endpoint, &verifier, measured).await
    }

    /// Returns the data set of the loads.
    fn data_of_loads(&self) -> Result<Arc<DataSet>, EarlyEnd> {
        let reason = || "loads need a data set that the run writes".to_owned();
        let data = self.data().cloned();
        data.ok_or_else(|| EarlyEnd::NotApplicable(reason()))
    }

    /// As [`CaseRun::settled`], of a generator that keeps the events of the case's watchers.
    async fn settled_for_loads(
        &self,
        case: &LoadsSpec,
        running: &Running,
        measured: &mut Measured,
    ) -> Result<Meter, EarlyEnd> {
        let mut meter = self.settled(running, measured).await?;
        if case.is_watched() {
            meter.generator_keeps_events();
        }
        Ok(meter)
    }
}

impl ConnectedLoad<'_> {
    /// Returns the measurements of this load, in a case that lasted `duration`.
    fn to_report(&self, result: &LoadResult, duration: Duration) -> report::result::Load {
        to_report(self.spec, self.share, &self.pace, result, duration)
    }

    /// Drops the watchers without taking their results.
    fn stop_watching(&mut self) {
        if let LoadClients::Watch(watchers) = &mut self.clients {
            *watchers = None;
        }
    }

    /// Starts the schedule of the live counters, if the load has one, for its window of a case that
    /// lasts `duration`.
    fn begins(&self, duration: Duration) {
        let (start, stop) = self.spec.window(duration);
        if let Pace::Open(profile) = &self.pace {
            let schedule = schedule(profile, self.share.part, start, stop - start);
            self.live.keep_to(schedule);
        }
    }

    /// Runs the load from the start to the end of its window, which are relative to now. Its
    /// requests are counted in `live`.
    async fn run(
        &self,
        (start, end): (Duration, Duration),
        live: Arc<Live>,
        stop: &CancellationToken,
    ) -> LoadResult {
        tokio::select! {
            () = sleep(start) => {}
            () = stop.cancelled() => {}
        }
        let lasts = end - start;
        match &self.clients {
            LoadClients::Small(callers, _)
            | LoadClients::SmallThroughApi(callers, _)
            | LoadClients::KeepAlives(callers) => {
                let tally = callers.run_counted(self.pace.clone(), lasts, stop, live);
                LoadResult::Small(Box::new(tally.await))
            }
            LoadClients::Lists(clients, job) => {
                let starts = lists::starts(&self.pace, self.seed, self.share.shard);
                let lists = lists::run(clients, *job, starts, lasts, stop, &live);
                match lists.await {
                    Ok(tally) => LoadResult::Lists(Box::new(tally)),
                    Err(error) => LoadResult::Broken(format!(
                        "cannot create the timer of the schedule: {error}"
                    )),
                }
            }
            LoadClients::Watch(_) => LoadResult::Watch(Box::default()),
        }
    }
}

/// Returns the verifier for lists after the loads of a case have run.
fn verifier_after(case: &LoadsSpec, listed: &ListedData) -> Verifier {
    let mut verifier = listed.verifier.clone();
    if let Some(expected) = &mut verifier.expected
        && case.rewrites_data()
    {
        // Writes give the same objects revisions that are not known beforehand.
        expected.revisions = None;
    }
    verifier
}

/// Returns the number of requests by which the case's CPU time is divided: those of its only load.
/// Returns 0 for several loads and for watchers, where the CPU time of the case is not that of its
/// requests.
fn priced_requests(case: &LoadsSpec, requests: u64) -> u64 {
    match &case.load[..] {
        [only] if !matches!(only.operation, Operation::Watch) => requests,
        _ => 0,
    }
}
