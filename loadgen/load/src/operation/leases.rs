//! Leases that loads were granted on an endpoint that outlives the run.

use std::collections::HashSet;

use parking_lot::Mutex;

/// Leases that were asked for and not revoked: what a clean-up has to revoke. A lease has no prefix
/// by which it could be found again.
#[derive(Debug, Default)]
pub struct GrantedLeases(Mutex<HashSet<i64>>);

impl GrantedLeases {
    /// Notes a lease that is asked for.
    pub(super) fn granted(&self, id: i64) {
        self.0.lock().insert(id);
    }

    /// Forgets a lease that the server has revoked.
    pub(super) fn revoked(&self, id: i64) {
        self.0.lock().remove(&id);
    }

    /// Takes those that may be there.
    #[must_use]
    pub fn take(&self) -> Vec<i64> {
        std::mem::take(&mut *self.0.lock()).into_iter().collect()
    }
}
