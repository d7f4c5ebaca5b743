//! Faults and their effect on other clients: storage that is unreachable, loses data or restarts
//! empty, undecodable values, clients that do not read.

use std::time::{Duration, Instant};

use bytes::Bytes;
use etcd_api::kubernetes::{KubernetesEtcd, PutOptions};
use http::Method;
use serde_json::{Value, json};
use test_support::proxy::{End, Link};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::harness::{ALL, APART, BENCH, ETCD, ONE, TestCluster, Tier, cases};
use crate::http::{Events, brief, try_send};

cases! {
    unreachable_storage_is_reported_and_recovers on APART;
    a_cache_lists_again_after_a_gap_in_its_watch on APART;
    storage_that_ends_half_way_gives_whole_lists_or_errors on APART;
    a_cache_converges_over_a_bad_connection on APART;
    killed_storage_recovers_with_all_objects on ETCD;
    storage_that_restarts_empty_is_listed_again on BENCH;
    an_undecodable_value_hides_no_other_object on ALL;
    a_reader_of_one_byte_at_a_time_is_aborted on ONE;
    a_disconnected_client_leaves_no_request on ONE;
    a_slow_watcher_is_closed_and_delays_no_other on ALL;
}

const PATH: &str = "/api/v1/namespaces/ns/configmaps";
const FILLS: &str = "apiserver_watch_cache_initializations_total";
const OF_CONFIG_MAPS: &[&str] = &["resource=\"configmaps\""];

/// Retries until the condition holds.
async fn eventually(what: &str, is_so: impl AsyncFn() -> bool) {
    for _ in 0..400 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{what} within 20 s");
}

async fn lists(tier: &Tier, names: &[&str]) {
    eventually("a list is answered", async || {
        tier.get(PATH).await.code == 200
    })
    .await;
    let expected: Vec<_> = names.iter().map(|name| format!("ns/{name}")).collect();
    assert_eq!(tier.get(PATH).await.ok().names(), expected);
}

/// Requests that need storage fail with a time to retry; the cache serves the others.
async fn storage_is_unreachable(tier: &Tier) {
    let object = json!({"metadata": {"name": "never"}}).to_string();
    for (method, path, body) in [
        (Method::GET, PATH, ""),
        (Method::GET, &format!("{PATH}/a"), ""),
        (Method::POST, PATH, &object),
    ] {
        let reply = tier
            .request(method.clone(), path, "application/json", body.to_owned())
            .await;
        let expected = (500, "ServerTimeout".to_owned());
        let body = reply.body.escape_ascii();
        assert_eq!(reply.failure(), expected, "{method} {path}: {body}");
        assert_eq!(reply.headers["retry-after"], "2", "{method} {path}");
    }
    let any = tier.get(&format!("{PATH}?resourceVersion=0")).await.ok();
    assert_eq!(any.names(), ["ns/a"]);
    tier.get(&format!("{PATH}/a?resourceVersion=0")).await.ok();
}

async fn watch(tier: &Tier, revision: i64) -> Events {
    let path = format!("{PATH}?watch=true&resourceVersion={revision}");
    let events = Events::open(&tier.url, &path).await;
    assert_eq!(events.code, 200);
    events
}

/// A revision whose events are compacted, or never existed.
async fn cannot_be_watched_from(tier: &Tier, revision: i64) {
    let event = watch(tier, revision).await.next().await.expect("an event");
    assert_eq!(
        (&event["type"], &event["object"]["code"]),
        (&json!("ERROR"), &json!(410)),
        "{event}"
    );
}

async fn unreachable_storage_is_reported_and_recovers(cluster: TestCluster) {
    let (proxy, tier) = cluster.behind_a_proxy(&[]).await;
    let first = tier.config_map("ns", "a").await;
    tier.get(PATH).await.ok();
    let mut events = watch(&tier, first).await;
    proxy.cut();
    storage_is_unreachable(&tier).await;
    // The other tier continues to write.
    cluster.config_map("ns", "b").await;
    proxy.restore();
    lists(&tier, &["a", "b"]).await;
    let missed = events.next().await.expect("the watch goes on");
    assert_eq!(brief(&missed), "ADDED b");
    assert_eq!(tier.metric(FILLS, OF_CONFIG_MAPS).await, 1.0, "no new list");
}

