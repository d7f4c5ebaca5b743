//! Waiting until a cache has reached a revision, and making storage say that it has.
//!
//! A quiet resource's watch says nothing, so while somebody waits, storage is asked every 100 ms how far it
//! has delivered; with nobody waiting nothing is sent (KEP-2340). Who begins to wait has the first request
//! sent at once: the last one may have been answered just before the revision that is waited for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use etcd_api::kubernetes::KubernetesEtcd;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use crate::metrics::Metrics;
use crate::resource::Resource;

/// How long a read waits for the cache.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_secs(3);
/// Time between progress requests.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
/// Time between two requests at least, however many begin to wait.
const MIN_PROGRESS_GAP: Duration = Duration::from_millis(2);

/// How far the cache is: sent to waiters after the state itself was published.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) ready: bool,
    pub(crate) revision: i64,
    /// Whether storage's word on its progress can be believed; `None` while that is not known.
    pub(crate) progress: Option<bool>,
}

/// The cache's position, and who waits for it.
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
    /// Where the cache is now.
    pub(crate) fn position(&self) -> Position {
        *self.position.borrow()
    }

    /// Tells waiters; to be called after the state at `position` can be read.
    pub(crate) fn publish(&self, position: Position) {
        let before = self.position.send_replace(position);
        if before.progress != position.progress {
            // Who waits already may be helped from now on.
            self.arrived.notify_one();
        }
    }

    fn is_progress_wanted(&self) -> bool {
        self.position().progress == Some(true) && self.waiting.load(Ordering::Acquire) > 0
    }

    /// Waits until the cache is ready and not older than `revision`, for [`WAIT_TIMEOUT`] at most. `false`
    /// when it did not get there.
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

    /// Asks storage for progress while anybody waits, and never a storage whose answer may overtake its
    /// events; runs as long as the cache.
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
                // Until the next tick, or until somebody else begins to wait.
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

/// One waiter; counted as long as it lives, so that a caller that goes away is not waited for.
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
