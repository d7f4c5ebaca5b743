//! A case of several loads that run together: small requests, lists and watchers, each on its own
//! schedule or in a closed loop.
//!
//! - [`connect`]: the loads with their clients; [`through_api`]: those of small requests to the
//!   Kubernetes tier, whose objects are made before
//! - [`outcome`]: what the loads came to, and whether what was written is there
//! - [`mod@figures`]: what a load came to, for the report, and whether that says anything of the
//!   target

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use load::arrivals::Pace;
use load::driver::calls::Callers;
use load::driver::closed::{Clients, Job, Verifier};
use load::driver::deliveries::DeliveryWatchers;
use load::driver::lists;
use load::endpoint::TargetEndpoint;
use load::operation::kube_requests::KubeCalls;
use load::operation::list::ListCase;
use load::operation::requests::{Calls, Revisions};
use load::record::Live;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use workloads::GeneratorShard;
use workloads::scenario::{LoadSpec, LoadsSpec, Operation};

use self::connect::Connector;
use self::figures::{Came, figures};
use self::outcome::Ran;
use super::status::schedule;
use super::{CaseRun, DEATH_WITHIN, Early, Measured};
use crate::live::LiveLoad;
use crate::progress::Counted;
use crate::run::availability::target;
use crate::servers::running::Running;

mod connect;
mod figures;
mod outcome;
mod through_api;

/// How long loads run before they are measured, where the case does not say.
const WARM_UP: Duration = Duration::from_secs(2);

/// What does the requests of a load.
enum Worker {
    Small(Callers, Arc<Calls>),
    SmallThroughApi(Callers, Arc<KubeCalls>),
    KeepAlives(Callers),
    Lists(Clients, Job),
    /// Until they are asked what came.
    Watch(Option<DeliveryWatchers>),
}

/// A load with its clients connected.
struct Load<'a> {
    spec: &'a LoadSpec,
    worker: Worker,
    pace: Pace,
    seed: u64,
    share: Share,
    live: LiveLoad,
}

/// This generator's share of a load: all of it, where there is no other.
#[derive(Debug, Clone, Copy)]
struct Share {
    shard: GeneratorShard,
    /// Of the rate.
    part: f64,
    clients: u32,
    connections: Option<u32>,
}

impl CaseRun<'_> {
    /// Returns why the target cannot have one of the case's lists; `None` when it may.
    pub(super) fn refused_list(&self, case: &ListCase, running: &Running) -> Option<String> {
        let mut lists = self.lists_of_case(case);
        lists.find_map(|list| target::refused(&list, running))
    }

    /// Returns the lists of the case, as cases of their own.
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

    /// The measured part of a case of several loads.
    pub(super) async fn loads(
        &self,
        case: &LoadsSpec,
        endpoint: &TargetEndpoint,
        mut verifier: Verifier,
        running: &mut Running,
        measured: &mut Measured,
    ) -> Result<(), Early> {
        let Some(data) = self.data().cloned() else {
            let reason = "loads need a data set that the run writes".to_owned();
            return Err(Early::NotApplicable(reason));
        };
        if let Some(expected) = &mut verifier.expected
            && case.rewrites_data()
        {
            // The same objects, at revisions that nobody knows before.
            expected.revisions = None;
        }
        let duration = case.lasts(self.scenario.duration);
        let mut meter = self.settled(running, measured).await?;
        if case.load.iter().any(|load| !load.is_steady(duration)) {
            meter.load_changes();
        }
        let watches = |load: &LoadSpec| matches!(load.operation, Operation::Watch);
        if case.load.iter().any(watches) {
            meter.generator_keeps_events();
        }
        let connector = Connector {
            run: self,
            case,
            data: &data,
            endpoint,
            verifier: &verifier,
            revisions: Arc::new(Revisions::new(&data)),
        };
        let mut loads = connector.loads().await?;
        let never = CancellationToken::new();
        let warm_up = case.warm_up.unwrap_or(WARM_UP);
        let warm = join_all(
            loads
                .iter()
                .map(|load| load.run(Some(warm_up), duration, &never)),
        );
        let warm = self.unless_stopped(warm).await?;
        for (load, came) in loads.iter().zip(&warm) {
            if let Some(reason) = came.first_error() {
                let name = &load.spec.name;
                return Err(Early::Failed(format!("warm-up of load {name}: {reason}")));
            }
        }

        let title = format!("{}/{}", self.target.name, self.spec.name());
        let phase = self.progress.phase(&title, 1, Counted::Requests);
        self.begin(&mut meter).await?;
        let begun = Instant::now();
        loads.iter().for_each(|load| load.begins(duration));
        let live = loads.iter().map(|load| load.live.clone()).collect();
        let status = self.tell_status(&phase, live, running);
        // Stopped, they come back with what there was until then.
        let came = join_all(loads.iter().map(|load| load.run(None, duration, self.stop))).await;
        drop(status);
        let whole = came.iter().all(|came| came.first_error().is_none());
        let span = self.since(begun);
        meter.end_of_round(whole && !self.stop.is_cancelled()).await;
        let requests: u64 = came.iter().map(Came::requests).sum();
        meter
            .end(0, priced_requests(case, requests), measured)
            .await;
        phase.done(&format!("{requests} requests"));
        if !whole && running.death_within(DEATH_WITHIN).await.is_some() {
            // A dead server has no events for its watchers.
            loads.iter_mut().for_each(Load::stop_watching);
        }
        let ran = Ran {
            case,
            warm,
            came,
            begun,
            span,
        };
        self.note_loads(&mut loads, ran, measured).await?;
        if self.stop.is_cancelled() {
            return Err(Early::Interrupted);
        }
        self.judge_loads(case, measured)?;
        self.check_written(case, &loads, endpoint).await?;
        self.list_once(endpoint, &verifier, measured).await
    }
}

