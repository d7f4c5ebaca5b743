//! The thread of an etcd's watchers: reads each stream until the events of all writes have arrived.

use std::sync::atomic::{AtomicUsize, Ordering};

use etcd_api::error::Error as EtcdError;
use futures::future::try_join_all;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, timeout};

use super::resume::{Backoff, CONFIRM_TIMEOUT, is_over};
use super::{
    DeliveryError, Last, MAX_EVENTS, Received, Watcher, Watching, all_in_time, at, last_is_due,
};
use crate::operation::watch::streams::{Confirmed, Opening, StreamError, WatchStream};
use crate::record::LatencyHistogram;

/// Creates the watchers, reports that in `created`, and reads until each watcher has reached the
/// revision in `until`.
pub(super) async fn watching(
    watching: &Watching,
    opening: &Opening,
    created: oneshot::Sender<()>,
    until: watch::Receiver<Option<Last>>,
) -> Result<Vec<Received>, DeliveryError> {
    let streams = opening.open(Watcher::behind).await?;
    // The caller may have given up. In that case `until` closes.
    created.send(()).ok();
    let kept = AtomicUsize::new(0);
    let reading = streams.into_iter().map(|stream| {
        let reader = Reader {
            watching,
            opening,
            kept: &kept,
            stream,
            cuts: LatencyHistogram::default(),
            lost: 0,
            backoff: Backoff::default(),
        };
        reader.read(until.clone())
    });
    let received = try_join_all(reading).await?;
    all_in_time(received, *until.borrow())
}

/// The reader of one stream.
struct Reader<'a> {
    watching: &'a Watching,
    opening: &'a Opening,
    /// The number of events kept by all streams.
    kept: &'a AtomicUsize,
    stream: WatchStream<Watcher>,
    cuts: LatencyHistogram,
    /// Interruptions that the watchers did not cause.
    lost: u64,
    backoff: Backoff,
}

impl Reader<'_> {
    /// Records events until every watcher of the stream has reached the revision in `until`, the
    /// deadline passes, or the caller gives up.
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
                response = self.stream.next() => match response {
                    Ok(response) => response,
                    Err(StreamError::Wrong(error)) => return Err(error.into()),
                    Err(lost) => match self.go_on_before(Some(lost), &mut until).await? {
                        true => continue,
                        false => break,
                    },
                },
                changed = until.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => break,
                },
                () = at(stall_at), if last.is_none() => {
                    if let Some(stall) = stall {
                        tokio::select! {
                            () = sleep(stall.read) => {}
                            // The end of the run is not awaited in a pause.
                            _ = until.changed() => until.mark_changed(),
                        }
                        stall_at = stall_at.map(|at| at + stall.every);
                    }
                    continue;
                }
                () = at(cut_at), if last.is_none() => {
                    if !self.go_on_before(None, &mut until).await? {
                        break;
                    }
                    cut_at = self.watching.cut_every.map(|every| Instant::now() + every);
                    continue;
                }
                () = at(last.map(|last| last.by)) => break,
            };
            self.backoff.reset();
            let at = std::time::Instant::now();
            let id = response.watch_id;
            let Some(watcher) = self.stream.watchers.get_mut(&id) else {
                let text = format!("an event for watcher {id}, which does not exist");
                return Err(EtcdError::Protocol(text).into());
            };
            for event in &response.events {
                let revision = event.kv.as_ref().map_or(0, |kv| kv.mod_revision);
                watcher.note(revision, at)?;
            }
            let count = response.events.len();
            self.watching.live.delivered(count as u64);
            if self.kept.fetch_add(count, Ordering::Relaxed) + count > MAX_EVENTS {
                return Err(DeliveryError::TooMany);
            }
        }
        Ok(Received {
            watchers: self.stream.watchers.into_values().collect(),
            cuts: self.cuts,
            lost: self.lost,
            foreign: 0,
        })
    }

    /// Resumes over another stream. Returns false if the caller gives up or the last event's
    /// deadline passes before that.
    async fn go_on_before(
        &mut self,
        lost: Option<StreamError>,
        until: &mut watch::Receiver<Option<Last>>,
    ) -> Result<bool, DeliveryError> {
        tokio::select! {
            went_on = self.go_on(lost) => went_on.map(|()| true),
            () = last_is_due(until) => Ok(false),
        }
    }

    /// Closes the connection, discarding what was received and not read, and opens another. Each
    /// watcher resumes after the revision that it has reached; one that cannot lists again. `lost`
    /// is the error that ended the stream, or `None` if it is closed on purpose and reopened at the
    /// same endpoint.
    async fn go_on(&mut self, lost: Option<StreamError>) -> Result<(), DeliveryError> {
        let begun = Instant::now();
        match lost {
            Some(_) => self.lost += 1,
            None => self.backoff.reset(),
        }
        self.stream.close();
        let mut last = lost;
        loop {
            self.backoff.pause().await;
            if let Some(StreamError::Broken(_)) = last {
                self.stream.endpoint += 1;
            }
            last = match self.attempt(last.as_ref()).await {
                Ok((order, confirmed)) => {
                    let known = &mut self.stream.watchers;
                    let watchers: Vec<_> = order.iter().filter_map(|id| known.remove(id)).collect();
                    self.stream = confirmed.with(watchers);
                    self.cuts.record(begun.elapsed());
                    return Ok(());
                }
                Err(StreamError::Wrong(error)) => return Err(error.into()),
                Err(error) if is_over(begun) => return Err(EtcdError::from(error).into()),
                Err(error) => Some(error),
            };
        }
    }

    /// Makes one attempt to resume at the stream's endpoint after `last` has failed. Returns the
    /// previous watch ids in the order in which their watchers were requested.
    async fn attempt(
        &mut self,
        last: Option<&StreamError>,
    ) -> Result<(Vec<i64>, Confirmed), StreamError> {
        if let Some(StreamError::Compacted(up_to)) = last {
            self.list_again(*up_to).await?;
        }
        let watchers = self.stream.watchers.iter();
        let (order, starts): (Vec<_>, Vec<_>) = watchers
            .map(|(id, watcher)| (*id, (watcher.number, watcher.reached + 1)))
            .unzip();
        let confirmed = self.opening.open_at(self.stream.endpoint, &starts);
        let late = |_| {
            let within = CONFIRM_TIMEOUT.as_secs();
            let message = format!("watchers were not confirmed within {within} s");
            let code = tonic::Code::Unavailable;
            StreamError::Broken(EtcdError::Status { code, message })
        };
        let confirmed = timeout(CONFIRM_TIMEOUT, confirmed).await.map_err(late)??;
        Ok((order, confirmed))
    }

    /// Makes every watcher list again that would have to resume from a compacted revision. Only the
    /// revision of the list is needed: the ledger counts the events that the watcher misses.
    async fn list_again(&mut self, compacted: i64) -> Result<(), StreamError> {
        let revision = self.opening.current_revision(self.stream.endpoint).await?;
        let cannot_go_on = |watcher: &&mut Watcher| watcher.reached + 1 < compacted;
        let watchers = self.stream.watchers.values_mut();
        let mut listed = 0;
        for watcher in watchers.filter(cannot_go_on) {
            watcher.listed(revision);
            listed += 1;
        }
        if listed == 0 || revision < compacted {
            let text = format!(
                "a watcher was cancelled since revision {compacted} is compacted, which it had \
                 reached, or the store, which is at revision {revision}, has not"
            );
            return Err(EtcdError::Protocol(text).into());
        }
        Ok(())
    }
}
