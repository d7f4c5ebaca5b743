//! Waits until the cache has reached a revision, and requests storage's progress meanwhile.
//!
//! The watch of a quiet resource sends nothing. So while a read waits, storage is asked every 100
//! ms for the progress of its watch; without a waiting read it is not asked (KEP-2340). The first
//! request is sent as soon as a read begins to wait, because the response to an earlier one may
//! precede the revision that the read waits for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use etcd_api::kubernetes::KubernetesEtcd;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use crate::metrics::Metrics;
use crate::resource::Resource;

/// The longest time that a read waits for the cache.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_secs(3);
/// The time between progress requests.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
/// The shortest time between two requests, regardless of how many reads begin to wait.
const MIN_PROGRESS_GAP: Duration = Duration::from_millis(2);

/// The readiness and revision of the cache. Published after the state itself can be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) ready: bool,
    pub(crate) revision: i64,
    /// Whether storage reports progress that can be relied on; `None` while that is unknown.
    pub(crate) progress: Option<bool>,
}

/// The cache's position, and the number of reads that wait for it.
#[derive(Debug)]
pub(crate) struct Freshness {
    position: watch::Sender<Position>,
    waiting: AtomicUsize,
    arrived: Notify,
}

impl Default for Freshness {
    fn default() -> Self {
        Self {
            position: watch::Sender::new(Position::default()),
            waiting: AtomicUsize::new(0),
            arrived: Notify::new(),
        }
    }
}

impl Freshness {
    /// Returns the cache's position.
    pub(crate) fn position(&self) -> Position {
        *self.position.borrow()
    }

    /// Publishes a position, to be called once the state at that position can be read.
    pub(crate) fn publish(&self, position: Position) {
        let before = self.position.send_replace(position);
        if before.progress != position.progress {
            // A request may now help reads that are already waiting.
            self.arrived.notify_one();
        }
    }

    fn is_progress_wanted(&self) -> bool {
        self.position().progress == Some(true) && self.waiting.load(Ordering::Acquire) > 0
    }

    /// Waits until the cache is ready and has reached `revision`, for at most [`WAIT_TIMEOUT`].
    /// Returns whether it has.
    pub(crate) async fn wait_until_fresh(&self, revision: i64) -> bool {
        let fresh = |position: &Position| position.ready && position.revision >= revision;
        if fresh(&self.position()) {
            return true;
        }
        let _waiting = Waiting::new(self);
        let mut positions = self.position.subscribe();
        matches!(
            timeout(WAIT_TIMEOUT, positions.wait_for(fresh)).await,
            Ok(Ok(_))
        )
    }

    /// Requests storage's progress while reads wait, for as long as the cache runs. Storage is not
    /// asked if its progress may overtake its events.
    pub(crate) async fn request_progress(
        &self,
        backend: Arc<dyn KubernetesEtcd>,
        stream_key: &str,
        resource: &Resource,
        metrics: &Metrics,
    ) {
        loop {
            self.arrived.notified().await;
            while self.is_progress_wanted() {
                metrics.progress_request(resource);
                if let Err(error) = backend.request_progress(stream_key).await {
                    tracing::debug!("{}: progress request failed: {error}", resource.name);
                }
                sleep(MIN_PROGRESS_GAP).await;
                // Wait until the interval is over or another read begins to wait.
                timeout(
                    PROGRESS_INTERVAL - MIN_PROGRESS_GAP,
                    self.arrived.notified(),
                )
                .await
                .ok();
            }
        }
    }
}

/// Counts a waiting read until it is dropped, so that no progress is requested for a cancelled
/// read.
struct Waiting<'a>(&'a Freshness);

impl<'a> Waiting<'a> {
    fn new(freshness: &'a Freshness) -> Self {
        freshness.waiting.fetch_add(1, Ordering::AcqRel);
        freshness.arrived.notify_one();
        Self(freshness)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}
