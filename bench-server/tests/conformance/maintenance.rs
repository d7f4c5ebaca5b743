//! Maintenance, Cluster, Auth: the requests of operators and their tools.

use etcd_api::error::Refusal;
use etcd_api::proto::etcdserverpb::alarm_request::AlarmAction;
use etcd_api::proto::etcdserverpb::{
    AlarmRequest, AlarmType, AuthDisableRequest, AuthEnableRequest, AuthRoleListRequest,
    AuthStatusRequest, AuthUserListRequest, AuthenticateRequest, DefragmentRequest, HashKvRequest,
    HashKvResponse, HashRequest, LeaseGrantRequest, MemberListRequest, MoveLeaderRequest,
    SnapshotRequest, StatusRequest, StatusResponse,
};
use tonic::{Code, Request, Status};

use crate::harness::{ONE_ENCODING, Target, assert_refused, cases};
use crate::health::figure;
use crate::request::{delete, everything, op, put, txn};

cases![on ONE_ENCODING;
    status_describes_a_member, status_counts_writes, alarms_stop_writes, quota_raises_the_alarm with ["--quota-backend-bytes=4194304"],
    a_negative_quota_is_reported_as_it_is with ["--quota-backend-bytes=-5"], hash_kv_is_repeatable, hash_kv_follows_content, hash_kv_revisions, hash_answers, defragment_answers,
    snapshot_is_served_or_refused, move_leader_is_refused, one_member, authentication_is_off,
    tokens_are_ignored_while_auth_is_off,
];

pub(crate) async fn status(t: &Target) -> StatusResponse {
    t.maintenance()
        .status(StatusRequest {})
        .await
        .expect("status")
        .into_inner()
}

