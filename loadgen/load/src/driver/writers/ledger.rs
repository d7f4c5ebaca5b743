//! The acknowledged writes, in the order of each object's revisions: the events that every watcher
//! must have received, and the resulting objects.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use workloads::writes::{Effect, Write};
use workloads::{Fingerprint, Version};

use crate::record::LatencyHistogram;
use crate::shards::event_ledger::Written;
use crate::shards::inventory::Entry;
use crate::shards::{Inventory, Plan};

/// One acknowledged write.
#[derive(Debug, Clone, Copy)]
pub struct Acknowledged {
    /// The write.
    pub write: Write,
    /// The write's revision.
    pub revision: i64,
    /// The start of the write's latency. If the writer was still busy with the write before, this
    /// is when the write was due, so that a slow response counts for all that wait behind it.
    /// Otherwise it is when the writer woke, because a late timer is the generator's fault.
    pub begun: Instant,
    /// The time until the write was acknowledged.
    pub took: Duration,
    /// The hash of the object's key.
    pub key: u64,
    /// The object after the write, or the object that was deleted.
    pub entry: Entry,
}

/// All acknowledged writes.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The writes, in the order of revisions for each object; in no order between objects.
    pub writes: Vec<Acknowledged>,
    /// The time from the intended start of a write to its sending.
    pub lag: LatencyHistogram,
    /// The time from the first intended start to the last response.
    pub elapsed: Duration,
}

impl Ledger {
    /// Returns the events that watchers must receive. `owner` returns the worker that owned an
    /// object with this hash at a revision.
    #[must_use]
    pub fn expected(&self, owner: impl Fn(i64, u64) -> usize) -> Vec<Written> {
        let writes = self.writes.iter();
        writes
            .map(|done| Written {
                revision: done.revision,
                effect: done.write.effect,
                worker: owner(done.revision, done.entry.shard_hash),
                key: done.key,
                hash: done.entry.hash,
                begun: done.begun,
            })
            .collect()
    }

    /// Returns the last write of each object up to a revision.
    fn latest(&self, revision: i64) -> HashMap<u64, &Acknowledged> {
        let writes = self.writes.iter();
        let writes = writes.filter(|done| done.revision <= revision);
        writes.map(|done| (done.write.object, done)).collect()
    }

    /// Returns the fingerprint of the objects that exist now, if they were `inventory` before the
    /// writes.
    #[must_use]
    pub fn result(&self, inventory: &Inventory) -> Fingerprint {
        self.result_at(inventory, i64::MAX)
    }

    /// Returns the fingerprint of the objects that existed at a revision, if they were `inventory`
    /// before the writes.
    #[must_use]
    pub fn result_at(&self, inventory: &Inventory, revision: i64) -> Fingerprint {
        let mut fingerprint = Fingerprint::default();
        let latest = self.latest(revision);
        for (object, seeded) in (0..).zip(inventory.entries()) {
            let entry = match latest.get(&object) {
                Some(done) if done.write.effect == Effect::Deleted => continue,
                Some(done) => done.entry,
                None => *seeded,
            };
            fingerprint.add_hashed(entry.hash, entry.bytes);
        }
        fingerprint
    }

    /// Returns an existing object, with its version, for each worker that has one.
    pub(super) fn one_of_each(
        &self,
        inventory: &Inventory,
        plan: &Plan,
    ) -> Vec<Option<(u64, Version)>> {
        let latest = self.latest(i64::MAX);
        let mut found = vec![None; plan.shards().len()];
        let mut missing = found.len();
        for (object, seeded) in (0..).zip(inventory.entries()) {
            let (entry, version) = match latest.get(&object) {
                Some(done) if done.write.effect == Effect::Deleted => continue,
                Some(done) => (done.entry, done.write.version),
                None => (*seeded, Version::default()),
            };
            let place = &mut found[plan.owner(entry.shard_hash)];
            if place.is_none() {
                *place = Some((object, version));
                missing -= 1;
                if missing == 0 {
                    break;
                }
            }
        }
        found
    }
}

impl AsRef<Self> for Ledger {
    fn as_ref(&self) -> &Self {
        self
    }
}
