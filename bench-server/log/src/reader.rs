//! Reads and verifies the records of one file, a block at a time.

use bytes::Bytes;

use super::format::{
    FILE_HEADER_BYTES, FileHeader, RECORD_HEADER_BYTES, RecordHeader, SaltedCrc, aligned,
};
use super::{Disk, DiskFile, LogError};

/// Bytes that are read at once.
const BLOCK_BYTES: usize = 4 * 1024 * 1024;

/// Reads one file from its first record on.
pub(crate) struct FileReader<'a> {
    disk: &'a dyn Disk,
    file: Box<dyn DiskFile>,
    name: String,
    pub(crate) header: FileHeader,
    salted: SaltedCrc,
    /// The chain of checksums after the last record.
    chain: u32,
    /// Length of the file.
    size: u64,
    /// The offset of the next record.
    at: u64,
    /// The offset below which the file was durable when the last record was written.
    synced: u64,
}

/// The end of a file's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    /// The offset of the end of the last record.
    pub(crate) at: u64,
    /// The chain of checksums at that offset.
    pub(crate) chain: u32,
    /// The offset below which the file was durable when the last record was written.
    pub(crate) synced: u64,
    /// The content after that offset.
    pub(crate) rest: Tail,
}

/// The content after the last record that verifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tail {
    /// Only zeros, as reserved, or nothing.
    Zeros,
    /// Bytes that do not verify.
    Bad {
        to: u64,
        /// The offset of a later record that was written after a sync had covered the start of
        /// these bytes.
        synced_before: Option<u64>,
    },
}

impl<'a> FileReader<'a> {
    pub(crate) fn open(disk: &'a dyn Disk, name: String) -> Result<Self, LogError> {
        let failed = |source| LogError::Io {
            action: "open",
            file: disk.path(&name),
            source,
        };
        let file = disk.open(&name).map_err(failed)?;
        let size = file.size().map_err(failed)?;
        let head = read(disk, &*file, &name, 0, FILE_HEADER_BYTES)?;
        let header = FileHeader::parse(&head).map_err(|reason| LogError::Corrupt {
            file: disk.path(&name),
            offset: 0,
            reason: reason.to_owned(),
        })?;
        Ok(Self {
            disk,
            file,
            name,
            header,
            salted: header.salted(),
            chain: header.chain(),
            size,
            at: FILE_HEADER_BYTES as u64,
            synced: FILE_HEADER_BYTES as u64,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the offset of the next record.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    pub(crate) fn file(&self) -> &dyn DiskFile {
        &*self.file
    }

    /// Returns the error for corruption at an offset of this file.
    pub(crate) fn corrupt(&self, offset: u64, reason: impl Into<String>) -> LogError {
        LogError::Corrupt {
            file: self.disk.path(&self.name),
            offset,
            reason: reason.into(),
        }
    }

    /// Reads up to `bytes` from an offset on; fewer if the file ends before.
    pub(crate) fn read(&self, at: u64, bytes: usize) -> Result<Vec<u8>, LogError> {
        read(self.disk, &*self.file, &self.name, at, bytes)
    }

    /// Returns the payloads of the next block, each with the offset of its record. Empty at the end
    /// of the records.
    pub(crate) fn next_block(&mut self) -> Result<Vec<(u64, Bytes)>, LogError> {
        let begin = self.at;
        let mut bytes = BLOCK_BYTES;
        loop {
            let block = Bytes::from(self.read(begin, bytes)?);
            let mut payloads = Vec::new();
            let longest = self.parse(&block, begin, &mut payloads);
            let left = self.size.saturating_sub(begin);
            // The first record is longer than a block: read all of it, unless it is longer than the
            // rest of the file, which is impossible.
            let wants_more = payloads.is_empty() && longest > block.len() as u64;
            if wants_more && longest <= left {
                bytes = longest as usize;
                continue;
            }
            return Ok(payloads);
        }
    }

    /// Adds all complete records of a block to `payloads`. Returns the length of the incomplete
    /// record at the end; 0 if there is none or it does not verify.
    fn parse(&mut self, block: &Bytes, begin: u64, payloads: &mut Vec<(u64, Bytes)>) -> u64 {
        loop {
            let at = (self.at - begin) as usize;
            let rest = block.get(at..).unwrap_or_default();
            let Some(header) = RecordHeader::parse(rest, self.salted) else {
                return 0;
            };
            let payload = RECORD_HEADER_BYTES..RECORD_HEADER_BYTES + header.length as usize;
            let Some(found) = rest.get(payload.clone()) else {
                return header.record_bytes();
            };
            if header.previous != self.chain || !header.verifies(found, self.salted) {
                return 0;
            }
            payloads.push((self.at, block.slice(at + payload.start..at + payload.end)));
            self.at += header.record_bytes();
            self.chain = header.chain;
            self.synced = self.synced.max(header.synced.into());
        }
    }

    /// Returns the content after the records. Call it once [`FileReader::next_block`] has returned
    /// none. Reads the rest of the file.
    pub(crate) fn end(&self) -> Result<End, LogError> {
        let left = usize::try_from(self.size.saturating_sub(self.at)).unwrap_or(0);
        let rest = self.read(self.at, left)?;
        let end = |rest| End {
            at: self.at,
            chain: self.chain,
            synced: self.synced,
            rest,
        };
        let Some(last) = rest.iter().rposition(|byte| *byte != 0) else {
            return Ok(end(Tail::Zeros));
        };
        Ok(end(Tail::Bad {
            to: self.at + last as u64 + 1,
            synced_before: self.synced_before(&rest),
        }))
    }

    /// Searches the bytes after the first bad byte for a record that was written after everything
    /// before this byte was durable. Returns the record's offset.
    fn synced_before(&self, rest: &[u8]) -> Option<u64> {
        let mut at = 0;
        while at + RECORD_HEADER_BYTES <= rest.len() {
            if let Some(header) = RecordHeader::parse(&rest[at..], self.salted) {
                let offset = self.at + at as u64;
                let payload = &rest[at + RECORD_HEADER_BYTES..];
                let whole = payload
                    .get(..header.length as usize)
                    .is_some_and(|payload| header.verifies(payload, self.salted));
                if whole && u64::from(header.synced) > self.at {
                    return Some(offset);
                }
            }
            at = aligned(at as u64 + 1) as usize;
        }
        None
    }
}

/// Reads `bytes` from an offset on, or as many as the file has.
fn read(
    disk: &dyn Disk,
    file: &dyn DiskFile,
    name: &str,
    at: u64,
    bytes: usize,
) -> Result<Vec<u8>, LogError> {
    let mut out = vec![0; bytes];
    let mut filled = 0;
    while filled < bytes {
        match file.read_at(&mut out[filled..], at + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(source) => {
                return Err(LogError::Io {
                    action: "read",
                    file: disk.path(name),
                    source,
                });
            }
        }
    }
    out.truncate(filled);
    Ok(out)
}
