//! Failures of storage as clients see them.

use etcd_api::error::{Error, Refusal};
use kube_api::Status;

/// What a client is told for whose response there is no room: an apiserver's words, and when to come back.
pub(crate) fn too_busy() -> Status {
    Status::too_many_requests("Too many requests, please try again later.", 1)
}

/// Storage's failure as the client sees it.
pub(crate) fn storage_error(error: Error) -> Status {
    match error {
        Error::Refused(Refusal::Compacted) => Status::expired_resource_version(),
        Error::Refused(Refusal::TooManyRequests) => too_busy(),
        // Who knows which revision was asked for names it; clients look at the cause.
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
