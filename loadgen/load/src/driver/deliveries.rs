//! Runs watchers together with loads that write, measures the delay of each event after its write,
//! and checks that every event arrived once and in order.
//!
//! Received events are compared with the writes by revision at the end, because an event may arrive
//! before the response to its write. A watcher keeps a sum of its revisions, and the revision and
//! time of each event.
//!
//! - `read`, `through_api`: the watchers of an etcd and of a Kubernetes API; some pause reading at
//!   intervals, some lose their connection
//! - `resume`: backoff and time limits of resuming after the revision that a watcher has reached,
//!   at another member if there is one. If that revision is compacted, the watcher lists again, and
//!   the events that it missed are counted.
//! - `watcher`: the events that one watcher received
//! - `error`: how received events can disagree with the writes

use std::sync::Arc;
use std::time::{Duration, Instant};

use etcd_api::client::config::ClientConfig;
use etcd_api::error::Error as EtcdError;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;
use workloads::scenario::Stall;

pub use self::error::DeliveryError;
use self::read::watching;
pub use self::through_api::ApiWatching;
use self::watcher::{Last, Watcher, ledger_among, ledger_of};
use super::run::AcknowledgedWrite;
use crate::clients::thread;
use crate::operation::watch::Watched;
use crate::operation::watch::streams::Opening;
use crate::record::{LatencyHistogram, Live};

mod error;
mod read;
mod resume;
mod through_api;
mod watcher;

/// The largest number of events that all watchers keep: 480 MB.
const MAX_EVENTS: usize = 20_000_000;
/// How long the last event may take after the last write.
const LAST_EVENT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the creation of all watchers together may take.
const CREATE_TIMEOUT: Duration = Duration::from_secs(120);

/// Settings of the watchers of a load.
#[derive(Debug, Clone)]
pub struct Watching {
    /// The endpoints of the etcd.
    pub config: ClientConfig,
    /// The prefix that all of them watch.
    pub prefix: String,
    /// The number of watchers.
    pub count: u32,
    /// The number of connections, each with one stream.
    pub connections: u32,
    /// When the watchers pause reading, if they do.
    pub stall: Option<Stall>,
    /// How often the watchers drop their connections, if they do. They resume from the revision
    /// that they have reached.
    pub cut_every: Option<Duration>,
    /// The counters of received events.
    pub live: Arc<Live>,
}

/// The results of a load's watchers.
#[derive(Debug, Default)]
pub struct Delivered {
    /// The time from the intended start of a write to its event, at each watcher.
    pub latency: LatencyHistogram,
    /// The number of timed events at all watchers together.
    pub events: u64,
    /// The number of writes whose events were timed. The events of one write are not independent
    /// samples.
    pub writes: u64,
    /// Each watcher's times, in the order of their numbers.
    pub watchers: Vec<WatcherTimes>,
    /// How long each interruption of a stream took, until all its watchers were confirmed again.
    pub cuts: LatencyHistogram,
    /// The number of interruptions that the watchers did not cause: the server ended a stream, or
    /// its connection broke.
    pub lost: u64,
    /// How often a watcher listed again because the events from which it would have resumed were
    /// compacted.
    pub relists: u64,
    /// The number of writes whose events watchers missed by listing again, at all watchers
    /// together.
    pub missed: u64,
    /// The number of events of objects that no load of this run made, at all watchers together.
    pub foreign: u64,
}

/// The events that are allowed in addition to those of the known writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtraEvents {
    /// No other events.
    Nothing,
    /// At most this many: writes that failed may have been applied nevertheless.
    UpTo(u64),
    /// Any number: other clients write there, too.
    Anything,
}

/// The times of one watcher's events.
#[derive(Debug, Clone)]
pub struct WatcherTimes {
    /// The watcher's number.
    pub number: u32,
    /// See [`Delivered::latency`].
    pub latency: LatencyHistogram,
}

/// Returns `received` if every watcher has the last event.
///
/// # Errors
/// [`DeliveryError::Late`] if a watcher lacks the last event.
fn all_in_time(
    received: Vec<Received>,
    last: Option<Last>,
) -> Result<Vec<Received>, DeliveryError> {
    let Some(Last { revision, .. }) = last else {
        return Ok(received);
    };
    let all = || received.iter().flat_map(|stream| &stream.watchers);
    match all().filter(|watcher| !watcher.has(last)).count() {
        0 => Ok(received),
        missing => Err(DeliveryError::Late {
            missing,
            watchers: all().count(),
            revision,
        }),
    }
}

