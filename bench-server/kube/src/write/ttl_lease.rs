//! Events expire: each is attached to a lease, which those of one minute share.

use std::time::Duration;

use etcd_api::error::Error;
use etcd_api::kubernetes::KubernetesEtcd;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// How long events are kept: the default of an apiserver's `--event-ttl`.
const TTL: Duration = Duration::from_secs(3600);

/// How long a lease takes new events. It lives that much longer, so that its last event lives
/// [`TTL`].
const SHARED_FOR: Duration = Duration::from_secs(60);

/// The lease that new events are attached to.
#[derive(Debug, Default)]
pub(crate) struct EventLease {
    current: Mutex<Option<(i64, Instant)>>,
}

impl EventLease {
    /// Returns a lease that lives for at least [`TTL`]; grants one once a minute, while events are
    /// written.
    ///
    /// # Errors
    /// Storage's.
    pub(crate) async fn current(&self, backend: &dyn KubernetesEtcd) -> Result<i64, Error> {
        let mut current = self.current.lock().await;
        if let Some((id, granted)) = *current
            && granted.elapsed() < SHARED_FOR
        {
            return Ok(id);
        }
        let granted = Instant::now();
        let id = backend
            .lease_grant((TTL + SHARED_FOR).as_secs() as i64)
            .await?;
        *current = Some((id, granted));
        Ok(id)
    }

    /// Discards the lease, which no longer exists, as after storage was emptied: the next event
    /// gets another.
    pub(crate) async fn forget(&self) {
        *self.current.lock().await = None;
    }
}