impl Load<'_> {
    /// Its figures, in a case that lasted `duration`.
    fn figures(&self, came: &Came, duration: Duration) -> report::result::Load {
        figures(self.spec, self.share, &self.pace, came, duration)
    }

    /// Lets watchers go without asking what they have.
    fn stop_watching(&mut self) {
        if let Worker::Watch(watchers) = &mut self.worker {
            *watchers = None;
        }
    }

    /// It is measured from now on, in its window of a case that lasts `duration`.
    fn begins(&self, duration: Duration) {
        let (start, stop) = self.spec.window(duration);
        if let Pace::Open(profile) = &self.pace {
            let schedule = schedule(profile, self.share.part, start, stop - start);
            self.live.keep_to(schedule);
        }
    }

    /// Runs in its window of a case that lasts `duration`, or for `warm_up` from now on.
    async fn run(
        &self,
        warm_up: Option<Duration>,
        duration: Duration,
        stop: &CancellationToken,
    ) -> Came {
        let (start, end) = match warm_up {
            Some(warm_up) => (Duration::ZERO, warm_up),
            None => self.spec.window(duration),
        };
        // What is not measured is not counted.
        let live: Arc<Live> = match warm_up {
            Some(_) => Arc::default(),
            None => Arc::clone(self.live.counts()),
        };
        tokio::select! {
            () = sleep(start) => {}
            () = stop.cancelled() => {}
        }
        let lasts = end - start;
        match &self.worker {
            Worker::Small(callers, _)
            | Worker::SmallThroughApi(callers, _)
            | Worker::KeepAlives(callers) => {
                let tally = callers.run_counted(self.pace.clone(), lasts, stop, live);
                Came::Small(Box::new(tally.await))
            }
            Worker::Lists(clients, job) => {
                let starts = lists::starts(&self.pace, self.seed, self.share.shard);
                let lists = lists::run(clients, *job, starts, lasts, stop, &live);
                match lists.await {
                    Ok(tally) => Came::Lists(Box::new(tally)),
                    Err(error) => Came::Broken(format!("the schedule has no clock: {error}")),
                }
            }
            Worker::Watch(_) => Came::Watch(Box::default()),
        }
    }
}

/// Returns by how many requests the case's CPU time is divided: those of its only load. Of several
/// loads, or of watchers, no request costs what the case does, and it is 0.
fn priced_requests(case: &LoadsSpec, requests: u64) -> u64 {
    match &case.load[..] {
        [only] if !matches!(only.operation, Operation::Watch) => requests,
        _ => 0,
    }
}
