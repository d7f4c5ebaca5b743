//! Workers that watch until they are told to stop, each in a thread with a runtime and a connection
//! of its own.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use measure::{heap, thread_cpu};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::clients::thread::{self, ThreadError};
use crate::endpoint::TargetEndpoint;
use crate::operation::list::{ListCase, ListError};
use crate::operation::watch_worker::reshard_handover::{Change, Taken};
use crate::operation::watch_worker::{Held, Log, WatchWorker};

/// The time limit for receiving the initial state.
const STATE_WITHIN: Duration = Duration::from_secs(600);
/// The time limit for taking over another shard.
const TAKEN_WITHIN: Duration = Duration::from_secs(120);
/// How long the event of the last write may take.
const LAST_EVENT_WITHIN: Duration = Duration::from_secs(30);

/// A worker that has received the whole initial state.
#[derive(Debug)]
pub struct Synced {
    /// The time from the order to the bookmark that ends the initial state.
    pub latency: Duration,
    /// The bytes received for it.
    pub wire_bytes: u64,
    /// The revision of the bookmark.
    pub revision: i64,
    /// The objects that the worker holds.
    pub held: HashMap<u64, Held>,
}

/// The results of a worker that has finished.
#[derive(Debug)]
pub struct Followed {
    /// The events received after the initial state.
    pub log: Log,
    /// The objects that the worker holds.
    pub held: HashMap<u64, Held>,
    /// The CPU time of its thread since it had the initial state.
    pub cpu: Duration,
    /// The peak of the bytes that its thread held since it requested the initial state; `None` if
    /// allocations are not counted.
    pub memory: Option<u64>,
}

#[derive(Debug)]
enum Order {
    Sync(oneshot::Sender<Result<Synced, ListError>>),
    Reconnect,
    Pause(oneshot::Sender<Result<i64, ListError>>),
    TakeOver(Box<Change>, oneshot::Sender<Result<Taken, ListError>>),
    Finish {
        /// The revision whose event must have arrived.
        revision: i64,
        answer: oneshot::Sender<Result<Followed, ListError>>,
    },
}

/// Connected workers. They stop when this is dropped.
#[derive(Debug)]
pub struct WatchWorkers {
    orders: Vec<mpsc::UnboundedSender<Order>>,
}

impl WatchWorkers {
    /// Connects a worker for each case.
    ///
    /// # Errors
    /// The first worker's [`ListError`] when it cannot connect.
    pub async fn connect(cases: &[ListCase], endpoint: &TargetEndpoint) -> Result<Self, ListError> {
        let mut all = Self { orders: Vec::new() };
        for case in cases {
            all.join(case, endpoint).await?;
        }
        Ok(all)
    }

    /// Connects one more worker. It watches nothing before [`Self::sync`] or [`Self::take_over`].
    ///
    /// # Errors
    /// The worker's [`ListError`] when it cannot connect.
    pub async fn join(
        &mut self,
        case: &ListCase,
        endpoint: &TargetEndpoint,
    ) -> Result<(), ListError> {
        let (orders, receiver) = mpsc::unbounded_channel();
        let (case, endpoint) = (case.clone(), endpoint.clone());
        let connect = async move || WatchWorker::connect(&case, &endpoint).await;
        let work = async move |follower| worker(follower, receiver).await;
        let name = thread_of(self.orders.len());
        thread::connected(&name, ListError::Thread, connect, work).await?;
        self.orders.push(orders);
        Ok(())
    }

    /// Makes every worker start over, all at once. Returns when all have the initial state.
    ///
    /// # Errors
    /// The error of the first worker that failed.
    pub async fn sync(&self) -> Result<Vec<Synced>, ListError> {
        let mut pending = Vec::with_capacity(self.orders.len());
        for orders in &self.orders {
            let (answer, synced) = oneshot::channel();
            // If the thread has ended, `answer` is dropped, which ends the wait as well.
            orders.send(Order::Sync(answer)).ok();
            pending.push(synced);
        }
        all(pending).await
    }

    /// Makes one worker drop its connection and resume over another one.
    pub fn reconnect(&self, worker: usize) {
        if let Some(orders) = self.orders.get(worker) {
            orders.send(Order::Reconnect).ok();
        }
    }

    /// Makes every worker stop reading. Returns the revision up to which each has received
    /// everything. A later revision is ahead of them all.
    ///
    /// # Errors
    /// The error of the first worker that failed.
    pub async fn pause(&self) -> Result<Vec<i64>, ListError> {
        let mut pending = Vec::with_capacity(self.orders.len());
        for orders in &self.orders {
            let (answer, revision) = oneshot::channel();
            orders.send(Order::Pause(answer)).ok();
            pending.push(revision);
        }
        all(pending).await
    }

