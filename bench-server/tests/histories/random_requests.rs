//! The random requests of a client, some of which depend on previous responses.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use history::{Call, Change, Compare, KeyRange, KeyValue, OpResponse, Outcome, RangeRequest, Txn};

use crate::run::Shared;
use test_support::rng::Rng;

/// Number of keys: few, so that clients conflict, but more than the ten in a stream's first
/// message.
pub(crate) const KEYS: usize = 16;
/// Maximum age of a revision that is read, in revisions.
const PAST: usize = 200;
/// Number of revisions below the newest one that a compaction keeps.
const KEPT: i64 = 60;
/// The client that compacts.
const COMPACTOR: u32 = 0;
/// The client that revokes the lease and grants the next one.
pub(crate) const REVOKER: u32 = 1;
/// The client that grants leases which expire, one after the other.
pub(crate) const EXPIRER: u32 = 2;

/// A request, named by its RPC.
pub(crate) enum Ask {
    Put(String, String, i64),
    Delete(KeyRange),
    Revoke(i64),
    Txn(Txn),
    Range(RangeRequest),
    Compact(i64),
}

impl Ask {
    /// Returns a write as an equivalent transaction.
    pub(crate) fn into_txn(self) -> Txn {
        match self {
            Self::Put(key, value, lease) => one(Change::Put(key, value, lease)),
            Self::Revoke(lease) => one(Change::Revoke(lease)),
            Self::Delete(range) => one(Change::Delete(range)),
            Self::Txn(txn) => txn,
            Self::Range(_) | Self::Compact(_) => Txn::default(),
        }
    }
}

/// Chooses the requests of one client.
pub(crate) struct Chooser {
    shared: Arc<Shared>,
    number: u32,
    rng: Rng,
    /// The last modification revision that the client has seen of each key, for compare-and-swap.
    known: BTreeMap<String, i64>,
    values: u64,
}

pub(crate) fn key(nth: usize) -> String {
    format!("k{nth:02}")
}

/// Returns the range of all keys.
pub(crate) fn everything() -> KeyRange {
    KeyRange {
        from: "k".into(),
        end: "l".into(),
    }
}

/// Returns a random range of keys: one, some, or all.
pub(crate) fn some_range(rng: &mut Rng) -> KeyRange {
    let first = rng.below(KEYS);
    match rng.below(3) {
        0 => KeyRange::one(&key(first)),
        1 => KeyRange {
            from: key(first),
            end: key(first + 1 + rng.below(KEYS - first)),
        },
        _ => everything(),
    }
}

impl Chooser {
    pub(crate) fn new(shared: Arc<Shared>, number: u32, seed: u64) -> Self {
        Self {
            shared,
            number,
            rng: Rng(seed),
            known: BTreeMap::new(),
            values: 0,
        }
    }

    /// Returns the next request.
    pub(crate) fn choose(&mut self) -> Ask {
        match self.rng.below(100) {
            0..25 => Ask::Put(self.some_key(), self.value(), self.some_lease()),
            25..35 => {
                let key = self.some_key();
                let value = self.value();
                let lease = self.some_lease();
                Ask::Txn(guarded(&key, 0, Change::Put(key.clone(), value, lease)))
            }
            35..52 => {
                let (key, revision) = self.known_key();
                let value = self.value();
                Ask::Txn(guarded(&key, revision, Change::Put(key.clone(), value, 0)))
            }
            52..58 => {
                let (key, revision) = self.known_key();
                let delete = Change::Delete(KeyRange::one(&key));
                Ask::Txn(guarded(&key, revision, delete))
            }
            58..61 => Ask::Delete(KeyRange::one(&self.some_key())),
            61..63 => Ask::Delete(some_range(&mut self.rng)),
            63..70 => Ask::Txn(self.many()),
            70..88 => Ask::Range(self.range(false)),
            88..95 => Ask::Range(self.range(true)),
            _ if self.number == COMPACTOR => Ask::Compact(self.compaction()),
            _ if self.number == REVOKER => Ask::Revoke(self.shared.lease.load(Ordering::Relaxed)),
            _ => Ask::Range(self.range(false)),
        }
    }

    fn some_key(&mut self) -> String {
        key(self.rng.below(KEYS))
    }

