//! Tests of watches, against an in-memory storage that can fail, with paused time.

mod faults;
mod frames;
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

use crate::http::service::KubeService;
use crate::http::tracked_body::TrackedBody;
use crate::tests::fake::FakeEtcd;
use crate::tests::{get, metric, put, ready, start};

const SIE: &str =
    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

/// A client that reads events one by one.
struct Client {
    body: TrackedBody,
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
        let response = service.serve(request).await;
        let (head, body) = response.into_parts();
        Self {
            body,
            code: head.status,
            headers: head.headers,
            received: Vec::new(),
            events: VecDeque::new(),
        }
    }

    /// Returns the next chunk of the body; `None` at its end.
    async fn piece(&mut self) -> Option<Vec<u8>> {
        let frame = self.body.frame().await?.expect("infallible");
        let mut data = frame.into_data().expect("data");
        let length = bytes::Buf::remaining(&data);
        Some(bytes::Buf::copy_to_bytes(&mut data, length).to_vec())
    }

    /// Returns the next event, and waits for it without a limit; `None` at the end.
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

    /// Returns the next event as `TYPE name`.
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

    /// Returns whether no event comes within 500 ms.
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
    // A watch that resumes from the bookmark receives the events after it, once.
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
        // An older progress notification: one may arrive after events that it does not include.
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
    let cache = tier.service.handler("pods").expect("served").cache.clone();
    let cache = cache.expect("on by default");
    let path = "/api/v1/pods?watch=1&resourceVersion=1";
    let mut slow = Client::open(&tier.service, path).await;
    let mut fast = Client::open(&tier.service, path).await;
    assert!(slow.is_silent().await && fast.is_silent().await);
    assert_eq!(cache.subscriptions(), 2);
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
    assert_eq!(cache.subscriptions(), 1, "who has read the end has left");
    drop((slow, fast));
    assert_eq!(
        cache.subscriptions(),
        0,
        "nothing is left of watches that are gone"
    );
}
