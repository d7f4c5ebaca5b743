//! The task that hands a cache's events to its watchers, in order, and gives up on those who do not keep up.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::broadcaster::{Broadcast, Broadcaster};
use super::event::Event;
use super::time_budget::TimeBudget;
use crate::metrics::Metrics;
use crate::metrics::watch::Stage;
use crate::resource::Resource;

/// Revisions between the reader of storage's watch and the dispatcher.
pub(super) const QUEUE: usize = 100;

/// What the dispatcher is given.
#[derive(Debug)]
pub(super) enum Batch {
    /// Everything of a revision.
    Events {
        revision: i64,
        /// None, when storage only reports how far it is.
        events: Vec<Arc<Event>>,
        /// When storage's watch delivered them.
        received: Instant,
    },
    /// Answered when everything before was handed out.
    Flush(oneshot::Sender<()>),
}

impl Batch {
    /// There is nothing up to `revision` that was not handed over before.
    pub(super) fn reached(revision: i64) -> Self {
        Self::Events {
            revision,
            events: Vec::new(),
            received: Instant::now(),
        }
    }
}

/// Runs until nothing more can come.
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
                // Whoever asked may have gone away.
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

/// First to everybody who has room, then to the others as they get room, as long as the budget lasts.
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
