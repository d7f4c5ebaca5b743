//! Loads in the background of a case. They start before its clients warm up, stop after its last
//! phase, and are counted from start to stop.
//!
//! A new strategy of a driver that [`RunningBackgroundLoad::start`] handles needs no change here;
//! another driver needs an arm there.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use load::arrivals::Pace;
use load::driver::calls::RequestClients;
use load::driver::closed::{Clients, Job};
use load::driver::open_clock::Waiting;
use load::operation::list::ListCase;
use load::operation::requests::{EtcdRequests, RequestConfig};
use load::operation::watch::{Deliveries, Watched, Watchers};
use report::result::BackgroundLoad;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use workloads::scenario::{Background, Keys};
use workloads::{DataSet, DataSetSpec, Driver, GeneratorShard, Kind, Profile};

use super::{CaseRun, EarlyEnd, ListedData};

/// Longer than any case lasts.
const FOR_EVER: Duration = Duration::from_secs(24 * 3_600);
/// The prefix of keys that no case reads.
const ELSEWHERE: &str = "/elsewhere/";
/// The prefix of keys that are never written.
const NOWHERE: &str = "/nowhere/";
/// The number of objects below [`ELSEWHERE`], and their size in bytes.
const OBJECTS_ELSEWHERE: (u64, u64) = (10_000, 1_024);

/// The running background loads of a case. They stop when dropped.
#[derive(Debug, Default)]
pub(super) struct RunningBackgroundLoads(Vec<RunningBackgroundLoad>);

impl RunningBackgroundLoads {
    /// Stops all of them and returns their counts.
    pub(super) async fn stop(self) -> Vec<BackgroundLoad> {
        let mut all = Vec::new();
        for load in self.0 {
            all.push(load.stop().await);
        }
        all
    }
}

/// One running load.
#[derive(Debug)]
struct RunningBackgroundLoad {
    stop: CancellationToken,
    background: BackgroundLoad,
    /// The task that sends the load's requests. It returns the numbers of requests and of errors.
    work: Option<JoinHandle<(u64, u64)>>,
    idle: Option<(Watchers, Arc<Deliveries>)>,
}

impl Drop for RunningBackgroundLoad {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(work) = &self.work {
            work.abort();
        }
    }
}

impl CaseRun<'_> {
    /// Returns the loads that the case names in `background`, without counts.
    pub(super) fn background(&self) -> Vec<BackgroundLoad> {
        let loads = self.backgrounds();
        loads.map(described).collect()
    }

    pub(super) fn backgrounds(&self) -> impl Iterator<Item = &Background> {
        let all = &self.scenario.background;
        let names = self.spec.background.iter();
        names.filter_map(move |name| all.iter().find(|load| load.name == *name))
    }

    /// Starts the loads that the case names in `background`.
    pub(super) async fn start_background(
        &self,
        listed: &ListedData,
    ) -> Result<RunningBackgroundLoads, EarlyEnd> {
        let mut loads = RunningBackgroundLoads::default();
        for background in self.backgrounds() {
            let started = RunningBackgroundLoad::start(background, listed, self.data());
            let started = self.unless_stopped(started).await?;
            let failed =
                |error| EarlyEnd::Failed(format!("background {}: {error}", background.name));
            loads.0.push(started.map_err(failed)?);
        }
        Ok(loads)
    }
}

fn described(background: &Background) -> BackgroundLoad {
    BackgroundLoad {
        name: background.name.clone(),
        strategy: background.strategy.to_string(),
        clients: background.watchers.unwrap_or(background.clients).get(),
        offered_per_s: background.rate,
        requests: 0,
        errors: 0,
    }
}

