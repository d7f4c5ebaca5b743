//! The thread of the watchers: each stream is read until all that was written has come.

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};

use etcd_api::error::Error as EtcdError;
use futures::future::try_join_all;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::{DeliveryError, Event, LAST_EVENT_WITHIN, MOST_EVENTS, Received, Watcher, Watching};
use crate::operation::watch::streams::{Opening, WatchStream};
use crate::record::LatencyHistogram;

/// Creates the watchers, says so in `created`, and reads until each has the revision that `until`
/// asks for.
pub(super) async fn watching(
    watching: &Watching,
    opening: &Opening,
    created: oneshot::Sender<()>,
    until: watch::Receiver<Option<i64>>,
) -> Result<Vec<Received>, DeliveryError> {
    let watchers = opening.count as usize;
    let make = |number| Watcher {
        number,
        ..Watcher::default()
    };
    let streams = opening.open(make).await?;
    // Whoever waited may have given up; then `until` closes.
    created.send(()).ok();
    let kept = AtomicUsize::new(0);
    let reading = streams.into_iter().map(|stream| {
        let reader = Reader {
            watching,
            opening,
            kept: &kept,
            stream,
            cuts: LatencyHistogram::default(),
        };
        reader.read(until.clone())
    });
    let received = try_join_all(reading).await?;
    let last = until.borrow().unwrap_or(0);
    let all = received.iter().flat_map(|stream| &stream.watchers);
    match all.filter(|watcher| watcher.ledger.last < last).count() {
        0 => Ok(received),
        missing => Err(DeliveryError::Late {
            missing,
            watchers,
            revision: last,
        }),
    }
}

/// What reads one stream.
struct Reader<'a> {
    watching: &'a Watching,
    opening: &'a Opening,
    /// Events that all streams keep.
    kept: &'a AtomicUsize,
    stream: WatchStream<Watcher>,
    cuts: LatencyHistogram,
}

impl Reader<'_> {
    /// Notes events until every watcher of the stream has the revision that `until` asks for, or it
    /// does not come in time, or nobody asks any longer.
    async fn read(
        mut self,
        mut until: watch::Receiver<Option<i64>>,
    ) -> Result<Received, DeliveryError> {
        let begun = Instant::now();
        let stall = self.watching.stall;
        let mut stall_at = stall.map(|stall| begun + (stall.every - stall.read));
        let mut cut_at = self.watching.cut_every.map(|every| begun + every);
        // From when it is known what the last event is, whatever else comes meanwhile.
        let mut deadline = None;
        loop {
            let last = *until.borrow_and_update();
            if last.is_some() {
                deadline.get_or_insert_with(|| Instant::now() + LAST_EVENT_WITHIN);
            }
            let has_all = last.is_some_and(|last| {
                let mut watchers = self.stream.watchers.values();
                watchers.all(|watcher| watcher.ledger.last >= last)
            });
            if has_all {
                break;
            }
            let response = tokio::select! {
                response = self.stream.next() => response?,
                changed = until.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => break,
                },
                () = at(stall_at), if last.is_none() => {
                    if let Some(stall) = stall {
                        tokio::select! {
                            () = sleep(stall.read) => {}
                            // The end is not waited for asleep.
                            _ = until.changed() => until.mark_changed(),
                        }
                        stall_at = stall_at.map(|at| at + stall.every);
                    }
                    continue;
                }
                () = at(cut_at), if last.is_none() => {
                    self.cut().await?;
                    cut_at = self.watching.cut_every.map(|every| Instant::now() + every);
                    continue;
                }
                () = at(deadline) => break,
            };
            let at = std::time::Instant::now();
            let id = response.watch_id;
            let Some(watcher) = self.stream.watchers.get_mut(&id) else {
                let text = format!("an event for watcher {id}, which is nobody's");
                return Err(EtcdError::Protocol(text).into());
            };
            for event in &response.events {
                let revision = event.kv.as_ref().map_or(0, |kv| kv.mod_revision);
                let before = watcher.ledger.last;
                if revision <= before {
                    return Err(DeliveryError::Order { revision, before });
                }
                watcher.ledger.note(revision);
                watcher.events.push(Event { revision, at });
            }
            let count = response.events.len();
            self.watching.live.delivered(count as u64);
            if self.kept.fetch_add(count, Ordering::Relaxed) + count > MOST_EVENTS {
                return Err(DeliveryError::TooMany);
            }
        }
        Ok(Received {
            watchers: self.stream.watchers.into_values().collect(),
            cuts: self.cuts,
        })
    }

    /// Closes the connection, with what was received and not read, and opens another: each watcher
    /// goes on behind the revision that it has.
    async fn cut(&mut self) -> Result<(), DeliveryError> {
        let begun = Instant::now();
        let from = self.stream.created_at;
        let watchers = std::mem::take(&mut self.stream.watchers).into_values();
        let again = watchers.map(|watcher| {
            let next = watcher.ledger.last.max(from) + 1;
            (watcher.number, next, watcher)
        });
        let again: Vec<_> = again.collect();
        self.stream.close();
        self.stream = self.opening.reopen(again).await?;
        // Until a watcher has an event it goes on from where it began.
        self.stream.created_at = from;
        self.cuts.record(begun.elapsed());
        Ok(())
    }
}

/// Waits until then, or for ever.
pub(super) async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => pending().await,
    }
}
