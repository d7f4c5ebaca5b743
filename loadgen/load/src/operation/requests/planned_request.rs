//! One request and its outcome.

use workloads::SmallRequest;

use crate::operation::own_keys::OwnKey;

/// A request for an object of the data set, for a connection's own key or lease, or for a
/// compaction.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PlannedRequest {
    /// A request for an object.
    Object {
        request: SmallRequest,
        /// The object's index.
        object: usize,
        /// The latest revision of the object in any linearizable response before this was planned,
        /// which a linearizable read must return or exceed; 0 if there was none. Always 0 through
        /// Kubernetes' API, whose responses are checked against what the load knew when it sent the
        /// request.
        at_least: i64,
        /// The number of the operation.
        n: u64,
    },
    /// A request for one of the connection's own keys or leases.
    Own(OwnKey),
    /// A compaction to this revision.
    Compact(i64),
}

impl PlannedRequest {
    /// Returns the kind of request.
    pub(crate) fn request(self) -> SmallRequest {
        match self {
            Self::Object { request, .. } => request,
            Self::Own(key) => key.request,
            Self::Compact(_) => SmallRequest::Compact,
        }
    }
}

/// The outcome of a request whose response is right.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Checked {
    /// The revision at which the request wrote an object of the data set.
    pub(crate) rewritten_at: Option<i64>,
    /// The revision at which the request created a key; above 0 if it granted a lease.
    pub(crate) created_at: Option<i64>,
    /// Set if the request wrote nothing because the key had changed since it was read.
    pub(crate) conflict: bool,
}

impl Checked {
    /// Returns the outcome of a request that wrote nothing, and is sent again.
    pub(in crate::operation) fn conflict() -> Self {
        Self {
            conflict: true,
            ..Self::default()
        }
    }
}
