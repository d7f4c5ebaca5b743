//! Memory that is taken before it is used, for responses that are buffered whole and for messages
//! of requests.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Time that a request or its response waits for memory: a quarter of a request's minute, as in an
/// apiserver's queues.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_secs(15);

/// Size of one permit, bytes.
pub(crate) const UNIT_BYTES: u64 = 1024;

/// An amount of memory, which is taken in the order of arrival; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Room {
    semaphore: Arc<Semaphore>,
    units: u32,
}

impl Room {
    /// Returns memory of `bytes`.
    pub(crate) fn new(bytes: u64) -> Self {
        let most = (Semaphore::MAX_PERMITS as u64).min(u32::MAX.into());
        let units = (bytes / UNIT_BYTES).clamp(1, most) as u32;
        Self {
            semaphore: Arc::new(Semaphore::new(units as usize)),
            units,
        }
    }

    /// Returns the number of permits for `bytes`, at most all of them.
    pub(crate) fn units_of(&self, bytes: u64) -> u32 {
        bytes.div_ceil(UNIT_BYTES).min(self.units.into()) as u32
    }

    /// Returns all of the memory, bytes.
    pub(crate) fn limit_bytes(&self) -> u64 {
        u64::from(self.units) * UNIT_BYTES
    }

    /// Returns the memory that is taken, bytes.
    pub(crate) fn taken_bytes(&self) -> u64 {
        let free = self.semaphore.available_permits() as u64 * UNIT_BYTES;
        self.limit_bytes().saturating_sub(free)
    }

    /// Waits for `units` permits.
    pub(crate) async fn take(self, units: u32) -> OwnedSemaphorePermit {
        match self.semaphore.acquire_many_owned(units).await {
            Ok(permit) => permit,
            Err(_) => unreachable!("the semaphore is never closed"),
        }
    }

    /// Takes `units` permits; `None` if there are not enough.
    pub(crate) fn try_take(self, units: u32) -> Option<OwnedSemaphorePermit> {
        self.semaphore.try_acquire_many_owned(units).ok()
    }
}
