//! The store: etcd's multi-version key space, held in memory and optionally in a log on disk,
//! without any transport.
//!
//! The store takes and returns etcd's messages (`etcd_api::proto`), and its errors have etcd's
//! texts. It does not depend on gRPC, HTTP or an async runtime. The modules, in the order that data
//! flows:
//!
//! - [`record`]: one key as the exact bytes that are sent on the wire
//! - [`index`](mod@index): the current keys, in a copy-on-write B+tree with counts
//! - [`history`]: the events of each revision, and the versions of a key
//! - `past_roots`: the index at past revisions
//! - [`snapshot`]: an immutable view that reads run on
//! - [`range`]: selects the keys of a Range from a snapshot
//! - `write_txn`: the writes of one request before they are committed, and `txn`: etcd's Txn
//! - [`watch_hub`]: delivers commits to watchers
//! - [`lease`], [`compaction`], `quota`, [`hash`]: etcd's features other than reading and writing
//!   keys
//! - `wal`: the log on disk, if the store has one
//!
//! Writes are serialised by one lock. Reads take a lock only to copy a reference to the index. No
//! lock is held while a read filters, encodes or sends.

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
    /// The quota in bytes, above which puts are refused with NOSPACE. 0 is etcd's default of 2 GiB;
    /// a negative number is no limit.
    pub quota_backend_bytes: i64,
    /// The maximum number of compares, and of operations per branch, in a Txn.
    pub max_txn_ops: usize,
    /// The maximum bytes of keys and values in the response to a write or a Txn. The default is the
    /// largest message that etcd sends.
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
    /// Serialises writers, and holds the data that only writers need.
    writer: Mutex<Writer>,
    /// The state that readers see. Locked for writing only to publish a commit.
    state: RwLock<State>,
    /// Roots of past revisions, none below the compacted revision. A compaction runs under this
    /// lock.
    roots: Mutex<HeldRoots>,
    /// The watchers. Locked inside the writer's lock, and before `state`.
    hub: Mutex<Hub>,
    /// Copy of `State::compacted`, so that a running list can check it without a lock.
    compacted: AtomicI64,
    /// Lists that are being sent.
    open_lists: Arc<OpenLists>,
    /// The log on disk, to which a write goes before it is published; `None` for a store in memory
    /// only.
    wal: Option<Wal>,
}

/// The data that only writers need, guarded by their lock.
#[derive(Default)]
struct Writer {
    leases: Leases,
    alarms: Alarms,
    /// Writes that are accepted but not published yet; `None` without a log.
    pending: Option<wal::pending::Pending>,
}

impl Store {
    /// Returns an empty store at revision 1, in memory only. [`Store::open`] opens one that is kept
    /// on disk.
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

    /// Returns the limits that the store was created with.
    pub fn config(&self) -> Config {
        self.inner.config
    }

    /// Returns the latest revision. A new store is at 1; its first write makes revision 2.
    pub fn revision(&self) -> i64 {
        self.inner.state.read().revision()
    }

    /// Returns the last compacted revision; −1 if there was no compaction.
    pub fn compact_revision(&self) -> i64 {
        self.inner.compacted.load(Ordering::Acquire)
    }

    /// Returns the latest state, in constant time.
    pub fn snapshot(&self) -> Snapshot {
        let state = self.inner.state.read();
        let revision = state.revision();
        Snapshot::new(self.clone(), state.tree().clone(), revision, revision)
    }

    /// Returns the state at a revision; `rev <= 0` is the latest. Takes constant time for the
    /// latest revision and for held ones. For others it takes O(changes since) to make a copy of
    /// the index, which is then held for the next call.
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

    /// Holds a snapshot's root for later reads at its revision (the next pages of a limited read),
    /// unless the revision was compacted. Only a few roots are held; the least recently used is
    /// dropped first.
    pub fn hold(&self, snapshot: &Snapshot) {
        let mut held = self.inner.roots.lock();
        if snapshot.check().is_ok() {
            let gone = held.insert(snapshot.revision(), snapshot.tree().clone());
            // Nodes that only the dropped root referenced are freed after the lock is released.
            drop(held);
            drop(gone);
        }
    }

    /// Counts a list of the state at `revision` as being sent until the returned value is dropped.
    fn open_list(&self, revision: i64) -> OpenList {
        let replaced = self.inner.state.read().history_bytes_until(revision);
        self.inner.open_lists.open(replaced)
    }

    /// Returns the number of watchers of all streams. Takes the lock of the watch hub.
    pub fn watchers(&self) -> usize {
        self.inner.hub.lock().watchers()
    }

    /// Returns the memory that lists in progress hold in addition to the revision history.
    pub fn pinned(&self) -> Pinned {
        let forgotten = self.inner.state.read().forgotten_bytes();
        self.inner.open_lists.pinned(forgotten)
    }

    /// Returns one key at a revision (`rev <= 0` is the latest), and the latest revision. Cheaper
    /// than [`Store::snapshot_at`], because it follows the key's own chain of versions where
    /// possible.
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
        self.check_put(request)?;
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

    /// Checks what can be checked of a put without its key, in etcd's order.
    ///
    /// # Errors
    /// [`Refusal::NoSpace`], [`Refusal::EmptyKey`], [`Refusal::ValueProvided`],
    /// [`Refusal::LeaseProvided`].
    pub fn check_put(&self, request: &PutRequest) -> Result<(), Refusal> {
        self.check_quota(quota::put_cost(request))?;
        txn::check::put(request)
    }

    /// Deletes the keys of an interval in one revision. Makes no revision if no key is found.
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

    /// Drops history older than `rev` and returns the latest revision. The memory is freed after
    /// all locks are released.
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

    /// Drops history, under the writer's lock. Returns the latest revision and the garbage for the
    /// caller to free.
    fn forget(&self, rev: i64) -> Result<(i64, Garbage), Refusal> {
        // Held until the history and the roots agree, because a past index is built from both.
        let mut roots = self.inner.roots.lock();
        let mut state = self.inner.state.write();
        let mut garbage = state.compact(rev)?;
        self.inner.compacted.store(rev, Ordering::Release);
        let revision = state.revision();
        drop(state);
        garbage._roots = roots.trim(rev);
        Ok((revision, garbage))
    }

    /// Locks the writer. Returns an error while the CORRUPT alarm is raised.
    fn writer(&self) -> Result<MutexGuard<'_, Writer>, Refusal> {
        let writer = self.inner.writer.lock();
        match writer.alarms.is_corrupt() {
            true => Err(Refusal::Corrupt),
            false => Ok(writer),
        }
    }

    /// Attaches keys to leases, publishes the edits to readers and watchers, and returns the
    /// store's revision after them. With a log, this queues the edits and `changed` (a change
    /// other than keys) instead of publishing them; the log's thread does that later.
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
        // Freed without holding a lock. Only the old root referenced these nodes.
        drop(garbage);
        revision
    }
}

/// Returns a header with only the revision; the service fills in the other fields.
pub(crate) fn header(revision: i64) -> ResponseHeader {
    ResponseHeader {
        revision,
        ..ResponseHeader::default()
    }
}
