//! Watchers that run with loads that write: how long after its write each event came, and whether
//! every event came once and in order.
//!
//! What a watcher received is compared with what was written by revision, when all is over: an
//! event may come before the response to its write. A watcher keeps a sum of its revisions; of each
//! event the revision and the time are kept. `read` is what a stream's watchers do: some stop
//! reading now and then, some lose their connection and go on from the revision that they have.

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
use super::run::Written;
use crate::clients::thread;
use crate::operation::watch::Watched;
use crate::operation::watch::streams::Opening;
use crate::record::{LatencyHistogram, Live};

mod error;
mod read;
mod through_api;

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
    /// Events of objects that no load of this run made, at all watchers together.
    pub foreign: u64,
}

/// The times of one watcher's events.
#[derive(Debug, Clone)]
pub struct WatcherTimes {
    /// Its number.
    pub number: u32,
    /// As [`Delivered::latency`].
    pub latency: LatencyHistogram,
}

/// One watcher, and what it received.
#[derive(Debug, Default)]
struct Watcher {
    number: u32,
    ledger: Ledger,
    events: Vec<Event>,
}

/// One watcher's events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Ledger {
    events: u64,
    /// The sum of their revisions, modulo 2⁶⁴.
    sum: u64,
    last: i64,
}

/// One event at one watcher.
#[derive(Debug, Clone, Copy)]
struct Event {
    revision: i64,
    at: Instant,
}

/// What all watchers read up to.
#[derive(Debug, Clone, Copy)]
struct Last {
    revision: i64,
    /// When they stop waiting for it, whatever else comes meanwhile.
    by: tokio::time::Instant,
}

impl Watcher {
    /// Notes an event that came at `at`.
    ///
    /// # Errors
    /// [`DeliveryError::Order`] where its revision is not above those before.
    fn note(&mut self, revision: i64, at: Instant) -> Result<(), DeliveryError> {
        let before = self.ledger.last;
        if revision <= before {
            return Err(DeliveryError::Order { revision, before });
        }
        self.ledger.note(revision);
        self.events.push(Event { revision, at });
        Ok(())
    }

    /// Returns whether it has everything up to `last`; false as long as that is not known.
    fn has(&self, last: Option<Last>) -> bool {
        last.is_some_and(|last| self.ledger.last >= last.revision)
    }
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

/// What a stream's watchers received.
#[derive(Debug, Default)]
struct Received {
    watchers: Vec<Watcher>,
    cuts: LatencyHistogram,
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
    /// them; events of writes that were intended before `counted` are checked and not timed. Where
    /// `others` write there too, and what is not known here, so only the events of these writes are
    /// checked. Costs O(events × log writes).
    ///
    /// # Errors
    /// [`DeliveryError`], the first that any watcher shows.
    pub async fn finish(
        self,
        mut writes: Vec<Written>,
        counted: Instant,
        others: bool,
    ) -> Result<Delivered, DeliveryError> {
        writes.sort_unstable_by_key(|write| write.revision);
        let last = writes.last().map_or(0, |write| write.revision);
        self.last.send_replace(Some(Last {
            revision: last,
            by: tokio::time::Instant::now() + LAST_EVENT_WITHIN,
        }));
        let received = self.ended.await.map_err(|_| DeliveryError::Ended)??;
        let due = ledger_of(&writes);
        let mut delivered = Delivered {
            writes: writes.iter().filter(|w| w.intended >= counted).count() as u64,
            ..Delivered::default()
        };
        for stream in received {
            delivered.cuts.add(&stream.cuts);
            delivered.foreign += stream.foreign;
            for watcher in stream.watchers {
                let ledger = match others {
                    true => ledger_among(&watcher.events, &writes),
                    false => watcher.ledger,
                };
                if ledger != due {
                    return Err(DeliveryError::Wrong {
                        events: ledger.events,
                        writes: due.events,
                    });
                }
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

/// Returns what a watcher must have that saw all of these writes, in the order of their revisions.
fn ledger_of(writes: &[Written]) -> Ledger {
    let mut ledger = Ledger::default();
    for write in writes {
        ledger.note(write.revision);
    }
    ledger
}

/// Returns what a watcher has of these writes, among events of others.
fn ledger_among(events: &[Event], writes: &[Written]) -> Ledger {
    let mut ledger = Ledger::default();
    for event in events {
        if writes
            .binary_search_by_key(&event.revision, |w| w.revision)
            .is_ok()
        {
            ledger.note(event.revision);
        }
    }
    ledger
}

impl Ledger {
    fn note(&mut self, revision: i64) {
        self.events += 1;
        self.sum = self.sum.wrapping_add(revision.cast_unsigned());
        self.last = revision;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writes(revisions: &[i64], at: Instant) -> Vec<Written> {
        revisions
            .iter()
            .map(|&revision| Written {
                revision,
                intended: at,
            })
            .collect()
    }

    /// Returns what `finish` makes of one watcher with these events, without other writers.
    async fn finished(seen: &[i64], written: &[i64]) -> Result<Delivered, DeliveryError> {
        finished_beside(seen, written, false).await
    }

    async fn finished_beside(
        seen: &[i64],
        written: &[i64],
        others: bool,
    ) -> Result<Delivered, DeliveryError> {
        let begun = Instant::now();
        let (last, _) = watch::channel(None);
        let (answer, ended) = oneshot::channel();
        let at = begun + Duration::from_millis(7);
        let events = seen.iter().map(|&revision| Event { revision, at });
        let watcher = Watcher {
            number: 0,
            ledger: ledger_of(&writes(seen, begun)),
            events: events.collect(),
        };
        let received = Received {
            watchers: vec![watcher],
            ..Received::default()
        };
        answer.send(Ok(vec![received])).expect("it waits");
        let watchers = DeliveryWatchers { last, ended };
        watchers.finish(writes(written, begun), begun, others).await
    }

    #[tokio::test]
    async fn beside_the_writes_of_others_only_ones_own_are_looked_at() {
        let delivered = finished_beside(&[4, 5, 6, 9, 10], &[5, 9], true).await;
        let delivered = delivered.expect("both came");
        assert_eq!((delivered.events, delivered.writes), (2, 2));
        for seen in [&[4, 5, 6, 10][..], &[4, 6, 9]] {
            let wrong = finished_beside(seen, &[5, 9], true).await;
            let wrong = wrong.expect_err("one of them is lost");
            let found = matches!(
                wrong,
                DeliveryError::Wrong {
                    events: 1,
                    writes: 2
                }
            );
            assert!(found, "{wrong}");
        }
    }

    #[tokio::test]
    async fn every_event_is_timed_from_the_intended_start_of_its_write() {
        let delivered = finished(&[5, 6, 9], &[9, 5, 6]).await.expect("all came");
        assert_eq!((delivered.events, delivered.writes), (3, 3));
        assert_eq!(delivered.latency.n(), 3);
        assert_eq!(delivered.watchers[0].latency.n(), 3);
    }

    #[tokio::test]
    async fn a_lost_a_doubled_and_a_strange_event_are_found() {
        for seen in [&[5, 9][..], &[5, 6, 7, 9], &[5, 7, 9]] {
            let wrong = finished(seen, &[5, 6, 9])
                .await
                .expect_err("not what was written");
            assert!(
                matches!(wrong, DeliveryError::Wrong { writes: 3, .. }),
                "{wrong}"
            );
        }
    }
}
