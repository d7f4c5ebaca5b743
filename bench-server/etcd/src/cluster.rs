//! The Cluster service, which always has one member.

use std::sync::Arc;

use etcd_api::proto::etcdserverpb::cluster_server::Cluster;
use etcd_api::proto::etcdserverpb::{
    Member, MemberAddRequest, MemberAddResponse, MemberListRequest, MemberListResponse,
    MemberPromoteRequest, MemberPromoteResponse, MemberRemoveRequest, MemberRemoveResponse,
    MemberUpdateRequest, MemberUpdateResponse,
};
use tonic::{Request, Response, Status};

use super::Node;

/// The Cluster service of one node.
#[derive(Debug, Clone)]
pub struct ClusterService(pub Arc<Node>);

/// Returns the error for membership changes, which need consensus.
fn refused(what: &str) -> Status {
    Status::unimplemented(format!(
        "{what} is not supported: the bench server is a cluster of one member"
    ))
}

#[tonic::async_trait]
impl Cluster for ClusterService {
    async fn member_list(
        &self,
        _: Request<MemberListRequest>,
    ) -> Result<Response<MemberListResponse>, Status> {
        let node = &self.0;
        Ok(Response::new(MemberListResponse {
            // etcd omits the revision in this header only.
            header: Some(node.header(0)),
            members: vec![Member {
                id: node.member_id,
                name: node.name.clone(),
                // Clients connect to the member's client URLs; there are no peers.
                peer_urls: Vec::new(),
                client_urls: node.client_urls.clone(),
                is_learner: false,
            }],
        }))
    }

    async fn member_add(
        &self,
        _: Request<MemberAddRequest>,
    ) -> Result<Response<MemberAddResponse>, Status> {
        Err(refused("adding a member"))
    }

    async fn member_remove(
        &self,
        _: Request<MemberRemoveRequest>,
    ) -> Result<Response<MemberRemoveResponse>, Status> {
        Err(refused("removing a member"))
    }

    async fn member_update(
        &self,
        _: Request<MemberUpdateRequest>,
    ) -> Result<Response<MemberUpdateResponse>, Status> {
        Err(refused("updating a member"))
    }

    async fn member_promote(
        &self,
        _: Request<MemberPromoteRequest>,
    ) -> Result<Response<MemberPromoteResponse>, Status> {
        Err(refused("promoting a member"))
    }
}
