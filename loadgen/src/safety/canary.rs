//! Sends a small linearizable read regularly during the load, on a connection of its own, and
//! checks the server's metrics. If either shows that the server suffers, the load is stopped at
//! once.
//!
//! - [`pulse`]: judges the times of the reads
//! - [`server_status`]: judges the server's memory, leader, slow writes and alarms

mod pulse;
mod server_status;

use std::fmt::Display;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use etcd_api::client::Client;
use etcd_api::error::{Error as EtcdError, Refusal};
use etcd_api::proto::etcdserverpb::RangeRequest;
use http::{HeaderMap, Method, StatusCode};
use kube_api::client::{Connection, read_whole};
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use pulse::{Pulse, READ_TIMEOUT};
pub use server_status::ServerStatus;

/// The interval between the starts of two reads.
const EVERY: Duration = Duration::from_millis(200);
/// The interval between two checks of the server's metrics: the page costs the server as much as a
/// small list.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// The fewest reads of a baseline.
const MIN_BASELINE: usize = 5;
/// The path that is read from a Kubernetes API: a read without a resourceVersion reads from its
/// etcd.
const KUBE_PATH: &str = "/api/v1/namespaces/default";
/// The largest response that is read, in bytes; the object is small.
const KUBE_ANSWER_BYTES: usize = 1 << 20;

/// The small read.
#[derive(Debug)]
pub enum Read {
    /// A read of a key of an etcd, which need not exist.
    Etcd {
        /// A client that is used for nothing else.
        client: Client,
        /// The key.
        key: Bytes,
    },
    /// A read of a namespace of a Kubernetes API.
    Kube(Connection),
}

impl Read {
    /// Reads once; returns a line with the reason why the server is unwell.
    async fn once(&mut self) -> Result<(), String> {
        match self {
            Self::Etcd { client, key } => {
                let range = || async {
                    let request = RangeRequest {
                        key: key.clone(),
                        ..RangeRequest::default()
                    };
                    Ok(client.kv().range(request).await?)
                };
                match client.renewing(range).await {
                    // This is a response, too: the user may not read that key.
                    Ok(_) | Err(EtcdError::Refused(Refusal::PermissionDenied)) => Ok(()),
                    // A read in flight can show it earlier than the metrics.
                    Err(EtcdError::Refused(Refusal::LeaderChanged)) => {
                        Err(server_status::LEADER_CHANGED.to_owned())
                    }
                    Err(EtcdError::Refused(Refusal::NoLeader)) => {
                        Err(server_status::NO_LEADER.to_owned())
                    }
                    Err(error) => Err(failed(error)),
                }
            }
            Self::Kube(connection) => {
                let sent = connection.send(Method::GET, KUBE_PATH, HeaderMap::new(), Bytes::new());
                let answer = sent.await.map_err(failed)?;
                let status = answer.status();
                let body = read_whole(answer.into_body(), KUBE_ANSWER_BYTES).await;
                body.map_err(failed)?;
                // It does not matter whether the object exists and may be read.
                if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
                    return Err(failed(format!("GET {KUBE_PATH}: {status}")));
                }
                Ok(())
            }
        }
    }

    /// Reads once; returns the time, or a line with the reason why the server is unwell.
    async fn timed(&mut self) -> Result<Duration, String> {
        let begun = Instant::now();
        match timeout(READ_TIMEOUT, self.once()).await {
            Ok(read) => read.map(|()| begun.elapsed()),
            Err(_) => Err(format!("a small read took {} s", READ_TIMEOUT.as_secs())),
        }
    }
}

fn failed(error: impl Display) -> String {
    format!("a small read failed: {error}")
}

/// A running check of a server. Dropping it ends the check.
#[derive(Debug)]
pub struct Canary {
    reason: Arc<OnceLock<String>>,
    /// The memory of each member.
    memory: Vec<server_status::Memory>,
    baseline: Duration,
    end: CancellationToken,
}

impl Canary {
    /// Measures a baseline for the given time, and checks the server from then on. If the server
    /// suffers, `stop` is cancelled. `status` is `None` if the server does not serve its metrics.
    ///
    /// # Errors
    /// One line, if the server suffers before the load.
    pub async fn start(
        mut read: Read,
        status: Option<ServerStatus>,
        baseline: Duration,
        stop: CancellationToken,
    ) -> Result<Self, String> {
        let mut status = status;
        if let Some(status) = &mut status {
            status.begin().await;
        }
        let begun = Instant::now();
        let mut ticks = ticks(EVERY);
        let mut times = Vec::new();
        // The first read opens the connection, and its time does not count.
        read.timed().await?;
        while times.len() < MIN_BASELINE || begun.elapsed() < baseline {
            ticks.tick().await;
            times.push(read.timed().await?);
        }
        if let Some(status) = &mut status {
            status.end_of_baseline().await?;
        }
        let pulse = Pulse::new(&mut times);
        let canary = Self {
            reason: Arc::default(),
            memory: status
                .as_ref()
                .map(ServerStatus::memory)
                .unwrap_or_default(),
            baseline: pulse.baseline(),
            end: CancellationToken::new(),
        };
        let trip = Trip {
            reason: Arc::clone(&canary.reason),
            stop,
            end: canary.end.clone(),
        };
        tokio::spawn(beat(read, pulse, trip.clone()));
        if let Some(status) = status {
            tokio::spawn(look(status, trip));
        }
        Ok(canary)
    }

    /// Returns the median time of a read before the load.
    #[must_use]
    pub fn baseline(&self) -> Duration {
        self.baseline
    }

    /// Allows the server's memory to grow by this many bytes from now on.
    pub fn allow_growth(&self, bytes: u64) {
        self.memory.iter().for_each(|one| one.allow_growth(bytes));
    }

    /// Returns the reason why the load was stopped, if it was.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.reason.get().map(String::as_str)
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

/// The handle that stops the load.
#[derive(Debug, Clone)]
struct Trip {
    reason: Arc<OnceLock<String>>,
    stop: CancellationToken,
    end: CancellationToken,
}

impl Trip {
    /// Stops the load and the checks. The first reason is kept.
    fn pull(&self, reason: String) {
        self.reason.get_or_init(|| reason);
        self.stop.cancel();
        self.end.cancel();
    }

    /// Waits for the next tick. Returns false once the checks have ended.
    async fn next(&self, ticks: &mut Interval) -> bool {
        tokio::select! {
            _ = ticks.tick() => true,
            () = self.end.cancelled() => false,
        }
    }
}

async fn beat(mut read: Read, mut pulse: Pulse, trip: Trip) {
    let begun = Instant::now();
    let mut ticks = ticks(EVERY);
    while trip.next(&mut ticks).await {
        let time = read.timed().await;
        if let Err(reason) = time.and_then(|time| pulse.take(begun.elapsed(), time)) {
            return trip.pull(reason);
        }
    }
}

async fn look(mut status: ServerStatus, trip: Trip) {
    let mut ticks = ticks(LOOK_EVERY);
    while trip.next(&mut ticks).await {
        if let Err(reason) = status.look().await {
            return trip.pull(reason);
        }
    }
}

fn ticks(every: Duration) -> Interval {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
