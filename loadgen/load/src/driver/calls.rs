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
use super::connection::{Driver, Place};
use super::open_clock::{Clock, NextDue, Waiting};
use super::run::{DRAIN_WITHIN, Run, Tally};
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
        let (runs, receiver) = mpsc::unbounded_channel();
        let config = config.clone();
        let connect = async move || {
            let mut all = Vec::new();
            for number in shard.numbers(connections) {
                let config = config.with_rotated_endpoints(number as usize);
                all.push(PipelinedConnection::connect(&config, None).await?);
            }
            Ok(all)
        };
        let numbers = ConnectionNumbers {
            shard,
            of_load: connections,
        };
        let work = async move |all| caller(all, numbers, &*calls, receiver).await;
        thread::connected("calls", in_etcd_words, connect, work).await?;
        Ok(Self { waiting, runs })
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
        let (runs, receiver) = mpsc::unbounded_channel();
        let config = config.clone();
        let of_load = keep_alives.clone();
        let connect = async move || {
            let mut all = Vec::new();
            for number in shard.numbers(connections) {
                let config = config.with_rotated_endpoints(number as usize);
                all.push(of_load.connect(config, number).await?);
            }
            Ok(all)
        };
        let numbers = ConnectionNumbers {
            shard,
            of_load: connections,
        };
        let work = async move |all| caller(all, numbers, &keep_alives, receiver).await;
        thread::connected("keep-alives", in_etcd_words, connect, work).await?;
        Ok(Self { waiting, runs })
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
        let (runs, receiver) = mpsc::unbounded_channel();
        let access = endpoint.kube_access.clone();
        let url = endpoint.kube_url.clone().unwrap_or_default();
        let connect = async move || {
            let mut all = Vec::new();
            for _ in shard.numbers(connections) {
                all.push(KubeChannel::connect(&url, &access).await?);
            }
            Ok(all)
        };
        let numbers = ConnectionNumbers {
            shard,
            of_load: connections,
        };
        let work = async move |all| caller(all, numbers, &*calls, receiver).await;
        let broken = |error: ThreadError| KubeError::Body(error.to_string());
        thread::connected("kube-calls", broken, connect, work).await?;
        Ok(Self { waiting, runs })
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
        let (done, answer) = oneshot::channel();
        let run = Run {
            pace,
            waiting: self.waiting,
            duration,
            stop: stop.clone(),
            live,
        };
        // If the thread has ended, `done` is dropped, which ends the wait as well.
        self.runs.send((run, done)).ok();
        answer
            .await
            .unwrap_or_else(|_| Tally::broken("client thread ended".to_owned()))
    }
}

fn in_etcd_words(error: ThreadError) -> EtcdError {
    EtcdError::Protocol(error.to_string())
}

/// The connection numbers of a load that belong to these clients.
#[derive(Debug, Clone, Copy)]
struct ConnectionNumbers {
    shard: GeneratorShard,
    /// The number of connections of the load, including those of other generators.
    of_load: u32,
}

impl ConnectionNumbers {
    /// Returns the place of each connection, in order, in run number `part`.
    fn places(self, part: u64) -> impl Iterator<Item = Place> {
        let connections = u64::from(self.of_load);
        self.shard.numbers(self.of_load).map(move |number| Place {
            number: u64::from(number),
            connections,
            part,
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
    let mut part = 0;
    while let Some((run, mut done)) = runs.recv().await {
        tokio::select! {
            tally = all_connections::<Alarm, _>(&mut all, numbers.places(part), calls, &run) => {
                part += 1;
                done.send(tally).ok();
            }
            // The caller has gone: the connections are closed with their outstanding requests.
            () = done.closed() => return,
        }
    }
}

/// Performs one run over all connections, each at its place. `T` is the timer of the schedule.
async fn all_connections<T: Timer, R: RequestApi>(
    connections: &mut [R::Connection],
    places: impl Iterator<Item = Place>,
    calls: &R,
    run: &Run,
) -> Tally {
    let begun = Instant::now();
    let given_up = Cell::new(false);
    let due_times: Vec<Rc<NextDue>> = connections.iter().map(|_| Rc::default()).collect();
    let stall = Rc::new(Cell::new(Duration::ZERO));
    let drivers: Vec<_> = due_times
        .iter()
        .zip(places)
        .map(|(due, place)| Driver::new(calls, run, place, begun, &given_up, due))
        .collect();
    let clock = match run.pace {
        Pace::Closed { .. } => None,
        Pace::Open(_) => {
            match Clock::<T>::new(run.waiting, begun, due_times.clone(), Rc::clone(&stall)) {
                Ok(clock) => Some(clock),
                Err(error) => return Tally::broken(no_clock(&error)),
            }
        }
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
    format!("the schedule has no clock: {error}")
}

/// Waits until sending ends, by time or by `stop`, and then for responses for at most
/// [`DRAIN_WITHIN`].
async fn give_up_late(run: &Run, due_times: &[Rc<NextDue>], given_up: &Cell<bool>) -> Infallible {
    tokio::select! {
        () = sleep(run.duration) => {}
        () = run.stop.cancelled() => {}
    }
    // A connection with nothing outstanding ends at once.
    due_times.iter().for_each(|due| due.wake());
    sleep(DRAIN_WITHIN).await;
    given_up.set(true);
    due_times.iter().for_each(|due| due.wake());
    pending().await
}

#[cfg(test)]
mod tests;
