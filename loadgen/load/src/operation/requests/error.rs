//! How small requests fail.

use etcd_api::error::Error as EtcdError;
use kube_api::client::KubeError;
use workloads::SmallRequest;

use crate::record::Class;

/// How a small request failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The call failed.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    /// The Kubernetes API could not be reached, or the connection broke.
    #[error(transparent)]
    Kube(#[from] KubeError),
    /// The Kubernetes API refused. The same for all objects, so that it is counted by status and
    /// reason.
    #[error("{request}: {status} {reason}: {message}")]
    Status {
        /// What was asked for.
        request: SmallRequest,
        /// HTTP status.
        status: u16,
        /// The reason of its Status, as `Conflict`; empty where the response is none.
        reason: String,
        /// The message of its Status, with NAME for the object's name.
        message: String,
    },
    /// A response of the Kubernetes API that is not the object.
    #[error("{request}: the response is not the object: {reason}")]
    NotTheObject {
        /// What was asked for.
        request: SmallRequest,
        /// What is wrong.
        reason: String,
    },
    /// A resourceVersion that does not grow.
    #[error("{request}: resourceVersion {found} was answered where {before} had been before")]
    Version {
        /// What was asked for.
        request: SmallRequest,
        /// What was answered.
        found: i64,
        /// The object's before the request was sent.
        before: i64,
    },
    /// A response whose protobuf cannot be decoded, or lacks what its request asks for.
    #[error("a response that cannot be decoded, or lacks what its request asks for")]
    Malformed,
    /// The answer is not what is stored.
    #[error("the answer for {key} is not the object that was written")]
    Altered {
        /// Its key.
        key: String,
    },
    /// A write that was acknowledged, and is not there.
    #[error(
        "a write of {key} was acknowledged at revision {acknowledged}, and the key is at {found}"
    )]
    Lost {
        /// Its key.
        key: String,
        /// Revision of the latest put of it.
        acknowledged: i64,
        /// Revision that was read afterwards.
        found: i64,
    },
    /// A linearizable get that is older than what another request had been answered with before it
    /// was sent. The text is the same for all of them, since errors are counted by it.
    #[error(
        "a get was answered with an older revision than a request that ended before it was sent"
    )]
    OldRead,
    /// A count that is not that of the data set.
    #[error("{found} keys were counted where {written} were written")]
    Miscounted {
        /// What was answered.
        found: i64,
        /// How many there are.
        written: i64,
    },
    /// A transaction on a key without other writers failed its compare.
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

impl CallError {
    /// Returns what it says of the target.
    pub(crate) fn class(&self) -> Class {
        match self {
            Self::Etcd(error) => Class::of_etcd(error),
            Self::Kube(KubeError::Connection { .. }) => Class::Disconnected,
            Self::Status { status, .. } => Class::of_status(*status),
            _ => Class::Wrong,
        }
    }
}
