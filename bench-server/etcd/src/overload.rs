//! The error of a request for whose response no memory became free in time.

use etcd_api::error::Refusal;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

/// Returns the error for a response without memory. etcd's code for this text is Unknown;
/// ResourceExhausted names the cause. Clients with automatic retries wait for a second first.
pub(super) fn too_many_requests() -> Status {
    let mut metadata = MetadataMap::new();
    metadata.insert("grpc-retry-pushback-ms", MetadataValue::from_static("1000"));
    Status::with_metadata(
        Code::ResourceExhausted,
        Refusal::TooManyRequests.text(),
        metadata,
    )
}
