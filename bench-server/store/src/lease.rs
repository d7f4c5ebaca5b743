//! Leases: keys that live as long as a client sends keep-alives.
//!
//! Time is a parameter (a monotonic [`Instant`]), so that the caller that ticks the store decides
//! what time it is. A lease that is due is as good as gone at once; its keys are deleted by the
//! next tick.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use etcd_api::error::Refusal;
use etcd_api::keys::KeyRange;
use etcd_api::proto::etcdserverpb::LeaseGrantResponse;
use parking_lot::MutexGuard;

use index::Tree;

use super::history::Commit;
use super::wal::Change;
use super::{Record, Store, Writer, header};

/// Least TTL: etcd's 1.5 election timeouts of 1 s, rounded up.
const MIN_TTL_S: i64 = 2;
/// Largest TTL, etcd's.
const MAX_TTL_S: i64 = 9_000_000_000;
/// Most leases that one tick revokes.
const MAX_EXPIRED_PER_TICK: usize = 500;

struct Lease {
    ttl_s: i64,
    due: Instant,
    /// Attached keys.
    keys: BTreeSet<Box<[u8]>>,
}

/// What [`Store::lease_time_to_live`] tells of a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeToLive {
    /// Whole seconds left.
    pub remaining_s: i64,
    /// Seconds that it was granted for.
    pub granted_s: i64,
    /// Attached keys in key order.
    pub keys: Vec<Box<[u8]>>,
}

/// Every lease, by id and by when it is due. Guarded by the writer's lock.
pub(super) struct Leases {
    by_id: HashMap<i64, Lease>,
    by_due: BTreeSet<(Instant, i64)>,
    /// State of the generator of ids.
    sequence: u64,
}

impl Default for Leases {
    fn default() -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            by_id: HashMap::new(),
            by_due: BTreeSet::new(),
            sequence: since_1970.map_or(0, |time| time.as_nanos() as u64),
        }
    }
}

impl Leases {
    pub(super) fn exists(&self, id: i64) -> bool {
        self.by_id.contains_key(&id)
    }

    fn grant(&mut self, id: i64, ttl_s: i64, now: Instant) -> Result<(i64, i64), Refusal> {
        if ttl_s > MAX_TTL_S {
            return Err(Refusal::LeaseTtlTooLarge);
        }
        let id = match id {
            0 => self.fresh_id(),
            id => id,
        };
        if self.exists(id) {
            return Err(Refusal::LeaseExists);
        }
        let ttl_s = ttl_s.max(MIN_TTL_S);
        self.insert(id, ttl_s, now);
        Ok((id, ttl_s))
    }

    fn insert(&mut self, id: i64, ttl_s: i64, now: Instant) {
        let due = now + Duration::from_secs(ttl_s as u64);
        let keys = BTreeSet::new();
        self.by_id.insert(id, Lease { ttl_s, due, keys });
        self.by_due.insert((due, id));
    }

    /// Returns the leases that were granted, by id, each for so many seconds, which begin now;
    /// attached to what the index says.
    pub(super) fn restored(
        granted: impl IntoIterator<Item = (i64, i64)>,
        tree: &Tree<Record>,
        now: Instant,
    ) -> Self {
        let mut leases = Self::default();
        for (id, ttl_s) in granted {
            leases.insert(id, ttl_s.clamp(MIN_TTL_S, MAX_TTL_S), now);
        }
        if leases.by_id.is_empty() {
            return leases;
        }
        let mut records = tree.cursor(KeyRange::From(b""));
        while let Some(record) = records.next_ref() {
            if let Some(lease) = leases.by_id.get_mut(&record.lease()) {
                lease.keys.insert(record.key().into());
            }
        }
        leases
    }

    /// Ids of all leases, each with the seconds that it was granted for.
    pub(super) fn granted(&self) -> impl Iterator<Item = (i64, i64)> {
        self.by_id.iter().map(|(id, lease)| (*id, lease.ttl_s))
    }

    /// Returns a positive id that is not taken: SplitMix64 over a counter, so that ids are
    /// scattered. It begins with the time of the start: who keeps a lease over a restart must not
    /// find another's under its id.
    fn fresh_id(&mut self) -> i64 {
        loop {
            self.sequence = self.sequence.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = self.sequence;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            let id = ((mixed ^ (mixed >> 31)) >> 1) as i64;
            if id != 0 && !self.exists(id) {
                return id;
            }
        }
    }

    /// Returns the lease, unless it is due.
    fn alive(&self, id: i64, now: Instant) -> Option<&Lease> {
        self.by_id.get(&id).filter(|lease| now < lease.due)
    }

    fn keep_alive(&mut self, id: i64, now: Instant) -> Option<i64> {
        self.alive(id, now)?;
        let lease = self.by_id.get_mut(&id)?;
        self.by_due.remove(&(lease.due, id));
        lease.due = now + Duration::from_secs(lease.ttl_s as u64);
        self.by_due.insert((lease.due, id));
        Some(lease.ttl_s)
    }