impl RunningBackgroundLoad {
    async fn start(
        background: &Background,
        listed: &ListedData,
        data: Option<&Arc<DataSet>>,
    ) -> Result<Self, String> {
        let ListedData {
            case,
            endpoint,
            verifier,
        } = listed;
        let mut load = Self {
            stop: CancellationToken::new(),
            background: described(background),
            work: None,
            idle: None,
        };
        let etcd = || endpoint.etcd.as_ref().ok_or("the target has no etcd API");
        match background.strategy.driver() {
            Driver::List => {
                let case = ListCase {
                    tier: background.tier,
                    strategy: background.strategy,
                    ..case.clone()
                };
                let clients = background.clients.get();
                let clients = Clients::connect(clients, &case, endpoint, verifier.clone()).await;
                let clients = clients.map_err(|e| e.to_string())?;
                load.work = Some(tokio::spawn(lists(clients, load.stop.clone())));
            }
            Driver::Requests => {
                let strategy = background.strategy;
                let request = strategy
                    .small_request()
                    .ok_or_else(|| format!("`{strategy}` makes no small requests"))?;
                let calls = Arc::new(match (background.keys, data) {
                    (Keys::DataSet, Some(data)) => {
                        EtcdRequests::new(request, RequestConfig::new(data, &verifier.root))
                    }
                    _ => EtcdRequests::new(request, RequestConfig::new(&elsewhere(), ELSEWHERE)),
                });
                let connections = background.connections.get();
                let callers = RequestClients::connect(
                    etcd()?,
                    connections,
                    GeneratorShard::WHOLE,
                    calls,
                    Waiting::Sleep,
                )
                .await;
                let callers = callers.map_err(|e| e.to_string())?;
                let pace = match background.rate {
                    Some(per_second) => Pace::Open(Profile::Poisson(per_second)),
                    None => Pace::closed(background.clients.get()),
                };
                let stop = load.stop.clone();
                load.work = Some(tokio::spawn(async move {
                    let tally = callers.run(pace, FOR_EVER, &stop).await;
                    // A load that had to stop sending did not run in the background throughout, so
                    // that counts as an error.
                    (tally.requests, tally.errors + u64::from(tally.overrun))
                }));
            }
            // A scenario with another driver here was rejected before.
            Driver::Idle
            | Driver::Delivery
            | Driver::Shards
            | Driver::ShardedWatch
            | Driver::Loads => {
                let watched = Watched::Apart(NOWHERE.to_owned());
                let count = background.watchers.map_or(1, NonZeroU32::get);
                let connections = background.connections.get();
                let deliveries = Deliveries::new(0, 0);
                let watchers = Watchers::create(etcd()?, &watched, count, connections, &deliveries);
                let watchers = watchers.await.map_err(|e| e.to_string())?;
                load.idle = Some((watchers, deliveries));
            }
        }
        Ok(load)
    }

    async fn stop(mut self) -> BackgroundLoad {
        self.stop.cancel();
        let mut background = self.background.clone();
        if let Some(work) = self.work.take() {
            // A task that panicked has reported that on standard error.
            (background.requests, background.errors) = work.await.unwrap_or((0, 1));
        }
        if let Some((watchers, deliveries)) = self.idle.take() {
            background.requests = deliveries.received();
            background.errors = u64::from(watchers.close().await.is_err());
        }
        background
    }
}

/// Lists repeatedly, without verification, until `stop` or an error.
async fn lists(clients: Clients, stop: CancellationToken) -> (u64, u64) {
    let (mut requests, mut errors) = (0, 0);
    loop {
        let round = tokio::select! {
            round = clients.round(Job::ListUnchecked) => round,
            () = stop.cancelled() => return (requests, errors),
        };
        requests += round.len() as u64;
        errors += round.iter().filter(|done| done.result.is_err()).count() as u64;
        if errors > 0 {
            // Stop, or a broken target would be sent requests as fast as it rejects them.
            return (requests, errors);
        }
    }
}

/// Returns the data set that writers write outside of the listed keys.
fn elsewhere() -> DataSet {
    let (objects, object_size) = OBJECTS_ELSEWHERE;
    DataSet::new(&DataSetSpec {
        name: "elsewhere".to_owned(),
        kind: Kind::Raw,
        objects: objects.try_into().expect("some objects"),
        object_size: object_size.try_into().ok(),
        object_sizes: None,
        namespaces: None,
        nodes: None,
        seed: 1,
    })
}
