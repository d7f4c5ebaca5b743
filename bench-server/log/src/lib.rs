//! A log on disk, in segments of records: append, sync, replay, truncate. Records are opaque to it.
//!
//! - [`disk`]: the file operations that a log needs, and their implementation for a directory
//! - `format`: the bytes of file headers and records
//! - `writer`: appends records to one file
//! - [`log`]: appends records to a sequence of segments
//! - `reader`: reads and verifies the records of one file
//! - [`recovery`]: opens a log: replays its files, and cuts an end that does not verify
//! - [`snapshot`]: a file that replaces all segments before a given one
//!
//! A synced record is never dropped silently. If one does not verify although something was written
//! after its sync, opening the log fails with file and offset. An end that no sync has covered may
//! be torn; it is copied to another file and cut.

pub mod disk;
mod error;
mod format;
pub mod log;
mod reader;
pub mod recovery;
pub mod snapshot;
#[cfg(test)]
mod tests;
mod writer;

pub use disk::{Directory, Disk, DiskFile};
pub use error::LogError;
pub use format::MAX_PAYLOAD_BYTES;
pub use log::{Config, Log};
pub use recovery::{Cut, Opened, Recovery, Replayed};
pub use snapshot::SnapshotWriter;
