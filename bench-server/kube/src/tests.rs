//! Tests of the tier with a storage that can fail: in memory with paused time, and one over a real
//! socket.
//!
//! New tests of the responses to LIST belong in the file of their subject below, or here. Tests
//! of a single mechanism (tokens, selectors, framing) belong in the module of that mechanism.

pub(super) mod fake;

mod faults;
mod not_from_cache;
mod pages;
mod revisions;
mod shapes;
mod shards;
mod slow_readers;

use std::time::Duration;

use etcd_api::kubernetes::{KubernetesEtcd, WatchError};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use kube_api::{ContinueToken, envelope, from_json, schema};
use listen::flags::CommonFlags;
use serde_json::{Value, json};
use tokio::time::Instant;

use self::fake::FakeEtcd;
use crate::http::service::KubeService;
use crate::resource::RESOURCES;
use crate::server::{KubeFlags, KubeTier};

pub(super) fn pod(namespace: &str, name: &str, phase: &str) -> (String, Option<Vec<u8>>) {
    let pod = json!({
        "metadata": {"name": name, "namespace": namespace, "uid": format!("uid-{name}")},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": phase},
    });
    let mut raw = Vec::new();
    from_json(&schema::POD, pod.as_object().expect("an object"), &mut raw).expect("a pod");
    (
        format!("/registry/pods/{namespace}/{name}"),
        Some(envelope::seal("v1", "Pod", &raw)),
    )
}

pub(super) fn put(etcd: &FakeEtcd, namespace: &str, name: &str, phase: &str) -> i64 {
    let (key, value) = pod(namespace, name, phase);
    etcd.write(&[(&key, value)])
}

fn flags(arguments: &[&str]) -> (KubeFlags, CommonFlags) {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        kube: KubeFlags,
        #[command(flatten)]
        common: CommonFlags,
    }
    let line = [
        "test",
        "--listen-kube-urls",
        "http://127.0.0.1:0",
        "--etcd-servers",
        "http://fake",
    ];
    clap::Parser::try_parse_from(line.iter().chain(arguments))
        .map(|line: Line| (line.kube, line.common))
        .expect("flags")
}

pub(super) async fn start(etcd: &FakeEtcd, arguments: &[&str]) -> KubeTier {
    let (kube, common) = flags(arguments);
    let common = CommonFlags {
        worker_threads: 1,
        enable_debug_endpoints: true,
        ..common
    };
    KubeTier::start_over(std::sync::Arc::new(etcd.clone()), &kube, &common)
        .await
        .expect("starts")
}

