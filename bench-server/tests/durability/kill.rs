//! Checks that a server which is killed while clients write keeps every acknowledged write.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use etcd_api::proto::etcdserverpb::watch_request::RequestUnion;
use etcd_api::proto::etcdserverpb::{
    CompactionRequest, DeleteRangeRequest, LeaseGrantRequest, LeaseTimeToLiveRequest, RangeRequest,
    WatchCreateRequest, WatchRequest,
};
use nix::sys::signal::Signal;
use tokio_stream::StreamExt;

use crate::server::{Server, all, put, runtime};

/// Number of concurrent writers, each with its own key.
const WRITERS: u64 = 8;
/// Number of times that the server is killed.
const KILLS: u64 = 4;

/// A writer's knowledge of its key: value and revision of the last acknowledged write, and the
/// number of the last write that was sent.
#[derive(Debug, Default, Clone)]
struct Known {
    acknowledged: Option<(u64, i64)>,
    sent: u64,
}

/// Writes until a request fails because the server was killed.
async fn write(server: &Server, writer: u64, mut known: Known, total: Arc<AtomicU64>) -> Known {
    let client = server.client().await;
    loop {
        known.sent += 1;
        let request = put(&format!("writer {writer}"), &known.sent.to_string());
        match client.kv().put(request).await {
            Ok(response) => {
                let header = response.into_inner().header.expect("a header");
                known.acknowledged = Some((known.sent, header.revision));
                total.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => return known,
        }
    }
}

fn kill_and_compare(flags: &[&str]) {
    let directory = tempfile::tempdir().expect("a temporary folder");
    let runtime = runtime();
    let mut known: BTreeMap<u64, Known> = (0..WRITERS).map(|w| (w, Known::default())).collect();
    for round in 1..=KILLS {
        let server = Server::start(directory.path(), flags);
        let total = Arc::new(AtomicU64::new(0));
        runtime.block_on(async {
            let writers = known
                .iter()
                .map(|(writer, known)| write(&server, *writer, known.clone(), total.clone()));
            let writing = futures::future::join_all(writers);
            let killing = async {
                while total.load(Ordering::Relaxed) < 40 * round {
                    tokio::task::yield_now().await;
                }
                server.signal(Signal::SIGKILL);
            };
            let (after, ()) = tokio::join!(writing, killing);
            known = (0..WRITERS).zip(after).collect();
        });
        drop(server);
        let server = Server::start(directory.path(), flags);
        let found = runtime.block_on(async { all(&server.client().await).await });
        let revision = found.header.expect("a header").revision;
        for (writer, known) in &known {
            let (acknowledged, at) = known.acknowledged.expect("each writer wrote");
            let key = format!("writer {writer}");
            let kv = found.kvs.iter().find(|kv| kv.key == key.as_bytes());
            let kv = kv.unwrap_or_else(|| panic!("{key} is lost"));
            let value: u64 = std::str::from_utf8(&kv.value)
                .expect("text")
                .parse()
                .expect("a number");
            assert!(
                value >= acknowledged,
                "{key} is {value}, {acknowledged} was acknowledged"
            );
            assert!(
                value <= known.sent,
                "{key} is {value}, {} was sent last",
                known.sent
            );
            assert!(
                kv.mod_revision >= at && revision >= at,
                "{key}: revisions went back"
            );
        }
        server.kill();
    }
}

#[test]
fn nothing_acknowledged_is_lost_with_fsync_always() {
    kill_and_compare(&["--fsync=always"]);
}

#[test]
fn nothing_acknowledged_is_lost_with_fsync_batch() {
    kill_and_compare(&["--fsync=batch", "--fsync-interval=1h"]);
}

#[test]
fn nothing_acknowledged_is_lost_with_fsync_never() {
    kill_and_compare(&["--unsafe-no-fsync"]);
}

/// After a restart, an etcd client finds the same state: revisions, versions, leases, compaction,
/// watched events.
#[test]
fn a_restart_is_not_noticed() {
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let directory = tempfile::tempdir().expect("a temporary folder");
        let runtime = runtime();
        let server = Server::start(directory.path(), &[]);
        let before = runtime.block_on(async {
            let client = server.client().await;
            let grant = LeaseGrantRequest { id: 7, ttl: 1000 };
            client.lease().lease_grant(grant).await.expect("a lease");
            for value in ["1", "2", "3"] {
                client.kv().put(put("a", value)).await.expect("a put");
            }
            let mut leased = put("leased", "x");
            leased.lease = 7;
            client.kv().put(leased).await.expect("a put");
            client.kv().put(put("gone", "x")).await.expect("a put");
            let delete = DeleteRangeRequest {
                key: "gone".into(),
                ..DeleteRangeRequest::default()
            };
            client.kv().delete_range(delete).await.expect("a delete");
            let compact = CompactionRequest {
                revision: 3,
                physical: false,
            };
            client.kv().compact(compact).await.expect("a compaction");
            all(&client).await
        });
        server.signal(signal);
        server.ended();
        let server = Server::start(directory.path(), &[]);
        runtime.block_on(async {
            let client = server.client().await;
            assert_eq!(all(&client).await, before);
            let at = |revision| RangeRequest {
                key: "a".into(),
                revision,
                ..RangeRequest::default()
            };
            let old = client
                .kv()
                .range(at(3))
                .await
                .expect("it is kept")
                .into_inner();
            assert_eq!(&old.kvs[0].value[..], b"2");
            let refused = client.kv().range(at(2)).await.expect_err("it is compacted");
            assert!(refused.message().contains("compacted"), "{refused}");
            let left = LeaseTimeToLiveRequest { id: 7, keys: true };
            let left = client
                .lease()
                .lease_time_to_live(left)
                .await
                .expect("a lease");
            let left = left.into_inner();
            assert_eq!((left.granted_ttl, left.keys), (1000, vec!["leased".into()]));
            let create = WatchCreateRequest {
                key: vec![0].into(),
                range_end: vec![0].into(),
                start_revision: 4,
                ..WatchCreateRequest::default()
            };
            let request = WatchRequest {
                request_union: Some(RequestUnion::CreateRequest(create)),
            };
            let requests = tokio_stream::iter([request]).chain(tokio_stream::pending());
            let watch = client.watch().watch(requests).await.expect("a watch");
            let mut responses = watch.into_inner();
            let mut told = Vec::new();
            while told.len() < 4 {
                let response = responses.next().await.expect("more").expect("a response");
                let events = response.events.into_iter().filter_map(|event| event.kv);
                told.extend(events.map(|kv| (kv.mod_revision, kv.key)));
            }
            let expected = [(4, "a"), (5, "leased"), (6, "gone"), (7, "gone")];
            assert_eq!(
                told,
                expected.map(|(at, key)| (at, bytes::Bytes::from(key)))
            );
        });
    }
}
