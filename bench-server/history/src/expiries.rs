//! Expiry of leases: each is modelled as a revocation without a client, at any time after the
//! lease's TTL.

use crate::model::Model;
use crate::record::{Call, Change, History, Lease, Operation, Outcome, Txn};
use crate::violation::{Rule, Violation};

/// The client number of operations of the server itself.
const SERVER: u32 = u32::MAX;

/// Returns the expiry of each lease as a request of unknown outcome, called at the earliest time of
/// the expiry.
pub(crate) fn of(history: &History) -> Vec<Operation> {
    history.leases.iter().map(expiry).collect()
}

fn expiry(lease: &Lease) -> Operation {
    let revoke = Txn {
        success: vec![Change::Revoke(lease.id)],
        ..Txn::default()
    };
    Operation {
        client: SERVER,
        called: lease.lives_until,
        settled: lease.lives_until,
        returned: lease.lives_until,
        call: Call::Txn(revoke, Outcome::Unknown),
    }
}

/// Checks that no key is bound to a lease after the revision at which it expired.
pub(crate) fn check_bound(
    model: &Model,
    lease: &Lease,
    expired_at: i64,
    found: &mut Vec<Violation>,
) {
    let later = model.between(expired_at + 1, model.last());
    let bound = later.filter(|kv| kv.lease == lease.id && kv.version > 0);
    found.extend(bound.map(|kv| {
        let detail = format!(
            "lease {} expired at revision {expired_at}: {kv:?}",
            lease.id
        );
        Violation::new(Rule::ExpiredLease, detail)
    }));
}
