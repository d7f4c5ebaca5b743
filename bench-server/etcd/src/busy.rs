//! The refusal of a request for whose response there is no room.

use etcd_api::error::Refusal;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

/// What a client is told for whose response there is no room. etcd's code for these words is Unknown, which says nothing;
/// this one says whose fault it is. Clients that retry by themselves wait for a second first.
pub(super) fn too_many_requests() -> Status {
    let mut metadata = MetadataMap::new();
    metadata.insert("grpc-retry-pushback-ms", MetadataValue::from_static("1000"));
    Status::with_metadata(
        Code::ResourceExhausted,
        Refusal::TooManyRequests.text(),
        metadata,
    )
}
