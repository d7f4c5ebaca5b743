//! A log on disk, to which writes go before they are visible.
//!
//! A write is accepted under the writer's lock: it gets its revision and is queued in [`pending`].
//! One thread takes all queued writes, appends them to the log, syncs the log if configured, and
//! only then publishes the writes to readers and watchers ([`group_commit`]). Everything visible is
//! therefore as durable as configured. The writes that were accepted in the meantime are the next
//! group; there is no timer. Later writes see pending writes; readers do not.
//!
//! - [`entry`]: the encoding of a log record
//! - [`pending`]: writes that are accepted but not published
//! - [`group_commit`]: the thread that logs and publishes
//! - [`replay`]: rebuilds the store from snapshot and log
//! - [`snapshot`]: a file that replaces the log before a compaction

mod commit_progress;
mod entry;
mod group_commit;
pub(super) mod pending;
mod replay;
mod snapshot;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use commit_log::{Disk, Log, LogError};
use etcd_api::error::Refusal;
use parking_lot::Mutex;

use super::history::Edits;
use super::{Config, Store, Writer};
use commit_progress::CommitProgress;
pub(super) use entry::Change;
use entry::Entry;
use group_commit::GroupCommit;
use pending::Pending;
use replay::Replay;

/// The durability that a write waits for before its response is sent and it becomes visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fsync {
    /// On the disk: the write survives a power cut.
    Always,
    /// In the operating system: the write survives the end of the process. It is synced to the disk
    /// at most this time later.
    Batch(Duration),
    /// In the operating system, which decides when to write it to the disk.
    Never,
}

/// The configuration of a log.
#[derive(Debug, Clone, Copy)]
pub struct LogOptions {
    /// The durability that a write waits for.
    pub fsync: Fsync,
    /// Size of a segment, bytes.
    pub segment_bytes: u64,
    /// The minimum size of the log, in bytes, for a snapshot. A compaction is followed by a
    /// snapshot if the log has at least this size and twice the size of the store.
    pub snapshot_from_bytes: u64,
}

impl LogOptions {
    /// Returns options with segments of 64 MiB, and snapshots from a log of 256 MiB on.
    pub fn new(fsync: Fsync) -> Self {
        Self {
            fsync,
            segment_bytes: 64 << 20,
            snapshot_from_bytes: 256 << 20,
        }
    }
}

/// The log of a store.
pub(super) struct Wal {
    waiting: Arc<CommitProgress>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl Store {
    /// Opens the store in a directory and reads all of it; an empty directory gives an empty store.
    /// Leases restart with their granted TTL, as in etcd.
    ///
    /// # Errors
    /// [`LogError`]. The directory is then unchanged, except that an unsynced end may have been
    /// cut.
    pub fn open(
        config: Config,
        disk: Arc<dyn Disk>,
        options: LogOptions,
    ) -> Result<Self, LogError> {
        let began = Instant::now();
        let mut replay = Replay::default();
        let log_config = commit_log::Config {
            segment_bytes: options.segment_bytes,
            sync: options.fsync != Fsync::Never,
        };
        let opened = Log::open(disk.clone(), log_config, |part| replay.take(part))?;
        let (state, leases, alarms) = replay.finish(Instant::now());
        if let Some(cut) = &opened.recovery.cut {
            tracing::warn!(
                "the last {1} bytes of {0} do not verify, and no sync covered them: cut at offset {2}, they are kept as {3}; --fsync=always had acknowledged no write in them",
                cut.file,
                cut.bytes,
                cut.offset,
                cut.kept_as
            );
        }
        tracing::info!(
            "replayed {} records, {} bytes, in {:?}: revision {}",
            opened.recovery.records,
            opened.recovery.bytes,
            began.elapsed(),
            state.revision()
        );
        let waiting = Arc::new(CommitProgress::default());
        let writer = Writer {
            leases,
            alarms,
            pending: Some(Pending::new(state.revision(), state.compacted())),
        };
        let wal = Wal {
            waiting: waiting.clone(),
            thread: Mutex::default(),
        };
        let store = Self::of(config, state, writer, Some(wal));
        let thread = GroupCommit::new(&store, waiting, opened.log, disk, options);
        let thread = std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(|| thread.run());
        let thread = thread.map_err(|source| LogError::Io {
            action: "start the thread of",
            file: "the log".to_owned(),
            source,
        })?;
        if let Some(wal) = &store.inner.wal {
            *wal.thread.lock() = Some(thread);
        }
        Ok(store)
    }

    /// Waits until everything accepted so far is as durable as configured, and returns `outcome`.
    /// Every response to a write goes through this function, errors included, because they, too,
    /// reveal earlier writes. Ready at once without a log.
    ///
    /// # Errors
    /// Those of `outcome`; [`Refusal::Stopped`] when the log has failed.
    pub async fn logged<T>(&self, outcome: Result<T, Refusal>) -> Result<T, Refusal> {
        if let Some(wal) = &self.inner.wal {
            let accepted = wal.waiting.accepted();
            wal.waiting.published(accepted).await?;
        }
        outcome
    }

    /// Waits until the log has failed or is closed, and returns the reason; never returns while it
    /// works, or without a log. Later writes are refused ([`Refusal::Stopped`]), and the program
    /// should exit.
    pub async fn log_failed(&self) -> String {
        match &self.inner.wal {
            Some(wal) => wal.waiting.failed().await,
            None => std::future::pending().await,
        }
    }

    /// Closes the log. Everything accepted is published and, except with [`Fsync::Never`], durable.
    /// Later writes are refused ([`Refusal::Stopped`]). Does nothing without a log, or when called
    /// again.
    pub fn close_log(&self) {
        if let Some(wal) = &self.inner.wal {
            wal.waiting.close();
            if let Some(thread) = wal.thread.lock().take() {
                // A panic of the thread is ignored: the log has ended either way.
                drop(thread.join());
            }
        }
    }

    /// Accepts a write: later writes see it, readers do not yet. Without edits and change there is
    /// no entry. Returns the revision that the store will have.
    pub(super) fn accept(&self, writer: &mut Writer, edits: Edits, change: Option<Change>) -> i64 {
        let commit = edits.into_commit();
        if let Some(commit) = &commit {
            writer.leases.follow(commit);
        }
        let pending = writer.pending.as_mut();
        let pending = pending.expect("a store with a log has its pending writes");
        if commit.is_some() || change.is_some() {
            pending.push(Entry { commit, change });
            if let Some(wal) = &self.inner.wal {
                wal.waiting.accept();
            }
        }
        pending.revision()
    }

    /// Records a change other than keys in the log, if there is a log.
    pub(super) fn note(&self, writer: &mut Writer, change: Change) {
        if writer.pending.is_some() {
            self.accept(writer, Edits::None, Some(change));
        }
    }
}

impl Drop for Wal {
    fn drop(&mut self) {
        // Not joined: the thread ends by itself, and it may be the one that runs this drop.
        self.waiting.close();
    }
}
