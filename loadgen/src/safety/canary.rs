//! A small linearizable read during the load, on a connection of its own, and a check of what the
//! server says of itself: where either shows that the server suffers, the load is stopped at once.
//!
//! - [`pulse`]: what the times of the reads say
//! - [`server_status`]: the server's memory, leader, slow writes and alarms

mod pulse;
mod server_status;

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

use pulse::{LONGEST, Pulse};
pub use server_status::ServerStatus;

/// From the start of one read to the start of the next.
const EVERY: Duration = Duration::from_millis(200);
/// From one look at what the server says of itself to the next: its page costs it what a small list
/// does.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Reads of the baseline at least.
const LEAST_BASELINE: usize = 5;
/// What the Kubernetes API is asked for: a read without a resourceVersion goes through its etcd.
const KUBE_PATH: &str = "/api/v1/namespaces/default";
/// An answer to that is small.
const KUBE_ANSWER_BYTES: usize = 1 << 20;

/// What is read.
#[derive(Debug)]
pub enum Read {
    /// A key that need not exist, of an etcd.
    Etcd {
        /// A client that nothing else uses.
        client: Client,
        /// The key.
        key: Bytes,
    },
    /// A namespace of a Kubernetes API.
    Kube(Connection),
}

impl Read {
    /// Reads once.
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
                    // An answer, too: this user may not read that key.
                    Ok(_) | Err(EtcdError::Refused(Refusal::PermissionDenied)) => Ok(()),
                    Err(error) => Err(error.to_string()),
                }
            }
            Self::Kube(connection) => {
                let sent = connection.send(Method::GET, KUBE_PATH, HeaderMap::new(), Bytes::new());
                let answer = sent.await.map_err(|error| error.to_string())?;
                let status = answer.status();
                let body = read_whole(answer.into_body(), KUBE_ANSWER_BYTES).await;
                body.map_err(|error| error.to_string())?;
                match status {
                    StatusCode::TOO_MANY_REQUESTS => Err(format!("GET {KUBE_PATH}: {status}")),
                    status if status.is_server_error() => Err(format!("GET {KUBE_PATH}: {status}")),
                    // Whether it exists and may be read is no matter.
                    _ => Ok(()),
                }
            }
        }
    }

    /// Reads once; the time it took, or why the server is not well.
    async fn timed(&mut self) -> Result<Duration, String> {
        let begun = Instant::now();
        match timeout(LONGEST, self.once()).await {
            Ok(Ok(())) => Ok(begun.elapsed()),
            Ok(Err(error)) => Err(format!("a small read failed: {error}")),
            Err(_) => Err(format!("a small read took {} s", LONGEST.as_secs())),
        }
    }
}

/// A watch over a server. Dropped, it ends.
#[derive(Debug)]
pub struct Canary {
    reason: Arc<OnceLock<String>>,
    /// Of each member.
    memory: Vec<server_status::Memory>,
    baseline: Duration,
    end: CancellationToken,
}

impl Canary {
    /// Takes a baseline for so long and watches from then on. Where the server suffers, `stop` is
    /// cancelled. `status` are `None` where the server does not say how it is.
    ///
    /// # Errors
    /// In one line, where the server suffers before anything was asked of it.
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
        // The first read opens the connection, which is none of its time.
        read.timed().await?;
        while times.len() < LEAST_BASELINE || begun.elapsed() < baseline {
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

    /// Allows the server's memory to grow by so many bytes from now on.
    pub fn allow_growth(&self, bytes: u64) {
        self.memory.iter().for_each(|one| one.allow_growth(bytes));
    }

    /// Returns why the load was stopped, if it was.
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

/// What stops the load.
#[derive(Debug, Clone)]
struct Trip {
    reason: Arc<OnceLock<String>>,
    stop: CancellationToken,
    end: CancellationToken,
}

impl Trip {
    /// Stops everything; the first reason is kept.
    fn pull(&self, reason: String) {
        self.reason.get_or_init(|| reason);
        self.stop.cancel();
        self.end.cancel();
    }

    /// Waits until it is time again. Returns false once nobody wants to know any more.
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
