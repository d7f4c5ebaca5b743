//! Leases: IDs, times to live, attached keys.

use std::time::{Duration, Instant};

use etcd_api::error::Refusal;
use etcd_api::proto::etcdserverpb::{
    LeaseGrantRequest, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseLeasesRequest,
    LeaseRevokeRequest, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
};
use etcd_api::proto::mvccpb::event::EventType;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::harness::{ONE_ENCODING, Target, assert_refused, cases, keys};
use crate::request::{everything, op, put, range, txn};
use crate::watch_stream::{WatchStream, create};

cases![on ONE_ENCODING;
    ids, times_to_live_have_bounds, revoking_deletes_its_keys_at_once, revoking_without_keys_changes_nothing,
    time_to_live_table, leases_are_listed, keep_alive_answers_each_request, keep_alive_ends_with_its_client,
    keep_alive_prolongs, expiry_deletes_its_keys, expired_for_nobody_before_its_keys_are_gone,
    kept_alive_too_late_with_its_keys_gone, switching_leases, attached_in_a_transaction,
    leases_are_not_revisions,
];

/// Grants a lease; returns its ID. The server chooses it if `id` is 0.
pub(crate) async fn grant(t: &Target, ttl: i64, id: i64) -> i64 {
    let response = t.lease().lease_grant(LeaseGrantRequest { ttl, id }).await;
    response.expect("a lease is granted").into_inner().id
}

async fn revoke(t: &Target, id: i64) -> Result<i64, Status> {
    let response = t.lease().lease_revoke(LeaseRevokeRequest { id }).await?;
    Ok(response.into_inner().header.expect("header").revision)
}

async fn time_to_live(t: &Target, id: i64) -> LeaseTimeToLiveResponse {
    let request = LeaseTimeToLiveRequest { id, keys: true };
    t.lease()
        .lease_time_to_live(request)
        .await
        .expect("an unknown lease is no error")
        .into_inner()
}

/// Puts `key` with lease `id`.
async fn attach(t: &Target, key: &str, id: i64) {
    let mut request = put(key.to_owned(), "v");
    request.lease = id;
    t.put(request).await.expect("put");
}

async fn ids(t: Target) {
    let chosen_by_server = grant(&t, 600, 0).await;
    assert!(chosen_by_server > 0);
    assert_ne!(grant(&t, 600, 0).await, chosen_by_server);
    assert_eq!(grant(&t, 600, 42).await, 42);
    assert_eq!(grant(&t, 600, -42).await, -42, "negative ids are ids too");
    for taken in [42, -42, chosen_by_server] {
        assert_refused(
            t.lease()
                .lease_grant(LeaseGrantRequest {
                    ttl: 600,
                    id: taken,
                })
                .await,
            Refusal::LeaseExists,
        );
    }
    revoke(&t, 42).await.expect("revoke");
    assert_eq!(grant(&t, 600, 42).await, 42, "free again");
    for unknown in [7, -7, 0] {
        assert_refused(revoke(&t, unknown).await, Refusal::LeaseNotFound);
    }
}

async fn times_to_live_have_bounds(t: Target) {
    for (asked, granted) in [
        (-5, 2),
        (0, 2),
        (1, 2),
        (2, 2),
        (600, 600),
        (9_000_000_000, 9_000_000_000),
    ] {
        let response = t
            .lease()
            .lease_grant(LeaseGrantRequest { ttl: asked, id: 0 })
            .await
            .expect("grant")
            .into_inner();
        assert_eq!(response.ttl, granted, "asked for {asked} s");
    }
    assert_refused(
        t.lease()
            .lease_grant(LeaseGrantRequest {
                ttl: 9_000_000_001,
                id: 0,
            })
            .await,
        Refusal::LeaseTtlTooLarge,
    );
}

