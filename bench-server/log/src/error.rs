//! The errors of a log.

use std::io;

use super::MAX_PAYLOAD_BYTES;

/// The error that prevents opening a log or ends it. After the first error nothing more is written.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// A call to the operating system failed.
    #[error("cannot {action} {file}: {source}")]
    Io {
        /// The attempted action, as a verb.
        action: &'static str,
        /// The file or directory.
        file: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// Another process keeps its log there.
    #[error("{directory} is locked by another server: two servers cannot share a data directory")]
    Locked {
        /// The directory.
        directory: String,
    },
    /// Synced bytes have changed since.
    #[error(
        "{file} is corrupt at offset {offset}: {reason}; nothing was changed. Restore the file from a copy, or move the \
         directory away to start empty"
    )]
    Corrupt {
        /// The file.
        file: String,
        /// The offset at which the first bad byte may be.
        offset: u64,
        /// What was expected.
        reason: String,
    },
    /// A record is too large to be written: a reader would reject its length.
    #[error("a record of {bytes} bytes exceeds the log's limit of {MAX_PAYLOAD_BYTES}")]
    TooLarge {
        /// The record's size.
        bytes: usize,
    },
    /// An earlier call failed, so it is unknown whether its bytes are on the disk.
    #[error("the log has failed before")]
    Failed,
}