/// Starts a tier and waits until its caches are filled.
pub(super) async fn ready(etcd: &FakeEtcd, arguments: &[&str]) -> KubeTier {
    let tier = start(etcd, arguments).await;
    for _ in 0..1_000 {
        if get(&tier.service, "/readyz").await.code == StatusCode::OK {
            return tier;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("caches are not filled");
}

#[derive(Debug)]
pub(super) struct TestResponse {
    pub(super) code: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl TestResponse {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.body.escape_ascii()))
    }

    pub(super) fn names(&self) -> Vec<String> {
        let list = self.json();
        let items = list["items"]
            .as_array()
            .unwrap_or_else(|| panic!("no list: {list}"));
        let name = |item: &Value| {
            format!(
                "{}/{}",
                item["metadata"]["namespace"].as_str().unwrap_or("?"),
                item["metadata"]["name"].as_str().unwrap_or("?")
            )
        };
        items.iter().map(name).collect()
    }

    pub(super) fn revision(&self) -> i64 {
        let list = self.json();
        let revision = list["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_else(|| panic!("no list: {list}"));
        revision.parse().expect("a number")
    }

    pub(super) fn token(&self) -> String {
        self.json()["metadata"]["continue"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }
}

pub(super) async fn request(
    service: &KubeService,
    method: Method,
    path: &str,
    accept: &str,
) -> TestResponse {
    ask(service, method, path, &[("accept", accept)]).await
}

/// Sends a request with these headers and no body, and returns the whole response.
async fn ask(
    service: &KubeService,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
) -> TestResponse {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = http_body_util::Empty::<bytes::Bytes>::new();
    let response = service.serve(request.body(body).expect("a request")).await;
    let (head, body) = response.into_parts();
    let body = body.collect().await.expect("infallible").to_bytes();
    TestResponse {
        code: head.status,
        headers: head.headers,
        body: body.to_vec(),
    }
}

pub(super) async fn get(service: &KubeService, path: &str) -> TestResponse {
    request(service, Method::GET, path, "").await
}

/// Returns the value of the metric whose line begins with `line`; 0 if there is none.
pub(super) async fn metric(service: &KubeService, line: &str) -> f64 {
    let body = get(service, "/metrics").await.body;
    let text = String::from_utf8(body).expect("text");
    let found = text.lines().find(|candidate| candidate.starts_with(line));
    found.map_or(0.0, |found| {
        found
            .rsplit(' ')
            .next()
            .and_then(|value| value.parse().ok())
            .expect("a number")
    })
}

/// Returns how often requests for pods have read the current revision from storage.
async fn revision_reads(service: &KubeService) -> f64 {
    let line = "bench_revision_reads_total{group=\"\",resource=\"pods\"}";
    metric(service, line).await
}

#[tokio::test(start_paused = true)]
async fn lists_are_ordered_by_storage_key() {
    let etcd = FakeEtcd::default();
    for namespace in ["a", "a-b", "a.b"] {
        put(&etcd, namespace, "x", "Running");
    }
    let tier = ready(&etcd, &[]).await;
    let all = get(&tier.service, "/api/v1/pods?resourceVersion=0").await;
    assert_eq!(all.names(), ["a-b/x", "a.b/x", "a/x"]);
    let one = get(&tier.service, "/api/v1/namespaces/a/pods").await;
    assert_eq!(one.names(), ["a/x"], "`a-b` is no part of namespace `a`");
    let empty = get(&tier.service, "/api/v1/namespaces/none/pods").await;
    assert!(String::from_utf8_lossy(&empty.body).contains("\"items\":[]}\n"));
}

#[tokio::test(start_paused = true)]
async fn bad_requests_are_answered_as_an_apiserver_does() {
    let etcd = FakeEtcd::default();
    let tier = ready(&etcd, &[]).await;
    let token = ContinueToken::after(5, "a/b").encode();
    for (path, code, reason) in [
        (
            "/api/v1/pods?continue=%25%25".to_owned(),
            400,
            json!("BadRequest"),
        ),
        (
            format!("/api/v1/pods?continue={token}%3D"),
            400,
            json!("BadRequest"),
        ),
        (
            format!("/api/v1/pods?continue={token}&resourceVersion=5"),
            400,
            json!("BadRequest"),
        ),
        ("/api/v1/pods?limit=x".to_owned(), 400, json!("BadRequest")),
        (
            "/api/v1/pods?resourceVersion=x".to_owned(),
            400,
            json!("BadRequest"),
        ),
        (
            "/api/v1/pods?resourceVersionMatch=Exact".to_owned(),
            422,
            json!("Invalid"),
        ),
        (
            "/api/v1/pods?sendInitialEvents=true".to_owned(),
            422,
            json!("Invalid"),
        ),
        (
            "/api/v1/namespaces/a/pods/none".to_owned(),
            404,
            json!("NotFound"),
        ),
    ] {
        let answer = get(&tier.service, &path).await;
        assert_eq!(
            (answer.code.as_u16(), &answer.json()["reason"]),
            (code, &reason),
            "{path}"
        );
        assert_eq!(answer.json()["code"], code);
    }
    let posted = request(&tier.service, Method::POST, "/api/v1/pods", "").await;
    assert_eq!(posted.code, StatusCode::METHOD_NOT_ALLOWED);
    let yaml = request(
        &tier.service,
        Method::GET,
        "/api/v1/pods",
        "application/yaml",
    )
    .await;
    assert_eq!(
        (yaml.code, &yaml.json()["reason"]),
        (StatusCode::NOT_ACCEPTABLE, &json!("NotAcceptable"))
    );
    let unknown = get(&tier.service, "/api/v1/services").await;
    assert_eq!(
        (unknown.code, &unknown.json()["reason"]),
        (StatusCode::NOT_FOUND, &json!("NotFound"))
    );
    let unknown = get(&tier.service, "/services").await;
    assert_eq!(
        (unknown.code, &unknown.body[..]),
        (StatusCode::NOT_FOUND, &b"404 page not found\n"[..])
    );
    let protobuf = request(
        &tier.service,
        Method::GET,
        "/api/v1/namespaces/a/pods/none",
        envelope::MEDIA_TYPE,
    )
    .await;
    assert_eq!(
        envelope::type_meta(&protobuf.body),
        Ok((&b"v1"[..], &b"Status"[..]))
    );
}

#[tokio::test(start_paused = true)]
async fn names_in_urls_are_percent_encoded() {
    let etcd = FakeEtcd::default();
    put(&etcd, "a", "one", "Running");
    let tier = ready(&etcd, &[]).await;
    let found = get(&tier.service, "/api/v1/namespaces/%61/pods/o%6Ee").await;
    assert_eq!(found.code, StatusCode::OK);
    let two = get(&tier.service, "/api/v1/namespaces/a%2Fpods/one").await;
    assert_eq!(
        (two.code, &two.json()["details"]),
        (StatusCode::NOT_FOUND, &json!({}))
    );
    // A watch ignores `timeout`, even if it is invalid.
    let path = "/api/v1/pods?timeout=x";
    let refused = get(&tier.service, path).await;
    assert_eq!(refused.code, StatusCode::BAD_REQUEST);
    let watched = get(&tier.service, &format!("{path}&watch=1&timeoutSeconds=1")).await;
    assert_eq!(watched.code, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn json_and_protobuf_lists_are_whole_objects() {
    let etcd = FakeEtcd::default();
    for i in 0..300 {
        let (key, _) = pod("a", &format!("pod-{i:03}"), "");
        let value = json!({"metadata": {"name": format!("pod-{i:03}"), "namespace": "a", "annotations": {"a": "x".repeat(3_000 + 10 * i)}}});
        let mut raw = Vec::new();
        from_json(
            &schema::POD,
            value.as_object().expect("an object"),
            &mut raw,
        )
        .expect("a pod");
        etcd.write(&[(&key, Some(envelope::seal("v1", "Pod", &raw)))]);
    }
    let tier = ready(&etcd, &[]).await;
    for query in ["", "?limit=7"] {
        let protobuf = request(
            &tier.service,
            Method::GET,
            &format!("/api/v1/pods{query}"),
            envelope::MEDIA_TYPE,
        )
        .await;
        assert_eq!(protobuf.headers["content-type"], envelope::MEDIA_TYPE);
        let raw = envelope::open(&protobuf.body).expect("an envelope");
        assert!(protobuf.body.ends_with(envelope::TAIL));
        let mut expected = Vec::new();
        kube_api::to_json(
            &schema::POD_LIST,
            raw,
            r#""kind":"PodList","apiVersion":"v1""#,
            &mut expected,
        )
        .expect("a list");
        expected.push(b'\n');
        let json = get(&tier.service, &format!("/api/v1/pods{query}")).await;
        assert!(
            json.body == expected,
            "streamed JSON is the whole-object encoder's"
        );
        // In the other direction, the JSON is converted to the same protobuf.
        let mut again = Vec::new();
        let list = json.json();
        from_json(
            &schema::POD_LIST,
            list.as_object().expect("an object"),
            &mut again,
        )
        .expect("a list");
        assert!(
            again == raw,
            "streamed protobuf is the whole-object encoder's"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn selectors_select_whoever_serves() {
    for arguments in [&[][..], &["--watch-cache=false"]] {
        let etcd = FakeEtcd::default();
        for i in 0..40 {
            let pod = json!({
                "metadata": {"name": format!("pod-{i:02}"), "namespace": "a", "labels": {"odd": (i % 2).to_string(), "z": "z"}},
                "spec": {"nodeName": format!("node-{}", i % 4)},
                "status": {"phase": "Running"},
            });
            let mut raw = Vec::new();
            from_json(&schema::POD, pod.as_object().expect("an object"), &mut raw).expect("a pod");
            etcd.write(&[(
                &format!("/registry/pods/a/pod-{i:02}"),
                Some(envelope::seal("v1", "Pod", &raw)),
            )]);
        }
        let tier = ready(&etcd, arguments).await;
        for (query, expected) in [
            ("labelSelector=odd%3D1", 20),
            (
                "labelSelector=odd%3D1,z,!none&fieldSelector=spec.nodeName%3Dnode-3",
                10,
            ),
            ("fieldSelector=spec.nodeName!%3Dnode-3", 30),
            (
                "fieldSelector=metadata.name%3Dpod-07,metadata.namespace%3Da,status.phase%3DRunning",
                1,
            ),
            ("labelSelector=odd+in+(2,3)", 0),
        ] {
            let whole = get(&tier.service, &format!("/api/v1/pods?{query}")).await;
            assert_eq!(whole.names().len(), expected, "{arguments:?} {query}");
            // In pages, the objects are the same, and there is no remainingItemCount.
            let (mut names, mut token, mut requests) = (Vec::new(), String::new(), 0);
            loop {
                let page = get(
                    &tier.service,
                    &format!("/api/v1/namespaces/a/pods?{query}&limit=3&continue={token}"),
                )
                .await;
                assert_eq!(page.code, StatusCode::OK);
                assert!(page.names().len() <= 3);
                assert!(page.json()["metadata"].get("remainingItemCount").is_none());
                names.extend(page.names());
                token = page.token();
                requests += 1;
                assert!(requests < 20, "paging ends");
                if token.is_empty() {
                    break;
                }
            }
            assert_eq!(names, whole.names(), "{arguments:?} {query}");
        }
        for bad in [
            "labelSelector=a%20b",
            "fieldSelector=spec.unknown%3Dx",
            "fieldSelector=x",
        ] {
            assert_eq!(
                get(&tier.service, &format!("/api/v1/pods?{bad}"))
                    .await
                    .code,
                StatusCode::BAD_REQUEST,
                "{bad}"
            );
        }
    }
}

#[tokio::test]
async fn over_a_socket_both_protocols_are_spoken() {
    let etcd = FakeEtcd::default();
    for i in 0..50 {
        put(&etcd, "a", &format!("pod-{i:02}"), "Running");
    }
    let tier = ready(&etcd, &[]).await;
    let address = tier.urls[0]
        .strip_prefix("http://")
        .expect("a URL")
        .to_owned();
    for http2 in [false, true] {
        let stream = tokio::net::TcpStream::connect(&address)
            .await
            .expect("connects");
        let io = hyper_util::rt::TokioIo::new(stream);
        let request = Request::get(format!("http://{address}/api/v1/pods"))
            .body(http_body_util::Empty::<bytes::Bytes>::new())
            .expect("a request");
        let response = if http2 {
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(hyper_util::rt::TokioExecutor::new(), io)
                    .await
                    .expect("handshake");
            tokio::spawn(connection);
            sender.send_request(request).await.expect("an answer")
        } else {
            let (mut sender, connection) = hyper::client::conn::http1::handshake(io)
                .await
                .expect("handshake");
            tokio::spawn(connection);
            sender.send_request(request).await.expect("an answer")
        };
        assert_eq!(response.status(), StatusCode::OK);
        assert!(
            !response.headers().contains_key("content-length"),
            "a list is streamed"
        );
        let body = response
            .into_body()
            .collect()
            .await
            .expect("a whole body")
            .to_bytes();
        let list: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(list["items"].as_array().map(Vec::len), Some(50));
    }
    let current = etcd.current_revision(b"").await.expect("up");
    assert_eq!(get(&tier.service, "/api/v1/pods").await.revision(), current);
}
