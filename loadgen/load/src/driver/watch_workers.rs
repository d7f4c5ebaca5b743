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
use crate::operation::watch_worker::{HeldObject, Log, WatchWorker};

/// The time limit for receiving the initial state.
const STATE_TIMEOUT: Duration = Duration::from_secs(600);
/// The time limit for taking over another shard.
const TAKE_OVER_TIMEOUT: Duration = Duration::from_secs(120);
/// How long the event of the last write may take.
const LAST_EVENT_TIMEOUT: Duration = Duration::from_secs(30);

/// A worker that has received the whole initial state.
#[derive(Debug)]
pub struct Synced {
    /// The time from the command to the bookmark that ends the initial state.
    pub latency: Duration,
    /// The bytes received for it.
    pub wire_bytes: u64,
    /// The revision of the bookmark.
    pub revision: i64,
    /// The objects that the worker holds.
    pub held: HashMap<u64, HeldObject>,
}

/// The results of a worker that has finished.
#[derive(Debug)]
pub struct FinishedWatch {
    /// The events received after the initial state.
    pub log: Log,
    /// The objects that the worker holds.
    pub held: HashMap<u64, HeldObject>,
    /// The CPU time of its thread since it had the initial state.
    pub cpu: Duration,
    /// The peak of the bytes that its thread held since it requested the initial state; `None` if
    /// allocations are not counted.
    pub memory: Option<u64>,
}

#[derive(Debug)]
enum Command {
    Sync(oneshot::Sender<Result<Synced, ListError>>),
    Reconnect,
    Pause(oneshot::Sender<Result<i64, ListError>>),
    TakeOver(Box<Change>, oneshot::Sender<Result<Taken, ListError>>),
    Finish {
        /// The revision whose event must have arrived.
        revision: i64,
        reply: oneshot::Sender<Result<FinishedWatch, ListError>>,
    },
}

/// Connected workers. They stop when this is dropped.
#[derive(Debug)]
pub struct WatchWorkers {
    commands: Vec<mpsc::UnboundedSender<Command>>,
}

impl WatchWorkers {
    /// Connects a worker for each case.
    ///
    /// # Errors
    /// The first worker's [`ListError`] when it cannot connect.
    pub async fn connect(cases: &[ListCase], endpoint: &TargetEndpoint) -> Result<Self, ListError> {
        let mut all = Self {
            commands: Vec::new(),
        };
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
        let (commands, receiver) = mpsc::unbounded_channel();
        let (case, endpoint) = (case.clone(), endpoint.clone());
        let connect = async move || WatchWorker::connect(&case, &endpoint).await;
        let work = async move |watch| worker(watch, receiver).await;
        let name = thread_of(self.commands.len());
        thread::connected(&name, ListError::Thread, connect, work).await?;
        self.commands.push(commands);
        Ok(())
    }

    /// Makes every worker start over, all at once. Returns when all have the initial state.
    ///
    /// # Errors
    /// The error of the first worker that failed.
    pub async fn sync(&self) -> Result<Vec<Synced>, ListError> {
        let mut pending = Vec::with_capacity(self.commands.len());
        for commands in &self.commands {
            let (reply, synced) = oneshot::channel();
            // If the thread has ended, `reply` is dropped, which ends the wait as well.
            commands.send(Command::Sync(reply)).ok();
            pending.push(synced);
        }
        all(pending).await
    }

    /// Makes one worker drop its connection and resume over another one.
    pub fn reconnect(&self, worker: usize) {
        if let Some(commands) = self.commands.get(worker) {
            commands.send(Command::Reconnect).ok();
        }
    }

