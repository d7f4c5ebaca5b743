//! Delivers the cache's events to its watchers in order, and closes the queues of watchers that do
//! not keep up.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::broadcaster::{Broadcast, Broadcaster};
use super::event::Event;
use super::time_budget::TimeBudget;
use crate::metrics::Metrics;
use crate::metrics::watch::Stage;
use crate::resource::Resource;

/// The number of revisions that may wait between storage's watch and the dispatcher.
pub(super) const QUEUE: usize = 100;

/// A message to the dispatcher.
#[derive(Debug)]
pub(super) enum Batch {
    /// All events of a revision.
    Events {
        revision: i64,
        /// Empty if storage only reports its progress.
        events: Vec<Arc<Event>>,
        /// The time at which storage's watch delivered the events.
        received: Instant,
    },
    /// Requests a signal through this sender once all earlier batches have been delivered.
    Flush(oneshot::Sender<()>),
}

impl Batch {
    /// Returns a batch without events, for a revision that storage has reported as its progress.
    pub(super) fn reached(revision: i64) -> Self {
        Self::Events {
            revision,
            events: Vec::new(),
            received: Instant::now(),
        }
    }
}

/// Delivers batches until their sender is dropped.
pub(super) async fn run(
    broadcaster: &Broadcaster,
    mut batches: mpsc::Receiver<Batch>,
    resource: &Resource,
    metrics: &Metrics,
) {
    let mut budget = TimeBudget::new();
    while let Some(batch) = batches.recv().await {
        let (revision, events, received) = match batch {
            Batch::Events {
                revision,
                events,
                received,
            } => (revision, events, received),
            Batch::Flush(done) => {
                // The receiver may have been dropped.
                done.send(()).ok();
                continue;
            }
        };
        for event in &events {
            let started = Instant::now();
            broadcast(broadcaster, event, &mut budget, resource, metrics).await;
            let (watch, ended) = (&metrics.watch, Instant::now());
            watch.dispatched(resource);
            watch.stage(resource, Stage::CacheToWatcher, ended - started);
            watch.stage(resource, Stage::Total, ended - received);
        }
        broadcaster.publish(revision);
    }
}

/// Delivers an event to all watchers whose queues have room, then to the others as they get room.
/// Closes the queues that have none when the time budget is spent.
async fn broadcast(
    broadcaster: &Broadcaster,
    event: &Arc<Event>,
    budget: &mut TimeBudget,
    resource: &Resource,
    metrics: &Metrics,
) {
    let Broadcast { blocked, filtered } = broadcaster.broadcast(event);
    metrics.watch.filtered(resource, filtered);
    if blocked.is_empty() {
        return;
    }
    let started = Instant::now();
    let until = started + budget.available();
    for (queue, mut delivery) in blocked {
        loop {
            delivery = match queue.try_send(delivery) {
                Ok(()) => break,
                Err(delivery) => delivery,
            };
            if timeout_at(until, queue.wait_for_room()).await.is_err() {
                queue.close();
                metrics.watch.terminated(resource);
                break;
            }
        }
    }
    budget.spend(started.elapsed());
}
