//! One request, and what came of it.

use workloads::SmallRequest;

use crate::operation::own_keys::OwnKey;

/// What a request is: of an object of the data set, or of a key of its connection's own.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PlannedRequest {
    /// Of an object.
    Object {
        request: SmallRequest,
        /// Its number.
        object: usize,
        /// The latest revision that a write of it was acknowledged with before this was planned,
        /// which a linearizable read must see; 0 where none was, and through Kubernetes' API, whose
        /// answers are checked against what the load knew when it sent the request.
        at_least: i64,
        /// The number of the operation.
        n: u64,
    },
    /// A key or a lease to make or to take away.
    Own(OwnKey),
    /// The history up to this revision.
    Compact(i64),
}

impl PlannedRequest {
    /// Returns what it does.
    pub(crate) fn request(self) -> SmallRequest {
        match self {
            Self::Object { request, .. } => request,
            Self::Own(key) => key.request,
            Self::Compact(_) => SmallRequest::Compact,
        }
    }
}

/// What came of a request that was answered rightly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Checked {
    /// The revision that it wrote an object of the data set at.
    pub(crate) rewritten_at: Option<i64>,
    /// The revision that it created a key at; above 0 for a lease that it granted.
    pub(crate) created_at: Option<i64>,
    /// It wrote nothing: the key had changed since it was read.
    pub(crate) conflict: bool,
}

impl Checked {
    /// Returns that nothing was written, and that it is sent again.
    pub(in crate::operation) fn conflict() -> Self {
        Self {
            conflict: true,
            ..Self::default()
        }
    }
}
