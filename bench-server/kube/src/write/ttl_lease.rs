//! The TTL of events: each event is attached to an etcd lease, which all events of one minute
//! share.

use std::time::Duration;

use etcd_api::error::Error;
use etcd_api::kubernetes::KubernetesEtcd;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// The time for which events are kept: the default of kube-apiserver's `--event-ttl`.
const TTL: Duration = Duration::from_secs(3600);

/// The time during which new events are attached to a lease. The lease is granted for [`TTL`] plus
/// this time, so that the last of its events is kept for [`TTL`].
const SHARED_FOR: Duration = Duration::from_secs(60);

/// The lease to which new events are attached.
#[derive(Debug, Default)]
pub(crate) struct EventLease {
    current: Mutex<Option<(i64, Instant)>>,
}

impl EventLease {
    /// Returns the ID of a lease that lasts for at least [`TTL`]. While events are written, a new
    /// lease is granted once a minute.
    ///
    /// # Errors
    /// Those of storage.
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

    /// Discards the lease after storage has reported that it does not exist, for example because
    /// storage was emptied. The next event is attached to a new lease.
    pub(crate) async fn forget(&self) {
        *self.current.lock().await = None;
    }
}