    /// Makes every worker take over its new shard, all at once, and continue from there. Returns
    /// when all have theirs.
    ///
    /// # Errors
    /// The error of the first worker that failed, or that did not reach the revision in time.
    pub async fn take_over(&self, changes: Vec<Change>) -> Result<Vec<Taken>, ListError> {
        let mut pending = Vec::with_capacity(self.orders.len());
        for (orders, change) in self.orders.iter().zip(changes) {
            let (answer, taken) = oneshot::channel();
            orders.send(Order::TakeOver(change.into(), answer)).ok();
            pending.push(taken);
        }
        all(pending).await
    }

    /// Makes each worker stop once it has received everything up to its revision. Returns what each
    /// received since it had the initial state.
    ///
    /// # Errors
    /// The error of the first worker that failed, or that did not reach its revision in time.
    pub async fn finish(&self, revisions: &[i64]) -> Result<Vec<Followed>, ListError> {
        let mut pending = Vec::with_capacity(self.orders.len());
        for (orders, &revision) in self.orders.iter().zip(revisions) {
            let (answer, followed) = oneshot::channel();
            orders.send(Order::Finish { revision, answer }).ok();
            pending.push(followed);
        }
        all(pending).await
    }
}

async fn all<T>(
    pending: Vec<oneshot::Receiver<Result<T, ListError>>>,
) -> Result<Vec<T>, ListError> {
    let mut answers = Vec::with_capacity(pending.len());
    for (worker, answer) in pending.into_iter().enumerate() {
        let ended = |_| Err(ThreadError::ended(&thread_of(worker)).into());
        answers.push(answer.await.unwrap_or_else(ended)?);
    }
    Ok(answers)
}

/// Returns the name of a worker's thread.
fn thread_of(worker: usize) -> String {
    format!("worker-{worker}")
}

/// Runs a worker's thread once it is connected.
async fn worker(follower: WatchWorker, orders: mpsc::UnboundedReceiver<Order>) {
    // For a worker that joins later. `WatchWorker::sync` starts the measurement anew.
    heap::begin();
    let worker = Worker {
        follower,
        outcome: Ok(()),
        is_live: false,
        cpu_before: Duration::ZERO,
    };
    worker.obey(orders).await;
}

struct Worker {
    follower: WatchWorker,
    /// The outcome of watching since the initial state, returned at the end.
    outcome: Result<(), ListError>,
    is_live: bool,
    cpu_before: Duration,
}

impl Worker {
    /// Reads events between orders.
    async fn obey(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        loop {
            let watching = self.is_live && self.outcome.is_ok();
            let order = tokio::select! {
                biased;
                order = orders.recv() => order,
                read = self.follower.read(), if watching => {
                    self.outcome = read;
                    continue;
                }
            };
            match order {
                None => return,
                Some(Order::Sync(answer)) => {
                    answer.send(self.sync().await).ok();
                }
                Some(Order::Reconnect) => self.follower.lose_connection(),
                Some(Order::Pause(answer)) => {
                    answer.send(self.pause()).ok();
                }
                Some(Order::TakeOver(change, answer)) => {
                    answer.send(self.take_over(&change).await).ok();
                }
                Some(Order::Finish { revision, answer }) => {
                    answer.send(self.finish(revision).await).ok();
                }
            }
        }
    }

    async fn sync(&mut self) -> Result<Synced, ListError> {
        let begun = Instant::now();
        self.is_live = false;
        self.outcome = Ok(());
        let synced = timeout(STATE_WITHIN, self.follower.sync()).await;
        synced.unwrap_or(Err(ListError::Slow(STATE_WITHIN)))?;
        let latency = begun.elapsed();
        self.is_live = true;
        self.cpu_before = thread_cpu();
        Ok(Synced {
            latency,
            wire_bytes: self.follower.state_bytes(),
            revision: self.follower.revision(),
            held: heap::handing_away(|| self.follower.held().clone()),
        })
    }

    fn pause(&mut self) -> Result<i64, ListError> {
        std::mem::replace(&mut self.outcome, Ok(()))?;
        self.is_live = false;
        Ok(self.follower.revision())
    }

    async fn take_over(&mut self, change: &Change) -> Result<Taken, ListError> {
        let taken = timeout(TAKEN_WITHIN, self.follower.take_over(change)).await;
        let taken = taken.unwrap_or(Err(ListError::Slow(TAKEN_WITHIN)))?;
        self.is_live = true;
        Ok(taken)
    }

    async fn finish(&mut self, revision: i64) -> Result<Followed, ListError> {
        std::mem::replace(&mut self.outcome, Ok(()))?;
        let last = async {
            while self.follower.revision() < revision {
                self.follower.read().await?;
            }
            Ok(())
        };
        let seen = timeout(LAST_EVENT_WITHIN, last).await;
        seen.unwrap_or(Err(ListError::Slow(LAST_EVENT_WITHIN)))?;
        self.is_live = false;
        let memory = heap::most();
        Ok(Followed {
            memory,
            log: self.follower.take_log(),
            held: self.follower.held().clone(),
            cpu: thread_cpu().saturating_sub(self.cpu_before),
        })
    }
}
