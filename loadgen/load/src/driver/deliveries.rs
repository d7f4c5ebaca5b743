//! Watchers beside loads that write: how long after its write each event came, and whether every event
//! came once and in order.
//!
//! What a watcher received is held against what was written by revision, when all is over: an event may
//! come before the response to its write. A watcher keeps a sum of its revisions; of each event the
//! revision and the time are kept, 16 bytes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use etcd_api::client::config::ClientConfig;
use etcd_api::error::Error as EtcdError;
use futures::future::try_join_all;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use super::run::Written;
use crate::clients::thread;
use crate::operation::watch::Watched;
use crate::operation::watch::streams::{Opening, WatchStream};
use crate::record::LatencyHistogram;

/// Events that are kept in all: 320 MB.
const MOST_EVENTS: usize = 20_000_000;
/// How long the last event may take after the last write.
const LAST_EVENT_WITHIN: Duration = Duration::from_secs(30);
/// How long all watchers together may take to be created.
const CREATED_WITHIN: Duration = Duration::from_secs(120);

/// What watchers and writes did not agree on.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// A stream that failed.
    #[error("watching: {0}")]
    Etcd(#[from] EtcdError),
    /// No thread to watch in.
    #[error("watching: cannot start a thread: {0}")]
    Start(#[from] std::io::Error),
    /// The thread ended without an answer.
    #[error("watching: its thread ended")]
    Ended,
    /// Events did not come.
    #[error("{missing} of {watchers} watchers had no event of revision {revision} within {} s of the last write", LAST_EVENT_WITHIN.as_secs())]
    Late {
        /// Watchers that lack it.
        missing: usize,
        /// Of so many.
        watchers: usize,
        /// The last write's.
        revision: i64,
    },
    /// An event that is not newer than the one before.
    #[error("a watcher got an event of revision {revision} after one of revision {before}")]
    Order {
        /// The event's.
        revision: i64,
        /// Of the event before.
        before: i64,
    },
    /// A watcher's events are not the writes.
    #[error("a watcher got {events} events of {writes} writes, or others than were written")]
    Wrong {
        /// Events that it got.
        events: u64,
        /// Writes that were acknowledged since it was created.
        writes: u64,
    },
    /// More than can be kept.
    #[error("more than {MOST_EVENTS} events: take fewer watchers, a lower rate or less time")]
    TooMany,
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

/// What a stream's watchers received.
#[derive(Debug, Default)]
struct Received {
    ledgers: Vec<Ledger>,
    events: Vec<Event>,
}

/// Created watchers: a thread with all their streams. Dropped, they close.
#[derive(Debug)]
pub struct DeliveryWatchers {
    /// The revision up to which events are awaited; set when all is written.
    last: watch::Sender<Option<i64>>,
    ended: oneshot::Receiver<Result<Vec<Received>, DeliveryError>>,
}

impl DeliveryWatchers {
    /// Creates `count` watchers of a prefix over `connections` streams and waits until the server has
    /// confirmed each.
    ///
    /// # Errors
    /// [`DeliveryError`] when a connection fails, or the server does not confirm all in time.
    pub async fn create(
        config: &ClientConfig,
        prefix: &str,
        count: u32,
        connections: u32,
    ) -> Result<Self, DeliveryError> {
        let (last, until) = watch::channel(None);
        let (created, is_created) = oneshot::channel();
        let opening = Opening {
            config: config.clone(),
            watched: Watched::Together(prefix.to_owned()),
            count,
            connections: connections.min(count).max(1),
        };
        let body = async move |answer: oneshot::Sender<_>| {
            answer.send(watching(opening, created, until).await).ok();
        };
        let mut ended = thread::start("watchers", DeliveryError::Start, body)?;
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

    /// Waits until every watcher has the last of `writes`, and holds what they received against them;
    /// events of writes that were intended before `counted` are checked and not timed. Costs O(events
    /// × log writes).
    ///
    /// # Errors
    /// [`DeliveryError`], the first that any watcher shows.
    pub async fn finish(
        self,
        mut writes: Vec<Written>,
        counted: Instant,
    ) -> Result<Delivered, DeliveryError> {
        writes.sort_unstable_by_key(|write| write.revision);
        let last = writes.last().map_or(0, |write| write.revision);
        self.last.send_replace(Some(last));
        let received = self.ended.await.map_err(|_| DeliveryError::Ended)??;
        let due = ledger_of(&writes);
        let mut delivered = Delivered {
            writes: writes.iter().filter(|w| w.intended >= counted).count() as u64,
            ..Delivered::default()
        };
        for stream in &received {
            for ledger in &stream.ledgers {
                if *ledger != due {
                    return Err(DeliveryError::Wrong {
                        events: ledger.events,
                        writes: due.events,
                    });
                }
            }
            for event in &stream.events {
                let write = writes.binary_search_by_key(&event.revision, |w| w.revision);
                let intended = write.ok().map(|place| writes[place].intended);
                if let Some(intended) = intended.filter(|intended| *intended >= counted) {
                    delivered.events += 1;
                    let time = event.at.saturating_duration_since(intended);
                    delivered.latency.record(time);
                }
            }
        }
        Ok(delivered)
    }
}

/// What a watcher must have that saw all of these writes, in the order of their revisions.
fn ledger_of(writes: &[Written]) -> Ledger {
    let mut ledger = Ledger::default();
    for write in writes {
        ledger.events += 1;
        ledger.sum = ledger.sum.wrapping_add(write.revision.cast_unsigned());
        ledger.last = write.revision;
    }
    ledger
}

async fn watching(
    opening: Opening,
    created: oneshot::Sender<()>,
    until: watch::Receiver<Option<i64>>,
) -> Result<Vec<Received>, DeliveryError> {
    let watchers = opening.count as usize;
    let streams = opening.open::<Ledger>().await?;
    // Whoever waited may have given up; then `until` closes.
    created.send(()).ok();
    let kept = AtomicUsize::new(0);
    let reading = streams
        .into_iter()
        .map(|stream| read(stream, until.clone(), &kept));
    let received = try_join_all(reading).await?;
    let last = until.borrow().unwrap_or(0);
    let ledgers = received.iter().flat_map(|stream| &stream.ledgers);
    match ledgers.filter(|ledger| ledger.last < last).count() {
        0 => Ok(received),
        missing => Err(DeliveryError::Late {
            missing,
            watchers,
            revision: last,
        }),
    }
}

/// Notes events until every watcher of the stream has the revision that `until` asks for, or it does not
/// come in time, or nobody asks any longer. Events that all streams keep are counted in `kept`.
async fn read(
    mut stream: WatchStream<Ledger>,
    mut until: watch::Receiver<Option<i64>>,
    kept: &AtomicUsize,
) -> Result<Received, DeliveryError> {
    let mut events = Vec::new();
    loop {
        let last = *until.borrow_and_update();
        let has_all = last.is_some_and(|last| {
            let mut ledgers = stream.watchers.values();
            ledgers.all(|ledger| ledger.last >= last)
        });
        if has_all {
            break;
        }
        let response = tokio::select! {
            response = stream.next() => response?,
            changed = until.changed() => match changed {
                Ok(()) => continue,
                Err(_) => break,
            },
            () = tokio::time::sleep(LAST_EVENT_WITHIN), if last.is_some() => break,
        };
        let at = Instant::now();
        let id = response.watch_id;
        let Some(ledger) = stream.watchers.get_mut(&id) else {
            let text = format!("an event for watcher {id}, which is nobody's");
            return Err(EtcdError::Protocol(text).into());
        };
        for event in &response.events {
            let revision = event.kv.as_ref().map_or(0, |kv| kv.mod_revision);
            if revision <= ledger.last {
                return Err(DeliveryError::Order {
                    revision,
                    before: ledger.last,
                });
            }
            ledger.last = revision;
            ledger.events += 1;
            ledger.sum = ledger.sum.wrapping_add(revision.cast_unsigned());
            events.push(Event { revision, at });
        }
        let count = response.events.len();
        if kept.fetch_add(count, Ordering::Relaxed) + count > MOST_EVENTS {
            return Err(DeliveryError::TooMany);
        }
    }
    Ok(Received {
        ledgers: stream.watchers.into_values().collect(),
        events,
    })
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

    /// What `finish` makes of one watcher with these events.
    async fn finished(seen: &[i64], written: &[i64]) -> Result<Delivered, DeliveryError> {
        let begun = Instant::now();
        let (last, _) = watch::channel(None);
        let (answer, ended) = oneshot::channel();
        let at = begun + Duration::from_millis(7);
        let events: Vec<Event> = seen
            .iter()
            .map(|&revision| Event { revision, at })
            .collect();
        let ledger = ledger_of(&writes(seen, begun));
        let received = Received {
            ledgers: vec![ledger],
            events,
        };
        answer.send(Ok(vec![received])).expect("it waits");
        let watchers = DeliveryWatchers { last, ended };
        watchers.finish(writes(written, begun), begun).await
    }

    #[tokio::test]
    async fn every_event_is_timed_from_the_intended_start_of_its_write() {
        let delivered = finished(&[5, 6, 9], &[9, 5, 6]).await.expect("all came");
        assert_eq!((delivered.events, delivered.writes), (3, 3));
        assert_eq!(delivered.latency.n(), 3);
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
