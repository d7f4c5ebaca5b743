//! The gRPC Health service, as in etcd: the empty service name is serving, others are unknown.

use std::pin::Pin;

use etcd_api::proto::health::health_check_response::ServingStatus;
use etcd_api::proto::health::health_server::Health;
use etcd_api::proto::health::{
    HealthCheckRequest, HealthCheckResponse, HealthListRequest, HealthListResponse,
};
use futures::{Stream, StreamExt};
use tonic::{Request, Response, Status};

/// The Health service.
#[derive(Debug, Clone, Copy)]
pub struct HealthService;

fn status_of(service: &str) -> Result<HealthCheckResponse, Status> {
    match service {
        "" => Ok(HealthCheckResponse {
            status: ServingStatus::Serving as i32,
        }),
        _ => Err(Status::not_found("unknown service")),
    }
}

#[tonic::async_trait]
impl Health for HealthService {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        status_of(&request.get_ref().service).map(Response::new)
    }

    async fn list(
        &self,
        _: Request<HealthListRequest>,
    ) -> Result<Response<HealthListResponse>, Status> {
        let statuses = [(String::new(), status_of("")?)].into();
        Ok(Response::new(HealthListResponse { statuses }))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let first = status_of(&request.get_ref().service).unwrap_or(HealthCheckResponse {
            status: ServingStatus::ServiceUnknown as i32,
        });
        // The status never changes while the process runs, so the stream stays open without
        // messages.
        let stream =
            futures::stream::once(async move { Ok(first) }).chain(futures::stream::pending());
        Ok(Response::new(Box::pin(stream)))
    }
}
