//! etcd's Maintenance service for test servers, which supports only Status.

use std::pin::Pin;

use etcd_api::proto::etcdserverpb as pb;
use pb::maintenance_server::Maintenance;
use tokio_stream::Stream;
use tonic::{Request, Response, Status};

/// A server that has a status.
#[tonic::async_trait]
pub(crate) trait TellsStatus: Send + Sync + 'static {
    /// Returns the response to a Status request.
    async fn status(&self, request: pb::StatusRequest) -> Result<pb::StatusResponse, Status>;
}

/// The Maintenance service of a server with a status.
pub(crate) struct StatusOnly<S>(pub(crate) S);

#[tonic::async_trait]
impl<S: TellsStatus> Maintenance for StatusOnly<S> {
    type SnapshotStream = Pin<Box<dyn Stream<Item = Result<pb::SnapshotResponse, Status>> + Send>>;

    async fn status(
        &self,
        request: Request<pb::StatusRequest>,
    ) -> Result<Response<pb::StatusResponse>, Status> {
        self.0.status(request.into_inner()).await.map(Response::new)
    }

    async fn defragment(
        &self,
        _: Request<pb::DefragmentRequest>,
    ) -> Result<Response<pb::DefragmentResponse>, Status> {
        panic!("defragmentation was not asked for")
    }

    async fn alarm(
        &self,
        _: Request<pb::AlarmRequest>,
    ) -> Result<Response<pb::AlarmResponse>, Status> {
        Err(Status::unimplemented("not used"))
    }

    async fn hash(
        &self,
        _: Request<pb::HashRequest>,
    ) -> Result<Response<pb::HashResponse>, Status> {
        Err(Status::unimplemented("not used"))
    }

    async fn hash_kv(
        &self,
        _: Request<pb::HashKvRequest>,
    ) -> Result<Response<pb::HashKvResponse>, Status> {
        Err(Status::unimplemented("not used"))
    }

    async fn snapshot(
        &self,
        _: Request<pb::SnapshotRequest>,
    ) -> Result<Response<Self::SnapshotStream>, Status> {
        Err(Status::unimplemented("not used"))
    }

    async fn move_leader(
        &self,
        _: Request<pb::MoveLeaderRequest>,
    ) -> Result<Response<pb::MoveLeaderResponse>, Status> {
        Err(Status::unimplemented("not used"))
    }

    async fn downgrade(
        &self,
        _: Request<pb::DowngradeRequest>,
    ) -> Result<Response<pb::DowngradeResponse>, Status> {
        Err(Status::unimplemented("not used"))
    }
}