async fn a_cache_lists_again_after_a_gap_in_its_watch(cluster: TestCluster) {
    let (proxy, tier) = cluster.behind_a_proxy(&[]).await;
    let first = tier.config_map("ns", "a").await;
    tier.config_map("ns", "b").await;
    tier.get(PATH).await.ok();
    let mut events = watch(&tier, first).await;
    assert_eq!(brief(&events.next().await.expect("an event")), "ADDED b");
    proxy.cut();
    cluster.delete(&format!("{PATH}/a")).await.ok();
    let now = cluster.config_map("ns", "c").await;
    cluster
        .storage()
        .await
        .compact(now)
        .await
        .expect("compacts");
    proxy.restore();
    assert_eq!(events.next().await, None, "what was missed is not known");
    lists(&tier, &["b", "c"]).await;
    assert_eq!(tier.metric(FILLS, OF_CONFIG_MAPS).await, 2.0);
    cannot_be_watched_from(&tier, first).await;
    let mut events = watch(&tier, tier.get(PATH).await.ok().revision()).await;
    tier.config_map("ns", "d").await;
    assert_eq!(brief(&events.next().await.expect("an event")), "ADDED d");
}

/// Without a watch cache, so that each list is read from storage.
async fn storage_that_ends_half_way_gives_whole_lists_or_errors(cluster: TestCluster) {
    let all = fill(&cluster).await;
    let (proxy, tier) = cluster.behind_a_proxy(&["--watch-cache=false"]).await;
    let list = async |query: &str| {
        let path = format!("{PATH}{query}");
        let list = try_send(&tier.url, Method::GET, &path, &[], "");
        let list = tokio::time::timeout(Duration::from_secs(30), list).await;
        let list = list.unwrap_or_else(|_| panic!("{path} hangs"));
        // The connection of a response that has begun can only be broken off.
        list.ok().filter(|reply| reply.code.is_success())
    };
    for end in [End::Cut, End::HalfClose] {
        for after in [0, 1_000, 1_000_000, 5_000_000] {
            let end = Some((after, end));
            proxy.cut();
            proxy.set(Link {
                end,
                ..Link::default()
            });
            proxy.restore();
            for query in ["", "?limit=90"] {
                if let Some(reply) = list(query).await {
                    let whole = match query {
                        "" => &all[..],
                        _ => &all[..90],
                    };
                    assert_eq!(reply.names(), whole, "{end:?}: {query:?}");
                }
            }
        }
    }
    proxy.cut();
    proxy.set(Link {
        delay: Duration::from_millis(5),
        bytes_per_s: Some(50_000_000),
        end: None,
    });
    proxy.restore();
    eventually("a slow list is whole", async || {
        list("")
            .await
            .is_some_and(|reply| reply.ok().names() == all)
    })
    .await;
}

/// Each connection of the cache to storage ends after some objects. A burst of writes is less than
/// that, since what was missed comes in one message.
async fn a_cache_converges_over_a_bad_connection(cluster: TestCluster) {
    const BURSTS: usize = 12;
    let (proxy, tier) = cluster.behind_a_proxy(&[]).await;
    let first = tier.config_map("ns", "a").await;
    tier.get(PATH).await.ok();
    let mut events = watch(&tier, first).await;
    let text = "x".repeat(10_000);
    proxy.cut();
    for (nth, end) in [End::Cut, End::HalfClose].into_iter().enumerate() {
        proxy.set(Link {
            delay: Duration::from_millis(1),
            bytes_per_s: Some(1_000_000),
            end: Some((60_000, end)),
        });
        proxy.restore();
        for burst in 0..BURSTS {
            let names: Vec<_> = (0..3).map(|i| format!("cm-{nth}-{burst:02}-{i}")).collect();
            for name in &names {
                let object = json!({"metadata": {"name": name}, "data": {"k": text}});
                cluster.post(PATH, &object).await.ok();
            }
            let seen = tokio::time::timeout(Duration::from_secs(30), events.take(3)).await;
            let seen: Vec<_> = seen.expect("the watch goes on").iter().map(brief).collect();
            let added: Vec<_> = names.iter().map(|name| format!("ADDED {name}")).collect();
            assert_eq!(seen, added, "{end:?}: each once, in order");
        }
        let connections = proxy.cut();
        assert!(
            connections >= BURSTS / 2,
            "{end:?}: {connections} connections"
        );
    }
    assert_eq!(tier.metric(FILLS, OF_CONFIG_MAPS).await, 1.0, "no new list");
}

