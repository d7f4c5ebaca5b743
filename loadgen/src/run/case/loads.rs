//! A case of several loads that run together: small requests, lists and watchers, each on its own
//! schedule or in a closed loop.
//!
//! - [`through_api`]: small requests to the Kubernetes tier
//! - [`mod@figures`]: what a load came to, for the report, and whether that says anything of the
//!   target

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use load::arrivals::Pace;
use load::driver::calls::Callers;
use load::driver::closed::{Clients, Job, Verifier};
use load::driver::deliveries::{ApiWatching, Beside, DeliveryWatchers, Watching};
use load::driver::lists;
use load::driver::run::Written;
use load::endpoint::Reach;
use load::operation::keep_alives::KeepAlives;
use load::operation::kube_requests::{KubeCalls, made_by};
use load::operation::leases::GrantedLeases;
use load::operation::list::ListCase;
use load::operation::requests::{About, Calls};
use load::record::Live;
use report::result::Outcome;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use workloads::scenario::{LoadSpec, LoadsSpec, Operation, Start, Streams};
use workloads::{DataSet, GeneratorShard, Tier};

use self::figures::{Came, figures};
use super::requests::{READ_BACK_WITHIN, is_of_the_load};
use super::status::schedule;
use super::times::Span;
use super::{CaseRun, DEATH_WITHIN, Early, Measured, Source, created_root};
use crate::live::LiveLoad;
use crate::progress::Counted;
use crate::run::availability::target;
use crate::run::plan::waiting;
use crate::servers::running::Running;

mod figures;
mod through_api;

/// How long loads run before they are measured, where the case does not say.
const WARM_UP: Duration = Duration::from_secs(2);
/// How long a stopped case waits for the last events.
const STOPPED_WITHIN: Duration = Duration::from_secs(2);

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

