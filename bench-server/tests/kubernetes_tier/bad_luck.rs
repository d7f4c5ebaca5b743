//! What happens to others when something goes wrong: storage that is gone, forgets or starts over, values that
//! are no objects, clients that do not read.

use std::time::{Duration, Instant};

use bytes::Bytes;
use etcd_api::kubernetes::{KubernetesEtcd, PutOptions};
use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::http::{Events, brief};
use crate::stage::{ALL, APART, BENCH, ETCD, ONE, Stage, Tier, cases};

cases! {
    storage_out_of_reach_is_said_and_comes_back on APART;
    a_gap_in_the_cache_s_watch_is_listed_over on APART;
    storage_that_was_killed_comes_back_with_everything on ETCD;
    storage_that_starts_over_is_read_anew on BENCH;
    what_is_no_object_hides_no_other on ALL;
    a_reader_of_a_byte_at_a_time_is_cut_off on ONE;
    a_client_that_goes_away_leaves_nothing_behind on ONE;
    a_slow_watcher_is_closed_and_delays_nobody on ALL;
}

const PATH: &str = "/api/v1/namespaces/ns/configmaps";
const FILLS: &str = "apiserver_watch_cache_initializations_total";
const OF_CONFIG_MAPS: &[&str] = &["resource=\"configmaps\""];

/// Asks again until it is so.
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

