//! The snapshot that replaces the log before a compaction: the keys at the compacted revision, and
//! every later write.
//!
//! It has everything readable, so a restart loses neither the versions of a key nor the events of a
//! watch from an old revision. Without a compaction it would be as large as the log.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use commit_log::{Disk, Log, LogError, SnapshotWriter};
use etcd_api::keys::KeyRange;
use index::Tree;
use prost::Message;

use super::entry::{COMPACTED_WRITE, Entry, HEAD, HeadMessage, KEYS, LeaseMessage, put_events};
use crate::history::Commit;
use crate::{Record, Store, Writer};

/// Size from which on a record with keys is complete: it ends with the key that reaches it.
const KEYS_BYTES: usize = 256 * 1024;

/// Writes snapshots, one at a time, each on a thread of its own.
pub(super) struct Snapshots {
    disk: Arc<dyn Disk>,
    from_bytes: u64,
    running: Option<Running>,
}

struct Running {
    thread: JoinHandle<Result<Option<u64>, LogError>>,
    stop: Arc<AtomicBool>,
    /// Bytes of the log that it replaces.
    before: u64,
}

impl Snapshots {
    pub(super) fn new(disk: Arc<dyn Disk>, from_bytes: u64) -> Self {
        Self {
            disk,
            from_bytes,
            running: None,
        }
    }

    /// Returns whether a snapshot would shorten the log considerably, and none is running.
    pub(super) fn is_due(&self, log: &Log, store: &Store) -> bool {
        self.running.is_none() && log.bytes() >= self.from_bytes.max(2 * store.size_bytes())
    }

    /// Starts a snapshot of the published state, which replaces the segments below `number`, of
    /// `before` bytes.
    pub(super) fn begin(&mut self, store: &Store, writer: &Writer, number: u64, before: u64) {
        let content = Content::of(store, writer);
        let (disk, stop) = (self.disk.clone(), Arc::new(AtomicBool::new(false)));
        let stopped = stop.clone();
        let thread = thread::Builder::new().name("snapshot".to_owned());
        match thread.spawn(move || content.write(disk, number, &stopped)) {
            Ok(thread) => {
                self.running = Some(Running {
                    thread,
                    stop,
                    before,
                });
            }
            Err(error) => warn_of_none(format_args!("no thread: {error}")),
        }
    }

    /// Records the result of the running snapshot, if it has finished.
    pub(super) fn collect(&mut self, log: &mut Log) {
        let Some(running) = self.running.take_if(|running| running.thread.is_finished()) else {
            return;
        };
        match running.thread.join() {
            Ok(Ok(Some(bytes))) => {
                tracing::info!(
                    "a snapshot of {bytes} bytes replaces {} of the log",
                    running.before
                );
                log.snapshot_taken(running.before, bytes);
            }
            Ok(Ok(None)) => {}
            Ok(Err(error)) => warn_of_none(error),
            Err(_) => warn_of_none("its thread panicked"),
        }
    }

    /// Aborts the running snapshot, if any.
    pub(super) fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop.store(true, Ordering::Relaxed);
            // The result does not matter.
            drop(running.thread.join());
        }
    }
}

fn warn_of_none(reason: impl fmt::Display) {
    tracing::warn!("a snapshot failed, so the log keeps what it would have replaced: {reason}");
}

/// The content of a snapshot.
struct Content {
    head: HeadMessage,
    /// The current keys.
    tree: Tree<Record>,
    /// The write at the compacted revision, for watchers that start there.
    compacted: Option<Commit>,
    /// The later writes.
    commits: Vec<Commit>,
}

impl Content {
    fn of(store: &Store, writer: &Writer) -> Self {
        let state = store.inner.state.read();
        let (revision, compacted, commits) = state.since_compaction();
        let leases = writer.leases.granted();
        Self {
            head: HeadMessage {
                revision,
                compacted: state.compacted(),
                leases: leases
                    .map(|(id, ttl_s)| LeaseMessage { id, ttl_s })
                    .collect(),
                alarms: writer.alarms.iter().map(i32::from).collect(),
            },
            tree: state.tree().clone(),
            compacted,
            commits,
        }
    }

    /// Writes the snapshot. Returns its size in bytes; `None` if `stop` was set.
    fn write(
        mut self,
        disk: Arc<dyn Disk>,
        number: u64,
        stop: &AtomicBool,
    ) -> Result<Option<u64>, LogError> {
        let mut file = SnapshotWriter::create(disk, number)?;
        let mut record = vec![HEAD];
        self.head.encode(&mut record).expect("a vector has room");
        file.push(&record)?;
        for event in self
            .commits
            .iter()
            .rev()
            .flat_map(|commit| commit.iter().rev())
        {
            event.undo(&mut self.tree);
        }
        let mut keys = self.tree.cursor(KeyRange::From(b""));
        record.clear();
        while let Some(key) = keys.next_ref() {
            if record.is_empty() {
                record.push(KEYS);
            }
            key.wire()
                .iter()
                .for_each(|piece| record.extend_from_slice(piece));
            if record.len() >= KEYS_BYTES {
                file.push(&record)?;
                record.clear();
                if stop.load(Ordering::Relaxed) {
                    return Ok(None);
                }
            }
        }
        if !record.is_empty() {
            file.push(&record)?;
        }
        if let Some(commit) = &self.compacted {
            record.clear();
            record.push(COMPACTED_WRITE);
            put_events(commit, &mut record);
            file.push(&record)?;
        }
        for commit in self.commits {
            record.clear();
            let entry = Entry {
                commit: Some(commit),
                change: None,
            };
            entry.encode(&mut record);
            file.push(&record)?;
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
        }
        file.finish().map(Some)
    }
}
