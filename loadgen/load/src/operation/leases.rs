//! Leases that loads were granted on an endpoint that outlives the run.

use std::collections::HashSet;

use parking_lot::Mutex;

/// The leases that were requested and not revoked, which a clean-up must revoke. Leases have no
/// prefix by which they could be found again.
#[derive(Debug, Default)]
pub struct GrantedLeases(Mutex<HashSet<i64>>);

impl GrantedLeases {
    /// Records a lease that is requested.
    pub(super) fn granted(&self, id: i64) {
        self.0.lock().insert(id);
    }

    /// Removes a lease that the server has revoked.
    pub(super) fn revoked(&self, id: i64) {
        self.0.lock().remove(&id);
    }

    /// Takes the leases that may still exist.
    #[must_use]
    pub fn take(&self) -> Vec<i64> {
        std::mem::take(&mut *self.0.lock()).into_iter().collect()
    }
}