async fn killed_storage_recovers_with_all_objects(mut cluster: TestCluster) {
    let first = cluster.config_map("ns", "a").await;
    cluster.get(PATH).await.ok();
    let mut events = watch(&cluster.tier, first).await;
    cluster.etcd().kill();
    storage_is_unreachable(&cluster.tier).await;
    cluster.etcd().start_again().expect("etcd starts again");
    lists(&cluster.tier, &["a"]).await;
    cluster.config_map("ns", "b").await;
    let live = events.next().await.expect("the watch goes on");
    assert_eq!(brief(&live), "ADDED b");
    assert_eq!(cluster.metric(FILLS, OF_CONFIG_MAPS).await, 1.0);
}

async fn storage_that_restarts_empty_is_listed_again(mut cluster: TestCluster) {
    let first = cluster.config_map("ns", "a").await;
    for name in ["b", "c", "d", "e", "f"] {
        cluster.config_map("ns", name).await;
    }
    let last = cluster.get(PATH).await.ok().revision();
    let mut events = watch(&cluster.tier, last).await;
    cluster.etcd().kill();
    cluster
        .etcd()
        .start_again()
        .expect("the server starts again");
    assert_eq!(events.next().await, None, "another history");
    lists(&cluster.tier, &[]).await;
    let now = cluster.config_map("ns", "new").await;
    assert!(now < last, "{now} is behind {last}");
    cannot_be_watched_from(&cluster.tier, last).await;
    lists(&cluster.tier, &["new"]).await;
    // A revision that the new history has reached cannot be told apart from the old history's.
    assert!(first <= last);
}

async fn an_undecodable_value_hides_no_other_object(cluster: TestCluster) {
    cluster.config_map("ns", "good").await;
    let key = b"/registry/configmaps/ns/bad";
    let value = Bytes::from_static(b"no object");
    let storage = cluster.storage().await;
    let put = storage.optimistic_put(key, value, 0, PutOptions::default());
    assert!(put.await.expect("written").succeeded);
    for query in ["", "?limit=5", "?labelSelector=!none", "?resourceVersion=0"] {
        let names = cluster.get(&format!("{PATH}{query}")).await.ok().names();
        assert_eq!(names, ["ns/good"], "{query}");
    }
    assert_eq!(cluster.get(&format!("{PATH}/bad")).await.code, 500);
    for metric in [
        "bench_undecodable_objects_total",
        "apiserver_storage_decode_errors_total",
    ] {
        assert!(
            cluster.metric(metric, OF_CONFIG_MAPS).await >= 1.0,
            "{metric}"
        );
    }
    eventually("the log names it", async || {
        cluster.logged(&["WARN", "configmaps", "ns/bad"])
    })
    .await;
    // After a valid value has replaced it, the object is listed again.
    let found = storage.get(key, Default::default()).await.expect("read");
    let revision = found.kv.expect("stored").mod_revision;
    let deleted = storage.optimistic_delete(key, revision, Default::default());
    assert!(deleted.await.expect("deleted").succeeded);
    cluster.config_map("ns", "bad").await;
    lists(&cluster.tier, &["bad", "good"]).await;
}

