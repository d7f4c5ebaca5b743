//! Checks that no response to a write is sent before the write is in the log: every call is held
//! back while the disk does not sync.

use std::pin::pin;
use std::sync::Arc;

use clap::Parser;
use commit_log::disk::simulated::SimulatedDisk;
use etcd_api::proto::etcdserverpb::alarm_request::AlarmAction;
use etcd_api::proto::etcdserverpb::lease_server::Lease;
use etcd_api::proto::etcdserverpb::maintenance_server::Maintenance;
use etcd_api::proto::etcdserverpb::request_op::Request as Op;
use etcd_api::proto::etcdserverpb::{
    AlarmRequest, AlarmType, CompactionRequest, DeleteRangeRequest, LeaseGrantRequest,
    LeaseLeasesRequest, LeaseRevokeRequest, LeaseTimeToLiveRequest, PutRequest, RangeRequest,
    RequestOp, TxnRequest,
};
use http_body_util::Full;
use prost::Message;
use store::{Config, Fsync, LogOptions, Store};
use tonic::Request;
use wire::grpc::Encoding;

use crate::Node;
use crate::flags::Flags;
use crate::kv::{self, Method};
use crate::lease::{LeaseService, keep_alive};
use crate::maintenance::MaintenanceService;

/// Number of times that a call is polled once the disk has its write.
const POLLS: usize = 200;

/// Returns a node whose log is on this disk.
fn node(disk: &SimulatedDisk) -> Arc<Node> {
    let options = LogOptions::new(Fsync::Always);
    let options = LogOptions {
        segment_bytes: 1 << 20,
        ..options
    };
    let store = Store::open(Config::default(), Arc::new(disk.clone()), options);
    let flags = Flags::parse_from(["bench-server"]);
    let store = store.expect("an empty log");
    Arc::new(Node::new(store, &flags.etcd, &flags.common, Vec::new()))
}

/// Holds the disk's syncs, makes the call, checks that it waits, and then lets it finish.
async fn held_back<T>(disk: &SimulatedDisk, what: &str, call: impl Future<Output = T>) -> T {
    disk.hold_syncs();
    let before = disk.calls();
    let mut call = pin!(call);
    let mut polls = 0;
    while polls < POLLS {
        assert!(
            futures::poll!(call.as_mut()).is_pending(),
            "{what} was answered"
        );
        // Counted only once the log's thread has written the entry and only the sync is left.
        polls += usize::from(disk.calls() > before);
        tokio::task::yield_now().await;
    }
    disk.release_syncs();
    call.await
}

async fn call(node: &Node, method: Method, request: &impl Message) {
    let message = request.encode_to_vec();
    let length = u32::try_from(message.len()).expect("a short message");
    let framed = [&[0][..], &length.to_be_bytes(), &message].concat();
    let body = Full::new(bytes::Bytes::from(framed));
    kv::serve(node, method, Encoding::Identity, None, body).await;
}

fn put(key: &str) -> PutRequest {
    PutRequest {
        key: key.to_owned().into(),
        ..PutRequest::default()
    }
}

fn txn(op: Op) -> TxnRequest {
    TxnRequest {
        success: vec![RequestOp { request: Some(op) }],
        ..TxnRequest::default()
    }
}

#[tokio::test]
async fn every_write_waits_for_the_log() {
    let disk = SimulatedDisk::new(1);
    let node = node(&disk);
    let delete = DeleteRangeRequest {
        key: "a".into(),
        ..DeleteRangeRequest::default()
    };
    let compact = CompactionRequest {
        revision: 2,
        physical: false,
    };
    held_back(&disk, "Put", call(&node, Method::Put, &put("a"))).await;
    let put_b = txn(Op::RequestPut(put("b")));
    held_back(&disk, "Txn", call(&node, Method::Txn, &put_b)).await;
    held_back(
        &disk,
        "DeleteRange",
        call(&node, Method::DeleteRange, &delete),
    )
    .await;
    held_back(&disk, "Compact", call(&node, Method::Compact, &compact)).await;
    assert_eq!(
        (node.store.revision(), node.store.compact_revision()),
        (4, 2)
    );

    let leases = LeaseService(node.clone());
    let grant = Request::new(LeaseGrantRequest { id: 7, ttl: 100 });
    held_back(&disk, "LeaseGrant", leases.lease_grant(grant))
        .await
        .expect("a lease");
    let revoke = Request::new(LeaseRevokeRequest { id: 7 });
    held_back(&disk, "LeaseRevoke", leases.lease_revoke(revoke))
        .await
        .expect("a lease");

    let maintenance = MaintenanceService(node.clone());
    let alarm = Request::new(AlarmRequest {
        action: AlarmAction::Activate.into(),
        member_id: node.member_id,
        alarm: AlarmType::Nospace.into(),
    });
    held_back(&disk, "Alarm", maintenance.alarm(alarm))
        .await
        .expect("an alarm");
    assert_eq!(node.store.alarms(), [AlarmType::Nospace]);
}

/// Leases, and the keys that a transaction reads, change when a write is accepted, so responses
/// that reveal them wait, too. A read does not.
#[tokio::test]
async fn what_tells_of_a_write_that_waits_waits_with_it() {
    let disk = SimulatedDisk::new(1);
    let node = node(&disk);
    let leases = LeaseService(node.clone());
    let grant = |id| node.store.lease_grant(id, 100, std::time::Instant::now());

    let listed = async {
        grant(7).expect("a lease");
        leases
            .lease_leases(Request::new(LeaseLeasesRequest {}))
            .await
    };
    held_back(&disk, "LeaseLeases", listed)
        .await
        .expect("a list");
    let left = async {
        grant(8).expect("a lease");
        let request = LeaseTimeToLiveRequest { id: 8, keys: true };
        leases.lease_time_to_live(Request::new(request)).await
    };
    held_back(&disk, "LeaseTimeToLive", left)
        .await
        .expect("a lease");
    let kept_alive = async {
        grant(9).expect("a lease");
        keep_alive(&node, 9).await
    };
    let kept_alive = held_back(&disk, "LeaseKeepAlive", kept_alive).await;
    assert_eq!(kept_alive.expect("a lease").ttl, 100);
    let refused = async {
        node.store.put(&put("a")).expect("it is accepted");
        let with_value = PutRequest {
            ignore_value: true,
            ..put("b")
        };
        call(&node, Method::Put, &with_value).await;
    };
    held_back(&disk, "a refused Put", refused).await;

    disk.hold_syncs();
    node.store.put(&put("c")).expect("it is accepted");
    let range = RangeRequest {
        key: "a".into(),
        ..RangeRequest::default()
    };
    call(&node, Method::Range, &range).await;
    call(&node, Method::Txn, &txn(Op::RequestRange(range))).await;
    disk.release_syncs();
}
