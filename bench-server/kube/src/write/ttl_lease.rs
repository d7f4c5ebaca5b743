//! Events expire: each is attached to a lease, and those of one minute share it.

use std::time::Duration;

use etcd_api::error::Error;
use etcd_api::kubernetes::KubernetesEtcd;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// How long events are kept: the default of an apiserver's `--event-ttl`.
const TTL: Duration = Duration::from_secs(3600);

/// How long one lease takes new events; it lives that much longer, so that its last event lives [`TTL`].
const SHARED_FOR: Duration = Duration::from_secs(60);

/// The lease that events are attached to now.
#[derive(Debug, Default)]
pub(crate) struct EventLease {
    current: Mutex<Option<(i64, Instant)>>,
}

impl EventLease {
    /// A lease that lives at least [`TTL`]; granted once a minute, while events are written.
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

    /// The lease is gone, as after storage was emptied: the next event gets another.
    pub(crate) async fn forget(&self) {
        *self.current.lock().await = None;
    }
}