/// What needs storage is refused with word when to come back; what the cache may answer, it answers.
async fn says_that_storage_is_gone(tier: &Tier) {
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

/// A revision whose events are gone, or never were.
async fn cannot_be_watched_from(tier: &Tier, revision: i64) {
    let event = watch(tier, revision).await.next().await.expect("an event");
    assert_eq!(
        (&event["type"], &event["object"]["code"]),
        (&json!("ERROR"), &json!(410)),
        "{event}"
    );
}

async fn storage_out_of_reach_is_said_and_comes_back(stage: Stage) {
    let (proxy, tier) = stage.behind_a_proxy().await;
    let first = tier.config_map("ns", "a").await;
    tier.get(PATH).await.ok();
    let mut events = watch(&tier, first).await;
    proxy.cut();
    says_that_storage_is_gone(&tier).await;
    // Elsewhere life goes on.
    stage.config_map("ns", "b").await;
    proxy.restore();
    lists(&tier, &["a", "b"]).await;
    let missed = events.next().await.expect("the watch goes on");
    assert_eq!(brief(&missed), "ADDED b");
    assert_eq!(tier.metric(FILLS, OF_CONFIG_MAPS).await, 1.0, "no new list");
}

async fn a_gap_in_the_cache_s_watch_is_listed_over(stage: Stage) {
    let (proxy, tier) = stage.behind_a_proxy().await;
    let first = tier.config_map("ns", "a").await;
    tier.config_map("ns", "b").await;
    tier.get(PATH).await.ok();
    let mut events = watch(&tier, first).await;
    assert_eq!(brief(&events.next().await.expect("an event")), "ADDED b");
    proxy.cut();
    stage.delete(&format!("{PATH}/a")).await.ok();
    let now = stage.config_map("ns", "c").await;
    stage.storage().await.compact(now).await.expect("compacts");
    proxy.restore();
    assert_eq!(events.next().await, None, "what was missed is not known");
    lists(&tier, &["b", "c"]).await;
    assert_eq!(tier.metric(FILLS, OF_CONFIG_MAPS).await, 2.0);
    cannot_be_watched_from(&tier, first).await;
    let mut events = watch(&tier, tier.get(PATH).await.ok().revision()).await;
    tier.config_map("ns", "d").await;
    assert_eq!(brief(&events.next().await.expect("an event")), "ADDED d");
}

async fn storage_that_was_killed_comes_back_with_everything(mut stage: Stage) {
    let first = stage.config_map("ns", "a").await;
    stage.get(PATH).await.ok();
    let mut events = watch(&stage.tier, first).await;
    stage.etcd().kill();
    says_that_storage_is_gone(&stage.tier).await;
    stage.etcd().start_again().expect("etcd starts again");
    lists(&stage.tier, &["a"]).await;
    stage.config_map("ns", "b").await;
    let live = events.next().await.expect("the watch goes on");
    assert_eq!(brief(&live), "ADDED b");
    assert_eq!(stage.metric(FILLS, OF_CONFIG_MAPS).await, 1.0);
}

async fn storage_that_starts_over_is_read_anew(mut stage: Stage) {
    let first = stage.config_map("ns", "a").await;
    for name in ["b", "c", "d", "e", "f"] {
        stage.config_map("ns", name).await;
    }
    let last = stage.get(PATH).await.ok().revision();
    let mut events = watch(&stage.tier, last).await;
    stage.etcd().kill();
    stage.etcd().start_again().expect("the server starts again");
    assert_eq!(events.next().await, None, "another history");
    lists(&stage.tier, &[]).await;
    let now = stage.config_map("ns", "new").await;
    assert!(now < last, "{now} is behind {last}");
    cannot_be_watched_from(&stage.tier, last).await;
    lists(&stage.tier, &["new"]).await;
    // What the new history has reached is not told from the old one.
    assert!(first <= last);
}

async fn what_is_no_object_hides_no_other(stage: Stage) {
    stage.config_map("ns", "good").await;
    let key = b"/registry/configmaps/ns/bad";
    let value = Bytes::from_static(b"no object");
    let storage = stage.storage().await;
    let put = storage.optimistic_put(key, value, 0, PutOptions::default());
    assert!(put.await.expect("written").succeeded);
    for query in ["", "?limit=5", "?labelSelector=!none", "?resourceVersion=0"] {
        let names = stage.get(&format!("{PATH}{query}")).await.ok().names();
        assert_eq!(names, ["ns/good"], "{query}");
    }
    assert_eq!(stage.get(&format!("{PATH}/bad")).await.code, 500);
    for metric in [
        "bench_undecodable_objects_total",
        "apiserver_storage_decode_errors_total",
    ] {
        assert!(
            stage.metric(metric, OF_CONFIG_MAPS).await >= 1.0,
            "{metric}"
        );
    }
    eventually("the log names it", async || {
        stage.logged(&["WARN", "configmaps", "ns/bad"])
    })
    .await;
    // A good value in its place is an object again.
    let found = storage.get(key, Default::default()).await.expect("read");
    let revision = found.kv.expect("stored").mod_revision;
    let deleted = storage.optimistic_delete(key, revision, Default::default());
    assert!(deleted.await.expect("deleted").succeeded);
    stage.config_map("ns", "bad").await;
    lists(&stage.tier, &["bad", "good"]).await;
}

/// Ten megabytes of ConfigMaps: more than the buffers between server and client.
async fn fill(stage: &Stage) {
    let text = "x".repeat(100_000);
    for i in 0..100 {
        let object = json!({"metadata": {"name": format!("cm-{i:03}")}, "data": {"k": text}});
        stage.post(PATH, &object).await.ok();
    }
}

/// A connection that has asked, whose client has little room for the answer.
async fn ask(stage: &Stage, path: &str) -> TcpStream {
    let address = stage.url.strip_prefix("http://").expect("a plain URL");
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

async fn nothing_is_being_answered(stage: &Stage) {
    eventually("every answer is over", async || {
        stage
            .metric("apiserver_current_inflight_requests", &[])
            .await
            == 0.0
    })
    .await;
}

async fn a_reader_of_a_byte_at_a_time_is_cut_off(stage: Stage) {
    fill(&stage).await;
    let asked = Instant::now();
    let mut stream = ask(&stage, &format!("{PATH}?timeout=2s")).await;
    let aborted = async || stage.metric("apiserver_request_aborts_total", &[]).await;
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
    nothing_is_being_answered(&stage).await;
    // What was on its way may still come. A reset instead is as good an end.
    stream.read_to_end(&mut read).await.ok();
    assert!(read.starts_with(b"HTTP/1.1 200 OK"));
    assert!(read.len() < 10_000_000 && !read.ends_with(b"0\r\n\r\n"));
}

async fn a_client_that_goes_away_leaves_nothing_behind(stage: Stage) {
    fill(&stage).await;
    for path in [PATH.to_owned(), format!("{PATH}?watch=1")] {
        let mut stream = ask(&stage, &path).await;
        let mut some = [0; 1_000];
        stream.read_exact(&mut some).await.expect("it has begun");
        drop(stream);
        nothing_is_being_answered(&stage).await;
        eventually("no watch is open", async || {
            stage.metric("apiserver_longrunning_requests", &[]).await == 0.0
        })
        .await;
    }
    assert_eq!(
        stage.metric("apiserver_request_aborts_total", &[]).await,
        0.0
    );
}

/// Check 15.
async fn a_slow_watcher_is_closed_and_delays_nobody(stage: Stage) {
    const EVENTS: usize = 120;
    let start = stage.config_map("ns", "a").await;
    let path = format!("{PATH}?watch=1&resourceVersion={start}");
    let slow = ask(&stage, &path).await;
    let mut fast = Events::open(&stage.url, &path).await;
    let text = "x".repeat(100_000);
    let mut seen = Vec::new();
    for i in 0..EVENTS {
        let patch = json!({"data": {"k": text, "i": i.to_string()}});
        let written = stage.patch(&format!("{PATH}/a"), &patch).await.ok();
        let event: Value = fast.next().await.expect("the other watch goes on");
        seen.push(event["object"]["data"]["i"].clone());
        assert_eq!(
            event["object"]["metadata"]["resourceVersion"],
            written.json()["metadata"]["resourceVersion"]
        );
    }
    let expected: Vec<_> = (0..EVENTS).map(|i| json!(i.to_string())).collect();
    assert_eq!(seen, expected);
    let closed = stage.metric("apiserver_terminated_watchers_total", OF_CONFIG_MAPS);
    assert_eq!(closed.await, 1.0, "the slow one, and no other");
    drop(slow);
}
