//! The store: etcd's multi-version key space in memory, and in a log on disk where that is asked
//! for; without any transport.
//!
//! It speaks etcd's messages (`etcd_api::proto`) and refuses in etcd's words, and knows neither
//! gRPC nor HTTP nor an async runtime. What is in it, in the order that data flows:
//!
//! - [`record`]: one key as the exact bytes that go on the wire
//! - [`index`](mod@index): the current keys, in a copy-on-write B+tree that counts
//! - [`history`]: the log of revisions, and the versions of a key
//! - `past_roots`: the index as it was
//! - [`snapshot`]: an immutable view that reads run on
//! - [`range`]: what a Range selects from a view
//! - `write_txn`: the writes of one request before they are committed, and `txn`: many of them
//! - [`watch_hub`]: who is told of a commit
//! - [`lease`], [`compaction`], `quota`, [`hash`]: what etcd has other than keys
//! - `wal`: the log on disk, where one is kept
//!
//! Writes are serialised by one lock. Reads take a lock only to copy a reference to the index;
//! nothing is locked while they filter, encode or send.

pub mod compaction;
#[cfg(test)]
mod concurrency_tests;
pub mod hash;
pub mod history;
pub mod lease;
mod past_roots;
mod quota;
pub mod range;
pub mod record;
pub mod snapshot;
#[cfg(test)]
mod tests;
mod txn;
mod wal;
pub mod watch_hub;
mod write_txn;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::Waker;

use etcd_api::error::Refusal;
use etcd_api::proto::etcdserverpb::{
    DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse, ResponseHeader,
};
use memory::open_lists::{OpenList, OpenLists, Pinned};
use parking_lot::{Mutex, MutexGuard, RwLock};

pub use commit_log::{Directory, LogError};
use history::{Edits, Garbage, State};
pub use index::Totals;
use lease::Leases;
use past_roots::HeldRoots;
use quota::Alarms;
pub use record::{Fields, Projection, Record, Value};
pub use snapshot::Snapshot;
pub use txn::check;
use wal::{Change, Wal};
pub use wal::{Fsync, LogOptions};
use watch_hub::Hub;

/// A cursor over records: see [`index::Cursor`].
pub type Cursor = index::Cursor<Record>;

/// Limits of a store; the defaults are etcd's.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Bytes above which puts are refused with NOSPACE; 0 is etcd's default of 2 GiB, negative no
    /// limit.
    pub quota_backend_bytes: i64,
    /// Most compares, and most operations per branch, of a Txn.
    pub max_txn_ops: usize,
    /// Most bytes of keys and values in the response of a write or a Txn: the largest message that
    /// etcd sends.
    pub max_response_bytes: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            quota_backend_bytes: 0,
            max_txn_ops: 128,
            max_response_bytes: i32::MAX as u64,
        }
    }
}

/// A handle on one store; clones share it.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    config: Config,
    /// Serialises writers; holds what only they need.
    writer: Mutex<Writer>,
    /// What readers see. Locked for writing only to publish a commit.
    state: RwLock<State>,
    /// Roots of past revisions, none below the compacted one: a compaction passes under this lock.
    roots: Mutex<HeldRoots>,
    /// Who is told of commits. Locked inside the writer's lock, and before `state`.
    hub: Mutex<Hub>,
    /// Copy of `State::compacted`, so that a running list checks it without a lock.
    compacted: AtomicI64,
    /// Lists that are being sent.
    open_lists: Arc<OpenLists>,
    /// What is on disk before it is published; `None` where nothing is.
    wal: Option<Wal>,
}

/// What only writers need, guarded by their lock.
#[derive(Default)]
struct Writer {
    leases: Leases,
    alarms: Alarms,
    /// What is in the log, or on its way there, and not published; `None` without a log.
    pending: Option<wal::pending::Pending>,
}

impl Store {
    /// Returns an empty store at revision 1, in memory alone; [`Store::open`] keeps one on disk.
    pub fn new(config: Config) -> Self {
        Self::of(config, State::default(), Writer::default(), None)
    }

