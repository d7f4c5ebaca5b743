//! Clients of small requests, with many requests outstanding on few connections.
//!
//! In a closed loop, each client sends its next request when it has received the response. In an
//! open loop, requests are due at times that are fixed beforehand. Each latency is measured from
//! the time at which the request was due, however late the generator or the connection sent it. The
//! uncorrected latency, and how late requests were sent, are recorded as well.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use etcd_api::client::config::ClientConfig;
use etcd_api::client::pipelined::PipelinedConnection;
use etcd_api::error::Error as EtcdError;
use futures::stream::{FuturesUnordered, StreamExt as _};
use kube_api::client::KubeError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use workloads::GeneratorShard;

use super::alarm::{Alarm, Timer};
use super::connection::{ConnectionSlot, Driver};
use super::open_clock::{Clock, NextDue, Waiting};
use super::run::{DRAIN_TIMEOUT, Run, Tally};
use crate::arrivals::Pace;
use crate::clients::thread::{self, ThreadError};
use crate::endpoint::TargetEndpoint;
use crate::operation::keep_alives::KeepAlives;
use crate::operation::kube_requests::{KubeChannel, KubeRequests};
use crate::operation::request_api::RequestApi;
use crate::operation::requests::EtcdRequests;
use crate::record::Live;

/// Connected clients: a thread with all their connections. They stop when this is dropped.
#[derive(Debug)]
pub struct RequestClients {
    /// The name of their thread.
    name: &'static str,
    waiting: Waiting,
    runs: mpsc::UnboundedSender<(Run, oneshot::Sender<Tally>)>,
}

impl RequestClients {
    /// Opens those of a load's `connections` that belong to the `shard`. `waiting` says how an open
    /// loop waits until the next request is due.
    ///
    /// # Errors
    /// The error of the first connection that fails.
    pub async fn connect(
        config: &ClientConfig,
        connections: u32,
        shard: GeneratorShard,
        calls: Arc<EtcdRequests>,
        waiting: Waiting,
    ) -> Result<Self, EtcdError> {
        let config = config.clone();
        let connect = async move |number: u32| {
            let config = config.with_rotated_endpoints(number as usize);
            PipelinedConnection::connect(&config, None).await
        };
        Self::connect_with("calls", connections, shard, calls, waiting, connect).await
    }

    /// Connects for keep-alives that share the stream of their connection.
    ///
    /// # Errors
    /// The error of the first connection that fails.
    pub async fn connect_keep_alives(
        config: &ClientConfig,
        connections: u32,
        shard: GeneratorShard,
        keep_alives: KeepAlives,
        waiting: Waiting,
    ) -> Result<Self, EtcdError> {
        let config = config.clone();
        let calls = Arc::new(keep_alives.clone());
        let connect = async move |number: u32| {
            let config = config.with_rotated_endpoints(number as usize);
            keep_alives.connect(config, number).await
        };
        Self::connect_with("keep-alives", connections, shard, calls, waiting, connect).await
    }

    /// Connects to a Kubernetes API.
    ///
    /// # Errors
    /// The error of the first connection that fails.
    pub async fn connect_kube(
        endpoint: &TargetEndpoint,
        connections: u32,
        shard: GeneratorShard,
        calls: Arc<KubeRequests>,
        waiting: Waiting,
    ) -> Result<Self, KubeError> {
        let access = endpoint.kube_access.clone();
        let url = endpoint.kube_url.clone().unwrap_or_default();
        let connect = async move |_: u32| KubeChannel::connect(&url, &access).await;
        Self::connect_with("kube-calls", connections, shard, calls, waiting, connect).await
    }

    /// Starts the clients' thread, in which `connect` opens the connection with a number.
    async fn connect_with<R>(
        name: &'static str,
        connections: u32,
        shard: GeneratorShard,
        calls: Arc<R>,
        waiting: Waiting,
        connect: impl AsyncFn(u32) -> Result<R::Connection, R::Error> + Send + 'static,
    ) -> Result<Self, R::Error>
    where
        R: RequestApi + Send + Sync + 'static,
        R::Connection: 'static,
        R::Error: From<ThreadError> + Send + 'static,
    {
        let (runs, receiver) = mpsc::unbounded_channel();
        let connect_all = async move || -> Result<Vec<R::Connection>, R::Error> {
            let mut all = Vec::new();
            for number in shard.numbers(connections) {
                all.push(connect(number).await?);
            }
            Ok(all)
        };
        let numbers = ConnectionNumbers {
            shard,
            of_load: connections,
        };
        let work = async move |all: Vec<R::Connection>| {
            caller(all, numbers, &*calls, receiver).await;
        };
        thread::connected(name, R::Error::from, connect_all, work).await?;
        Ok(Self {
            name,
            waiting,
            runs,
        })
    }

