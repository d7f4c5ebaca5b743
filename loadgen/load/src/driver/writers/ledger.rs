//! What was written, in the order of each object's revisions: what everybody who watches must have
//! seen, and what is there then.

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
    /// What it was.
    pub write: Write,
    /// Its revision.
    pub revision: i64,
    /// When its time begins: when it was due, where the writer was still busy with the write
    /// before it, so that a slow answer counts for all that wait behind it; else when the writer
    /// woke, since a late timer is the generator's own.
    pub begun: Instant,
    /// Until it was acknowledged.
    pub took: Duration,
    /// Hash of its object's key.
    pub key: u64,
    /// The object: after the write, or what a deletion took away.
    pub entry: Entry,
}

/// Everything that was written.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Of each object in the order of its revisions; of different objects in no order.
    pub writes: Vec<Acknowledged>,
    /// From the intended start of a write to its sending.
    pub lag: LatencyHistogram,
    /// From the first intended start to the last answer.
    pub elapsed: Duration,
}

impl Ledger {
    /// Returns what watchers must see; `owner` returns the worker that had an object of this hash
    /// at a revision.
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

    /// Returns what is there now, after it was `inventory`.
    #[must_use]
    pub fn result(&self, inventory: &Inventory) -> Fingerprint {
        self.result_at(inventory, i64::MAX)
    }

    /// Returns what was there at a revision, after it was `inventory`.
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

    /// Returns an object that is there for each worker that has one, with its version.
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