    /// Returns a value that is unique in the run.
    fn value(&mut self) -> String {
        self.values += 1;
        format!("{}/{}", self.number, self.values)
    }

    /// Returns the lease that outlives the run, the one that expires, or 0.
    fn some_lease(&mut self) -> i64 {
        match self.rng.below(6) {
            0 | 1 => self.shared.lease.load(Ordering::Relaxed),
            2 => self.shared.short_lease.load(Ordering::Relaxed),
            _ => 0,
        }
    }

    /// Returns a random key with its last known modification revision, or 0.
    fn known_key(&mut self) -> (String, i64) {
        let key = self.some_key();
        let revision = self.known.get(&key).copied().unwrap_or(0);
        (key, revision)
    }

    /// Returns a transaction over neighbouring keys: puts, a deletion, and a read of the result.
    fn many(&mut self) -> Txn {
        let first = self.rng.below(KEYS - 3);
        let mut success: Vec<Change> = (first..first + 2)
            .map(|nth| Change::Put(key(nth), self.value(), 0))
            .collect();
        success.push(Change::Delete(KeyRange::one(&key(first + 2))));
        success.push(Change::Get(everything()));
        Txn {
            success,
            ..Txn::default()
        }
    }

    fn range(&mut self, stream: bool) -> RangeRequest {
        let newest = self.shared.newest.load(Ordering::Relaxed);
        let behind = i64::try_from(self.rng.below(PAST)).expect("it is small");
        let revision = match self.rng.one_in(3) {
            true => (newest - behind).max(1),
            false => 0,
        };
        let (limit, count_only) = match self.rng.below(4) {
            0 => (1 + self.rng.below(KEYS), false),
            1 if !stream => (0, true),
            _ => (0, false),
        };
        RangeRequest {
            range: some_range(&mut self.rng),
            revision,
            limit,
            count_only,
            stream,
        }
    }

    /// Returns the revision to compact to, which the log has passed, so that it misses no event.
    fn compaction(&self) -> i64 {
        let told = self.shared.log_told.load(Ordering::Relaxed);
        (told - KEPT).max(1)
    }

    /// Records the revisions of a response.
    pub(crate) fn learn(&mut self, call: &Call) {
        let (revision, kvs) = match call {
            Call::Range(request, Outcome::Done(response)) if request.revision == 0 => {
                (response.revision, response.kvs.as_slice())
            }
            Call::Range(_, Outcome::Done(response)) => (response.revision, &[][..]),
            Call::Txn(txn, Outcome::Done(response)) => {
                let branch = match response.succeeded {
                    true => &txn.success,
                    false => &txn.failure,
                };
                for (change, found) in branch.iter().zip(&response.responses) {
                    self.learn_change(change, found, response.revision);
                }
                (response.revision, &[][..])
            }
            Call::Compact(_, Outcome::Done(revision)) => (*revision, &[][..]),
            _ => return,
        };
        self.learn_keys(kvs);
        self.shared.newest.fetch_max(revision, Ordering::Relaxed);
    }

    fn learn_change(&mut self, change: &Change, found: &OpResponse, revision: i64) {
        match (change, found) {
            (Change::Put(key, ..), _) => {
                self.known.insert(key.clone(), revision);
            }
            (Change::Delete(range), _) => self.known.retain(|key, _| !range.contains(key)),
            (Change::Get(range), OpResponse::Get(kvs)) => {
                self.known.retain(|key, _| !range.contains(key));
                self.learn_keys(kvs);
            }
            (Change::Get(_) | Change::Revoke(_), _) => {}
        }
    }

    fn learn_keys(&mut self, kvs: &[KeyValue]) {
        let all = kvs.iter().map(|kv| (kv.key.clone(), kv.mod_revision));
        self.known.extend(all);
    }
}

/// Returns a transaction of one change.
pub(crate) fn one(change: Change) -> Txn {
    Txn {
        success: vec![change],
        ..Txn::default()
    }
}

/// Returns a transaction like those of Kubernetes: one change if the key has the known revision,
/// otherwise a read of the key.
fn guarded(key: &str, mod_revision: i64, change: Change) -> Txn {
    Txn {
        compares: vec![Compare {
            key: key.to_owned(),
            mod_revision,
        }],
        success: vec![change],
        failure: vec![Change::Get(KeyRange::one(key))],
    }
}