    /// Makes every worker stop reading. Returns the revision up to which each has received
    /// everything. A later revision is ahead of them all.
    ///
    /// # Errors
    /// The error of the first worker that failed.
    pub async fn pause(&self) -> Result<Vec<i64>, ListError> {
        let mut pending = Vec::with_capacity(self.commands.len());
        for commands in &self.commands {
            let (reply, revision) = oneshot::channel();
            commands.send(Command::Pause(reply)).ok();
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
        let mut pending = Vec::with_capacity(self.commands.len());
        for (commands, change) in self.commands.iter().zip(changes) {
            let (reply, taken) = oneshot::channel();
            commands.send(Command::TakeOver(change.into(), reply)).ok();
            pending.push(taken);
        }
        all(pending).await
    }

    /// Makes each worker stop once it has received everything up to its revision. Returns what each
    /// received since it had the initial state.
    ///
    /// # Errors
    /// The error of the first worker that failed, or that did not reach its revision in time.
    pub async fn finish(&self, revisions: &[i64]) -> Result<Vec<FinishedWatch>, ListError> {
        let mut pending = Vec::with_capacity(self.commands.len());
        for (commands, &revision) in self.commands.iter().zip(revisions) {
            let (reply, finished) = oneshot::channel();
            commands.send(Command::Finish { revision, reply }).ok();
            pending.push(finished);
        }
        all(pending).await
    }
}

async fn all<T>(
    pending: Vec<oneshot::Receiver<Result<T, ListError>>>,
) -> Result<Vec<T>, ListError> {
    let mut replies = Vec::with_capacity(pending.len());
    for (worker, reply) in pending.into_iter().enumerate() {
        let ended = |_| Err(ThreadError::ended(&thread_of(worker)).into());
        replies.push(reply.await.unwrap_or_else(ended)?);
    }
    Ok(replies)
}

/// Returns the name of a worker's thread.
fn thread_of(worker: usize) -> String {
    format!("worker-{worker}")
}

/// Runs a worker's thread once it is connected.
async fn worker(watch: WatchWorker, commands: mpsc::UnboundedReceiver<Command>) {
    // For a worker that joins later. `WatchWorker::sync` starts the measurement anew.
    heap::begin();
    let worker = Worker {
        watch,
        outcome: Ok(()),
        is_live: false,
        cpu_before: Duration::ZERO,
    };
    worker.run(commands).await;
}

struct Worker {
    watch: WatchWorker,
    /// The outcome of watching since the initial state, returned at the end.
    outcome: Result<(), ListError>,
    is_live: bool,
    cpu_before: Duration,
}

impl Worker {
    /// Reads events between commands.
    async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        loop {
            let watching = self.is_live && self.outcome.is_ok();
            let command = tokio::select! {
                biased;
                command = commands.recv() => command,
                read = self.watch.read(), if watching => {
                    self.outcome = read;
                    continue;
                }
            };
            match command {
                None => return,
                Some(Command::Sync(reply)) => {
                    reply.send(self.sync().await).ok();
                }
                Some(Command::Reconnect) => self.watch.lose_connection(),
                Some(Command::Pause(reply)) => {
                    reply.send(self.pause()).ok();
                }
                Some(Command::TakeOver(change, reply)) => {
                    reply.send(self.take_over(&change).await).ok();
                }
                Some(Command::Finish { revision, reply }) => {
                    reply.send(self.finish(revision).await).ok();
                }
            }
        }
    }

    async fn sync(&mut self) -> Result<Synced, ListError> {
        let begun = Instant::now();
        self.is_live = false;
        self.outcome = Ok(());
        let synced = timeout(STATE_TIMEOUT, self.watch.sync()).await;
        synced.unwrap_or(Err(ListError::Slow(STATE_TIMEOUT)))?;
        let latency = begun.elapsed();
        self.is_live = true;
        self.cpu_before = thread_cpu();
        Ok(Synced {
            latency,
            wire_bytes: self.watch.state_bytes(),
            revision: self.watch.revision(),
            held: heap::handing_away(|| self.watch.held().clone()),
        })
    }

    fn pause(&mut self) -> Result<i64, ListError> {
        std::mem::replace(&mut self.outcome, Ok(()))?;
        self.is_live = false;
        Ok(self.watch.revision())
    }

    async fn take_over(&mut self, change: &Change) -> Result<Taken, ListError> {
        let taken = timeout(TAKE_OVER_TIMEOUT, self.watch.take_over(change)).await;
        let taken = taken.unwrap_or(Err(ListError::Slow(TAKE_OVER_TIMEOUT)))?;
        self.is_live = true;
        Ok(taken)
    }

    async fn finish(&mut self, revision: i64) -> Result<FinishedWatch, ListError> {
        std::mem::replace(&mut self.outcome, Ok(()))?;
        let last = async {
            while self.watch.revision() < revision {
                self.watch.read().await?;
            }
            Ok(())
        };
        let seen = timeout(LAST_EVENT_TIMEOUT, last).await;
        seen.unwrap_or(Err(ListError::Slow(LAST_EVENT_TIMEOUT)))?;
        self.is_live = false;
        let memory = heap::most();
        Ok(FinishedWatch {
            memory,
            log: self.watch.take_log(),
            held: self.watch.held().clone(),
            cpu: thread_cpu().saturating_sub(self.cpu_before),
        })
    }
}