async fn revoking_deletes_its_keys_at_once(t: Target) {
    let id = grant(&t, 600, 0).await;
    for key in ["c", "a", "b"] {
        attach(&t, key, id).await;
    }
    let before = t.set("free", "v").await;
    let mut watch = WatchStream::open(&t, create("\0", "\0")).await;
    watch.created().await;
    assert_eq!(
        revoke(&t, id).await.expect("revoke"),
        before + 1,
        "one revision for all keys"
    );
    let response = watch.next().await;
    let events: Vec<_> = response
        .events
        .iter()
        .map(|e| (e.r#type(), e.kv.clone().expect("a key")))
        .collect();
    let found: Vec<_> = events
        .iter()
        .map(|(kind, kv)| (*kind, &kv.key[..], kv.mod_revision))
        .collect();
    let deleted = EventType::Delete;
    assert_eq!(
        found,
        [
            (deleted, &b"a"[..], before + 1),
            (deleted, b"b", before + 1),
            (deleted, b"c", before + 1)
        ]
    );
    assert_eq!(t.all_keys().await, ["free"]);
    assert_refused(revoke(&t, id).await, Refusal::LeaseNotFound);
}

async fn revoking_without_keys_changes_nothing(t: Target) {
    let before = t.set("k", "v").await;
    let id = grant(&t, 600, 0).await;
    assert_eq!(revoke(&t, id).await.expect("revoke"), before);
    assert_eq!(t.revision().await, before);
}

async fn time_to_live_table(t: Target) {
    let missing = time_to_live(&t, 404).await;
    assert_eq!(
        (
            missing.id,
            missing.ttl,
            missing.granted_ttl,
            missing.keys.len()
        ),
        (404, -1, 0, 0)
    );
    let id = grant(&t, 600, 0).await;
    for key in ["b", "a"] {
        attach(&t, key, id).await;
    }
    let live = time_to_live(&t, id).await;
    assert_eq!((live.id, live.granted_ttl), (id, 600));
    assert!(
        (560..600).contains(&live.ttl),
        "whole seconds left, rounded down: {}",
        live.ttl
    );
    let mut attached = live.keys;
    attached.sort();
    assert_eq!(attached, ["a", "b"]);
    let bare = t
        .lease()
        .lease_time_to_live(LeaseTimeToLiveRequest { id, keys: false })
        .await
        .expect("ttl")
        .into_inner();
    assert_eq!(bare.keys.len(), 0, "keys only when asked for");
}

async fn leases_are_listed(t: Target) {
    let list = async || {
        let response = t
            .lease()
            .lease_leases(LeaseLeasesRequest {})
            .await
            .expect("leases")
            .into_inner();
        let mut ids: Vec<_> = response.leases.iter().map(|lease| lease.id).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(list().await, [0; 0]);
    for id in [3, 1, -2] {
        grant(&t, 600, id).await;
    }
    assert_eq!(list().await, [-2, 1, 3]);
    revoke(&t, 1).await.expect("revoke");
    assert_eq!(list().await, [-2, 3]);
}

/// Returns a keep-alive stream that has sent its first request.
async fn keep_alive(
    t: &Target,
    id: i64,
) -> (
    mpsc::Sender<LeaseKeepAliveRequest>,
    Streaming<LeaseKeepAliveResponse>,
) {
    let (requests, receiver) = mpsc::channel(8);
    requests
        .send(LeaseKeepAliveRequest { id })
        .await
        .expect("the stream takes requests");
    let stream = t
        .lease()
        .lease_keep_alive(ReceiverStream::new(receiver))
        .await
        .expect("keep-alive")
        .into_inner();
    (requests, stream)
}

async fn keep_alive_answers_each_request(t: Target) {
    let id = grant(&t, 600, 0).await;
    let revision = t.set("k", "v").await;
    let (requests, mut responses) = keep_alive(&t, id).await;
    for next in [404, id, id] {
        requests
            .send(LeaseKeepAliveRequest { id: next })
            .await
            .expect("the stream takes requests");
    }
    for (expected, ttl) in [(id, 600), (404, 0), (id, 600), (id, 600)] {
        let response = responses
            .message()
            .await
            .expect("no error")
            .expect("a response per request");
        assert_eq!(
            (response.id, response.ttl),
            (expected, ttl),
            "an unknown lease is answered with TTL 0"
        );
        assert_eq!(response.header.expect("header").revision, revision);
    }
}

async fn keep_alive_ends_with_its_client(t: Target) {
    let id = grant(&t, 600, 0).await;
    let (requests, mut responses) = keep_alive(&t, id).await;
    drop(requests);
    assert!(
        responses.message().await.expect("no error").is_some(),
        "what was asked is answered"
    );
    assert!(
        responses
            .message()
            .await
            .expect("ends without an error")
            .is_none()
    );
}

async fn keep_alive_prolongs(t: Target) {
    let id = grant(&t, 4, 0).await;
    attach(&t, "k", id).await;
    let (requests, mut responses) = keep_alive(&t, id).await;
    let begin = Instant::now();
    // More than twice the time to live, after which the lease would have expired.
    while begin.elapsed() < Duration::from_secs(9) {
        let response = responses
            .message()
            .await
            .expect("no error")
            .expect("a response");
        assert_eq!(response.ttl, 4, "after {:?}", begin.elapsed());
        tokio::time::sleep(Duration::from_millis(400)).await;
        requests
            .send(LeaseKeepAliveRequest { id })
            .await
            .expect("the stream takes requests");
    }
    assert_eq!(t.all_keys().await, ["k"]);
}

async fn expiry_deletes_its_keys(t: Target) {
    let mut watch = WatchStream::open(
        &t,
        etcd_api::proto::etcdserverpb::WatchCreateRequest {
            prev_kv: true,
            ..create("\0", "\0")
        },
    )
    .await;
    watch.created().await;
    let begin = Instant::now();
    let id = grant(&t, 2, 0).await;
    attach(&t, "b", id).await;
    attach(&t, "a", id).await;
    let last = t.set("free", "v").await;
    for _ in 0..3 {
        watch.next().await;
    }
    let expired = watch.next().await;
    let after = begin.elapsed();
    assert!(
        after >= Duration::from_secs(2),
        "before its time: {after:?}"
    );
    let found: Vec<_> = expired
        .events
        .iter()
        .map(|e| (e.r#type(), e.kv.as_ref().expect("a key").key.clone()))
        .collect();
    assert_eq!(
        found,
        [
            (EventType::Delete, "a".into()),
            (EventType::Delete, "b".into())
        ],
        "in key order, in one revision"
    );
    assert_eq!(expired.header.expect("header").revision, last + 1);
    assert!(
        expired
            .events
            .iter()
            .all(|e| e.prev_kv.as_ref().is_some_and(|kv| kv.lease == id)),
        "with what they were"
    );
    assert_eq!(time_to_live(&t, id).await.ttl, -1);
    assert_eq!(t.all_keys().await, ["free"]);
}

async fn expired_for_nobody_before_its_keys_are_gone(t: Target) {
    let id = grant(&t, 2, 0).await;
    attach(&t, "k", id).await;
    let begin = Instant::now();
    loop {
        let left = time_to_live(&t, id).await;
        if (left.ttl, left.granted_ttl) == (-1, 0) {
            break;
        }
        assert_eq!((left.granted_ttl, left.keys.len()), (2, 1));
        assert!(begin.elapsed() < Duration::from_secs(30), "{left:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(t.all_keys().await, [""; 0]);
}

async fn kept_alive_too_late_with_its_keys_gone(t: Target) {
    // Until a server revokes a lease that is due, up to half a second passes.
    for _ in 0..3 {
        let id = grant(&t, 2, 0).await;
        attach(&t, "k", id).await;
        tokio::time::sleep(Duration::from_millis(2_010)).await;
        let (_requests, mut responses) = keep_alive(&t, id).await;
        let response = responses.message().await.expect("no error");
        assert_eq!(response.expect("a response").ttl, 0);
        assert_eq!(t.all_keys().await, [""; 0]);
    }
}

async fn switching_leases(t: Target) {
    let (first, second) = (grant(&t, 600, 0).await, grant(&t, 600, 0).await);
    attach(&t, "k", first).await;
    attach(&t, "k", second).await;
    assert_eq!(
        time_to_live(&t, first).await.keys.len(),
        0,
        "a put with another lease moves the key"
    );
    assert_eq!(time_to_live(&t, second).await.keys, ["k"]);
    revoke(&t, first).await.expect("revoke");
    assert_eq!(t.all_keys().await, ["k"]);
    attach(&t, "deleted", second).await;
    t.delete(crate::request::delete("deleted", ""))
        .await
        .expect("delete");
    assert_eq!(
        time_to_live(&t, second).await.keys,
        ["k"],
        "a deleted key is attached no more"
    );
    revoke(&t, second).await.expect("revoke");
    assert_eq!(t.all_keys().await, [""; 0]);
}

async fn attached_in_a_transaction(t: Target) {
    let id = grant(&t, 600, 0).await;
    let mut leased = put("k", "v");
    leased.lease = id;
    t.txn(txn(vec![op(leased), op(put("free", "v"))]))
        .await
        .expect("txn");
    assert_eq!(
        t.range(range("k", "")).await.expect("range").kvs[0].lease,
        id
    );
    revoke(&t, id).await.expect("revoke");
    assert_eq!(keys(&t.range(everything()).await.expect("range")), ["free"]);
}

async fn leases_are_not_revisions(t: Target) {
    let revision = t.set("k", "v").await;
    let granted = t
        .lease()
        .lease_grant(LeaseGrantRequest { ttl: 600, id: 0 })
        .await
        .expect("grant")
        .into_inner();
    assert_eq!(granted.header.expect("header").revision, revision);
    assert_eq!(t.revision().await, revision);
}
