//! The Maintenance service: status, alarms, hashes. Calls that need a disk or peers return an
//! error.

use std::pin::Pin;
use std::sync::Arc;

use etcd_api::proto::etcdserverpb::alarm_request::AlarmAction;
use etcd_api::proto::etcdserverpb::maintenance_server::Maintenance;
use etcd_api::proto::etcdserverpb::{
    AlarmMember, AlarmRequest, AlarmResponse, AlarmType, DefragmentRequest, DefragmentResponse,
    DowngradeInfo, DowngradeRequest, DowngradeResponse, HashKvRequest, HashKvResponse, HashRequest,
    HashResponse, MoveLeaderRequest, MoveLeaderResponse, SnapshotRequest, SnapshotResponse,
    StatusRequest, StatusResponse,
};
use futures::Stream;
use store::hash::KeysHash;
use tonic::{Request, Response, Status};

use super::Node;
use super::long_work::on_blocking_thread;

/// The Maintenance service of one node.
#[derive(Debug, Clone)]
pub struct MaintenanceService(pub Arc<Node>);

impl MaintenanceService {
    fn alarm_member(&self, alarm: AlarmType) -> AlarmMember {
        AlarmMember {
            member_id: self.0.member_id,
            alarm: alarm.into(),
        }
    }

    /// Hashes the keys on a blocking thread, because this reads every stored byte.
    async fn hash_at(&self, revision: i64) -> Result<KeysHash, Status> {
        let store = self.0.store.clone();
        Ok(on_blocking_thread(&self.0, move || store.hash_kv(revision)).await??)
    }
}

#[tonic::async_trait]
impl Maintenance for MaintenanceService {
    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        let node = &self.0;
        let revision = node.store.revision();
        let size = node.store.size_bytes() as i64;
        // The format in which Go prints an AlarmMember. Before etcd 3.7, gogo's library printed a
        // space after each field.
        let end = if node.version.minor < 7 { " " } else { "" };
        let alarm = |alarm: AlarmType| {
            format!(
                "memberID:{} alarm:{}{end}",
                node.member_id,
                alarm.as_str_name()
            )
        };
        let mut response = StatusResponse {
            header: Some(node.header(revision)),
            version: node.version.server_version(),
            db_size: size,
            db_size_in_use: size,
            leader: node.member_id,
            // There is no Raft log. The revision also grows with the writes.
            raft_index: revision as u64,
            raft_applied_index: revision as u64,
            raft_term: node.raft_term,
            errors: node.store.alarms().into_iter().map(alarm).collect(),
            ..Default::default()
        };
        if node.version.has_storage_version() {
            response.storage_version = node.version.cluster_version();
            response.db_size_quota = node.store.reported_quota();
            response.downgrade_info = Some(DowngradeInfo::default());
        }
        Ok(Response::new(response))
    }

    async fn alarm(
        &self,
        request: Request<AlarmRequest>,
    ) -> Result<Response<AlarmResponse>, Status> {
        let request = request.get_ref();
        let store = &self.0.store;
        let asked = AlarmType::try_from(request.alarm);
        let here = request.member_id == self.0.member_id;
        let alarms = match (AlarmAction::try_from(request.action), asked) {
            (Ok(AlarmAction::Get), Ok(asked)) => {
                let mut alarms = store.alarms();
                alarms.retain(|alarm| asked == AlarmType::None || *alarm == asked);
                alarms
            }
            (Ok(AlarmAction::Activate), Ok(asked)) if here && asked != AlarmType::None => {
                if store.raise_alarm(asked) {
                    tracing::warn!("{} raised by a client", asked.as_str_name());
                }
                vec![asked]
            }
            (Ok(AlarmAction::Deactivate), Ok(asked)) if here && store.clear_alarm(asked) => {
                tracing::info!("{} disarmed", asked.as_str_name());
                vec![asked]
            }
            _ => Vec::new(),
        };
        let alarms = store.logged(Ok(alarms)).await?;
        let alarms = alarms.into_iter().map(|alarm| self.alarm_member(alarm));
        Ok(Response::new(AlarmResponse {
            header: Some(self.0.header(store.revision())),
            alarms: alarms.collect(),
        }))
    }

    /// Does nothing, because compaction frees memory.
    async fn defragment(
        &self,
        _: Request<DefragmentRequest>,
    ) -> Result<Response<DefragmentResponse>, Status> {
        Ok(Response::new(DefragmentResponse { header: None }))
    }

    async fn hash(&self, _: Request<HashRequest>) -> Result<Response<HashResponse>, Status> {
        let hash = self.hash_at(0).await?;
        Ok(Response::new(HashResponse {
            header: Some(self.0.header(hash.revision)),
            hash: hash.hash,
        }))
    }

    async fn hash_kv(
        &self,
        request: Request<HashKvRequest>,
    ) -> Result<Response<HashKvResponse>, Status> {
        let hash = self.hash_at(request.get_ref().revision).await?;
        Ok(Response::new(HashKvResponse {
            header: Some(self.0.header(hash.revision)),
            hash: hash.hash,
            compact_revision: hash.compact_revision,
            hash_revision: match self.0.version.has_storage_version() {
                true => hash.hash_revision,
                false => 0,
            },
        }))
    }

    type SnapshotStream = Pin<Box<dyn Stream<Item = Result<SnapshotResponse, Status>> + Send>>;

    async fn snapshot(
        &self,
        _: Request<SnapshotRequest>,
    ) -> Result<Response<Self::SnapshotStream>, Status> {
        Err(Status::unimplemented(
            "snapshot is not supported: the bench server keeps no database file to send",
        ))
    }

    async fn move_leader(
        &self,
        _: Request<MoveLeaderRequest>,
    ) -> Result<Response<MoveLeaderResponse>, Status> {
        Err(Status::unimplemented(
            "moving the leader is not supported: the bench server is a cluster of one member",
        ))
    }

    async fn downgrade(
        &self,
        _: Request<DowngradeRequest>,
    ) -> Result<Response<DowngradeResponse>, Status> {
        Err(Status::unimplemented(
            "downgrade is not supported: start the bench server with --emulate-version instead",
        ))
    }
}
