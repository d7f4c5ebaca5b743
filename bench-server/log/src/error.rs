//! What can go wrong with a log.

use std::io;

use super::MAX_PAYLOAD_BYTES;

/// Why a log cannot be opened, or cannot go on. After the first error nothing more is written.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// A call to the operating system failed.
    #[error("cannot {action} {file}: {source}")]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// The file or directory.
        file: String,
        /// The system's reason.
        source: io::Error,
    },
    /// Another process keeps its log there.
    #[error("{directory} is locked by another server: two servers cannot share a data directory")]
    Locked {
        /// The directory.
        directory: String,
    },
    /// Bytes that were once synced are no longer what was written.
    #[error(
        "{file} is corrupt at offset {offset}: {reason}; nothing was changed. Restore the file from a copy, or move the \
         directory away to start empty"
    )]
    Corrupt {
        /// The file.
        file: String,
        /// Where the first bad byte may be.
        offset: u64,
        /// What was expected.
        reason: String,
    },
    /// A record that cannot be written, since its length would not be believed.
    #[error("a record of {bytes} bytes exceeds the log's limit of {MAX_PAYLOAD_BYTES}")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// An earlier call failed: whether its bytes are on the disk is not known.
    #[error("the log has failed before")]
    Failed,
}