/// Waits until a new etcd has recorded the version of its storage, which it does after it starts to
/// serve.
pub(crate) async fn storage_version_is_known(t: &Target) {
    for _ in 0..300 {
        if status(t).await.storage_version == "3.7.0" {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!(
        "the storage version stays {:?}",
        status(t).await.storage_version
    );
}

async fn status_describes_a_member(t: Target) {
    storage_version_is_known(&t).await;
    t.set("k", "v").await;
    let status = status(&t).await;
    let header = status.header.expect("header");
    let numbers: Vec<u32> = status
        .version
        .split('.')
        .map(|n| n.parse().expect("numbers and dots"))
        .collect();
    assert!(
        numbers.len() == 3 && numbers[..2] == [3, 7],
        "apiserver parses it as a semantic version: {}",
        status.version
    );
    assert_eq!(status.storage_version, "3.7.0");
    assert_eq!((status.leader, header.revision), (header.member_id, 2));
    assert!(status.raft_term >= 2 && status.raft_term == header.raft_term);
    assert!(status.raft_index >= 1 && status.raft_applied_index >= 1);
    assert!(
        status.db_size > 0 && status.db_size_in_use > 0 && status.db_size >= status.db_size_in_use
    );
    assert_eq!(
        (status.db_size_quota, status.is_learner),
        (2_147_483_648, false)
    );
    assert_eq!(status.errors, [""; 0]);
    assert!(!status.downgrade_info.expect("downgrade info").enabled);
}

async fn status_counts_writes(t: Target) {
    let before = status(&t).await;
    for _ in 0..20 {
        t.set("k", "v").await;
    }
    let after = status(&t).await;
    assert!(after.raft_index >= before.raft_index + 20);
    assert!(after.raft_applied_index >= before.raft_applied_index + 20);
}

async fn alarm(
    t: &Target,
    action: AlarmAction,
    alarm: AlarmType,
    member_id: u64,
) -> Result<Vec<(u64, i32)>, Status> {
    let request = AlarmRequest {
        action: action.into(),
        member_id,
        alarm: alarm.into(),
    };
    let response = t.maintenance().alarm(request).await?.into_inner();
    Ok(response
        .alarms
        .iter()
        .map(|a| (a.member_id, a.alarm))
        .collect())
}

async fn alarms_stop_writes(t: Target) {
    let member = status(&t).await.header.expect("header").member_id;
    let list = async || {
        alarm(&t, AlarmAction::Get, AlarmType::None, 0)
            .await
            .expect("alarms")
    };
    t.set("k", "v").await;
    assert_eq!(list().await, []);
    let nospace = (member, i32::from(AlarmType::Nospace));
    assert_eq!(
        alarm(&t, AlarmAction::Activate, AlarmType::Nospace, member)
            .await
            .expect("activate"),
        [nospace]
    );
    assert_eq!(list().await, [nospace]);
    assert_refused(t.put(put("k", "w")).await, Refusal::NoSpace);
    assert_refused(t.txn(txn(vec![op(put("k", "w"))])).await, Refusal::NoSpace);
    assert_refused(
        t.txn(txn(vec![op(txn(vec![op(put("k", "w"))]))])).await,
        Refusal::NoSpace,
    );
    assert_refused(
        t.lease()
            .lease_grant(LeaseGrantRequest { ttl: 60, id: 0 })
            .await,
        Refusal::NoSpace,
    );
    t.range(everything()).await.expect("reads go on");
    t.txn(txn(vec![op(everything())]))
        .await
        .expect("so do transactions that only read");
    assert_eq!(
        t.delete(delete("k", ""))
            .await
            .expect("and deletes")
            .deleted,
        1
    );
    // Go's protobuf library prints one or two spaces between fields, depending on the binary.
    let errors = status(&t).await.errors;
    let errors: Vec<String> = errors.iter().map(|e| e.replace("  ", " ")).collect();
    assert_eq!(errors, [format!("memberID:{member} alarm:NOSPACE")]);
    assert_eq!(
        alarm(&t, AlarmAction::Deactivate, AlarmType::Nospace, member)
            .await
            .expect("deactivate"),
        [nospace]
    );
    assert_eq!(list().await, []);
    t.set("k", "w").await;
}

async fn a_negative_quota_is_reported_as_it_is(t: Target) {
    assert_eq!(status(&t).await.db_size_quota, -5);
    let quota = figure(&t, "etcd_server_quota_backend_bytes").await;
    assert_eq!(quota, Some(-5.0));
    t.set("k", "v").await;
}

async fn quota_raises_the_alarm(t: Target) {
    assert_eq!(status(&t).await.db_size_quota, 4_194_304);
    let quota = figure(&t, "etcd_server_quota_backend_bytes").await;
    assert_eq!(quota, Some(4_194_304.0));
    let size = figure(&t, "etcd_mvcc_db_total_size_in_bytes").await;
    let used = figure(&t, "etcd_mvcc_db_total_size_in_use_in_bytes").await;
    assert!(Some(0.0) < used && used <= size, "{used:?} of {size:?}");
    // etcd checks the size of its file, which does not include uncommitted writes.
    let most = if t.peer.is_bench() { 4 } else { 63 };
    let mut refused = None;
    for i in 0..64 {
        if let Err(status) = t.put(put(format!("k{i}"), vec![b'v'; 1 << 20])).await {
            refused = Some((i, status));
            break;
        }
    }
    let (stored, status) = refused.expect("a full store refuses");
    assert!((2..=most).contains(&stored), "{stored} MiB fit into 4 MiB");
    assert_refused(Err::<(), _>(status), Refusal::NoSpace);
    // The alarm is raised concurrently with the error.
    let mut alarms = Vec::new();
    for _ in 0..100 {
        alarms = alarm(&t, AlarmAction::Get, AlarmType::None, 0)
            .await
            .expect("alarms");
        if !alarms.is_empty() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(
        alarms.iter().map(|&(_, kind)| kind).collect::<Vec<_>>(),
        [i32::from(AlarmType::Nospace)]
    );
    assert_refused(t.put(put("small", "v")).await, Refusal::NoSpace);
    t.delete(delete("k0", "")).await.expect("deletes go on");
}

async fn hash_kv(t: &Target, revision: i64) -> Result<HashKvResponse, Status> {
    t.maintenance()
        .hash_kv(HashKvRequest { revision })
        .await
        .map(|response| response.into_inner())
}

async fn hash_kv_is_repeatable(t: Target) {
    for i in 0..20 {
        t.set(format!("k{}", i % 5), format!("{i}")).await;
    }
    let latest = hash_kv(&t, 0).await.expect("hash");
    assert_eq!(
        (latest.hash_revision, latest.compact_revision),
        (21, -1),
        "nothing was compacted"
    );
    assert_eq!(hash_kv(&t, 21).await.expect("hash").hash, latest.hash);
    assert_eq!(hash_kv(&t, 0).await.expect("hash").hash, latest.hash);
    let earlier = hash_kv(&t, 10).await.expect("hash");
    assert_eq!(earlier.hash_revision, 10);
    t.set("k0", "more").await;
    assert_eq!(
        hash_kv(&t, 10).await.expect("hash").hash,
        earlier.hash,
        "the past does not change"
    );
    assert_eq!(hash_kv(&t, 21).await.expect("hash").hash, latest.hash);
    assert_eq!(
        hash_kv(&t, 0)
            .await
            .expect("hash")
            .header
            .expect("header")
            .revision,
        22
    );
}

async fn hash_kv_follows_content(t: Target) {
    t.set("k", "1").await;
    let one = hash_kv(&t, 0).await.expect("hash").hash;
    t.set("k", "2").await;
    let two = hash_kv(&t, 0).await.expect("hash").hash;
    t.delete(delete("k", "")).await.expect("delete");
    let gone = hash_kv(&t, 0).await.expect("hash").hash;
    assert!(
        one != two && two != gone && one != gone,
        "{one} {two} {gone}"
    );
}

async fn hash_kv_revisions(t: Target) {
    for i in 0..10 {
        t.set(format!("k{}", i % 3), "v").await;
    }
    let before = hash_kv(&t, 8).await.expect("hash");
    t.compact(6, true).await.expect("compact");
    assert_refused(hash_kv(&t, 5).await, Refusal::Compacted);
    assert_refused(hash_kv(&t, 99).await, Refusal::FutureRevision);
    let after = hash_kv(&t, 8).await.expect("hash");
    assert_eq!(
        (
            after.compact_revision,
            after.hash_revision,
            before.compact_revision
        ),
        (6, 8, -1)
    );
    assert_eq!(
        hash_kv(&t, 6)
            .await
            .expect("the compacted revision itself")
            .hash_revision,
        6
    );
}

async fn hash_answers(t: Target) {
    t.set("k", "v").await;
    let response = t
        .maintenance()
        .hash(HashRequest {})
        .await
        .expect("hash")
        .into_inner();
    assert_eq!(response.header.expect("header").revision, 2);
}

async fn defragment_answers(t: Target) {
    t.set("k", "v").await;
    let response = t
        .maintenance()
        .defragment(DefragmentRequest {})
        .await
        .expect("defragment")
        .into_inner();
    assert_eq!(response.header, None);
    assert_eq!(t.all_keys().await, ["k"]);
}

/// A snapshot is a file of etcd's database; a store without such a file returns an error.
async fn snapshot_is_served_or_refused(t: Target) {
    let result = t.maintenance().snapshot(SnapshotRequest {}).await;
    let first = match result {
        Ok(response) => response.into_inner().message().await,
        Err(status) => Err(status),
    };
    match first {
        Ok(message) => assert!(!t.peer.is_bench() && message.is_some_and(|m| !m.blob.is_empty())),
        Err(status) => {
            assert!(t.peer.is_bench(), "{status}");
            assert_eq!(status.code(), Code::Unimplemented);
            assert!(
                status.message().contains("snapshot"),
                "it says what is not served: {}",
                status.message()
            );
        }
    }
}

async fn move_leader_is_refused(t: Target) {
    let status = t
        .maintenance()
        .move_leader(MoveLeaderRequest { target_id: 1 })
        .await
        .expect_err("there is nobody to lead");
    assert!(!status.message().is_empty());
    assert!(
        matches!(
            status.code(),
            Code::FailedPrecondition | Code::Unimplemented
        ),
        "{status}"
    );
}

async fn one_member(t: Target) {
    let header = status(&t).await.header.expect("header");
    for linearizable in [false, true] {
        let response = t
            .cluster()
            .member_list(MemberListRequest { linearizable })
            .await
            .expect("members")
            .into_inner();
        let own = response.header.expect("header");
        assert_eq!(
            (own.revision, own.cluster_id, own.member_id),
            (0, header.cluster_id, header.member_id)
        );
        let [member] = &response.members[..] else {
            panic!("one member, not {:?}", response.members)
        };
        assert_eq!((member.id, member.is_learner), (header.member_id, false));
        assert_eq!(member.name, "default");
        assert!(
            !member.client_urls.is_empty(),
            "clients that sync would lose it"
        );
        if t.peer.is_bench() {
            assert_eq!(member.client_urls, std::slice::from_ref(&t.server.url));
        }
    }
}

async fn authentication_is_off(t: Target) {
    let status = t
        .auth()
        .auth_status(AuthStatusRequest {})
        .await
        .expect("auth status")
        .into_inner();
    assert_eq!((status.enabled, status.auth_revision), (false, 1));
    let request = AuthenticateRequest {
        name: "root".into(),
        password: "secret".into(),
    };
    assert_refused(
        t.auth().authenticate(request).await,
        Refusal::AuthNotEnabled,
    );
    let users = t.auth().user_list(AuthUserListRequest {}).await;
    let users = users.expect("whatever auth is").into_inner();
    assert_eq!(users.users, [""; 0]);
    let roles = t.auth().role_list(AuthRoleListRequest {}).await;
    let roles = roles.expect("whatever auth is").into_inner();
    assert_eq!(roles.roles, [""; 0]);
    let revisions = [users.header, roles.header].map(|header| header.expect("header").revision);
    assert_eq!(revisions, [1, 1]);
    t.auth()
        .auth_disable(AuthDisableRequest {})
        .await
        .expect("off it is");
    assert_refused(
        t.auth().auth_enable(AuthEnableRequest {}).await,
        Refusal::RootUserNotExist,
    );
}

async fn tokens_are_ignored_while_auth_is_off(t: Target) {
    for name in ["token", "authorization"] {
        let mut request = Request::new(everything());
        request
            .metadata_mut()
            .insert(name, "garbage".parse().expect("a header value"));
        t.kv()
            .range(request)
            .await
            .expect("a token that nobody asked for");
    }
    let mut request = Request::new(everything());
    request
        .metadata_mut()
        .insert("hasleader", "true".parse().expect("a header value"));
    t.kv().range(request).await.expect("there is a leader");
}
