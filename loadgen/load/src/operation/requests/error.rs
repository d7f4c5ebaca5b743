//! How small requests fail.

use etcd_api::error::Error as EtcdError;
use workloads::SmallRequest;

/// How a small request failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The call failed.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    /// The answer is not one.
    #[error("an answer that cannot be read")]
    Malformed,
    /// The answer is not what is stored.
    #[error("the answer for {key} is not the object that was written")]
    Altered {
        /// Its key.
        key: String,
    },
    /// A write that was acknowledged, and is not there.
    #[error(
        "a put of {key} was acknowledged at revision {acknowledged}, and the key is at {found}"
    )]
    Lost {
        /// Its key.
        key: String,
        /// Revision of the latest put of it.
        acknowledged: i64,
        /// Revision that was read afterwards.
        found: i64,
    },
    /// A count that is not that of the data set.
    #[error("{found} keys were counted where {written} were written")]
    Miscounted {
        /// What was answered.
        found: i64,
        /// How many there are.
        written: i64,
    },
    /// A transaction on a key that nobody else writes, and that did not find it as it was left.
    #[error("a {request} of {key} was refused: the key is at revision {found}")]
    Refused {
        /// What it was to do.
        request: SmallRequest,
        /// Its key.
        key: String,
        /// The key's revision; 0 where it is not there, or was not read.
        found: i64,
    },
    /// A range that held another number of keys than were created in it.
    #[error("{deleted} keys were deleted from {key} on, where {there} had been created")]
    Deleted {
        /// The first of the range.
        key: String,
        /// How many were deleted.
        deleted: u64,
        /// How many there were.
        there: u64,
    },
    /// A transaction that never found its key as it had been read.
    #[error("a key that changed each time before it could be updated")]
    Contended,
    /// A write that did not get a later revision than the data before it.
    #[error("a put was answered with revision {revision}, and the data is at {after} already")]
    Stale {
        /// What was answered.
        revision: i64,
        /// What came before.
        after: i64,
    },
}
