//! The Lease service.

use std::pin::Pin;
use std::sync::Arc;

use etcd_api::proto::etcdserverpb::lease_server::Lease;
use etcd_api::proto::etcdserverpb::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse,
    LeaseLeasesRequest, LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse, LeaseStatus,
    LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
};
use futures::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};
use wire::grpc;

use super::Node;
use super::background::now;

/// The Lease service of one node.
#[derive(Debug, Clone)]
pub struct LeaseService(pub Arc<Node>);

/// Keeps a lease alive. The response for a missing lease has TTL 0; this is not an error.
pub(crate) async fn keep_alive(node: &Node, id: i64) -> Result<LeaseKeepAliveResponse, Status> {
    // Read before the keep-alive, so that the header's revision is not later than the reported
    // state.
    let header = node.header(node.store.revision());
    let ttl = node.store.lease_keep_alive(id, now()).unwrap_or(0);
    // The response reveals a grant or a revocation, so it waits until the log has that.
    let ttl = node.store.logged(Ok(ttl)).await?;
    Ok(LeaseKeepAliveResponse {
        header: Some(header),
        id,
        ttl,
    })
}

#[tonic::async_trait]
impl Lease for LeaseService {
    async fn lease_grant(
        &self,
        request: Request<LeaseGrantRequest>,
    ) -> Result<Response<LeaseGrantResponse>, Status> {
        let LeaseGrantRequest { ttl, id } = *request.get_ref();
        let store = &self.0.store;
        let mut response = store.logged(store.lease_grant(id, ttl, now())).await?;
        let revision = response.header.take().map_or(0, |header| header.revision);
        response.header = Some(self.0.header(revision));
        Ok(Response::new(response))
    }

    async fn lease_revoke(
        &self,
        request: Request<LeaseRevokeRequest>,
    ) -> Result<Response<LeaseRevokeResponse>, Status> {
        let store = &self.0.store;
        let outcome = store.lease_revoke(request.get_ref().id);
        let revision = store.logged(outcome).await?;
        Ok(Response::new(LeaseRevokeResponse {
            header: Some(self.0.header(revision)),
        }))
    }

    type LeaseKeepAliveStream =
        Pin<Box<dyn Stream<Item = Result<LeaseKeepAliveResponse, Status>> + Send>>;

    /// Responds to each request in order. The stream ends with the requests.
    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<LeaseKeepAliveRequest>>,
    ) -> Result<Response<Self::LeaseKeepAliveStream>, Status> {
        let node = self.0.clone();
        let responses = request.into_inner().then(move |request| {
            let node = node.clone();
            async move {
                match request {
                    Ok(request) => keep_alive(&node, request.id).await,
                    Err(status) => Err(grpc::into_grpc_go_status(status)),
                }
            }
        });
        Ok(Response::new(Box::pin(responses)))
    }

    async fn lease_time_to_live(
        &self,
        request: Request<LeaseTimeToLiveRequest>,
    ) -> Result<Response<LeaseTimeToLiveResponse>, Status> {
        let LeaseTimeToLiveRequest { id, keys } = *request.get_ref();
        let store = &self.0.store;
        let header = Some(self.0.header(store.revision()));
        let left = store.lease_time_to_live(id, keys, now());
        // Leases change before the log has the change, so the response waits for the log.
        let left = store.logged(Ok(left)).await?;
        let response = match left {
            Some(left) => LeaseTimeToLiveResponse {
                header,
                id,
                ttl: left.remaining_s,
                granted_ttl: left.granted_s,
                keys: left
                    .keys
                    .into_iter()
                    .map(|key| key.into_vec().into())
                    .collect(),
            },
            None => LeaseTimeToLiveResponse {
                header,
                id,
                ttl: -1,
                ..Default::default()
            },
        };
        Ok(Response::new(response))
    }

    async fn lease_leases(
        &self,
        _: Request<LeaseLeasesRequest>,
    ) -> Result<Response<LeaseLeasesResponse>, Status> {
        let store = &self.0.store;
        let leases = store.logged(Ok(store.leases())).await?;
        let leases = leases.into_iter().map(|id| LeaseStatus { id });
        Ok(Response::new(LeaseLeasesResponse {
            header: Some(self.0.header(store.revision())),
            leases: leases.collect(),
        }))
    }
}
