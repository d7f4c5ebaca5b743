//! Appends records to a sequence of segments.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use super::format::{FILE_HEADER_BYTES, FileHeader, Kind, record_bytes};
use super::writer::FileWriter;
use super::{Disk, LogError};

/// The configuration of a log.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Size of a segment. A segment that is started for a larger record has the size that the
    /// record needs.
    pub segment_bytes: u64,
    /// Whether to sync a segment before the next one is started, and everything replayed before
    /// anything is appended. Without these syncs, the next start also cuts the records after a torn
    /// one.
    pub sync: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            segment_bytes: 64 * 1024 * 1024,
            sync: true,
        }
    }
}

/// A log that is appended to. After the first error every call returns [`LogError::Failed`].
pub struct Log {
    disk: Arc<dyn Disk>,
    config: Config,
    number: u64,
    segment: FileWriter,
    /// Bytes of the snapshot and of the earlier segments.
    earlier_bytes: u64,
    failed: bool,
}

impl Log {
    /// Starts segment `number`, which continues the chain `previous`.
    pub(crate) fn begin(
        disk: Arc<dyn Disk>,
        config: Config,
        number: u64,
        previous: u32,
        earlier_bytes: u64,
    ) -> Result<Self, LogError> {
        let segment = create(&disk, config, number, previous, config.segment_bytes)?;
        Ok(Self {
            disk,
            config,
            number,
            segment,
            earlier_bytes,
            failed: false,
        })
    }

    /// Returns the bytes that a start would read: the snapshot and all segments.
    pub fn bytes(&self) -> u64 {
        self.earlier_bytes + self.segment.end()
    }

    /// Returns the number of the segment that is being written.
    pub fn segment(&self) -> u64 {
        self.number
    }

    /// Appends a record, in a new segment if the current one has no room. [`Log::write`] passes it
    /// to the operating system, or an earlier call when the buffer is large.
    ///
    /// # Errors
    /// [`LogError::TooLarge`], [`LogError::Io`].
    pub fn append(&mut self, payload: &[u8]) -> Result<(), LogError> {
        self.attempt(|log| {
            if !log
                .segment
                .has_room(payload.len(), log.config.segment_bytes)
                && log.segment.end() > FILE_HEADER_BYTES as u64
            {
                let needed = FILE_HEADER_BYTES as u64 + record_bytes(payload.len());
                log.next_segment(needed)?;
            }
            log.segment.push(payload)
        })
    }

    /// Passes everything appended to the operating system, so that it survives the end of this
    /// process.
    ///
    /// # Errors
    /// [`LogError::Io`]. The part of the buffer that was written is then cut off again.
    pub fn write(&mut self) -> Result<(), LogError> {
        self.attempt(|log| log.segment.write())
    }

    /// Makes everything written durable, so that it survives a power cut. Without [`Config::sync`]
    /// this covers only the last segment.
    ///
    /// # Errors
    /// [`LogError::Io`]. Everything written since the last sync may be lost, even if a later sync
    /// would succeed.
    pub fn sync(&mut self) -> Result<(), LogError> {
        self.attempt(|log| log.segment.sync())
    }

    /// Ends the current segment, so that a snapshot can replace it and the earlier ones. Returns
    /// the number of the next segment.
    ///
    /// # Errors
    /// [`LogError::Io`].
    pub fn rotate(&mut self) -> Result<u64, LogError> {
        self.attempt(|log| log.next_segment(0))?;
        Ok(self.number)
    }

    /// Records that a snapshot of `bytes` replaces the first `before` bytes.
    pub fn snapshot_taken(&mut self, before: u64, bytes: u64) {
        self.earlier_bytes = self.earlier_bytes.saturating_sub(before) + bytes;
    }

    fn next_segment(&mut self, bytes: u64) -> Result<(), LogError> {
        self.segment.write()?;
        if self.config.sync {
            self.segment.sync()?;
        }
        let bytes = bytes.max(self.config.segment_bytes);
        let chain = self.segment.chain();
        let next = create(&self.disk, self.config, self.number + 1, chain, bytes)?;
        self.earlier_bytes += self.segment.end();
        self.segment = next;
        self.number += 1;
        Ok(())
    }

    fn attempt(
        &mut self,
        action: impl FnOnce(&mut Self) -> Result<(), LogError>,
    ) -> Result<(), LogError> {
        if self.failed {
            return Err(LogError::Failed);
        }
        let outcome = action(self);
        self.failed = outcome.is_err();
        outcome
    }
}

/// Creates a segment, under a temporary name until its header is durable, so that a segment with
/// its final name is always readable.
fn create(
    disk: &Arc<dyn Disk>,
    config: Config,
    number: u64,
    previous: u32,
    bytes: u64,
) -> Result<FileWriter, LogError> {
    let header = FileHeader {
        kind: Kind::Segment,
        number,
        salt: fresh_salt(),
        previous,
        previous_synced: config.sync,
    };
    let name = segment_name(number);
    let mut segment = FileWriter::create(disk, temporary(&name), header, bytes)?;
    segment.sync()?;
    segment.publish(name)?;
    Ok(segment)
}

/// Returns a number that almost certainly no other file has: the standard library's hash keys are
/// random.
pub(crate) fn fresh_salt() -> u64 {
    RandomState::new().hash_one(())
}

const SEGMENT: &str = ".log";
const SNAPSHOT: &str = ".snapshot";
const TEMPORARY: &str = ".tmp";

pub(crate) fn segment_name(number: u64) -> String {
    format!("{number:016}{SEGMENT}")
}

pub(crate) fn snapshot_name(number: u64) -> String {
    format!("{number:016}{SNAPSHOT}")
}

pub(crate) fn temporary(name: &str) -> String {
    format!("{name}{TEMPORARY}")
}

pub(crate) fn is_temporary(name: &str) -> bool {
    name.ends_with(TEMPORARY)
}

/// Returns the number in a segment's name; `None` for other names.
pub(crate) fn segment_number(name: &str) -> Option<u64> {
    name.strip_suffix(SEGMENT)?.parse().ok()
}

/// Returns the number in a snapshot's name; `None` for other names.
pub(crate) fn snapshot_number(name: &str) -> Option<u64> {
    name.strip_suffix(SNAPSHOT)?.parse().ok()
}
