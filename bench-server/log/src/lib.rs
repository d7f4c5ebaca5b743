//! A log on disk: segments of records, appended, synced, replayed, truncated. It knows nothing of
//! what a record means.
//!
//! - [`disk`]: the file calls that everything else is made of, and a directory that makes them
//! - `format`: file headers and records as bytes
//! - `writer`: records at the end of one file
//! - [`log`]: segments one after the other
//! - `reader`: the records of one file, verified
//! - [`recovery`]: what a start finds, and what it makes of an end that does not verify
//! - [`snapshot`]: a file that stands for all segments before one
//!
//! A record that was synced is never given up in silence: where one does not verify and something
//! written after its sync is there, opening fails and names file and offset. An end that no sync
//! has covered may be torn; it is copied aside and cut.

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