/// How long objects that a load made on a server that goes on may take to be deleted. An apiserver
/// deletes a collection one object after the other, by one worker.
const REMOVED_WITHIN: Duration = Duration::from_secs(600);

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
        reach: &Reach,
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
        let mut loads = Vec::new();
        // Watchers last: what others make before they run is no event of theirs.
        let mut order: Vec<_> = (0..).zip(&case.load).collect();
        order.sort_by_key(|(_, spec)| spec.operation == Operation::Watch);
        for (number, spec) in order {
            let connected = self.connected(number, spec, case, &data, reach, &verifier);
            let connected = self.unless_stopped(connected).await??;
            loads.push((number, connected));
        }
        loads.sort_by_key(|(number, _)| *number);
        let mut loads: Vec<Load<'_>> = loads.into_iter().map(|(_, load)| load).collect();
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
        self.told(case, &mut loads, &warm, came, (span, begun), measured)
            .await?;
        if self.stop.is_cancelled() {
            return Err(Early::Interrupted);
        }
        self.judge_loads(case, measured)?;
        let is_repeated = case.rounds.is_some();
        self.check_after(&loads, reach, &verifier, is_repeated, measured)
            .await
    }

    /// A load with its clients.
    async fn connected<'a>(
        &self,
        number: u64,
        spec: &'a LoadSpec,
        case: &LoadsSpec,
        data: &Arc<DataSet>,
        reach: &Reach,
        verifier: &Verifier,
    ) -> Result<Load<'a>, Early> {
        let failed = |what: String| Early::Failed(format!("load {}: {what}", spec.name));
        let etcd = || {
            let etcd = reach.etcd.as_ref();
            etcd.ok_or_else(|| failed("the target has no etcd API".to_owned()))
        };
        // Each load draws its own operations; the first has those of a case of its kind.
        let seed = data.spec().seed.wrapping_add(number << 32);
        let connections = spec.connections.map_or(1, std::num::NonZeroU32::get);
        let share = self.share_of_load(spec);
        let live = self.live(&spec.name, &spec.operation_text());
        let worker = match &spec.operation {
            Operation::Small(mix) if spec.is_through_api() => {
                let values = (seed, connections, share.shard);
                let through = self.through_api(mix, spec, case, data, reach, values);
                let (callers, calls) = through.await.map_err(failed)?;
                Worker::SmallThroughApi(callers, calls)
            }
            Operation::Small(_) if spec.streams == Streams::One => {
                let (own_root, leases) = self.own(case, spec, verifier);
                let keep_alives = KeepAlives {
                    seed,
                    own_root,
                    leases: leases.cloned(),
                };
                let waiting = waiting(self.scenario);
                let callers = Callers::connect_keep_alives(
                    etcd()?,
                    connections,
                    share.shard,
                    keep_alives,
                    waiting,
                );
                let callers = callers.await.map_err(|error| failed(error.to_string()))?;
                Worker::KeepAlives(callers)
            }
            Operation::Small(mix) => {
                let (own_root, leases) = self.own(case, spec, verifier);
                let about = About {
                    own_root: &own_root,
                    keys: spec.keys.unwrap_or_default(),
                    after: verifier.expected.as_ref().map_or(0, |e| e.revision),
                    seed,
                    values: spec.value.as_ref(),
                    leases,
                    ..About::new(data, &verifier.root)
                };
                let mut calls = Calls::new(mix.clone(), about);
                if case
                    .load
                    .iter()
                    .any(|load| load.operation == Operation::Watch)
                {
                    calls = calls.keeping_writes();
                }
                if calls.compares() {
                    let learnt = timeout(READ_BACK_WITHIN, calls.learn(etcd()?)).await;
                    let late = || format!("objects were not read within {READ_BACK_WITHIN:?}");
                    let learnt = learnt.map_err(|_| failed(late()))?;
                    learnt.map_err(|error| failed(error.to_string()))?;
                }
                let calls = Arc::new(calls);
                let waiting = waiting(self.scenario);
                let (etcd, shared) = (etcd()?, Arc::clone(&calls));
                let callers = Callers::connect(etcd, connections, share.shard, shared, waiting);
                let callers = callers.await.map_err(|error| failed(error.to_string()))?;
                Worker::Small(callers, calls)
            }
            Operation::List(strategy) => {
                let mut case = ListCase {
                    tier: case.tier,
                    strategy: *strategy,
                    ..self.list_case()
                };
                let mut verifier = verifier.clone();
                if let Some(nodes) = self.narrow(*strategy, &mut verifier).await? {
                    case.asks.nodes = nodes;
                }
                let clients = Clients::connect(share.clients, &case, reach, verifier);
                let clients = clients.await.map_err(|error| failed(error.to_string()))?;
                let job = match spec.checked {
                    true => Job::List,
                    false => Job::ListUnchecked,
                };
                Worker::Lists(clients, job)
            }
            Operation::Watch if spec.tier() == Tier::Kube => {
                let created = DeliveryWatchers::create_through_api(ApiWatching {
                    case: ListCase {
                        tier: Tier::Kube,
                        ..self.list_case()
                    },
                    reach: reach.clone(),
                    count: share.clients,
                    made: made_by(&self.plan.run_id),
                    cut_every: spec.cut_every,
                    live: Arc::clone(live.counts()),
                });
                Worker::Watch(Some(
                    created.await.map_err(|error| failed(error.to_string()))?,
                ))
            }
            Operation::Watch => {
                let prefix = format!("{}{}", verifier.root, data.prefix());
                let mut config = etcd()?.clone();
                if let Some(window) = spec.window {
                    config.http2.stream_window_bytes = window.0;
                    config.http2.connection_window_bytes = window.0;
                }
                let created = DeliveryWatchers::create(Watching {
                    config,
                    prefix,
                    count: share.clients,
                    connections: share.connections.unwrap_or(1),
                    stall: spec.stall,
                    cut_every: spec.cut_every,
                    live: Arc::clone(live.counts()),
                });
                Worker::Watch(Some(
                    created.await.map_err(|error| failed(error.to_string()))?,
                ))
            }
        };
        let pace = match &spec.arrivals {
            Start::Closed => Pace::Closed {
                clients: spec.clients.get(),
            },
            Start::Open(profile) => Pace::Open(profile.ordered(seed)),
        };
        Ok(Load {
            spec,
            worker,
            pace,
            seed,
            share,
            live,
        })
    }

    /// Returns what the keys and leases begin with that a load makes, and where leases are noted
    /// that nobody else revokes.
    fn own(
        &self,
        case: &LoadsSpec,
        load: &LoadSpec,
        verifier: &Verifier,
    ) -> (String, Option<&Arc<GrantedLeases>>) {
        let created = created_root(&verifier.root);
        let leases = match &self.source {
            Source::Seeded { leases, .. } => Some(leases),
            _ => None,
        };
        (format!("{created}{}/{}/", case.name, load.name), leases)
    }

    /// Returns what of a load this generator has.
    fn share_of_load(&self, spec: &LoadSpec) -> Share {
        let (clients, connections) = (spec.clients.get(), spec.connections);
        let of = connections.map_or(1, std::num::NonZeroU32::get);
        let is_open = matches!(spec.arrivals, Start::Open(_));
        let (part, clients) = match (&spec.operation, is_open) {
            (Operation::Small(_), true) => (self.part_of(of), clients),
            (Operation::Small(_), false) => (1.0, self.share_of_clients(clients, of)),
            // Every n-th list of the schedule, whoever makes it.
            (Operation::List(_), _) => (
                1.0 / f64::from(self.shard().count()),
                self.share_of(clients),
            ),
            (Operation::Watch, _) => (1.0, self.share_of(clients)),
        };
        Share {
            shard: self.shard(),
            part,
            clients,
            connections: connections.map(|connections| self.share_of(connections.get())),
        }
    }

    /// Notes what each load came to; watchers are compared with what was written.
    async fn told(
        &self,
        case: &LoadsSpec,
        loads: &mut [Load<'_>],
        warm: &[Came],
        came: Vec<Came>,
        (span, begun): (Span, Instant),
        measured: &mut Measured,
    ) -> Result<(), Early> {
        let specs: Vec<&LoadSpec> = loads.iter().map(|load| load.spec).collect();
        let specs = || specs.iter().copied();
        let all = warm.iter().zip(specs()).chain(came.iter().zip(specs()));
        let (through_api, to_etcd): (Vec<_>, Vec<_>) =
            all.partition(|(_, spec)| spec.tier() == Tier::Kube);
        // Writes whose responses tell their revisions, and how many failed: those may be done.
        let writes = |of: Vec<(&Came, _)>| -> (Vec<Written>, u64) {
            let failed = of.iter().map(|(came, _)| came.failed_requests()).sum();
            let writes = of.into_iter().flat_map(|(came, _)| came.writes());
            (writes.copied().collect(), failed)
        };
        let (through_api, to_etcd) = (writes(through_api), writes(to_etcd));
        // What the first watchers did not agree with; the figures of all loads are kept.
        let mut wrong = None;
        for (load, mut came) in loads.iter_mut().zip(came) {
            if let Worker::Watch(watchers) = &mut load.worker
                && let Some(watchers) = watchers.take()
            {
                let (writes, failed) = match load.spec.tier() {
                    Tier::Kube => through_api.clone(),
                    Tier::Etcd => to_etcd.clone(),
                };
                let beside = match (self.shard().is_whole(), failed) {
                    (false, _) => Beside::Anything,
                    (true, 0) => Beside::Nothing,
                    (true, failed) => Beside::UpTo(failed),
                };
                let delivered = watchers.finish(writes, begun, beside);
                if self.stop.is_cancelled() {
                    // What was written has been acknowledged: its events are there, or nobody
                    // waits for them.
                    if let Ok(Ok(delivered)) = timeout(STOPPED_WITHIN, delivered).await {
                        came = Came::Watch(Box::new(delivered));
                    }
                } else {
                    came = match self.unless_stopped(delivered).await? {
                        Ok(delivered) => Came::Watch(Box::new(delivered)),
                        Err(error) => {
                            let reason = format!("load {}: {error}", load.spec.name);
                            wrong.get_or_insert(Early::Failed(reason));
                            Came::Broken(error.to_string())
                        }
                    };
                }
            }
            let figures = load.figures(&came, case.lasts(self.scenario.duration));
            for (measure, histogram) in came.histograms() {
                let name = format!("{}.{measure}", load.spec.name);
                measured.keep(&name, span, histogram.clone());
            }
            if std::ptr::eq(load.spec, case.headline()) {
                let case = &mut measured.case;
                case.requests = figures.requests;
                case.errors = figures.errors;
                case.latency_ms.clone_from(&figures.latency_ms);
                case.service_ms.clone_from(&figures.service_ms);
                case.requests_per_s = figures.achieved_per_s;
                if let Some(client) = &mut case.client {
                    client.lag_ms.clone_from(&figures.lag_ms);
                }
                if let Some((_, histogram)) = came.histograms().first() {
                    measured.keep("latency", span, (*histogram).clone());
                }
            }
            measured.case.loads.push(figures);
        }
        wrong.map_or(Ok(()), Err)
    }

    /// What the loads make of the case.
    fn judge_loads(&self, case: &LoadsSpec, measured: &mut Measured) -> Result<(), Early> {
        let loads = &measured.case.loads;
        let is_refused = |load: &report::result::Load| {
            let errors = load.error_samples.iter().map(String::as_str);
            load.saturated && is_of_the_load(load.requests, load.errors, errors)
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

    /// What was written is there, and everything else, too.
    async fn check_after(
        &self,
        loads: &[Load<'_>],
        reach: &Reach,
        verifier: &Verifier,
        is_repeated: bool,
        measured: &mut Measured,
    ) -> Result<(), Early> {
        for load in loads {
            let read_back = async {
                match (&load.worker, &reach.etcd) {
                    (Worker::Small(_, calls), Some(config)) => calls.read_back(config).await,
                    (Worker::SmallThroughApi(_, calls), _) => calls.read_back(reach).await,
                    _ => Ok(()),
                }
            };
            let read_back = timeout(READ_BACK_WITHIN, read_back);
            let read_back = self.unless_stopped(read_back).await?;
            let late = || format!("writes were not read back within {READ_BACK_WITHIN:?}");
            let read_back = read_back.map_err(|_| Early::Failed(late()))?;
            read_back.map_err(|e| Early::Failed(e.to_string()))?;
            // A server that was started for the case ends with its objects, unless it has rounds.
            // Those of several generators are the objects of all, and go with the namespaces that
            // they are in.
            if let Worker::SmallThroughApi(_, calls) = &load.worker
                && (!self.target.spec.is_started() || is_repeated)
                && self.shard().is_whole()
            {
                let removed = self.unless_stopped(timeout(REMOVED_WITHIN, calls.remove(reach)));
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
        self.list_once(reach, verifier, measured).await
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