    /// Sends requests for `duration`, or until `stop` is cancelled, and waits for their responses
    /// for at most another 10 s. A request without a response by then is counted as an error in the
    /// tally.
    pub async fn run(&self, pace: Pace, duration: Duration, stop: &CancellationToken) -> Tally {
        self.run_counted(pace, duration, stop, Arc::default()).await
    }

    /// Runs as [`Self::run`] does, and updates the counters in `live` meanwhile.
    pub async fn run_counted(
        &self,
        pace: Pace,
        duration: Duration,
        stop: &CancellationToken,
        live: Arc<Live>,
    ) -> Tally {
        let (done, tally) = oneshot::channel();
        let run = Run {
            pace,
            waiting: self.waiting,
            duration,
            stop: stop.clone(),
            live,
        };
        // If the thread has ended, `done` is dropped, which ends the wait as well.
        self.runs.send((run, done)).ok();
        tally
            .await
            .unwrap_or_else(|_| Tally::broken(ThreadError::ended(self.name).to_string()))
    }
}

/// The connection numbers of a load that belong to these clients.
#[derive(Debug, Clone, Copy)]
struct ConnectionNumbers {
    shard: GeneratorShard,
    /// The number of connections of the load, including those of other generators.
    of_load: u32,
}

impl ConnectionNumbers {
    /// Returns the slot of each connection, in order, in a run.
    fn slots(self, run_number: u64) -> impl Iterator<Item = ConnectionSlot> {
        let connections = u64::from(self.of_load);
        let numbers = self.shard.numbers(self.of_load).map(u64::from);
        numbers.map(move |connection| ConnectionSlot {
            connection,
            connections,
            run_number,
        })
    }
}

/// Runs the client thread once it is connected.
async fn caller<R: RequestApi>(
    mut all: Vec<R::Connection>,
    numbers: ConnectionNumbers,
    calls: &R,
    mut runs: mpsc::UnboundedReceiver<(Run, oneshot::Sender<Tally>)>,
) {
    let mut run_number = 0;
    while let Some((run, mut done)) = runs.recv().await {
        let slots = numbers.slots(run_number);
        tokio::select! {
            tally = all_connections::<Alarm, _>(&mut all, slots, calls, &run) => {
                run_number += 1;
                done.send(tally).ok();
            }
            // The caller has gone: the connections are closed with their outstanding requests.
            () = done.closed() => return,
        }
    }
}

/// Performs one run over all connections, each in its slot. `T` is the timer of the schedule.
async fn all_connections<T: Timer, R: RequestApi>(
    connections: &mut [R::Connection],
    slots: impl Iterator<Item = ConnectionSlot>,
    calls: &R,
    run: &Run,
) -> Tally {
    let begun = Instant::now();
    let given_up = Cell::new(false);
    let due_times: Vec<Rc<NextDue>> = connections.iter().map(|_| Rc::default()).collect();
    let stall = Rc::new(Cell::new(Duration::ZERO));
    let drivers: Vec<_> = due_times
        .iter()
        .zip(slots)
        .map(|(due, slot)| Driver::new(calls, run, slot, begun, &given_up, due))
        .collect();
    let clock = match run.pace.needs_clock() {
        false => None,
        true => match Clock::<T>::new(run.waiting, begun, due_times.clone(), Rc::clone(&stall)) {
            Ok(clock) => Some(clock),
            Err(error) => return Tally::broken(no_clock(&error)),
        },
    };
    let driving: FuturesUnordered<_> = drivers
        .into_iter()
        .zip(connections)
        .map(|(driver, connection)| driver.drive(connection))
        .collect();
    let driven = driving.fold(Tally::default(), async |mut sum, part| {
        sum.add(&part);
        sum
    });
    let ticking = async {
        match clock {
            Some(clock) => clock.run().await,
            None => pending().await,
        }
    };
    // The order matters: the connections set their due times before the clock reads them.
    let mut tally = tokio::select! {
        biased;
        tally = driven => tally,
        never = give_up_late(run, &due_times, &given_up) => match never {},
        Err(error) = ticking => return Tally::broken(no_clock(&error)),
    };
    tally.elapsed = begun.elapsed();
    tally.stall = stall.get();
    tally
}

fn no_clock(error: &io::Error) -> String {
    format!("cannot create the timer of the schedule: {error}")
}

/// Waits until sending ends, by time or by `stop`, and then for responses for at most
/// [`DRAIN_TIMEOUT`].
async fn give_up_late(run: &Run, due_times: &[Rc<NextDue>], given_up: &Cell<bool>) -> Infallible {
    tokio::select! {
        () = sleep(run.duration) => {}
        () = run.stop.cancelled() => {}
    }
    // A connection with nothing outstanding ends at once.
    due_times.iter().for_each(|due| due.wake());
    sleep(DRAIN_TIMEOUT).await;
    given_up.set(true);
    due_times.iter().for_each(|due| due.wake());
    pending().await
}

#[cfg(test)]
mod tests;