    fn of(config: Config, state: State, writer: Writer, wal: Option<Wal>) -> Self {
        Self {
            inner: Arc::new(Inner {
                config,
                writer: Mutex::new(writer),
                hub: Mutex::new(Hub::new(state.revision())),
                compacted: AtomicI64::new(state.compacted()),
                state: RwLock::new(state),
                roots: Mutex::default(),
                open_lists: Arc::default(),
                wal,
            }),
        }
    }

    /// Returns the limits that it was made with.
    pub fn config(&self) -> Config {
        self.inner.config
    }

    /// Returns the latest revision. A fresh store is at 1; the first write makes 2.
    pub fn revision(&self) -> i64 {
        self.inner.state.read().revision()
    }

    /// Returns the last compacted revision, −1 when none ever was.
    pub fn compact_revision(&self) -> i64 {
        self.inner.compacted.load(Ordering::Acquire)
    }

    /// Returns the latest state, in constant time.
    pub fn snapshot(&self) -> Snapshot {
        let state = self.inner.state.read();
        let revision = state.revision();
        Snapshot::new(self.clone(), state.tree().clone(), revision, revision)
    }

    /// Returns the state at a revision; `rev <= 0` is the latest. Constant time for the latest
    /// revision and those that are held, otherwise O(changes since) in a copy of the index, which
    /// is then held for the next call.
    ///
    /// # Errors
    /// [`Refusal::FutureRevision`], [`Refusal::Compacted`].
    pub fn snapshot_at(&self, rev: i64) -> Result<Snapshot, Refusal> {
        if rev <= 0 {
            return Ok(self.snapshot());
        }
        let (tree, head) = past_roots::tree_at(&self.inner.state, &self.inner.roots, rev)?;
        Ok(Snapshot::new(self.clone(), tree, rev, head))
    }

    /// Keeps a snapshot's root for the reads at its revision that are likely to follow (the next
    /// pages of a limited read), unless it was compacted since. A few are held at a time, the least
    /// recently used goes first.
    pub fn hold(&self, snapshot: &Snapshot) {
        let mut held = self.inner.roots.lock();
        if snapshot.check().is_ok() {
            let gone = held.insert(snapshot.revision(), snapshot.tree().clone());
            // What only that root held is freed after the lock.
            drop(held);
            drop(gone);
        }
    }

    /// Counts a list of the state at `revision` among those that are being sent, until what this
    /// returns is dropped.
    fn open_list(&self, revision: i64) -> OpenList {
        let replaced = self.inner.state.read().history_bytes_until(revision);
        self.inner.open_lists.open(replaced)
    }

    /// Returns the number of watchers of all streams. Takes the lock of the watch hub.
    pub fn watchers(&self) -> usize {
        self.inner.hub.lock().watchers()
    }

    /// Returns what lists that are being sent keep in memory in addition to the revision history.
    pub fn pinned(&self) -> Pinned {
        let forgotten = self.inner.state.read().forgotten_bytes();
        self.inner.open_lists.pinned(forgotten)
    }

    /// Returns one key at a revision (`rev <= 0` is the latest), and the latest revision. Cheaper
    /// than [`Store::snapshot_at`]: follows the key's own chain of versions where it can.
    ///
    /// # Errors
    /// [`Refusal::FutureRevision`], [`Refusal::Compacted`].
    pub fn get_at(&self, key: &[u8], rev: i64) -> Result<(Option<Record>, i64), Refusal> {
        if let Some(found) = history::get_at(&self.inner.state, key, rev)? {
            return Ok(found);
        }
        let snapshot = self.snapshot_at(rev)?;
        Ok((snapshot.get(key), snapshot.head_revision()))
    }

