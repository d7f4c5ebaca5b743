//! Connects the loads of a case: creates their clients and decides which objects their requests are
//! about.

use std::fmt::Display;
use std::num::NonZeroU32;
use std::sync::Arc;

use etcd_api::client::config::ClientConfig;
use load::arrivals::Pace;
use load::driver::calls::RequestClients;
use load::driver::closed::{Clients, Job};
use load::driver::deliveries::{ApiWatching, DeliveryWatchers, Watching};
use load::endpoint::TargetEndpoint;
use load::operation::keep_alives::KeepAlives;
use load::operation::kube_requests::{KubeRequests, made_by};
use load::operation::leases::GrantedLeases;
use load::operation::list::ListCase;
use load::operation::requests::{EtcdRequests, RequestConfig, Revisions};
use load::verify::Verifier;
use tokio::time::timeout;
use workloads::scenario::{LoadSpec, LoadsSpec, Operation, Start, Streams};
use workloads::{DataSet, Mix, Strategy, Tier};

use super::{ConnectedLoad, LoadClients, Share};
use crate::live::LiveLoad;
use crate::run::case::requests::READ_BACK_TIMEOUT;
use crate::run::case::{CaseRun, EarlyEnd, ObjectSource, created_root};
use crate::run::plan::waiting;

/// Connects the loads of one case.
pub(super) struct Connector<'c> {
    pub(super) run: &'c CaseRun<'c>,
    pub(super) case: &'c LoadsSpec,
    pub(super) data: &'c Arc<DataSet>,
    pub(super) endpoint: &'c TargetEndpoint,
    pub(super) verifier: &'c Verifier,
    /// The revisions of the objects, as the responses to etcd's small requests report them. All
    /// loads share them, since one load reads what another writes.
    pub(super) revisions: Arc<Revisions>,
}

/// A load whose clients are not connected yet.
pub(super) struct Planned<'c> {
    pub(super) spec: &'c LoadSpec,
    pub(super) seed: u64,
    pub(super) share: Share,
    live: LiveLoad,
}

impl Planned<'_> {
    /// Returns the number of connections that its clients share, including those of other
    /// generators.
    pub(super) fn connections(&self) -> u32 {
        self.spec.connections.map_or(1, NonZeroU32::get)
    }

    /// Returns the error of a load that cannot start.
    fn failed(&self, why: impl Display) -> EarlyEnd {
        EarlyEnd::Failed(format!("load {}: {why}", self.spec.name))
    }
}

impl<'c> Connector<'c> {
    pub(super) fn new(
        run: &'c CaseRun<'c>,
        case: &'c LoadsSpec,
        data: &'c Arc<DataSet>,
        endpoint: &'c TargetEndpoint,
        verifier: &'c Verifier,
    ) -> Self {
        Self {
            run,
            case,
            data,
            endpoint,
            verifier,
            revisions: Arc::new(Revisions::new(data)),
        }
    }

