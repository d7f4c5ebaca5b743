//! The thread of the log: it logs, syncs and publishes in groups. Writes that are accepted while it
//! is busy are its next group.

use std::sync::{Arc, Weak};
use std::task::Waker;
use std::thread;
use std::time::Instant;

use commit_log::{Disk, Log, LogError};

use super::commit_progress::{CommitProgress, Woken};
use super::entry::{Change, Entry};
use super::snapshot::Snapshots;
use super::{Fsync, LogOptions};
use crate::history::Garbage;
use crate::{Inner, Store, Writer};

/// The state of the log's thread.
pub(super) struct GroupCommit {
    inner: Weak<Inner>,
    waiting: Arc<CommitProgress>,
    log: Log,
    options: LogOptions,
    /// Number of entries ever taken from the queue.
    taken: u64,
    /// The time by which the written entries must be synced.
    sync_due: Option<Instant>,
    snapshots: Snapshots,
    /// Buffer for one encoded record.
    payload: Vec<u8>,
}

/// Work after publishing, for which no lock may be held: waking streams and freeing memory.
#[derive(Default)]
struct AfterPublish {
    wakers: Vec<Waker>,
    garbage: Vec<Garbage>,
}

impl GroupCommit {
    pub(super) fn new(
        store: &Store,
        waiting: Arc<CommitProgress>,
        log: Log,
        disk: Arc<dyn Disk>,
        options: LogOptions,
    ) -> Self {
        Self {
            inner: Arc::downgrade(&store.inner),
            waiting,
            log,
            snapshots: Snapshots::new(disk, options.snapshot_from_bytes),
            options,
            taken: 0,
            sync_due: None,
            payload: Vec::new(),
        }
    }

    /// Runs until the store is closed or the log fails.
    pub(super) fn run(mut self) {
        let outcome = loop {
            let step = match self.waiting.wait(self.taken, self.sync_due) {
                Woken::More => match self.inner.upgrade() {
                    Some(inner) => self.group(&Store { inner }),
                    None => break Ok(()),
                },
                Woken::Due => self.sync(),
                Woken::Closed => break self.sync_last(),
            };
            if step.is_err() {
                break step;
            }
        };
        if let Err(error) = outcome {
            self.waiting.fail(error.to_string());
        }
    }

    /// Logs and publishes the pending entries.
    fn group(&mut self, store: &Store) -> Result<(), LogError> {
        let entries = take(&mut store.inner.writer.lock());
        self.append(&entries)?;
        let mut writer = store.inner.writer.lock();
        let aftermath = publish(store, &mut writer, &entries);
        drop(writer);
        self.published(&entries, aftermath);
        self.snapshots.collect(&mut self.log);
        let compacted = |entry: &Entry| matches!(entry.change, Some(Change::Compacted(_)));
        if entries.iter().any(compacted) && self.snapshots.is_due(&self.log, store) {
            self.begin_snapshot(store)?;
        }
        Ok(())
    }

    /// Appends entries to the log, and syncs it as configured.
    fn append(&mut self, entries: &[Entry]) -> Result<(), LogError> {
        for entry in entries {
            self.payload.clear();
            entry.encode(&mut self.payload);
            self.log.append(&self.payload)?;
        }
        // A single large write must not keep its buffer forever.
        self.payload.shrink_to(1024 * 1024);
        self.log.write()?;
        match self.options.fsync {
            Fsync::Always => self.log.sync(),
            Fsync::Batch(interval) => {
                let now = Instant::now();
                match *self.sync_due.get_or_insert(now + interval) <= now {
                    true => self.sync(),
                    false => Ok(()),
                }
            }
            Fsync::Never => Ok(()),
        }
    }

    fn sync(&mut self) -> Result<(), LogError> {
        self.sync_due = None;
        self.log.sync()
    }

    /// Stops a running snapshot, and makes the last sync if one is due.
    fn sync_last(&mut self) -> Result<(), LogError> {
        self.snapshots.stop();
        match self.sync_due {
            Some(_) => self.sync(),
            None => Ok(()),
        }
    }

    /// Wakes the waiting writers and the streams, and frees the garbage.
    fn published(&mut self, entries: &[Entry], aftermath: AfterPublish) {
        self.taken += entries.len() as u64;
        self.waiting.publish(self.taken);
        aftermath.wakers.into_iter().for_each(Waker::wake);
        if !aftermath.garbage.is_empty() {
            // Freeing a long history takes time, and the next group is waiting. If no thread can be
            // started, it is freed here.
            let garbage = aftermath.garbage;
            let freeing = thread::Builder::new().name("garbage".to_owned());
            drop(freeing.spawn(move || drop(garbage)));
        }
    }

    /// Starts a snapshot at a point where everything accepted is logged and published. Writers wait
    /// until that point; the snapshot itself is written concurrently.
    fn begin_snapshot(&mut self, store: &Store) -> Result<(), LogError> {
        let mut writer = store.inner.writer.lock();
        let entries = take(&mut writer);
        self.append(&entries)?;
        let aftermath = publish(store, &mut writer, &entries);
        let before = self.log.bytes();
        let number = self.log.rotate()?;
        self.snapshots.begin(store, &writer, number, before);
        drop(writer);
        self.published(&entries, aftermath);
        Ok(())
    }
}

impl Drop for GroupCommit {
    fn drop(&mut self) {
        // Runs on a panic, too, so that no writer waits forever.
        self.waiting
            .fail("the thread of the log has ended".to_owned());
    }
}

/// Returns the entries that are accepted but not logged yet.
fn take(writer: &mut Writer) -> Vec<Entry> {
    let pending = writer.pending.as_mut();
    pending.map(|pending| pending.take()).unwrap_or_default()
}

/// Publishes entries to readers and watchers, in order.
fn publish(store: &Store, writer: &mut Writer, entries: &[Entry]) -> AfterPublish {
    let mut aftermath = AfterPublish::default();
    for entry in entries {
        if let Some(commit) = &entry.commit {
            let revision = store.inner.state.write().apply(commit.clone());
            let wakers = store.inner.hub.lock().deliver(revision, commit);
            aftermath.wakers.extend(wakers);
        }
        if let Some(Change::Compacted(revision)) = entry.change {
            match store.forget(revision) {
                Ok((_, garbage)) => aftermath.garbage.push(garbage),
                Err(refusal) => unreachable!("it was checked when it was accepted: {refusal}"),
            }
        }
        if let Some(pending) = &mut writer.pending {
            pending.published();
        }
    }
    aftermath
}
