//! Appends records to one file.

use std::io;
use std::sync::Arc;

use super::format::{FileHeader, SaltedCrc, put_record, record_bytes};
use super::{Disk, DiskFile, LogError, MAX_PAYLOAD_BYTES};

/// Size from which on the buffer is written, bytes.
const BUFFER_BYTES: usize = 1024 * 1024;

/// A file that records are appended to. After an error it must not be used any more.
pub(crate) struct FileWriter {
    disk: Arc<dyn Disk>,
    file: Box<dyn DiskFile>,
    name: String,
    salted: SaltedCrc,
    /// Checksum of the last header.
    chain: u32,
    /// Bytes written to the file.
    written: u64,
    /// The part of `written` that is durable, bytes.
    synced: u64,
    /// Records that are not written yet.
    buffer: Vec<u8>,
}

impl FileWriter {
    /// Creates a file with a header and reserves `bytes`.
    pub(crate) fn create(
        disk: &Arc<dyn Disk>,
        name: String,
        header: FileHeader,
        bytes: u64,
    ) -> Result<Self, LogError> {
        let file = disk.create(&name, bytes);
        let file = file.map_err(|source| LogError::Io {
            action: "create and reserve",
            file: disk.path(&name),
            source,
        })?;
        let mut writer = Self {
            disk: disk.clone(),
            file,
            name,
            salted: header.salted(),
            chain: header.chain(),
            written: 0,
            synced: 0,
            buffer: header.to_bytes().to_vec(),
        };
        writer.write()?;
        Ok(writer)
    }

    /// Renames the file to its final name, durably. Everything written must be synced.
    pub(crate) fn publish(&mut self, name: String) -> Result<(), LogError> {
        let renamed = self.disk.rename(&self.name, &name);
        renamed.map_err(self.failed("rename"))?;
        self.disk
            .sync_names()
            .map_err(self.failed("sync the directory of"))?;
        self.name = name;
        Ok(())
    }

    pub(crate) fn chain(&self) -> u32 {
        self.chain
    }

    /// Returns the offset of the next record.
    pub(crate) fn end(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Returns whether a payload fits into the first `bytes` of the file.
    pub(crate) fn has_room(&self, payload: usize, bytes: u64) -> bool {
        self.end() + record_bytes(payload) <= bytes
    }

    /// Appends a record to the buffer. [`FileWriter::write`] writes it, or this function when the
    /// buffer is large.
    pub(crate) fn push(&mut self, payload: &[u8]) -> Result<(), LogError> {
        if payload.len() > MAX_PAYLOAD_BYTES {
            return Err(LogError::TooLarge {
                bytes: payload.len(),
            });
        }
        let (salted, chain) = (self.salted, self.chain);
        self.chain = put_record(&mut self.buffer, salted, chain, self.synced, payload);
        match self.buffer.len() >= BUFFER_BYTES {
            true => self.write(),
            false => Ok(()),
        }
    }

    /// Passes the buffer to the operating system. If this fails, the part that was written is cut
    /// off again.
    pub(crate) fn write(&mut self) -> Result<(), LogError> {
        if let Err(source) = write_all(&*self.file, &self.buffer, self.written) {
            // The file is not written to again, whether it could be truncated or not.
            drop(self.file.set_len(self.written));
            return Err(self.failed("write to")(source));
        }
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_BYTES);
        Ok(())
    }

    /// Makes everything written durable.
    pub(crate) fn sync(&mut self) -> Result<(), LogError> {
        self.file.sync().map_err(self.failed("sync"))?;
        self.synced = self.written;
        Ok(())
    }

    fn failed(&self, action: &'static str) -> impl FnOnce(io::Error) -> LogError + use<> {
        let file = self.disk.path(&self.name);
        move |source| LogError::Io {
            action,
            file,
            source,
        }
    }
}

/// Writes all bytes at an offset.
pub(crate) fn write_all(file: &dyn DiskFile, bytes: &[u8], at: u64) -> io::Result<()> {
    let mut written = 0;
    while written < bytes.len() {
        match file.write_at(&bytes[written..], at + written as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(some) => written += some,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
