//! Reads and verifies the records of one file, a block at a time.

use bytes::{Bytes, BytesMut};

use super::format::{
    FILE_HEADER_BYTES, FileHeader, RECORD_HEADER_BYTES, RecordHeader, SaltedCrc, aligned,
};
use super::{Disk, DiskFile, LogError};

/// Bytes that are read at once: few enough that the replay finds them in the processor's cache.
pub(crate) const BLOCK_BYTES: usize = 1024 * 1024;

/// Payloads that were read together.
pub(crate) struct Block {
    /// The bytes of the file.
    bytes: Bytes,
    /// Each payload, a part of `bytes`, with the offset of its record in the file.
    pub(crate) payloads: Vec<(u64, Bytes)>,
}

impl Block {
    /// Returns the memory of the block, to read another one into. Empty if a payload is still
    /// referenced.
    pub(crate) fn into_buffer(self) -> BytesMut {
        drop(self.payloads);
        self.bytes.try_into_mut().unwrap_or_default()
    }
}

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
        let mut head = BytesMut::zeroed(FILE_HEADER_BYTES);
        fill(disk, &*file, &name, 0, &mut head)?;
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
    pub(crate) fn read(&self, at: u64, bytes: usize) -> Result<BytesMut, LogError> {
        self.read_into(BytesMut::new(), at, bytes)
    }

    /// Reads as [`FileReader::read`] does, into memory that was used before.
    fn read_into(&self, mut buffer: BytesMut, at: u64, bytes: usize) -> Result<BytesMut, LogError> {
        buffer.resize(bytes, 0);
        fill(self.disk, &*self.file, &self.name, at, &mut buffer)?;
        Ok(buffer)
    }

    /// Reads the next block into `buffer`. Without payloads at the end of the records.
    pub(crate) fn next_block(&mut self, mut buffer: BytesMut) -> Result<Block, LogError> {
        let begin = self.at;
        let mut bytes = BLOCK_BYTES;
        loop {
            let mut block = Block {
                bytes: self.read_into(buffer, begin, bytes)?.freeze(),
                payloads: Vec::new(),
            };
            let longest = self.parse(&block.bytes, begin, &mut block.payloads);
            let left = self.size.saturating_sub(begin);
            // The first record is longer than a block: read all of it, unless it is longer than the
            // rest of the file, which is impossible.
            let wants_more = block.payloads.is_empty() && longest > block.bytes.len() as u64;
            if !wants_more || longest > left {
                return Ok(block);
            }
            bytes = longest as usize;
            buffer = block.into_buffer();
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
        let rest = match self.content_end()? {
            None => Tail::Zeros,
            Some(to) => {
                // To the end of the file, since a later record may end in zeros.
                let left = usize::try_from(self.size - self.at).unwrap_or(usize::MAX);
                let rest = self.read(self.at, left)?;
                Tail::Bad {
                    to,
                    synced_before: self.synced_before(&rest),
                }
            }
        };
        Ok(End {
            at: self.at,
            chain: self.chain,
            synced: self.synced,
            rest,
        })
    }

    /// Returns the end of the last byte after the records that is not zero, if there is one. What
    /// is reserved may be a whole segment, so it is read by blocks.
    fn content_end(&self) -> Result<Option<u64>, LogError> {
        let mut end = None;
        let mut buffer = BytesMut::new();
        let mut at = self.at;
        loop {
            buffer = self.read_into(buffer, at, BLOCK_BYTES)?;
            if buffer.is_empty() {
                return Ok(end);
            }
            // Without an early exit the compiler tests many bytes at once.
            if buffer.iter().fold(0, |all, byte| all | byte) != 0 {
                let last = buffer.iter().rposition(|byte| *byte != 0);
                end = last.map(|last| at + last as u64 + 1);
            }
            at += buffer.len() as u64;
        }
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

/// Fills a buffer from an offset on, or shortens it to what the file has.
fn fill(
    disk: &dyn Disk,
    file: &dyn DiskFile,
    name: &str,
    at: u64,
    buffer: &mut BytesMut,
) -> Result<(), LogError> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], at + filled as u64) {
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
    buffer.truncate(filled);
    Ok(())
}
