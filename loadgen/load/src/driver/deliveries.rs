//! Watchers that run with loads that write: how long after its write each event came, and whether
//! every event came once and in order.
//!
//! What a watcher received is compared with what was written by revision, when all is over: an
//! event may come before the response to its write. A watcher keeps a sum of its revisions; of each
//! event the revision and the time are kept.
//!
//! - `read`, `through_api`: what watchers of an etcd and of a Kubernetes API do: some stop reading
//!   now and then, some lose their connection
//! - `resume`: pauses and limits of going on behind the revision that a watcher has, at another
//!   member where there is one; where that revision is compacted the watcher lists again, and what
//!   it missed is counted
//! - `watcher`: what one watcher received

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
use super::run::Written;
use crate::clients::thread;
use crate::operation::watch::Watched;
use crate::operation::watch::streams::Opening;
use crate::record::{LatencyHistogram, Live};

mod error;
mod read;
mod resume;
mod through_api;
mod watcher;

/// Events that are kept in all: 480 MB.
const MOST_EVENTS: usize = 20_000_000;
/// How long the last event may take after the last write.
const LAST_EVENT_WITHIN: Duration = Duration::from_secs(30);
/// How long all watchers together may take to be created.
const CREATED_WITHIN: Duration = Duration::from_secs(120);

/// Watchers to be created, and what they do.
#[derive(Debug, Clone)]
pub struct Watching {
    /// Where.
    pub config: ClientConfig,
    /// What all of them watch.
    pub prefix: String,
    /// How many.
    pub count: u32,
    /// Over how many connections, with a stream each.
    pub connections: u32,
    /// They do not read all the time.
    pub stall: Option<Stall>,
    /// They lose their connections as often, and go on from the revision that they have.
    pub cut_every: Option<Duration>,
    /// Where events are counted when they come.
    pub live: Arc<Live>,
}

/// What the watchers of a load came to.
#[derive(Debug, Default)]
pub struct Delivered {
    /// From the intended start of a write to its event at each watcher.
    pub latency: LatencyHistogram,
    /// Events, at all watchers together.
    pub events: u64,
    /// Writes whose events were timed. Those of one write are no independent samples.
    pub writes: u64,
    /// Each watcher by itself, in the order of their numbers.
    pub watchers: Vec<WatcherTimes>,
    /// How often a stream was cut, and for how long each time: until all its watchers were
    /// confirmed again.
    pub cuts: LatencyHistogram,
    /// How many of these cuts were not made by the watchers: the server ended a stream, or its
    /// connection broke.
    pub lost: u64,
    /// How often a watcher listed again, since the events that it was to go on with were compacted.
    pub relists: u64,
    /// Writes whose events it did not get since, at all watchers together.
    pub missed: u64,
    /// Events of objects that no load of this run made, at all watchers together.
    pub foreign: u64,
}

/// Events that may come beside those of the writes that are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    /// None.
    Nothing,
    /// So many at most: writes that failed, and may have been done all the same.
    UpTo(u64),
    /// Any number: others write there, too.
    Anything,
}

/// The times of one watcher's events.
#[derive(Debug, Clone)]
pub struct WatcherTimes {
    /// Its number.
    pub number: u32,
    /// As [`Delivered::latency`].
    pub latency: LatencyHistogram,
}

/// Returns what was received, where every watcher has the last event.
///
/// # Errors
/// [`DeliveryError::Late`].
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

/// Waits until then, or for ever.
async fn at(instant: Option<tokio::time::Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// Waits until the last event is due, or the caller gives up.
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

/// What a stream's watchers received.
#[derive(Debug, Default)]
struct Received {
    watchers: Vec<Watcher>,
    cuts: LatencyHistogram,
    /// Cuts that the watchers did not make.
    lost: u64,
    /// Events of objects that are not the loads'.
    foreign: u64,
}

/// Created watchers: a thread with all their streams. Dropped, they close.
#[derive(Debug)]
pub struct DeliveryWatchers {
    /// What the watchers read up to; set when all is written.
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
        let body = async move |answer: oneshot::Sender<_>| {
            let received = self::watching(&watching, &opening, created, until).await;
            answer.send(received).ok();
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
        let body = async move |answer: oneshot::Sender<_>| {
            let received = through_api::watching(&watching, created, until).await;
            answer.send(received).ok();
        };
        let ended = thread::start("api-watchers", DeliveryError::Start, body)?;
        Self::confirmed(last, ended, is_created, count).await
    }

    /// The watchers of a thread, once it says that they are there.
    async fn confirmed(
        last: watch::Sender<Option<Last>>,
        mut ended: oneshot::Receiver<Result<Vec<Received>, DeliveryError>>,
        is_created: oneshot::Receiver<()>,
        count: u32,
    ) -> Result<Self, DeliveryError> {
        match timeout(CREATED_WITHIN, is_created).await {
            Ok(Ok(())) => Ok(Self { last, ended }),
            // The thread has ended instead of confirming; it knows why.
            Ok(Err(_)) => Err(match (&mut ended).await {
                Ok(Err(error)) => error,
                _ => DeliveryError::Ended,
            }),
            Err(_) => Err(DeliveryError::Etcd(EtcdError::Protocol(format!(
                "{count} watchers were not created within {} s",
                CREATED_WITHIN.as_secs()
            )))),
        }
    }

    /// Waits until every watcher has the last of `writes`, and holds what they received against
    /// them; events of writes that were intended before `counted` are checked and not timed. What a
    /// watcher missed since it listed again is counted, and nothing else may be missing. Costs
    /// O(events × log writes).
    ///
    /// # Errors
    /// [`DeliveryError`], the first that any watcher shows.
    pub async fn finish(
        self,
        mut writes: Vec<Written>,
        counted: Instant,
        beside: Beside,
    ) -> Result<Delivered, DeliveryError> {
        writes.sort_unstable_by_key(|write| write.revision);
        let last = writes.last().map_or(0, |write| write.revision);
        self.last.send_replace(Some(Last {
            revision: last,
            by: tokio::time::Instant::now() + LAST_EVENT_WITHIN,
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
                    Beside::Nothing => watcher.ledger,
                    Beside::UpTo(_) | Beside::Anything => ledger_among(&watcher.events, &writes),
                };
                let strange = watcher.ledger.events - ledger.events;
                if ledger != due || matches!(beside, Beside::UpTo(most) if strange > most) {
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
