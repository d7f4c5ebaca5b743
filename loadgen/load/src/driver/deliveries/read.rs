//! The thread of the watchers: each stream is read until all that was written has come.

use std::sync::atomic::{AtomicUsize, Ordering};

use etcd_api::error::Error as EtcdError;
use futures::future::try_join_all;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep};

use super::{DeliveryError, Last, MOST_EVENTS, Received, Watcher, Watching, all_in_time, at};
use crate::operation::watch::streams::{Opening, WatchStream};
use crate::record::LatencyHistogram;

/// Creates the watchers, says so in `created`, and reads until each has the revision that `until`
/// asks for.
pub(super) async fn watching(
    watching: &Watching,
    opening: &Opening,
    created: oneshot::Sender<()>,
    until: watch::Receiver<Option<Last>>,
) -> Result<Vec<Received>, DeliveryError> {
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
    all_in_time(received, *until.borrow())
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
    /// does not come in time, or the caller has given up.
    async fn read(
        mut self,
        mut until: watch::Receiver<Option<Last>>,
    ) -> Result<Received, DeliveryError> {
        let begun = Instant::now();
        let stall = self.watching.stall;
        let mut stall_at = stall.map(|stall| begun + (stall.every - stall.read));
        let mut cut_at = self.watching.cut_every.map(|every| begun + every);
        loop {
            let last = *until.borrow_and_update();
            let mut watchers = self.stream.watchers.values();
            if last.is_some() && watchers.all(|watcher| watcher.has(last)) {
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
                () = at(last.map(|last| last.by)) => break,
            };
            let at = std::time::Instant::now();
            let id = response.watch_id;
            let Some(watcher) = self.stream.watchers.get_mut(&id) else {
                let text = format!("an event for watcher {id}, which is nobody's");
                return Err(EtcdError::Protocol(text).into());
            };
            for event in &response.events {
                let revision = event.kv.as_ref().map_or(0, |kv| kv.mod_revision);
                watcher.note(revision, at)?;
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
            foreign: 0,
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
