//! Watches over a storage with faults, in memory and with paused time.

mod restored;
mod shards;

use std::collections::VecDeque;
use std::time::Duration;

use etcd_api::kubernetes::{KubernetesEtcd, WatchError};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use kube_api::protobuf::find_bytes;
use kube_api::{envelope, from_json, schema};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::kube::fake::FakeEtcd;
use crate::kube::reply::Reply;
use crate::kube::service::KubeService;
use crate::kube::tests::{get, metric, put, ready, start};

const SIE: &str =
    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

/// A client that reads events one by one.
struct Client {
    body: Reply,
    code: StatusCode,
    headers: HeaderMap,
    received: Vec<u8>,
    events: VecDeque<Value>,
}

impl Client {
    async fn open(service: &KubeService, path: &str) -> Self {
        Self::open_with(service, path, &[]).await
    }

    async fn open_with(service: &KubeService, path: &str, headers: &[(&str, &str)]) -> Self {
        let mut request = Request::get(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = http_body_util::Empty::<bytes::Bytes>::new();
        let request = request.body(body).expect("a request");
        let response = service.answer(request).await;
        let (head, body) = response.into_parts();
        Self {
            body,
            code: head.status,
            headers: head.headers,
            received: Vec::new(),
            events: VecDeque::new(),
        }
    }

    /// A piece of the body; `None` at its end.
    async fn piece(&mut self) -> Option<Vec<u8>> {
        let frame = self.body.frame().await?.expect("infallible");
        let mut data = frame.into_data().expect("data");
        let length = bytes::Buf::remaining(&data);
        Some(bytes::Buf::copy_to_bytes(&mut data, length).to_vec())
    }

    /// The next event, however long it takes; `None` at the end.
    async fn next(&mut self) -> Option<Value> {
        while self.events.is_empty() {
            let piece = self.piece().await?;
            self.received.extend(piece);
            while let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                self.events
                    .push_back(serde_json::from_slice(&line).expect("an event"));
            }
        }
        self.events.pop_front()
    }

    /// The next event as `TYPE name`.
    async fn brief(&mut self) -> String {
        match self.next().await {
            Some(event) => format!(
                "{} {}",
                event["type"].as_str().expect("a type"),
                event["object"]["metadata"]["name"].as_str().unwrap_or("-")
            ),
            None => "end".to_owned(),
        }
    }

    /// Whether nothing comes for a while.
    async fn is_silent(&mut self) -> bool {
        let quiet = Duration::from_millis(500);
        tokio::time::timeout(quiet, self.next()).await.is_err()
    }
}

fn revision(event: &Value) -> i64 {
    let text = event["object"]["metadata"]["resourceVersion"].as_str();
    text.and_then(|text| text.parse().ok()).expect("a revision")
}

/// Writes a pod with these labels on this node.
fn put_pod(etcd: &FakeEtcd, name: &str, node: &str, labels: Value) -> i64 {
    let pod = json!({
        "metadata": {"name": name, "namespace": "a", "labels": labels},
        "spec": {"nodeName": node, "containers": [{"name": "c"}]},
    });
    let mut raw = Vec::new();
    from_json(&schema::POD, pod.as_object().expect("an object"), &mut raw).expect("a pod");
    let value = envelope::seal("v1", "Pod", &raw);
    etcd.write(&[(&format!("/registry/pods/a/{name}"), Some(value))])
}

fn delete(etcd: &FakeEtcd, name: &str) -> i64 {
    etcd.write(&[(&format!("/registry/pods/a/{name}"), None)])
}

