//! Segments one after the other.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use super::format::{FILE_HEADER_BYTES, FileHeader, Kind, record_bytes};
use super::writer::FileWriter;
use super::{Disk, LogError};

/// How a log is kept.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Size of a segment. One that is begun for a larger record is as large as that needs.
    pub segment_bytes: u64,
    /// Whether a segment is synced before the next one is begun, and what was replayed before
    /// anything is appended. Without, records that come after a torn one are cut off, too, at the
    /// next start.
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
    /// Of the segments before.
    earlier_bytes: u64,
    failed: bool,
}

impl Log {
    /// Begins segment `number` behind what stands at `previous`.
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

    /// Returns the bytes of all segments that a start would read.
    pub fn bytes(&self) -> u64 {
        self.earlier_bytes + self.segment.end()
    }

    /// Returns the number of the segment that is being written.
    pub fn segment(&self) -> u64 {
        self.number
    }

    /// Appends a record, in a new segment where this one has no room. It is handed to the operating
    /// system by [`Log::write`], or before when much waits.
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

    /// Hands everything that was appended to the operating system: it survives the end of this
    /// process.
    ///
    /// # Errors
    /// [`LogError::Io`]; the half of a record is cut off again.
    pub fn write(&mut self) -> Result<(), LogError> {
        self.attempt(|log| log.segment.write())
    }

    /// Makes durable everything that was written: it survives a power cut. Without [`Config::sync`]
    /// that is the last segment only.
    ///
    /// # Errors
    /// [`LogError::Io`]. What was written since the last sync may be lost, whatever a later sync
    /// would say.
    pub fn sync(&mut self) -> Result<(), LogError> {
        self.attempt(|log| log.segment.sync())
    }

    /// Ends the segment, so that a snapshot can stand for it and those before; returns the next
    /// one's number.
    ///
    /// # Errors
    /// [`LogError::Io`].
    pub fn rotate(&mut self) -> Result<u64, LogError> {
        self.attempt(|log| log.next_segment(0))?;
        Ok(self.number)
    }

    /// Notes that a snapshot of `bytes` stands for what were the first `before` bytes.
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

/// Creates a segment: under another name until its header is durable, so that one that is there can
/// be read.
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

/// Returns a number that no other file has, as good as surely: the standard library's hash keys are
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
