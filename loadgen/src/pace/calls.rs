//! Clients of small requests: many requests outstanding on few connections.
//!
//! In the closed loop each client sends its next request when it has its answer. In the open loop requests are due at times
//! that were fixed before: each latency is taken from there, whatever the generator and the connection did until it left.
//! Uncorrected times, and by how much requests left late, are kept beside it.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use etcd_api::client::calls::CallConnection;
use etcd_api::client::config::ClientConfig;
use etcd_api::error::Error as EtcdError;
use futures::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use workloads::operations::Arrivals;

use super::open::{Clock, Lane};
use crate::record::LatencyHistogram;
use crate::target::call::Calls;

/// How long answers may take after the last request was sent.
const DRAIN_WITHIN: Duration = Duration::from_secs(10);
/// Requests without an answer on one connection, at most: beyond this the target does not keep the rate, and only memory fills.
const OUTSTANDING: usize = 20_000;

/// When requests are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// So many clients, each waiting for its answer.
    Closed {
        /// Over all connections.
        clients: u32,
    },
    /// On a schedule of so many a second, whatever comes back.
    Open {
        /// Over all connections.
        per_second: f64,
    },
}

/// What a run of small requests came to.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// From the intended start (open loop) or from sending (closed loop) to the answer.
    pub latency: LatencyHistogram,
    /// From sending to the answer; only in an open loop.
    pub service: LatencyHistogram,
    /// From the intended start to sending; only in an open loop.
    pub lag: LatencyHistogram,
    /// Requests that have ended.
    pub requests: u64,
    /// Requests that failed, were answered wrongly, or not at all.
    pub errors: u64,
    /// Error texts and how often each was seen.
    pub error_counts: HashMap<String, u64>,
    /// Set when the target fell so far behind that sending was given up.
    pub overrun: bool,
    /// From the first request to the last answer.
    pub elapsed: Duration,
    /// The longest time that the clock of an open loop was kept from running.
    pub stall: Duration,
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.latency.add(&other.latency);
        self.service.add(&other.service);
        self.lag.add(&other.lag);
        self.requests += other.requests;
        self.errors += other.errors;
        self.overrun |= other.overrun;
        for (text, count) in &other.error_counts {
            *self.error_counts.entry(text.clone()).or_default() += count;
        }
    }

    fn failed(&mut self, count: u64, text: String) {
        self.requests += count;
        self.errors += count;
        *self.error_counts.entry(text).or_default() += count;
    }
}

/// Connected clients: a thread with all their connections. Dropped, they stop.
#[derive(Debug)]
pub struct Callers {
    runs: mpsc::UnboundedSender<(Run, oneshot::Sender<Tally>)>,
}

#[derive(Debug)]
struct Run {
    pace: Pace,
    duration: Duration,
    stop: CancellationToken,
}

impl Callers {
    /// Opens the connections.
    ///
    /// # Errors
    /// The first connection's error.
    pub async fn connect(
        config: &ClientConfig,
        connections: u32,
        calls: Arc<Calls>,
    ) -> Result<Self, EtcdError> {
        let (runs, receiver) = mpsc::unbounded_channel();
        let (connected, answer) = oneshot::channel();
        let config = config.clone();
        let lost = |what: String| EtcdError::Protocol(what);
        thread::Builder::new()
            .name("calls".to_owned())
            .spawn(move || caller(&config, connections, &calls, receiver, connected))
            .map_err(|e| lost(format!("cannot start a client thread: {e}")))?;
        answer
            .await
            .unwrap_or_else(|_| Err(lost("client thread ended".to_owned())))?;
        Ok(Self { runs })
    }

    /// Sends requests for `duration`, or until `stop` is cancelled, and waits for their answers.
    pub async fn run(&self, pace: Pace, duration: Duration, stop: &CancellationToken) -> Tally {
        let (done, answer) = oneshot::channel();
        let run = Run {
            pace,
            duration,
            stop: stop.clone(),
        };
        // A thread that has ended drops `done`, which is an answer too.
        self.runs.send((run, done)).ok();
        answer.await.unwrap_or_else(|_| {
            let mut tally = Tally::default();
            tally.failed(1, "client thread ended".to_owned());
            tally
        })
    }
}

