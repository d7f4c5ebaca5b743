//! Leases: keys that exist as long as a client sends keep-alives.
//!
//! Time is a parameter (a monotonic [`Instant`]), so the caller that ticks the store provides the
//! clock. A lease that is due exists, with its keys, until it is revoked: by the next tick, or by a
//! keep-alive that comes too late, where etcd waits for the tick (`lessor.Renew`).

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

/// Minimum TTL: etcd's 1.5 election timeouts of 1 s, rounded up.
const MIN_TTL_S: i64 = 2;
/// Maximum TTL, as in etcd.
const MAX_TTL_S: i64 = 9_000_000_000;
/// Maximum number of leases that one tick revokes.
const MAX_EXPIRED_PER_TICK: usize = 500;

struct Lease {
    ttl_s: i64,
    due: Instant,
    /// Attached keys.
    keys: BTreeSet<Box<[u8]>>,
}

/// The result of [`Store::lease_time_to_live`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeToLive {
    /// Whole seconds until the lease expires, rounded towards 0; 0 or less for one that is due.
    pub remaining_s: i64,
    /// The TTL that was granted, in seconds.
    pub granted_s: i64,
    /// Attached keys in key order.
    pub keys: Vec<Box<[u8]>>,
}

/// All leases, by id and by expiry time. Guarded by the writer's lock.
pub(super) struct Leases {
    by_id: HashMap<i64, Lease>,
    by_due: BTreeSet<(Instant, i64)>,
    /// State of the id generator.
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

    /// Returns leases with these ids and TTLs in seconds, which start at `now`. The index
    /// determines the attached keys.
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

    /// Returns the ids of all leases, each with its granted TTL in seconds.
    pub(super) fn granted(&self) -> impl Iterator<Item = (i64, i64)> {
        self.by_id.iter().map(|(id, lease)| (*id, lease.ttl_s))
    }

    /// Returns an unused positive id: SplitMix64 over a counter, which scatters the ids. The
    /// counter starts at the time of the server's start, so that a client that keeps a lease over a
    /// restart does not find another client's lease under its id.
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

    fn is_due(&self, id: i64, now: Instant) -> bool {
        self.by_id.get(&id).is_some_and(|lease| lease.due <= now)
    }

    /// Restarts the time of a lease that is not due.
    fn keep_alive(&mut self, id: i64, now: Instant) -> Option<i64> {
        let lease = self.by_id.get_mut(&id).filter(|lease| now < lease.due)?;
        self.by_due.remove(&(lease.due, id));
        lease.due = now + Duration::from_secs(lease.ttl_s as u64);
        self.by_due.insert((lease.due, id));
        Some(lease.ttl_s)
    }

    /// Removes a lease; returns its keys in key order.
    fn remove(&mut self, id: i64) -> Option<BTreeSet<Box<[u8]>>> {
        let lease = self.by_id.remove(&id)?;
        self.by_due.remove(&(lease.due, id));
        Some(lease.keys)
    }

    fn due(&self, now: Instant) -> Vec<i64> {
        let due = self.by_due.iter().take_while(|(due, _)| *due <= now);
        due.take(MAX_EXPIRED_PER_TICK).map(|(_, id)| *id).collect()
    }

    /// Attaches the keys of a commit to their new leases and detaches them from the old ones.
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
    /// Grants a lease. Id 0 lets the store choose; a TTL below 2 s is raised to 2 s. The response
    /// has the granted id and TTL.
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
    /// store's revision after it.
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

    /// Revokes leases that are due, at most 500, each in a revision of its own. Returns their
    /// number. Must be called about every 500 ms; costs next to nothing when no lease is due.
    pub fn lease_expire(&self, now: Instant) -> usize {
        let due = self.inner.writer.lock().leases.due(now);
        let revoked = due.into_iter().filter(|&id| self.revoke_due(id, now));
        revoked.count()
    }

    /// Revokes a due lease, unless a keep-alive, or a revocation and a new grant, came in between.
    /// Returns whether it was revoked.
    fn revoke_due(&self, id: i64, now: Instant) -> bool {
        self.writer()
            .is_ok_and(|writer| writer.leases.is_due(id, now) && self.revoke(writer, id).is_ok())
    }

    /// Restarts a lease's time. Returns its TTL in seconds; `None` if the lease does not exist or
    /// was due, in which case it has been revoked.
    pub fn lease_keep_alive(&self, id: i64, now: Instant) -> Option<i64> {
        let kept = self.inner.writer.lock().leases.keep_alive(id, now);
        if kept.is_none() {
            self.revoke_due(id, now);
        }
        kept
    }

    /// Returns the remaining time of a lease; `None` if it does not exist. One that is due exists
    /// until it is revoked.
    pub fn lease_time_to_live(&self, id: i64, keys: bool, now: Instant) -> Option<TimeToLive> {
        let writer = self.inner.writer.lock();
        let lease = writer.leases.by_id.get(&id)?;
        let remaining = lease.due.saturating_duration_since(now).as_secs() as i64;
        let overdue = now.saturating_duration_since(lease.due).as_secs() as i64;
        Some(TimeToLive {
            remaining_s: remaining - overdue,
            granted_s: lease.ttl_s,
            keys: match keys {
                true => lease.keys.iter().cloned().collect(),
                false => Vec::new(),
            },
        })
    }

    /// Returns the ids of all leases, in the order of their expiry.
    pub fn leases(&self) -> Vec<i64> {
        let writer = self.inner.writer.lock();
        writer.leases.by_due.iter().map(|(_, id)| *id).collect()
    }
}