    /// Takes a lease away; its keys in key order.
    fn remove(&mut self, id: i64) -> Option<BTreeSet<Box<[u8]>>> {
        let lease = self.by_id.remove(&id)?;
        self.by_due.remove(&(lease.due, id));
        Some(lease.keys)
    }

    fn due(&self, now: Instant) -> Vec<i64> {
        let due = self.by_due.iter().take_while(|(due, _)| *due <= now);
        due.take(MAX_EXPIRED_PER_TICK).map(|(_, id)| *id).collect()
    }

    /// Follows a commit: what was written belongs to its new lease and no longer to the old one.
    pub(super) fn follow(&mut self, commit: &Commit) {
        for event in commit.iter() {
            let old = event.prev.as_ref().map_or(0, |prev| prev.lease());
            let new = event.record.lease();
            if old == new {
                continue;
            }
            if let Some(lease) = self.by_id.get_mut(&old) {
                lease.keys.remove(event.record.key());
            }
            if let Some(lease) = self.by_id.get_mut(&new) {
                lease.keys.insert(event.record.key().into());
            }
        }
    }
}

impl Store {
    /// Grants a lease. Id 0 lets the store choose; a TTL below 2 s is raised to 2 s. The answer has
    /// id and TTL as granted.
    ///
    /// # Errors
    /// [`Refusal::LeaseTtlTooLarge`] above 9·10⁹ s, [`Refusal::LeaseExists`], [`Refusal::NoSpace`].
    pub fn lease_grant(
        &self,
        id: i64,
        ttl_s: i64,
        now: Instant,
    ) -> Result<LeaseGrantResponse, Refusal> {
        let mut writer = self.writer()?;
        self.reserve(&mut writer, super::quota::LEASE_COST)?;
        let (id, ttl) = writer.leases.grant(id, ttl_s, now)?;
        self.note(&mut writer, Change::LeaseGranted { id, ttl_s: ttl });
        Ok(LeaseGrantResponse {
            header: Some(header(self.revision())),
            id,
            ttl,
            error: String::new(),
        })
    }

    /// Deletes a lease and, in one revision and in key order, the keys attached to it. Returns the
    /// store's revision then.
    ///
    /// # Errors
    /// [`Refusal::LeaseNotFound`].
    pub fn lease_revoke(&self, id: i64) -> Result<i64, Refusal> {
        self.revoke(self.writer()?, id)
    }

    fn revoke(&self, mut writer: MutexGuard<'_, Writer>, id: i64) -> Result<i64, Refusal> {
        let keys = writer.leases.remove(id).ok_or(Refusal::LeaseNotFound)?;
        let mut write_txn = self.write_txn(&writer);
        for key in keys {
            if let Some(record) = write_txn.get(&key) {
                write_txn.delete(record);
            }
        }
        let edits = write_txn.into_edits();
        Ok(self.commit(writer, edits, Some(Change::LeaseRevoked(id))))
    }

    /// Revokes leases that are due, at most 500, each in a revision of its own; how many there
    /// were. To be called every 500 ms or so. Costs next to nothing when none is due.
    pub fn lease_expire(&self, now: Instant) -> usize {
        let due = self.inner.writer.lock().leases.due(now);
        let revoked = due.into_iter().filter(|&id| self.revoke_due(id, now));
        revoked.count()
    }

    /// Revokes a lease unless it was kept alive, or revoked and granted again, in the meantime.
    fn revoke_due(&self, id: i64, now: Instant) -> bool {
        self.writer().is_ok_and(|writer| {
            writer.leases.alive(id, now).is_none() && self.revoke(writer, id).is_ok()
        })
    }

    /// Starts a lease's time anew; its TTL in seconds, `None` when there is no such lease (any
    /// more).
    pub fn lease_keep_alive(&self, id: i64, now: Instant) -> Option<i64> {
        self.inner.writer.lock().leases.keep_alive(id, now)
    }

    /// Returns what is left of a lease, `None` when there is no such lease (any more).
    pub fn lease_time_to_live(&self, id: i64, keys: bool, now: Instant) -> Option<TimeToLive> {
        let writer = self.inner.writer.lock();
        let lease = writer.leases.alive(id, now)?;
        Some(TimeToLive {
            remaining_s: lease.due.duration_since(now).as_secs() as i64,
            granted_s: lease.ttl_s,
            keys: match keys {
                true => lease.keys.iter().cloned().collect(),
                false => Vec::new(),
            },
        })
    }

    /// Ids of all leases, in the order that they are due.
    pub fn leases(&self) -> Vec<i64> {
        let writer = self.inner.writer.lock();
        writer.leases.by_due.iter().map(|(_, id)| *id).collect()
    }
}