/// Waits until that time, or forever.
async fn at(instant: Option<tokio::time::Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// Waits until the deadline of the last event, or until the caller gives up.
async fn last_is_due(until: &mut watch::Receiver<Option<Last>>) {
    loop {
        let last = *until.borrow_and_update();
        tokio::select! {
            changed = until.changed() => if changed.is_err() {
                return;
            },
            () = at(last.map(|last| last.by)) => return,
        }
    }
}

/// What the watchers of one stream received.
#[derive(Debug, Default)]
struct Received {
    watchers: Vec<Watcher>,
    cuts: LatencyHistogram,
    /// Interruptions that the watchers did not cause.
    lost: u64,
    /// Events of objects that the loads did not make.
    foreign: u64,
}

/// Created watchers: a thread with all their streams. The streams are closed when this is dropped.
#[derive(Debug)]
pub struct DeliveryWatchers {
    /// The last revision that the watchers wait for. Set when all writes are done.
    last: watch::Sender<Option<Last>>,
    ended: oneshot::Receiver<Result<Vec<Received>, DeliveryError>>,
}

impl DeliveryWatchers {
    /// Creates watchers and waits until the server has confirmed each.
    ///
    /// # Errors
    /// [`DeliveryError`] when a connection fails, or the server does not confirm all in time.
    pub async fn create(watching: Watching) -> Result<Self, DeliveryError> {
        let (last, until) = watch::channel(None);
        let (created, is_created) = oneshot::channel();
        let count = watching.count;
        let opening = Opening {
            config: watching.config.clone(),
            watched: Watched::Together(watching.prefix.clone()),
            count,
            connections: watching.connections.min(count).max(1),
        };
        let body = async move |result: oneshot::Sender<_>| {
            let received = self::watching(&watching, &opening, created, until).await;
            result.send(received).ok();
        };
        let ended = thread::start("watchers", DeliveryError::Start, body)?;
        Self::confirmed(last, ended, is_created, count).await
    }

    /// Creates watchers through a Kubernetes API and waits until the server has accepted each.
    ///
    /// # Errors
    /// [`DeliveryError`] when a connection fails, or the server does not accept all in time.
    pub async fn create_through_api(watching: ApiWatching) -> Result<Self, DeliveryError> {
        let (last, until) = watch::channel(None);
        let (created, is_created) = oneshot::channel();
        let count = watching.count;
        let body = async move |result: oneshot::Sender<_>| {
            let received = through_api::watching(&watching, created, until).await;
            result.send(received).ok();
        };
        let ended = thread::start("api-watchers", DeliveryError::Start, body)?;
        Self::confirmed(last, ended, is_created, count).await
    }

    /// Returns the watchers of a thread once the thread has reported their creation.
    async fn confirmed(
        last: watch::Sender<Option<Last>>,
        mut ended: oneshot::Receiver<Result<Vec<Received>, DeliveryError>>,
        is_created: oneshot::Receiver<()>,
        count: u32,
    ) -> Result<Self, DeliveryError> {
        match timeout(CREATE_TIMEOUT, is_created).await {
            Ok(Ok(())) => Ok(Self { last, ended }),
            // The thread has ended instead of confirming. It reports the reason.
            Ok(Err(_)) => Err(match (&mut ended).await {
                Ok(Err(error)) => error,
                _ => DeliveryError::Ended,
            }),
            Err(_) => Err(DeliveryError::Etcd(EtcdError::Timeout(format!(
                "{count} watchers were not created within {} s",
                CREATE_TIMEOUT.as_secs()
            )))),
        }
    }

    /// Waits until every watcher has the last of `writes`, and compares what they received with
    /// `writes`. Events of writes whose intended start is before `counted` are checked, but not
    /// timed. Events that a watcher missed by listing again are counted. No others may be missing.
    /// Costs O(events × log writes).
    ///
    /// # Errors
    /// The first [`DeliveryError`] of any watcher.
    pub async fn finish(
        self,
        mut writes: Vec<AcknowledgedWrite>,
        counted: Instant,
        beside: ExtraEvents,
    ) -> Result<Delivered, DeliveryError> {
        writes.sort_unstable_by_key(|write| write.revision);
        let last = writes.last().map_or(0, |write| write.revision);
        self.last.send_replace(Some(Last {
            revision: last,
            by: tokio::time::Instant::now() + LAST_EVENT_TIMEOUT,
        }));
        let received = self.ended.await.map_err(|_| DeliveryError::Ended)??;
        let of_all = ledger_of(&writes);
        let mut delivered = Delivered {
            writes: writes.iter().filter(|w| w.intended >= counted).count() as u64,
            ..Delivered::default()
        };
        for stream in received {
            delivered.cuts.add(&stream.cuts);
            delivered.lost += stream.lost;
            delivered.foreign += stream.foreign;
            for watcher in stream.watchers {
                let due = match watcher.gaps.is_empty() {
                    true => of_all,
                    false => ledger_of(writes.iter().filter(|w| !watcher.missed(w.revision))),
                };
                let ledger = match beside {
                    ExtraEvents::Nothing => watcher.ledger,
                    ExtraEvents::UpTo(_) | ExtraEvents::Anything => {
                        ledger_among(&watcher.events, &writes)
                    }
                };
                let strange = watcher.ledger.events - ledger.events;
                if ledger != due || matches!(beside, ExtraEvents::UpTo(most) if strange > most) {
                    return Err(DeliveryError::Wrong {
                        events: watcher.ledger.events,
                        writes: due.events,
                    });
                }
                delivered.relists += watcher.gaps.len() as u64;
                delivered.missed += of_all.events - due.events;
                let mut latency = LatencyHistogram::default();
                for event in &watcher.events {
                    let write = writes.binary_search_by_key(&event.revision, |w| w.revision);
                    let intended = write.ok().map(|place| writes[place].intended);
                    if let Some(intended) = intended.filter(|intended| *intended >= counted) {
                        latency.record(event.at.saturating_duration_since(intended));
                    }
                }
                delivered.events += latency.n();
                delivered.latency.add(&latency);
                delivered.watchers.push(WatcherTimes {
                    number: watcher.number,
                    latency,
                });
            }
        }
        delivered.watchers.sort_by_key(|watcher| watcher.number);
        Ok(delivered)
    }
}

#[cfg(test)]
mod tests;