    /// Writes one key.
    ///
    /// # Errors
    /// [`Refusal::EmptyKey`], [`Refusal::ValueProvided`], [`Refusal::LeaseProvided`],
    /// [`Refusal::KeyNotFound`], [`Refusal::LeaseNotFound`], [`Refusal::NoSpace`],
    /// [`Refusal::ResponseTooLarge`].
    pub fn put(&self, request: &PutRequest) -> Result<PutResponse, Refusal> {
        txn::check::put(request)?;
        let mut writer = self.writer()?;
        self.reserve(&mut writer, quota::put_cost(request))?;
        if request.lease != 0 && !writer.leases.exists(request.lease) {
            return Err(Refusal::LeaseNotFound);
        }
        let mut write_txn = self.write_txn(&writer);
        let mut response = write_txn.put(request)?;
        let edits = write_txn.into_edits();
        response.header = Some(header(self.commit(writer, edits, None)));
        Ok(response)
    }

    /// Deletes the keys of an interval in one revision; no key found makes no revision.
    ///
    /// # Errors
    /// [`Refusal::EmptyKey`], [`Refusal::ResponseTooLarge`].
    pub fn delete_range(
        &self,
        request: &DeleteRangeRequest,
    ) -> Result<DeleteRangeResponse, Refusal> {
        txn::check::delete_range(request)?;
        let writer = self.writer()?;
        let mut write_txn = self.write_txn(&writer);
        let mut response = write_txn.delete_range(request)?;
        let edits = write_txn.into_edits();
        response.header = Some(header(self.commit(writer, edits, None)));
        Ok(response)
    }

    /// Forgets history older than `rev` and returns the latest revision. What is freed is freed
    /// after all locks are released.
    ///
    /// # Errors
    /// [`Refusal::Compacted`] when `rev` is not above the last compacted revision (−1 at first),
    /// [`Refusal::FutureRevision`].
    pub fn compact(&self, rev: i64) -> Result<i64, Refusal> {
        let mut writer = self.writer()?;
        if let Some(pending) = &writer.pending {
            let revision = self.revision();
            if rev <= pending.compacted() {
                return Err(Refusal::Compacted);
            }
            if rev > revision {
                return Err(Refusal::FutureRevision);
            }
            self.note(&mut writer, Change::Compacted(rev));
            return Ok(revision);
        }
        let (revision, garbage) = self.forget(rev)?;
        drop(writer);
        drop(garbage);
        Ok(revision)
    }

    /// Forgets history, under the writer's lock; what is to be freed is returned.
    fn forget(&self, rev: i64) -> Result<(i64, Garbage), Refusal> {
        // Held until the log and the roots agree: a past index is made from both.
        let mut roots = self.inner.roots.lock();
        let mut state = self.inner.state.write();
        let mut garbage = state.compact(rev)?;
        self.inner.compacted.store(rev, Ordering::Release);
        let revision = state.revision();
        drop(state);
        garbage._roots = roots.trim(rev);
        Ok((revision, garbage))
    }

    /// Takes the writer's lock.
    fn writer(&self) -> Result<MutexGuard<'_, Writer>, Refusal> {
        let writer = self.inner.writer.lock();
        match writer.alarms.is_corrupt() {
            true => Err(Refusal::Corrupt),
            false => Ok(writer),
        }
    }

    /// Publishes what was written: to readers, to leases, to watchers; with a log, what it waits
    /// for comes first, and what else the write has `changed` is kept with it. Returns the revision
    /// that the store is at then.
    fn commit(
        &self,
        mut writer: MutexGuard<'_, Writer>,
        edits: Edits,
        changed: Option<Change>,
    ) -> i64 {
        if writer.pending.is_some() {
            return self.accept(&mut writer, edits, changed);
        }
        let (revision, commit, garbage) = {
            let mut state = self.inner.state.write();
            let (commit, garbage) = state.commit(edits);
            (state.revision(), commit, garbage)
        };
        let mut wakers = Vec::new();
        if let Some(commit) = commit {
            writer.leases.follow(&commit);
            wakers = self.inner.hub.lock().deliver(revision, &commit);
        }
        drop(writer);
        wakers.into_iter().for_each(Waker::wake);
        // Freed without any lock: only the old root held it.
        drop(garbage);
        revision
    }
}

/// Returns a header with nothing but the revision; the service knows the rest.
pub(crate) fn header(revision: i64) -> ResponseHeader {
    ResponseHeader {
        revision,
        ..ResponseHeader::default()
    }
}
