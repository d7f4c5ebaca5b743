//! The ways in which a small request can fail.

use etcd_api::error::Error as EtcdError;
use kube_api::client::KubeError;
use workloads::SmallRequest;

use crate::record::Class;

/// The failure of a small request.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The call failed.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    /// The Kubernetes API could not be reached, or the connection broke.
    #[error(transparent)]
    Kube(#[from] KubeError),
    /// The Kubernetes API refused. The text is the same for all objects, so that errors are counted
    /// by status and reason.
    #[error("{request}: {status} {reason}: {message}")]
    Status {
        /// The kind of request.
        request: SmallRequest,
        /// The HTTP status.
        status: u16,
        /// The reason of its Status, as in `Conflict`; empty if the response is no Status.
        reason: String,
        /// The message of its Status, with NAME for the object's name.
        message: String,
    },
    /// The response of the Kubernetes API is not the requested object.
    #[error("{request}: the response is not the object: {reason}")]
    NotTheObject {
        /// The kind of request.
        request: SmallRequest,
        /// A description of how it differs.
        reason: String,
    },
    /// A resourceVersion did not grow.
    #[error("{request}: stale resourceVersion: {found} after {before}")]
    Version {
        /// The kind of request.
        request: SmallRequest,
        /// The resourceVersion in the response.
        found: i64,
        /// The object's resourceVersion before the request was sent.
        before: i64,
    },
    /// The response's protobuf cannot be decoded, or lacks what its request asks for.
    #[error("a response that cannot be decoded, or lacks what its request asks for")]
    Malformed,
    /// The response is not the object that was written.
    #[error("the response for {key} is not the object that was written")]
    Altered {
        /// The object's key.
        key: String,
    },
    /// A write was acknowledged and is lost.
    #[error(
        "a write of {key} was acknowledged at revision {acknowledged}, and the key is at {found}"
    )]
    Lost {
        /// The object's key.
        key: String,
        /// The revision of its latest acknowledged write.
        acknowledged: i64,
        /// The revision that was read afterwards.
        found: i64,
    },
    /// A linearizable get returned an older revision than a request that had ended before it was
    /// sent. The text is the same for all of them, because errors are counted by their text.
    #[error(
        "stale read: a get returned an older revision than a request that ended before it was sent"
    )]
    OldRead,
    /// A count differs from that of the data set.
    #[error("{found} keys were counted where {written} were written")]
    Miscounted {
        /// The count in the response.
        found: i64,
        /// The number of keys in the data set.
        written: i64,
    },
    /// A request for a key or lease without other writers was refused, as by a failed comparison.
    #[error("a {request} of {key} was refused: the key is at revision {found}")]
    Refused {
        /// The kind of request.
        request: SmallRequest,
        /// The key.
        key: String,
        /// The key's revision; 0 if it does not exist, or was not read.
        found: i64,
    },
    /// A range held another number of keys than were created in it.
    #[error("{deleted} keys were deleted from {key} on, where {there} had been created")]
    Deleted {
        /// The first key of the range.
        key: String,
        /// The number of keys deleted.
        deleted: u64,
        /// The number of keys created.
        there: u64,
    },
    /// A transaction was retried too often, because its key had changed each time.
    #[error("gave up after {retries} retries: another client changed the key each time")]
    Contended {
        /// The number of retries.
        retries: u32,
    },
    /// A write did not get a later revision than the data before it.
    #[error("a put returned revision {revision}, not later than the data at {after}")]
    Stale {
        /// The revision in the response.
        revision: i64,
        /// The revision of the data.
        after: i64,
    },
}

impl CallError {
    /// Returns the class of the error, which says what it means for the target.
    pub(crate) fn class(&self) -> Class {
        match self {
            Self::Etcd(error) => Class::of_etcd(error),
            Self::Kube(KubeError::Connection { .. }) => Class::Disconnected,
            Self::Kube(KubeError::Timeout(_)) => Class::TimedOut,
            Self::Status { status, .. } => Class::of_status(*status),
            _ => Class::Wrong,
        }
    }
}