    /// Connects all loads and returns them in the order of the case.
    pub(super) async fn loads(&self) -> Result<Vec<ConnectedLoad<'c>>, EarlyEnd> {
        // Watchers connect last, so that they receive no events of what other loads create before
        // they run.
        let mut order: Vec<_> = (0..).zip(&self.case.load).collect();
        order.sort_by_key(|(_, spec)| spec.operation == Operation::Watch);
        let mut loads = Vec::new();
        for (number, spec) in order {
            let connected = self.load(number, spec);
            let connected = self.run.unless_stopped(connected).await??;
            loads.push((number, connected));
        }
        loads.sort_by_key(|(number, _)| *number);
        Ok(loads.into_iter().map(|(_, load)| load).collect())
    }

    /// Gives a load of small requests new connections. Its requests go on where they were.
    pub(super) async fn reconnect(&self, load: &mut ConnectedLoad<'c>) -> Result<(), EarlyEnd> {
        let planned = Planned {
            spec: load.spec,
            seed: load.seed,
            share: load.share,
            live: load.live.clone(),
        };
        match &mut load.clients {
            LoadClients::Small(callers, calls) => {
                *callers = self.callers(&planned, calls).await?;
            }
            LoadClients::SmallThroughApi(callers, calls) => {
                *callers = self.api_callers(&planned, calls).await?;
            }
            LoadClients::KeepAlives(_) => load.clients = self.keep_alives(&planned).await?,
            LoadClients::Lists(..) | LoadClients::Watch(_) => {}
        }
        Ok(())
    }

    async fn load(&self, number: u64, spec: &'c LoadSpec) -> Result<ConnectedLoad<'c>, EarlyEnd> {
        let planned = Planned {
            spec,
            // Each load has its own sequence of operations. The first load has that of a case of
            // its kind.
            seed: self.data.spec().seed.wrapping_add(number << 32),
            share: self.run.share_of_load(spec),
            live: self.run.live(&spec.name, &spec.operation_text()),
        };
        let clients = match &spec.operation {
            Operation::Small(mix) if spec.is_through_api() => {
                let calls = self.through_api(mix, &planned).await;
                let calls = Arc::new(calls.map_err(|why| planned.failed(why))?);
                LoadClients::SmallThroughApi(self.api_callers(&planned, &calls).await?, calls)
            }
            Operation::Small(_) if spec.streams == Streams::One => {
                self.keep_alives(&planned).await?
            }
            Operation::Small(mix) => self.small(mix, &planned).await?,
            Operation::List(strategy) => self.lists(*strategy, &planned).await?,
            Operation::Watch if spec.tier() == Tier::Kube => {
                self.watchers_through_api(&planned).await?
            }
            Operation::Watch => self.watchers(&planned).await?,
        };
        let pace = match &spec.arrivals {
            Start::Closed { think } => Pace::Closed {
                clients: spec.clients.get(),
                think: *think,
            },
            Start::Open(profile) => Pace::Open(profile.ordered(planned.seed)),
        };
        let Planned {
            seed, share, live, ..
        } = planned;
        Ok(ConnectedLoad {
            spec,
            clients,
            pace,
            seed,
            share,
            live,
        })
    }

    /// Connects clients that keep leases alive, over one stream for each connection.
    async fn keep_alives(&self, load: &Planned<'_>) -> Result<LoadClients, EarlyEnd> {
        let (own_root, leases) = self.own(load.spec);
        let keep_alives = KeepAlives {
            seed: load.seed,
            own_root,
            leases: leases.cloned(),
        };
        let (etcd, shard) = (self.etcd(load)?, load.share.shard);
        let waiting = waiting(self.run.scenario);
        let connections = load.connections();
        let callers =
            RequestClients::connect_keep_alives(etcd, connections, shard, keep_alives, waiting)
                .await;
        Ok(LoadClients::KeepAlives(
            callers.map_err(|why| load.failed(why))?,
        ))
    }

    /// Connects clients of etcd's small requests.
    async fn small(&self, mix: &Mix, load: &Planned<'_>) -> Result<LoadClients, EarlyEnd> {
        let (own_root, leases) = self.own(load.spec);
        let expected = self.verifier.expected.as_ref();
        let about = RequestConfig {
            own_root: &own_root,
            keys: load.spec.keys.unwrap_or_default(),
            after: expected.map_or(0, |expected| expected.revision),
            seed: load.seed,
            values: load.spec.value.as_ref(),
            revisions: Some(&self.revisions),
            leases,
            ..RequestConfig::new(self.data, &self.verifier.root)
        };
        let mut calls = EtcdRequests::new(mix.clone(), about);
        if self.case.is_watched() {
            calls = calls.keeping_writes();
        }
        if calls.compares() {
            let learnt = timeout(READ_BACK_TIMEOUT, calls.learn(self.etcd(load)?)).await;
            let late = || format!("objects were not read within {READ_BACK_TIMEOUT:?}");
            let learnt = learnt.map_err(|_| load.failed(late()))?;
            learnt.map_err(|why| load.failed(why))?;
        }
        let calls = Arc::new(calls);
        Ok(LoadClients::Small(self.callers(load, &calls).await?, calls))
    }

    /// Opens the connections of etcd's small requests.
    async fn callers(
        &self,
        load: &Planned<'_>,
        calls: &Arc<EtcdRequests>,
    ) -> Result<RequestClients, EarlyEnd> {
        let (connections, shard) = (load.connections(), load.share.shard);
        let (etcd, waiting) = (self.etcd(load)?, waiting(self.run.scenario));
        let calls = Arc::clone(calls);
        let callers = RequestClients::connect(etcd, connections, shard, calls, waiting).await;
        callers.map_err(|why| load.failed(why))
    }

    /// Opens the connections of small requests to the Kubernetes tier.
    async fn api_callers(
        &self,
        load: &Planned<'_>,
        calls: &Arc<KubeRequests>,
    ) -> Result<RequestClients, EarlyEnd> {
        let (connections, shard) = (load.connections(), load.share.shard);
        let (api, waiting) = (self.endpoint, waiting(self.run.scenario));
        let calls = Arc::clone(calls);
        let callers = RequestClients::connect_kube(api, connections, shard, calls, waiting).await;
        callers.map_err(|why| load.failed(why))
    }

    /// Connects clients that list.
    async fn lists(&self, strategy: Strategy, load: &Planned<'_>) -> Result<LoadClients, EarlyEnd> {
        let mut case = ListCase {
            tier: self.case.tier,
            strategy,
            ..self.run.list_case()
        };
        let mut verifier = self.verifier.clone();
        if let Some(nodes) = self.run.narrow(strategy, &mut verifier).await? {
            case.parameters.nodes = nodes;
        }
        let clients = Clients::connect(load.share.clients, &case, self.endpoint, verifier).await;
        let clients = clients.map_err(|why| load.failed(why))?;
        let job = match load.spec.checked {
            true => Job::List,
            false => Job::ListUnchecked,
        };
        Ok(LoadClients::Lists(clients, job))
    }

    /// Connects watchers of the Kubernetes tier.
    async fn watchers_through_api(&self, load: &Planned<'_>) -> Result<LoadClients, EarlyEnd> {
        let watchers = DeliveryWatchers::create_through_api(ApiWatching {
            case: ListCase {
                tier: Tier::Kube,
                ..self.run.list_case()
            },
            endpoint: self.endpoint.clone(),
            count: load.share.clients,
            made: made_by(&self.run.plan.run_id),
            cut_every: load.spec.cut_every,
            live: Arc::clone(load.live.counts()),
        });
        let watchers = watchers.await.map_err(|why| load.failed(why))?;
        Ok(LoadClients::Watch(Some(watchers)))
    }

    /// Connects watchers of etcd.
    async fn watchers(&self, load: &Planned<'_>) -> Result<LoadClients, EarlyEnd> {
        let mut config = self.etcd(load)?.clone();
        if let Some(window) = load.spec.window {
            config.http2.stream_window_bytes = window.0;
            config.http2.connection_window_bytes = window.0;
        }
        let watchers = DeliveryWatchers::create(Watching {
            config,
            prefix: format!("{}{}", self.verifier.root, self.data.prefix()),
            count: load.share.clients,
            connections: load.share.connections.unwrap_or(1),
            stall: load.spec.stall,
            cut_every: load.spec.cut_every,
            live: Arc::clone(load.live.counts()),
        });
        let watchers = watchers.await.map_err(|why| load.failed(why))?;
        Ok(LoadClients::Watch(Some(watchers)))
    }

    fn etcd(&self, load: &Planned<'_>) -> Result<&'c ClientConfig, EarlyEnd> {
        let etcd = self.endpoint.etcd.as_ref();
        etcd.ok_or_else(|| load.failed("the target has no etcd API"))
    }

    /// Returns the prefix of the keys and leases that a load creates, and the record of granted
    /// leases, where loadgen must revoke them.
    fn own(&self, load: &LoadSpec) -> (String, Option<&'c Arc<GrantedLeases>>) {
        let created = created_root(&self.verifier.root);
        let leases = match &self.run.source {
            ObjectSource::Seeded { leases, .. } => Some(leases),
            _ => None,
        };
        (
            format!("{created}{}/{}/", self.case.name, load.name),
            leases,
        )
    }
}

impl CaseRun<'_> {
    /// Returns this generator's share of a load.
    fn share_of_load(&self, spec: &LoadSpec) -> Share {
        let (clients, connections) = (spec.clients.get(), spec.connections);
        let of = connections.map_or(1, NonZeroU32::get);
        let is_open = matches!(spec.arrivals, Start::Open(_));
        let (part, clients) = match (&spec.operation, is_open) {
            (Operation::Small(_), true) => (self.part_of(of), clients),
            (Operation::Small(_), false) => (1.0, self.share_of_clients(clients, of)),
            // Every n-th list of the schedule, whichever client makes it.
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
}