/// The body of the thread.
fn caller(
    config: &ClientConfig,
    connections: u32,
    calls: &Calls,
    mut runs: mpsc::UnboundedReceiver<(Run, oneshot::Sender<Tally>)>,
    connected: oneshot::Sender<Result<(), EtcdError>>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            let error = EtcdError::Protocol(format!("cannot start a runtime: {error}"));
            connected.send(Err(error)).ok();
            return;
        }
    };
    runtime.block_on(async {
        let opened = async {
            let mut all = Vec::new();
            for _ in 0..connections {
                all.push(CallConnection::connect(config, None).await?);
            }
            Ok(all)
        };
        let mut all = match opened.await {
            Ok(all) => all,
            Err(error) => {
                connected.send(Err(error)).ok();
                return;
            }
        };
        if connected.send(Ok(())).is_err() {
            return;
        }
        let mut sent = 0;
        while let Some((run, mut done)) = runs.recv().await {
            tokio::select! {
                tally = all_lanes(&mut all, calls, &run, sent) => {
                    sent += tally.requests;
                    done.send(tally).ok();
                }
                // Whoever asked has gone: the connections go with what is outstanding on them.
                () = done.closed() => return,
            }
        }
    });
}

/// One run over all connections.
async fn all_lanes(
    connections: &mut [CallConnection],
    calls: &Calls,
    run: &Run,
    first: u64,
) -> Tally {
    let count = connections.len() as u64;
    let begun = Instant::now();
    let lanes: Vec<Arc<Lane>> = connections.iter().map(|_| Arc::default()).collect();
    let clock = match run.pace {
        Pace::Open { .. } => Clock::start(begun, lanes.clone()).ok(),
        Pace::Closed { .. } => None,
    };
    let drivers: FuturesUnordered<_> = connections
        .iter_mut()
        .zip(&lanes)
        .zip(0..)
        .map(|((connection, lane), number)| {
            let mut driver = Driver {
                calls,
                begun,
                until: run.duration,
                stop: &run.stop,
                // Lanes take turns in numbering, so that no two send the same operation.
                next: first + number,
                step: count,
                outstanding: Vec::new(),
                free: Vec::new(),
                tally: Tally::default(),
                source: Source::of(run.pace, calls.seed(), first, number, count),
                lane,
            };
            async move {
                let end = run.duration + DRAIN_WITHIN;
                let driven = timeout(end, poll_fn(|cx| driver.poll(connection, cx))).await;
                driver.finish(driven.is_err());
                driver.tally
            }
        })
        .collect();
    let mut tally = drivers
        .fold(Tally::default(), async |mut sum, part| {
            sum.add(&part);
            sum
        })
        .await;
    tally.elapsed = begun.elapsed();
    tally.stall = clock.map(Clock::stop).unwrap_or_default();
    tally
}

/// What allows a request to be sent.
enum Source {
    /// Clients without an outstanding request.
    Closed { idle: u32 },
    /// The schedule, and its next time.
    Open { arrivals: Arrivals, due: Duration },
}

impl Source {
    fn of(pace: Pace, seed: u64, first: u64, number: u64, lanes: u64) -> Self {
        match pace {
            Pace::Closed { clients } => {
                let (clients, lanes) = (u64::from(clients), lanes.max(1));
                let share = clients / lanes + u64::from(number < clients % lanes);
                Self::Closed { idle: share as u32 }
            }
            Pace::Open { per_second } => {
                // Each run of the same connections has arrivals of its own.
                let lane = first.wrapping_mul(lanes).wrapping_add(number);
                let mut arrivals = Arrivals::new(seed, lane, per_second / lanes as f64);
                let due = arrivals.next().unwrap_or(Duration::MAX);
                Self::Open { arrivals, due }
            }
        }
    }
}

/// A request that waits for its answer; its token is its place.
#[derive(Debug, Clone, Copy)]
struct Outstanding {
    object: usize,
    intended: Duration,
    sent: Duration,
}