#[tokio::test(start_paused = true)]
async fn the_state_comes_first_and_changes_follow() {
    for arguments in [&[][..], &["--watch-cache=false"]] {
        let etcd = FakeEtcd::default();
        for name in ["two", "one"] {
            put(&etcd, "a", name, "Running");
        }
        let tier = ready(&etcd, arguments).await;
        for path in ["/api/v1/pods?watch=true", "/api/v1/watch/namespaces/a/pods"] {
            let mut client = Client::open(&tier.service, path).await;
            assert_eq!(client.code, StatusCode::OK);
            assert_eq!(client.headers["content-type"], "application/json");
            assert_eq!(client.brief().await, "ADDED one", "{arguments:?} {path}");
            let second = client.next().await.expect("an event");
            assert_eq!(second["object"]["kind"], "Pod");
            assert!(client.is_silent().await, "no bookmark was asked for");
            put(&etcd, "a", "three", "Running");
            put(&etcd, "a", "one", "Failed");
            put(&etcd, "b", "other", "Running");
            let gone = delete(&etcd, "three");
            assert_eq!(client.brief().await, "ADDED three");
            assert_eq!(client.brief().await, "MODIFIED one");
            if path.ends_with("=true") {
                assert_eq!(client.brief().await, "ADDED other");
            }
            let event = client.next().await.expect("an event");
            assert_eq!(
                (&event["type"], revision(&event)),
                (&json!("DELETED"), gone)
            );
            assert_eq!(
                event["object"]["status"]["phase"], "Running",
                "its last state"
            );
            assert!(client.is_silent().await);
            etcd.write(&[("/registry/pods/b/other", None)]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_object_is_watched_by_its_name() {
    let etcd = FakeEtcd::default();
    put(&etcd, "a", "one", "Running");
    let tier = ready(&etcd, &[]).await;
    for path in [
        "/api/v1/watch/namespaces/a/pods/two?",
        "/api/v1/namespaces/a/pods?watch=1&fieldSelector=metadata.name%3Dtwo",
    ] {
        let current = etcd.current_revision(b"").await.expect("up");
        let path = format!("{path}&resourceVersion={current}");
        let mut client = Client::open(&tier.service, &path).await;
        put(&etcd, "a", "one", "Failed");
        put(&etcd, "b", "two", "Running");
        put(&etcd, "a", "two", "Running");
        assert_eq!(client.brief().await, "ADDED two", "{path}");
        delete(&etcd, "two");
        assert_eq!(client.brief().await, "DELETED two");
        assert!(client.is_silent().await);
    }
    let plain = get(&tier.service, "/api/v1/namespaces/a/pods/one?watch=true").await;
    assert_eq!(
        plain.json()["kind"],
        "Pod",
        "a named URL is read, not watched"
    );
}

#[tokio::test(start_paused = true)]
async fn selectors_turn_changes_into_what_they_are_for_the_watcher() {
    for arguments in [&[][..], &["--watch-cache=false"]] {
        for query in [
            "labelSelector=on%3Dyes",
            "fieldSelector=spec.nodeName%3Dyes",
        ] {
            let etcd = FakeEtcd::default();
            let write =
                |on: &str, mark: &str| put_pod(&etcd, "pod", on, json!({"on": on, "mark": mark}));
            let first = write("no", "1");
            let tier = ready(&etcd, arguments).await;
            let path = format!("/api/v1/pods?watch=1&resourceVersion={first}&{query}");
            let mut client = Client::open(&tier.service, &path).await;
            write("no", "2");
            let came = write("yes", "3");
            write("yes", "4");
            let left = write("no", "5");
            write("no", "6");
            write("yes", "7");
            let gone = delete(&etcd, "pod");
            for (kind, mark, revision_wanted) in [
                ("ADDED", "3", came),
                ("MODIFIED", "4", came + 1),
                ("DELETED", "4", left),
                ("ADDED", "7", left + 2),
                ("DELETED", "7", gone),
            ] {
                let event = client.next().await.expect("an event");
                let found = (
                    event["type"].as_str().expect("a type"),
                    event["object"]["metadata"]["labels"]["mark"].as_str(),
                    revision(&event),
                );
                assert_eq!(
                    found,
                    (kind, Some(mark), revision_wanted),
                    "{arguments:?} {query}"
                );
            }
            assert!(client.is_silent().await);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn watchers_of_a_node_get_that_node_s_pods() {
    let etcd = FakeEtcd::default();
    let tier = ready(&etcd, &[]).await;
    let mut nodes = Vec::new();
    for node in 0..50 {
        let path = format!(
            "/api/v1/pods?watch=1&resourceVersion=1&fieldSelector=spec.nodeName%3Dnode-{node}"
        );
        nodes.push(Client::open(&tier.service, &path).await);
    }
    for client in &mut nodes {
        assert!(client.is_silent().await);
    }
    put_pod(&etcd, "pod", "node-7", json!({}));
    assert_eq!(nodes[7].brief().await, "ADDED pod");
    put_pod(&etcd, "pod", "node-8", json!({}));
    assert_eq!(nodes[7].brief().await, "DELETED pod");
    assert_eq!(nodes[8].brief().await, "ADDED pod");
    assert!(nodes[9].is_silent().await);
}

#[tokio::test(start_paused = true)]
async fn a_watch_resumes_from_the_ring_or_says_that_it_cannot() {
    let etcd = FakeEtcd::default();
    put(&etcd, "a", "one", "Running");
    let listed = put(&etcd, "a", "two", "Running");
    let tier = ready(&etcd, &[]).await;
    let later = put(&etcd, "a", "three", "Running");
    put(&etcd, "a", "four", "Running");
    let path = |from: i64| format!("/api/v1/pods?watch=1&resourceVersion={from}");
    let mut client = Client::open(&tier.service, &path(listed)).await;
    assert_eq!(client.brief().await, "ADDED three");
    assert_eq!(client.brief().await, "ADDED four");
    let mut client = Client::open(&tier.service, &path(later)).await;
    assert_eq!(client.brief().await, "ADDED four", "nothing is repeated");

    let mut client = Client::open(&tier.service, &path(listed - 1)).await;
    assert_eq!(client.code, StatusCode::OK);
    let error = client.next().await.expect("an event");
    let status = json!({"type": "ERROR", "object": {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("too old resource version: {} ({listed})", listed - 1),
        "reason": "Expired", "code": 410,
    }});
    assert_eq!(error, status);
    assert_eq!(client.brief().await, "end");
}

#[tokio::test(start_paused = true)]
async fn a_watch_list_ends_in_one_annotated_bookmark() {
    let etcd = FakeEtcd::default();
    for i in 0..300 {
        put(&etcd, "a", &format!("pod-{i:03}"), "Running");
    }
    let tier = ready(&etcd, &[]).await;
    let latest = etcd.write(&[("/registry/elsewhere/x", Some(b"x".to_vec()))]);
    let began = Instant::now();
    let path = format!("/api/v1/pods?watch=1&timeoutSeconds=130&{SIE}");
    let mut client = Client::open(&tier.service, &path).await;
    for i in 0..300 {
        assert_eq!(client.brief().await, format!("ADDED pod-{i:03}"));
    }
    let end = client.next().await.expect("a bookmark");
    assert_eq!(end["type"], "BOOKMARK");
    assert_eq!(end["object"]["kind"], "Pod");
    let annotations = &end["object"]["metadata"]["annotations"];
    assert_eq!(*annotations, json!({"k8s.io/initial-events-end": "true"}));
    assert!(revision(&end) >= latest, "as fresh as storage was");
    assert!(began.elapsed() < Duration::from_secs(1));

    let written = put(&etcd, "a", "new", "Running");
    assert_eq!(client.brief().await, "ADDED new");
    let mut times = Vec::new();
    let mut last = 0;
    while let Some(event) = client.next().await {
        assert_eq!(event["type"], "BOOKMARK");
        assert_eq!(event["object"]["metadata"].get("annotations"), None);
        last = revision(&event);
        times.push(began.elapsed().as_secs());
    }
    assert_eq!(
        times,
        [60, 120, 128],
        "each minute, and two seconds before the end"
    );
    assert_eq!((last, began.elapsed().as_secs()), (written, 130));
    // What comes behind the bookmark comes to who resumes from it, once.
    put(&etcd, "a", "newer", "Running");
    let path = format!("/api/v1/pods?watch=1&resourceVersion={last}");
    let mut client = Client::open(&tier.service, &path).await;
    assert_eq!(client.brief().await, "ADDED newer");
    assert_eq!(
        metric(&tier.service, "apiserver_init_events_total").await,
        300.0
    );
}

#[tokio::test(start_paused = true)]
async fn bookmarks_never_descend() {
    for arguments in [&[][..], &["--watch-cache=false"]] {
        let etcd = FakeEtcd::default();
        let current = put(&etcd, "a", "one", "Running");
        let tier = ready(&etcd, arguments).await;
        let path = format!(
            "/api/v1/namespaces/b/pods?watch=1&allowWatchBookmarks=1&timeoutSeconds=200&resourceVersion={current}"
        );
        let mut client = Client::open(&tier.service, &path).await;
        assert!(client.is_silent().await);
        let latest = put(&etcd, "a", "two", "Running");
        etcd.report_progress(latest);
        let first = client.next().await.expect("a bookmark");
        assert_eq!(first["type"], "BOOKMARK");
        assert_eq!(revision(&first), latest, "{arguments:?}");
        // An older word on progress, as one that was under way may come after events.
        etcd.report_progress(current);
        let second = client.next().await.expect("a bookmark");
        assert_eq!(revision(&second), latest, "{arguments:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_has_not_come_is_waited_for() {
    let etcd = FakeEtcd::default();
    let current = put(&etcd, "a", "one", "Running");
    let tier = ready(&etcd, &[]).await;
    let path = format!("/api/v1/pods?watch=1&resourceVersion={}", current + 2);
    let mut client = Client::open(&tier.service, &path).await;
    put(&etcd, "a", "two", "Running");
    put(&etcd, "a", "three", "Running");
    put(&etcd, "a", "four", "Running");
    assert_eq!(
        client.brief().await,
        "ADDED four",
        "silently, without an error"
    );

    let began = Instant::now();
    let path = format!(
        "/api/v1/pods?watch=1&resourceVersion={}&{SIE}",
        current + 1000
    );
    let mut client = Client::open(&tier.service, &path).await;
    let error = client.next().await.expect("an event");
    assert_eq!(began.elapsed(), Duration::from_secs(3));
    assert_eq!(
        (&error["type"], &error["object"]["code"]),
        (&json!("ERROR"), &json!(504))
    );
    let details = &error["object"]["details"];
    assert_eq!(details["causes"][0]["reason"], "ResourceVersionTooLarge");
    assert_eq!(details["retryAfterSeconds"], 1);
    assert_eq!(client.brief().await, "end");
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_is_refused_as_an_apiserver_does() {
    let etcd = FakeEtcd::default();
    put(&etcd, "a", "one", "Running");
    let tier = ready(&etcd, &[]).await;
    for (query, code) in [
        ("resourceVersion=x", 500),
        ("resourceVersionMatch=NotOlderThan", 422),
        ("sendInitialEvents=true&resourceVersionMatch=Exact", 422),
        ("sendInitialEvents=true", 422),
        ("labelSelector=a%20b", 400),
        ("fieldSelector=spec.x%3Dy", 400),
        ("timeoutSeconds=x", 400),
    ] {
        let answer = get(&tier.service, &format!("/api/v1/pods?watch=1&{query}")).await;
        assert_eq!(answer.code.as_u16(), code, "{query}");
        assert_eq!(answer.json()["code"], code);
    }
    let gated = ready(&etcd, &["--feature-gates=WatchList=false"]).await;
    let refused = get(&gated.service, &format!("/api/v1/pods?watch=1&{SIE}")).await;
    assert_eq!(refused.code, StatusCode::UNPROCESSABLE_ENTITY);
    let mut plain =
        Client::open(&gated.service, "/api/v1/pods?watch=1&allowWatchBookmarks=1").await;
    assert_eq!(plain.brief().await, "ADDED one");
    assert!(plain.is_silent().await, "no annotated bookmark");

    let old = FakeEtcd::default();
    old.set_has_progress(false);
    let tier = ready(&old, &[]).await;
    for query in [SIE, "allowWatchBookmarks=true"] {
        let mut client =
            Client::open(&tier.service, &format!("/api/v1/pods?watch=1&{query}")).await;
        assert_eq!(client.code, StatusCode::OK);
        let status = &client.next().await.expect("an event")["object"];
        assert_eq!(
            (&status["code"], &status["reason"]),
            (&json!(500), &json!("InternalError"))
        );
        assert_eq!(client.brief().await, "end");
    }
    let line = "bench_progress_supported{group=\"\",resource=\"pods\"}";
    assert_eq!(metric(&tier.service, line).await, 0.0);

    let down = FakeEtcd::default();
    down.set_down(true);
    let tier = start(&down, &[]).await;
    let refused = get(&tier.service, "/api/v1/pods?watch=1").await;
    assert_eq!(refused.code, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers["retry-after"], "1");
}

#[tokio::test(start_paused = true)]
async fn a_slow_watcher_is_closed_and_delays_nobody() {
    let etcd = FakeEtcd::default();
    let tier = ready(&etcd, &[]).await;
    let cache = tier.service.lister("pods").expect("served").cache.clone();
    let cache = cache.expect("on by default");
    let path = "/api/v1/pods?watch=1&resourceVersion=1";
    let mut slow = Client::open(&tier.service, path).await;
    let mut fast = Client::open(&tier.service, path).await;
    assert!(slow.is_silent().await && fast.is_silent().await);
    assert_eq!(cache.joined(), 2);
    let began = Instant::now();
    for i in 0..100 {
        put(&etcd, "a", &format!("pod-{i}"), "Running");
        assert_eq!(fast.brief().await, format!("ADDED pod-{i}"));
    }
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
    let closed = metric(&tier.service, "apiserver_terminated_watchers_total").await;
    assert_eq!(closed, 1.0);
    assert_eq!(slow.brief().await, "end", "what waited for it is dropped");
    assert_eq!(cache.joined(), 1, "who has read the end has left");
    drop((slow, fast));
    assert_eq!(
        cache.joined(),
        0,
        "nothing is left of watches that are gone"
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_is_encoded_once_for_all_who_watch() {
    let etcd = FakeEtcd::default();
    let tier = ready(&etcd, &[]).await;
    let mut clients = Vec::new();
    for i in 0..50 {
        let query = ["", "&labelSelector=a", "&labelSelector=!none"][i % 3];
        let path = format!("/api/v1/pods?watch=1&resourceVersion=1{query}");
        let mut client = Client::open(&tier.service, &path).await;
        assert!(client.is_silent().await);
        clients.push(client);
    }
    put_pod(&etcd, "pod", "node", json!({"a": "b"}));
    for client in &mut clients {
        assert_eq!(client.brief().await, "ADDED pod");
    }
    let line = "bench_watch_encodings_total{group=\"\",resource=\"pods\"}";
    assert_eq!(metric(&tier.service, line).await, 1.0);
}

/// Splits a protobuf watch into the type and the enveloped object of each event.
fn protobuf_events(mut received: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut events = Vec::new();
    while let Some((length, rest)) = received.split_first_chunk::<4>() {
        let (event, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        received = rest;
        let field = |message, number| {
            find_bytes(message, number)
                .expect("a message")
                .expect("set")
        };
        let name = String::from_utf8(field(event, 1).to_vec()).expect("UTF-8");
        events.push((name, field(field(event, 2), 1).to_vec()));
    }
    events
}

#[tokio::test(start_paused = true)]
async fn protobuf_frames_say_what_json_lines_say() {
    let etcd = FakeEtcd::default();
    let path = format!("/api/v1/pods?watch=1&timeoutSeconds=1&{SIE}");
    // One object that is copied and one that is pointed at.
    put_pod(&etcd, "large", "node", json!({"l": "x".repeat(20_000)}));
    put_pod(&etcd, "small", "node", json!({}));
    let tier = ready(&etcd, &[]).await;
    let accept = [("accept", "application/vnd.kubernetes.protobuf;stream=watch")];
    let mut binary = Client::open_with(&tier.service, &path, &accept).await;
    let mut text = Client::open(&tier.service, &path).await;
    assert_eq!(
        binary.headers["content-type"],
        "application/vnd.kubernetes.protobuf;stream=watch"
    );
    let mut received = Vec::new();
    let first = binary.piece().await.expect("the state");
    received.extend(first);
    let mut lines = vec![text.next().await.expect("an event")];
    put_pod(&etcd, "large", "node", json!({"l": "y".repeat(20_000)}));
    delete(&etcd, "small");
    while let Some(piece) = binary.piece().await {
        received.extend(piece);
    }
    while let Some(line) = text.next().await {
        lines.push(line);
    }
    let events = protobuf_events(&received);
    assert_eq!(events.len(), 5);
    assert_eq!(events.len(), lines.len());
    for ((name, object), line) in events.iter().zip(&lines) {
        assert_eq!(*name, line["type"]);
        let raw = envelope::open(object).expect("an envelope");
        let mut json = Vec::new();
        let head = r#""kind":"Pod","apiVersion":"v1""#;
        kube_api::to_json(&schema::POD, raw, head, &mut json).expect("a pod");
        let object: Value = serde_json::from_slice(&json).expect("JSON");
        assert_eq!(object, line["object"]);
    }
    let too_old = format!("{path}&resourceVersion=1").replace(SIE, "");
    let mut binary = Client::open_with(&tier.service, &too_old, &accept).await;
    let error = protobuf_events(&binary.piece().await.expect("an error"));
    assert_eq!(error[0].0, "ERROR");
    let kind = envelope::type_meta(&error[0].1).expect("an envelope");
    assert_eq!(kind, (&b"v1"[..], &b"Status"[..]));
}

/// A frame with an envelope around its event once satisfied every reader that this project has, and made
/// client-go end the watch without a word. Both vectors were written by apimachinery 0.37.2.
#[tokio::test(start_paused = true)]
async fn a_protobuf_frame_is_what_apimachinery_writes() {
    let bytes = |hex: &str| -> Vec<u8> {
        let pairs = hex.as_bytes().chunks(2);
        let digits = pairs.map(|pair| std::str::from_utf8(pair).expect("ASCII"));
        digits
            .map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal"))
            .collect()
    };
    let stored = bytes(
        "6b3873000a0f0a0276311209436f6e6669674d6170121e0a140a016112001a026e7322002a017532003800\
         420012060a016b1201761a002200",
    );
    let frame = bytes(
        "000000450a054144444544123c0a3a6b3873000a0f0a0276311209436f6e6669674d6170121f0a150a0161\
         12001a026e7322002a01753201323800420012060a016b1201761a002200",
    );
    let etcd = FakeEtcd::default();
    let revision = etcd.write(&[("/registry/configmaps/ns/a", Some(stored))]);
    assert_eq!(revision, 2, "the vector's");
    let tier = ready(&etcd, &[]).await;
    let accept = [("accept", "application/vnd.kubernetes.protobuf;stream=watch")];
    let path = "/api/v1/configmaps?watch=1";
    let mut state = Client::open_with(&tier.service, path, &accept).await;
    assert_eq!(state.piece().await, Some(frame.clone()), "of the state");
    // A live event takes another way to its bytes.
    let uncached = ready(&etcd, &["--watch-cache=false"]).await;
    let path = format!("{path}&resourceVersion=1");
    let mut live = Client::open_with(&uncached.service, &path, &accept).await;
    assert_eq!(live.piece().await, Some(frame), "of an event");
}

#[tokio::test(start_paused = true)]
async fn tables_name_their_columns_once() {
    let etcd = FakeEtcd::default();
    put(&etcd, "a", "one", "Running");
    put(&etcd, "a", "two", "Running");
    let tier = ready(&etcd, &[]).await;
    let accept = [(
        "accept",
        "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    )];
    let path = format!("/api/v1/pods?watch=1&{SIE}");
    let mut client = Client::open_with(&tier.service, &path, &accept).await;
    let mut names = Vec::new();
    for i in 0..4 {
        let event = client.next().await.expect("an event");
        let table = &event["object"];
        assert_eq!(
            (&table["kind"], &table["apiVersion"]),
            (&json!("Table"), &json!("meta.k8s.io/v1"))
        );
        assert_eq!(table["columnDefinitions"].is_array(), i == 0);
        revision(&event);
        let row = &table["rows"][0];
        names.push(format!(
            "{} {}",
            event["type"].as_str().expect("a type"),
            row["cells"][0]
        ));
        if i == 2 {
            let end = &row["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"];
            assert_eq!((&event["type"], end), (&json!("BOOKMARK"), &json!("true")));
            put(&etcd, "a", "three", "Running");
        }
    }
    assert_eq!(names[0], "ADDED \"one\"");
    assert_eq!(names[3], "ADDED \"three\"");

    // A watch that begins with a live event has the columns there, and nobody else gets them again.
    let current = etcd.current_revision(b"").await.expect("up");
    let path = format!("/api/v1/pods?watch=1&resourceVersion={current}");
    let mut late = Client::open_with(&tier.service, &path, &accept).await;
    assert!(late.is_silent().await);
    put(&etcd, "a", "four", "Running");
    let columns =
        |event: Option<Value>| event.expect("an event")["object"]["columnDefinitions"].is_array();
    assert!(columns(late.next().await));
    assert!(!columns(client.next().await));
    let error = "/api/v1/pods?watch=1&resourceVersion=1";
    let mut expired = Client::open_with(&tier.service, error, &accept).await;
    assert_eq!(
        expired.next().await.expect("an event")["object"]["kind"],
        "Status"
    );

    for accept in [
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    ] {
        let path = format!("/api/v1/pods?watch=1&{SIE}");
        let mut client = Client::open_with(&tier.service, &path, &[("accept", accept)]).await;
        let piece = client.piece().await.expect("the state");
        if accept.starts_with("application/json") {
            let first = piece.split(|byte| *byte == b'\n').next().expect("a line");
            let event: Value = serde_json::from_slice(first).expect("an event");
            assert_eq!(event["object"]["kind"], "PartialObjectMetadata");
            assert_eq!(event["object"].get("status"), None);
        } else {
            let events = protobuf_events(&piece);
            assert_eq!(events.len(), 5);
            let kind = envelope::type_meta(&events[4].1).expect("an envelope");
            assert_eq!(
                kind,
                (&b"meta.k8s.io/v1"[..], &b"PartialObjectMetadata"[..])
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn custom_resources_are_watched_as_they_are_stored() {
    let etcd = FakeEtcd::default();
    let widget = |size: u64| {
        let widget = json!({
            "apiVersion": "bench.example.com/v1", "kind": "Widget",
            "metadata": {"name": "w", "namespace": "a"}, "spec": {"size": size},
        });
        Some(widget.to_string().into_bytes())
    };
    etcd.write(&[("/registry/bench.example.com/widgets/a/w", widget(1))]);
    let tier = ready(&etcd, &[]).await;
    let path = format!("/apis/bench.example.com/v1/widgets?watch=1&{SIE}");
    let mut client = Client::open(&tier.service, &path).await;
    assert_eq!(client.brief().await, "ADDED w");
    let end = client.next().await.expect("a bookmark");
    assert_eq!(end["object"]["kind"], "Widget");
    let annotations = &end["object"]["metadata"]["annotations"];
    assert_eq!(annotations["k8s.io/initial-events-end"], "true");
    let changed = etcd.write(&[("/registry/bench.example.com/widgets/a/w", widget(2))]);
    let event = client.next().await.expect("an event");
    assert_eq!(
        (&event["type"], revision(&event)),
        (&json!("MODIFIED"), changed)
    );
    assert_eq!(event["object"]["spec"]["size"], 2);
    let gone = etcd.write(&[("/registry/bench.example.com/widgets/a/w", None)]);
    let event = client.next().await.expect("an event");
    assert_eq!(
        (&event["type"], revision(&event)),
        (&json!("DELETED"), gone)
    );
}

#[tokio::test(start_paused = true)]
async fn a_compressed_watch_is_read_event_by_event() {
    use std::io::Read;
    let etcd = FakeEtcd::default();
    put(&etcd, "a", "one", "Running");
    let tier = ready(&etcd, &[]).await;
    let gzip = [("accept-encoding", "deflate, gzip")];
    let path = format!("/api/v1/pods?watch=1&{SIE}");
    let mut client = Client::open_with(&tier.service, &path, &gzip).await;
    assert_eq!(client.headers["content-encoding"], "gzip");
    assert_eq!(client.headers["vary"], "Accept-Encoding");
    let mut received = client.piece().await.expect("the state");
    put(&etcd, "a", "two", "Running");
    let second = client.piece().await.expect("an event");
    // What was begun behind the last event is not there yet, which is an error to a decoder.
    let plain = |bytes: &[u8]| {
        let mut text = Vec::new();
        let mut decoder = flate2::read::MultiGzDecoder::new(bytes);
        let end = decoder.read_to_end(&mut text).expect_err("goes on");
        assert_eq!(end.kind(), std::io::ErrorKind::UnexpectedEof);
        String::from_utf8(text).expect("UTF-8")
    };
    assert_eq!(plain(&received).lines().count(), 2);
    received.extend(second);
    assert_eq!(plain(&received).lines().count(), 3);

    let path = "/api/v1/pods?watch=1";
    let plain = Client::open_with(&tier.service, path, &gzip).await;
    assert!(
        !plain.headers.contains_key("content-encoding"),
        "no watch-list"
    );
    let gated = ready(&etcd, &["--feature-gates=WatchListCompression=false"]).await;
    let path = format!("/api/v1/pods?watch=1&{SIE}");
    let plain = Client::open_with(&gated.service, &path, &gzip).await;
    assert!(!plain.headers.contains_key("content-encoding"));
}

#[tokio::test(start_paused = true)]
async fn a_gap_in_storage_s_watch_ends_every_watch() {
    let etcd = FakeEtcd::default();
    let first = put(&etcd, "a", "one", "Running");
    let tier = ready(&etcd, &[]).await;
    let path = format!("/api/v1/pods?watch=1&resourceVersion={first}");
    let mut client = Client::open(&tier.service, &path).await;
    assert!(client.is_silent().await);
    // A lost connection is nothing that a client sees.
    etcd.break_watches(|| WatchError::Canceled("connection lost".into()));
    put(&etcd, "a", "two", "Running");
    assert_eq!(client.brief().await, "ADDED two");
    let lost = put(&etcd, "a", "three", "Running");
    assert_eq!(client.brief().await, "ADDED three");
    etcd.break_watches(move || WatchError::Compacted {
        compact_revision: lost,
    });
    assert_eq!(client.brief().await, "end");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut client = Client::open(&tier.service, &path).await;
    assert_eq!(
        client.next().await.expect("an event")["object"]["code"],
        410
    );
    assert_eq!(get(&tier.service, "/api/v1/pods").await.names().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_storage_that_starts_over_is_listed_again() {
    let etcd = FakeEtcd::default();
    for i in 0..10 {
        put(&etcd, "a", &format!("old-{i}"), "Running");
    }
    let tier = ready(&etcd, &[]).await;
    let mut client = Client::open(&tier.service, "/api/v1/pods?watch=1&resourceVersion=11").await;
    assert!(client.is_silent().await);
    etcd.restart_empty();
    put(&etcd, "a", "new", "Running");
    assert_eq!(client.brief().await, "end");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(get(&tier.service, "/api/v1/pods").await.names(), ["a/new"]);
    let current = etcd.current_revision(b"").await.expect("up");
    let path = format!("/api/v1/pods?watch=1&resourceVersion={current}");
    let mut client = Client::open(&tier.service, &path).await;
    put(&etcd, "a", "newer", "Running");
    assert_eq!(client.brief().await, "ADDED newer");
}

#[tokio::test(start_paused = true)]
async fn without_a_cache_compaction_is_an_error_event() {
    let etcd = FakeEtcd::default();
    put(&etcd, "a", "one", "Running");
    let latest = put(&etcd, "a", "two", "Running");
    etcd.compact_at(latest);
    let tier = ready(&etcd, &["--watch-cache=false"]).await;
    let mut client = Client::open(&tier.service, "/api/v1/pods?watch=1&resourceVersion=1").await;
    let status = &client.next().await.expect("an event")["object"];
    assert_eq!(
        (&status["code"], &status["reason"]),
        (&json!(410), &json!("Expired"))
    );
    assert_eq!(client.brief().await, "end");
}

#[tokio::test(start_paused = true)]
async fn a_difference_from_storage_is_found_and_older_states_are_not_served() {
    let etcd = FakeEtcd::default();
    put(&etcd, "a", "one", "Running");
    etcd.write(&[("/registry/pods/a/bad", Some(b"no object".to_vec()))]);
    let tier = ready(&etcd, &[]).await;
    let checks = async |status: &str| {
        let line = format!(
            "apiserver_storage_consistency_checks_total{{group=\"\",resource=\"pods\",status=\"{status}\"}}"
        );
        metric(&tier.service, &line).await
    };
    // Longer than the longest period, so that at least one look falls into each step.
    let step = Duration::from_secs(451);
    tokio::time::sleep(step).await;
    assert!(
        checks("success").await >= 1.0 && checks("failure").await == 0.0,
        "what does not decode is no difference"
    );
    let (key, value) = crate::kube::tests::pod("a", "lost", "Running");
    etcd.write_unseen(&[(&key, value)]);
    let latest = put(&etcd, "a", "two", "Running");
    let exact = format!("/api/v1/pods?resourceVersion={latest}&resourceVersionMatch=Exact");
    assert_eq!(
        get(&tier.service, &exact).await.names().len(),
        2,
        "the mistake"
    );
    tokio::time::sleep(step).await;
    assert!(checks("failure").await >= 1.0);
    assert_eq!(
        get(&tier.service, &exact).await.names().len(),
        3,
        "from etcd"
    );

    // Deleting what was lost makes both alike again.
    etcd.write(&[(&key, None)]);
    etcd.set_down(true);
    tokio::time::sleep(step).await;
    assert!(checks("error").await >= 1.0);
    let before = checks("success").await;
    etcd.set_down(false);
    tokio::time::sleep(step).await;
    assert!(checks("success").await > before);

    let gated = ready(&etcd, &["--feature-gates=DetectCacheInconsistency=false"]).await;
    let before = etcd.lists();
    tokio::time::sleep(Duration::from_secs(2_000)).await;
    let pods = etcd.lists().0 - before.0;
    drop(tier);
    assert!(pods > 0, "the other tier still looks");
    let before = etcd.lists();
    tokio::time::sleep(Duration::from_secs(2_000)).await;
    assert_eq!(etcd.lists(), before);
    drop(gated);
}
