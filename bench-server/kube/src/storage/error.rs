//! Converts failures of storage to a Status.

use etcd_api::error::{Error, Refusal};
use kube_api::Status;

/// Returns the Status for a request whose response does not fit in memory: the one that
/// kube-apiserver sends when it is overloaded.
pub(crate) fn too_busy() -> Status {
    Status::too_many_requests("Too many requests, please try again later.", 1)
}

/// Returns the Status for a failure of storage.
pub(crate) fn storage_error(error: Error) -> Status {
    match error {
        Error::Refused(Refusal::Compacted) => Status::expired_resource_version(),
        Error::Refused(Refusal::TooManyRequests) => too_busy(),
        // Callers that know the revisions put them into the message. Clients rely on the cause
        // only.
        Error::Refused(Refusal::FutureRevision) => Status::too_large_resource_version(0, 0, 0),
        Error::Unreachable { .. } | Error::Refused(Refusal::DeadlineExceeded) => {
            Status::server_timeout(error.to_string())
        }
        Error::Status {
            code: tonic::Code::Unavailable | tonic::Code::DeadlineExceeded,
            ..
        } => Status::server_timeout(error.to_string()),
        other => Status::internal(other.to_string()),
    }
}