/// One connection's share of a run.
struct Driver<'a> {
    calls: &'a Calls,
    begun: Instant,
    until: Duration,
    stop: &'a CancellationToken,
    next: u64,
    step: u64,
    outstanding: Vec<Outstanding>,
    /// Places of `outstanding` that can be used again.
    free: Vec<u64>,
    tally: Tally,
    source: Source,
    lane: &'a Lane,
}

impl Driver<'_> {
    /// Sends what may be sent and takes what has come; ready when nothing more will be sent and nothing is outstanding.
    fn poll(&mut self, connection: &mut CallConnection, cx: &mut Context<'_>) -> Poll<()> {
        self.lane.register(cx.waker());
        loop {
            if let Err(error) = self.send_due(connection) {
                return self.broken(&error);
            }
            if self.is_over() && self.in_flight() == 0 {
                return Poll::Ready(());
            }
            match self.take(connection, cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return self.broken(&error),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn send_due(&mut self, connection: &mut CallConnection) -> Result<(), EtcdError> {
        loop {
            if self.is_over() {
                self.lane.due(None);
                return Ok(());
            }
            let now = self.begun.elapsed();
            let intended = match &mut self.source {
                Source::Closed { idle: 0 } => return Ok(()),
                Source::Closed { idle } => {
                    *idle -= 1;
                    now
                }
                Source::Open { due, .. } if *due > now => {
                    self.lane.due(Some(*due));
                    return Ok(());
                }
                Source::Open { arrivals, due } => {
                    let intended = *due;
                    *due = arrivals.next().unwrap_or(Duration::MAX);
                    self.tally.lag.record(now.saturating_sub(intended));
                    intended
                }
            };
            let request = Outstanding {
                object: self.calls.object_of(self.next),
                intended,
                sent: now,
            };
            self.next += self.step;
            let token = match self.free.pop() {
                Some(token) => {
                    self.outstanding[token as usize] = request;
                    token
                }
                None => {
                    self.outstanding.push(request);
                    self.outstanding.len() as u64 - 1
                }
            };
            self.calls.send(connection, request.object, token)?;
            self.tally.overrun |= self.in_flight() >= OUTSTANDING;
        }
    }

    fn take(
        &mut self,
        connection: &mut CallConnection,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), EtcdError>> {
        let Self {
            calls,
            begun,
            outstanding,
            free,
            tally,
            source,
            ..
        } = self;
        connection.poll_turn(cx, &mut |done| {
            let token = done.token;
            let request = outstanding[token as usize];
            free.push(token);
            let received = done.received.saturating_duration_since(*begun);
            let is_open = match source {
                Source::Closed { idle } => {
                    *idle += 1;
                    false
                }
                Source::Open { .. } => true,
            };
            match calls.check(request.object, done) {
                Ok(()) => {
                    tally.requests += 1;
                    let latency = received.saturating_sub(request.intended);
                    tally.latency.record(latency);
                    if is_open {
                        let service = received.saturating_sub(request.sent);
                        tally.service.record(service);
                    }
                }
                Err(error) => tally.failed(1, error.to_string()),
            }
        })
    }

    /// True when nothing more is to be sent.
    fn is_over(&self) -> bool {
        let out_of_time = match &self.source {
            Source::Closed { .. } => self.begun.elapsed() >= self.until,
            // By the schedule, not by the clock: what was due is sent, however late.
            Source::Open { due, .. } => *due >= self.until,
        };
        out_of_time || self.tally.overrun || self.stop.is_cancelled()
    }

    fn in_flight(&self) -> usize {
        self.outstanding.len() - self.free.len()
    }

    /// The connection has ended: the end of this lane.
    fn broken(&mut self, error: &EtcdError) -> Poll<()> {
        self.lane.due(None);
        // What was outstanding has been shown as failed already, unless sending failed.
        self.tally.failed(1, error.to_string());
        Poll::Ready(())
    }

    /// Counts what was never answered.
    fn finish(&mut self, out_of_time: bool) {
        self.lane.due(None);
        let unanswered = self.in_flight() as u64;
        if out_of_time && unanswered > 0 {
            let text = format!("no answer within {} s", DRAIN_WITHIN.as_secs());
            self.tally.failed(unanswered, text);
        }
    }
}
