//! Writes that are kept in a log on disk before anybody sees them.
//!
//! A write is accepted under the writer's lock: it gets its revision, and waits in [`pending`]. One
//! thread takes whatever waits, appends it to the log, syncs it where that was asked for, and only
//! then publishes it, to readers and to watchers ([`group_commit`]): what is shown to anybody
//! survives. Whatever was accepted while that took its time is the next group; there is no timer.
//! Later writes see what waits; readers do not.
//!
//! - [`entry`]: what one record of the log says
//! - [`pending`]: writes that are accepted and not published
//! - [`group_commit`]: the thread
//! - [`replay`]: the store as the log has it
//! - [`snapshot`]: what stands for the log before a compaction

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

/// What a write waits for before it is answered and shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fsync {
    /// For the disk: it survives a power cut.
    Always,
    /// For the operating system: it survives the end of the process. The disk has it after this
    /// time.
    Batch(Duration),
    /// For the operating system, which decides when the disk has it.
    Never,
}

/// How a log is kept.
#[derive(Debug, Clone, Copy)]
pub struct LogOptions {
    /// What a write waits for.
    pub fsync: Fsync,
    /// Size of a segment, bytes.
    pub segment_bytes: u64,
    /// A compaction is followed by a snapshot when the log has so many bytes, and twice as many as
    /// the store.
    pub snapshot_from_bytes: u64,
}

impl LogOptions {
    /// Segments of 64 MiB, a snapshot from 256 MiB on.
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
    /// Opens the store that is kept in a directory; an empty directory has an empty store. Reads
    /// everything that is kept there. Leases begin anew with what they were granted for, as etcd's
    /// do.
    ///
    /// # Errors
    /// [`LogError`]; the directory is as it was, but for an end that no sync had covered.
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

    /// Waits until everything that was accepted so far is as durable as was asked for, and returns
    /// `outcome`. Every response to a write goes through here, refusals included: they, too, tell
    /// of writes that came before. Ready at once without a log.
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

    /// Waits until the log has failed and says why; for ever while all is well, or without a log.
    /// Then no write is answered any more, and the program should end.
    pub async fn log_failed(&self) -> String {
        match &self.inner.wal {
            Some(wal) => wal.waiting.failed().await,
            None => std::future::pending().await,
        }
    }

    /// Ends the log: everything that was accepted is published and, unless nothing is ever synced,
    /// durable. Writes that come later are not answered. Nothing happens without a log, or when it
    /// is called again.
    pub fn close_log(&self) {
        if let Some(wal) = &self.inner.wal {
            wal.waiting.close();
            if let Some(thread) = wal.thread.lock().take() {
                // One that panicked has nothing more to say.
                drop(thread.join());
            }
        }
    }

    /// Accepts a write: later writes see it, readers do not yet. Nothing written and nothing
    /// changed is no entry. Returns the revision that the store will be at.
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

    /// Notes a change other than keys in the log, if there is one.
    pub(super) fn note(&self, writer: &mut Writer, change: Change) {
        if writer.pending.is_some() {
            self.accept(writer, Edits::None, Some(change));
        }
    }
}

impl Drop for Wal {
    fn drop(&mut self) {
        // The thread ends by itself: it may be the one that drops this.
        self.waiting.close();
    }
}
