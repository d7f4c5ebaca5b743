//! A file that replaces all segments before a given one.

use std::sync::Arc;

use super::format::{FileHeader, Kind};
use super::log::{fresh_salt, segment_number, snapshot_name, snapshot_number, temporary};
use super::writer::FileWriter;
use super::{Disk, LogError};

/// Writes a snapshot: a file of records that a start replays instead of the earlier segments. A
/// start ignores it until it is finished. If it is dropped before, its file is removed.
pub struct SnapshotWriter {
    disk: Arc<dyn Disk>,
    file: FileWriter,
    number: u64,
    finished: bool,
}

impl SnapshotWriter {
    /// Starts a snapshot that will replace all segments below `number`
    /// ([`Log::rotate`](super::Log::rotate)).
    ///
    /// # Errors
    /// [`LogError::Io`].
    pub fn create(disk: Arc<dyn Disk>, number: u64) -> Result<Self, LogError> {
        let header = FileHeader {
            kind: Kind::Snapshot,
            number,
            salt: fresh_salt(),
            previous: 0,
            previous_synced: false,
        };
        let name = temporary(&snapshot_name(number));
        let file = FileWriter::create(&disk, name, header, 0)?;
        Ok(Self {
            disk,
            file,
            number,
            finished: false,
        })
    }

    /// Appends a payload of at least one byte.
    ///
    /// # Errors
    /// [`LogError::TooLarge`], [`LogError::Io`].
    pub fn push(&mut self, payload: &[u8]) -> Result<(), LogError> {
        debug_assert!(!payload.is_empty(), "an empty record ends a snapshot");
        self.file.push(payload)
    }

    /// Makes the snapshot durable, then removes the segments and snapshots that it replaces.
    /// Returns its size in bytes.
    ///
    /// # Errors
    /// [`LogError::Io`].
    pub fn finish(mut self) -> Result<u64, LogError> {
        self.file.push(&[])?;
        self.file.write()?;
        self.file.sync()?;
        self.file.publish(snapshot_name(self.number))?;
        self.finished = true;
        remove_older(&*self.disk, self.number)?;
        Ok(self.file.end())
    }
}

impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        if !self.finished {
            // The next start would remove it, too, but its space may be needed earlier.
            drop(self.disk.remove(&temporary(&snapshot_name(self.number))));
        }
    }
}

/// Removes segments and snapshots with a number below that of a durable snapshot.
pub(crate) fn remove_older(disk: &dyn Disk, number: u64) -> Result<(), LogError> {
    let failed = |action, name: &str| {
        let file = disk.path(name);
        move |source| LogError::Io {
            action,
            file,
            source,
        }
    };
    let names = disk.names().map_err(failed("list", ""))?;
    for name in names {
        let found = segment_number(&name).or_else(|| snapshot_number(&name));
        if found.is_some_and(|found| found < number) {
            disk.remove(&name).map_err(failed("remove", &name))?;
        }
    }
    Ok(())
}