/// Writes ten megabytes of ConfigMaps: more than the buffers between server and client. Returns
/// their names.
async fn fill(cluster: &TestCluster) -> Vec<String> {
    let text = "x".repeat(100_000);
    for i in 0..100 {
        let object = json!({"metadata": {"name": format!("cm-{i:03}")}, "data": {"k": text}});
        cluster.post(PATH, &object).await.ok();
    }
    (0..100).map(|i| format!("ns/cm-{i:03}")).collect()
}

/// Returns a connection with an open request, whose client has a small receive buffer.
async fn ask(cluster: &TestCluster, path: &str) -> TcpStream {
    let address = cluster.url.strip_prefix("http://").expect("a plain URL");
    let socket = TcpSocket::new_v4().expect("a socket");
    socket
        .set_recv_buffer_size(8_192)
        .expect("a socket's option");
    let address = address.parse().expect("an address");
    let mut stream = socket.connect(address).await.expect("the server accepts");
    let request = format!("GET {path} HTTP/1.1\r\nhost: tier\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    stream
}

async fn no_request_is_open(cluster: &TestCluster) {
    eventually("every answer is over", async || {
        cluster
            .metric("apiserver_current_inflight_requests", &[])
            .await
            == 0.0
    })
    .await;
}

async fn a_reader_of_one_byte_at_a_time_is_aborted(cluster: TestCluster) {
    fill(&cluster).await;
    let asked = Instant::now();
    let mut stream = ask(&cluster, &format!("{PATH}?timeout=2s")).await;
    let aborted = async || cluster.metric("apiserver_request_aborts_total", &[]).await;
    let mut read = Vec::new();
    while aborted().await == 0.0 {
        read.push(stream.read_u8().await.expect("it has begun"));
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(read.len() < 200, "two seconds are over");
    }
    let after = asked.elapsed();
    assert!(
        after >= Duration::from_secs(2),
        "before its time: {after:?}"
    );
    no_request_is_open(&cluster).await;
    // Bytes in transit may still arrive. A reset is also an acceptable end.
    stream.read_to_end(&mut read).await.ok();
    assert!(read.starts_with(b"HTTP/1.1 200 OK"));
    assert!(read.len() < 10_000_000 && !read.ends_with(b"0\r\n\r\n"));
}

async fn a_disconnected_client_leaves_no_request(cluster: TestCluster) {
    fill(&cluster).await;
    for path in [PATH.to_owned(), format!("{PATH}?watch=1")] {
        let mut stream = ask(&cluster, &path).await;
        let mut some = [0; 1_000];
        stream.read_exact(&mut some).await.expect("it has begun");
        drop(stream);
        no_request_is_open(&cluster).await;
        eventually("no watch is open", async || {
            cluster.metric("apiserver_longrunning_requests", &[]).await == 0.0
        })
        .await;
    }
    assert_eq!(
        cluster.metric("apiserver_request_aborts_total", &[]).await,
        0.0
    );
}

/// A watcher that does not read is closed once its queue is full, without delaying other watchers.
async fn a_slow_watcher_is_closed_and_delays_no_other(cluster: TestCluster) {
    const EVENTS: usize = 120;
    let start = cluster.config_map("ns", "a").await;
    let path = format!("{PATH}?watch=1&resourceVersion={start}");
    let slow = ask(&cluster, &path).await;
    let mut fast = Events::open(&cluster.url, &path).await;
    let text = "x".repeat(100_000);
    let mut seen = Vec::new();
    for i in 0..EVENTS {
        let patch = json!({"data": {"k": text, "i": i.to_string()}});
        let written = cluster.patch(&format!("{PATH}/a"), &patch).await.ok();
        let event: Value = fast.next().await.expect("the other watch goes on");
        seen.push(event["object"]["data"]["i"].clone());
        assert_eq!(
            event["object"]["metadata"]["resourceVersion"],
            written.json()["metadata"]["resourceVersion"]
        );
    }
    let expected: Vec<_> = (0..EVENTS).map(|i| json!(i.to_string())).collect();
    assert_eq!(seen, expected);
    let closed = cluster.metric("apiserver_terminated_watchers_total", OF_CONFIG_MAPS);
    assert_eq!(closed.await, 1.0, "the slow one, and no other");
    drop(slow);
}
