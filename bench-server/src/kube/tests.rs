//! The tier over a storage with faults: in memory with paused time, and once over a real socket.
//!
//! A new test of what a LIST answers goes here; one of a single mechanism (tokens, selectors, framing) goes
//! beside that mechanism.

mod shards;
mod slow_readers;

use std::time::Duration;

use etcd_api::kubernetes::{KubernetesEtcd, WatchError};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use kube_api::{ContinueToken, envelope, from_json, schema};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::fake::FakeEtcd;
use super::resource::RESOURCES;
use super::service::KubeService;
use super::tier::{KubeFlags, KubeTier};
use crate::flags::CommonFlags;

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

fn flags(arguments: &[&str]) -> KubeFlags {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        kube: KubeFlags,
    }
    let line = [
        "test",
        "--listen-kube-urls",
        "http://127.0.0.1:0",
        "--etcd-servers",
        "http://fake",
    ];
    clap::Parser::try_parse_from(line.iter().chain(arguments))
        .map(|line: Line| line.kube)
        .expect("flags")
}

pub(super) async fn start(etcd: &FakeEtcd, arguments: &[&str]) -> KubeTier {
    let common = CommonFlags {
        log_level: "info".into(),
        worker_threads: 1,
        gather_writes: true,
    };
    KubeTier::start_over(
        std::sync::Arc::new(etcd.clone()),
        &flags(arguments),
        &common,
    )
    .await
    .expect("starts")
}

/// Started, and its caches filled.
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
pub(super) struct Answer {
    pub(super) code: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Answer {
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
) -> Answer {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("accept", accept)
        .body(http_body_util::Empty::<bytes::Bytes>::new())
        .expect("a request");
    let response = service.answer(request).await;
    let (code, headers) = (response.status(), response.headers().clone());
    let body = response
        .into_body()
        .collect()
        .await
        .expect("infallible")
        .to_bytes()
        .to_vec();
    Answer {
        code,
        headers,
        body,
    }
}

pub(super) async fn get(service: &KubeService, path: &str) -> Answer {
    request(service, Method::GET, path, "").await
}

/// The value of a metric, by the beginning of its line.
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

/// Pages through `path`; answers names and the revisions that the pages had.
async fn pages(service: &KubeService, path: &str, limit: usize) -> (Vec<String>, Vec<i64>) {
    let (mut names, mut revisions, mut token) = (Vec::new(), Vec::new(), String::new());
    loop {
        let query = if token.is_empty() {
            String::new()
        } else {
            format!("&continue={token}")
        };
        let page = get(service, &format!("{path}?limit={limit}{query}")).await;
        assert_eq!(page.code, StatusCode::OK, "{}", page.body.escape_ascii());
        names.extend(page.names());
        revisions.push(page.revision());
        let remaining = page.json()["metadata"]["remainingItemCount"].as_i64();
        token = page.token();
        assert_eq!(
            remaining.is_some(),
            !token.is_empty(),
            "a count is there with a token only"
        );
        if token.is_empty() {
            return (names, revisions);
        }
        assert!(names.len() + remaining.expect("a token is there") as usize <= 20 + names.len());
        assert!(revisions.len() <= 20, "paging ends");
    }
}

#[tokio::test(start_paused = true)]
async fn pages_add_up_whoever_serves_them() {
    for arguments in [
        &[][..],
        &["--watch-cache=false"],
        &["--feature-gates", "ConsistentListFromCache=false"],
    ] {
        let etcd = FakeEtcd::default();
        for i in 0..15 {
            put(
                &etcd,
                if i < 10 { "a" } else { "b" },
                &format!("pod-{i:02}"),
                "Running",
            );
        }
        let tier = ready(&etcd, arguments).await;
        for (path, expected) in [("/api/v1/pods", 15), ("/api/v1/namespaces/a/pods", 10)] {
            for limit in [1, 7, expected, expected + 1] {
                let (names, revisions) = pages(&tier.service, path, limit).await;
                assert_eq!(names.len(), expected, "{arguments:?} {path} by {limit}");
                assert!(names.is_sorted_by(|a, b| a < b));
                assert!(
                    revisions.iter().all(|revision| *revision == revisions[0]),
                    "one revision for all pages"
                );
            }
        }
        let first = get(&tier.service, "/api/v1/pods?limit=4").await;
        assert_eq!(first.json()["metadata"]["remainingItemCount"], 11);
        let second = get(
            &tier.service,
            &format!("/api/v1/pods?limit=4&continue={}", first.token()),
        )
        .await;
        assert_eq!(
            second.json()["metadata"]["remainingItemCount"],
            7,
            "earlier pages are not counted"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn writes_between_pages_are_invisible() {
    let etcd = FakeEtcd::default();
    for i in 0..10 {
        put(&etcd, "a", &format!("pod-{i}"), "Running");
    }
    let tier = ready(&etcd, &[]).await;
    let first = get(&tier.service, "/api/v1/pods?limit=3").await;
    put(&etcd, "a", "pod-5", "Failed");
    put(&etcd, "a", "pod-7x", "Running");
    etcd.write(&[("/registry/pods/a/pod-8", None)]);
    let rest = get(
        &tier.service,
        &format!("/api/v1/pods?limit=100&continue={}", first.token()),
    )
    .await;
    assert_eq!(rest.revision(), first.revision());
    assert_eq!(rest.names().len(), 7);
    let phase = |answer: &Answer| answer.json()["items"][2]["status"]["phase"].clone();
    assert_eq!(phase(&rest), "Running", "as it was at the first page");
    let whole = get(&tier.service, "/api/v1/pods").await;
    assert_eq!(whole.names().len(), 10);
    assert_eq!(whole.json()["items"][5]["status"]["phase"], "Failed");
}

#[tokio::test(start_paused = true)]
async fn a_compacted_token_can_be_continued_inconsistently() {
    let etcd = FakeEtcd::default();
    for i in 0..10 {
        put(&etcd, "a", &format!("pod-{i}"), "Running");
    }
    let tier = ready(&etcd, &[]).await;
    let first = get(&tier.service, "/api/v1/namespaces/a/pods?limit=3").await;
    put(&etcd, "a", "pod-9x", "Running");
    let latest = put(&etcd, "a", "pod-9y", "Running");
    etcd.compact_at(latest);
    // The cache learns of it with its next look at the compacted revision.
    tokio::time::sleep(Duration::from_secs(16)).await;

    let gone = get(
        &tier.service,
        &format!(
            "/api/v1/namespaces/a/pods?limit=3&continue={}",
            first.token()
        ),
    )
    .await;
    assert_eq!(
        (gone.code, &gone.json()["reason"]),
        (StatusCode::GONE, &json!("Expired"))
    );
    let token = ContinueToken::decode(&gone.token()).expect("a fresh token");
    assert_eq!(
        (token.resource_version, token.start.as_str()),
        (-1, "pod-2\0")
    );
    let rest = get(
        &tier.service,
        &format!("/api/v1/namespaces/a/pods?continue={}", gone.token()),
    )
    .await;
    assert_eq!(rest.code, StatusCode::OK);
    assert_eq!(rest.revision(), latest);
    assert_eq!(rest.names().len(), 9, "the rest as it is now");
    let exact = get(
        &tier.service,
        &format!(
            "/api/v1/pods?resourceVersion={}&resourceVersionMatch=Exact",
            first.revision()
        ),
    )
    .await;
    assert_eq!(
        (exact.code, exact.token()),
        (StatusCode::GONE, String::new())
    );
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
async fn revision_zero_ignores_the_limit() {
    let etcd = FakeEtcd::default();
    for i in 0..5 {
        put(&etcd, "a", &format!("pod-{i}"), "Running");
    }
    let tier = ready(&etcd, &[]).await;
    let list = get(&tier.service, "/api/v1/pods?resourceVersion=0&limit=2").await;
    assert_eq!((list.names().len(), list.token()), (5, String::new()));
    assert_eq!(etcd.revision_reads(), 0, "whatever the cache holds");
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_is_never_reached_ends_after_three_seconds() {
    let etcd = FakeEtcd::default();
    let current = put(&etcd, "a", "pod", "Running");
    let tier = ready(&etcd, &[]).await;
    for query in [
        "",
        "&resourceVersionMatch=NotOlderThan",
        "&resourceVersionMatch=Exact",
        "&limit=1",
    ] {
        let started = Instant::now();
        let late = get(
            &tier.service,
            &format!("/api/v1/pods?resourceVersion={}{query}", current + 1000),
        )
        .await;
        assert_eq!(started.elapsed(), Duration::from_secs(3), "{query}");
        assert_eq!(late.code, StatusCode::GATEWAY_TIMEOUT);
        assert_eq!(late.headers["retry-after"], "1");
        let status = late.json();
        assert_eq!(status["reason"], "Timeout");
        assert_eq!(
            status["details"]["causes"][0]["reason"],
            "ResourceVersionTooLarge"
        );
        assert!(
            status["message"]
                .as_str()
                .expect("text")
                .contains("Too large resource version: ")
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_written_is_read_though_nothing_else_happens() {
    let etcd = FakeEtcd::default();
    put(&etcd, "a", "pod", "Running");
    let tier = ready(&etcd, &[]).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(
        etcd.progress_requests(),
        0,
        "nobody waits, nothing is asked"
    );

    // Another resource moves the revision: only progress can tell the pods' cache that it is current.
    let revision = etcd.write(&[("/registry/elsewhere/x", Some(b"x".to_vec()))]);
    let started = Instant::now();
    let list = get(&tier.service, "/api/v1/pods").await;
    assert!(list.revision() >= revision);
    assert!(
        started.elapsed() <= Duration::from_millis(110),
        "within one tick, not {:?}",
        started.elapsed()
    );
    assert_eq!(etcd.progress_requests(), 1);

    let revision = put(&etcd, "a", "new", "Running");
    let list = get(&tier.service, "/api/v1/pods").await;
    assert_eq!((list.names().len(), list.revision()), (2, revision));

    tokio::time::sleep(Duration::from_secs(60)).await;
    let asked = etcd.progress_requests();
    assert!(asked <= 3, "{asked} requests though nobody waited any more");
    assert_eq!(etcd.revision_reads(), 2);
    assert_eq!(
        metric(
            &tier.service,
            "bench_revision_reads_total{group=\"\",resource=\"pods\"}"
        )
        .await,
        2.0
    );
    assert_eq!(
        metric(
            &tier.service,
            "bench_progress_requests_total{group=\"\",resource=\"pods\"}"
        )
        .await,
        asked as f64
    );
    assert_eq!(
        metric(
            &tier.service,
            "bench_list_fallbacks_total{group=\"\",resource=\"pods\"}"
        )
        .await,
        0.0
    );
}

#[tokio::test(start_paused = true)]
async fn a_late_cache_is_passed_over() {
    let etcd = FakeEtcd::default();
    put(&etcd, "a", "pod", "Running");
    let tier = ready(&etcd, &[]).await;
    etcd.set_silent(true);
    let revision = put(&etcd, "a", "new", "Running");
    let started = Instant::now();
    let list = get(&tier.service, "/api/v1/pods").await;
    assert_eq!(started.elapsed(), Duration::from_secs(3));
    assert_eq!(
        (list.names().len(), list.revision()),
        (2, revision),
        "etcd's answer"
    );
    // One request at once, then one every 100 ms while the reader waits.
    assert!(
        (29..=31).contains(&etcd.progress_requests()),
        "{} requests",
        etcd.progress_requests()
    );
    assert_eq!(
        metric(
            &tier.service,
            "bench_list_fallbacks_total{group=\"\",resource=\"pods\"}"
        )
        .await,
        1.0
    );
    let line = "apiserver_watch_cache_consistent_read_total{group=\"\",resource=\"pods\",success=\"false\",fallback=\"true\"}";
    assert_eq!(metric(&tier.service, line).await, 1.0);
    let stale = get(&tier.service, "/api/v1/pods?resourceVersion=0").await;
    assert_eq!(stale.names().len(), 1, "the cache is what it was");
}

#[tokio::test(start_paused = true)]
async fn without_safe_progress_consistent_lists_go_to_etcd() {
    let etcd = FakeEtcd::default();
    put(&etcd, "a", "pod", "Running");
    etcd.set_has_progress(false);
    let tier = ready(&etcd, &[]).await;
    let (streams, _) = etcd.lists();
    assert_eq!(get(&tier.service, "/api/v1/pods").await.names().len(), 1);
    assert_eq!(etcd.lists().0, streams + 1);
    // A quiet resource's cache is waited for in vain, and storage is not asked what it would answer wrongly.
    let revision = etcd.write(&[("/registry/elsewhere/x", Some(b"x".to_vec()))]);
    let path = format!("/api/v1/pods?resourceVersion={revision}");
    let late = get(&tier.service, &path).await;
    assert_eq!(late.code, StatusCode::GATEWAY_TIMEOUT);
    assert_eq!((etcd.revision_reads(), etcd.progress_requests()), (0, 0));
    assert_eq!(
        metric(
            &tier.service,
            "apiserver_storage_list_total{group=\"\",resource=\"pods\",storage=\"etcd\""
        )
        .await,
        1.0
    );
}

#[tokio::test(start_paused = true)]
async fn revisions_that_the_cache_cannot_reach_are_read_from_etcd() {
    for arguments in [&[][..], &["--feature-gates=ListFromCacheSnapshot=false"]] {
        let etcd = FakeEtcd::default();
        etcd.set_has_progress(!arguments.is_empty());
        for i in 0..4 {
            put(&etcd, "a", &format!("pod-{i}"), "Running");
        }
        let tier = ready(&etcd, arguments).await;
        // Another resource moves the revision, which the pods' cache is not told.
        let revision = etcd.write(&[("/registry/elsewhere/x", Some(b"x".to_vec()))]);
        let started = Instant::now();
        for query in ["&resourceVersionMatch=Exact", "&limit=5"] {
            let path = format!("/api/v1/pods?resourceVersion={revision}{query}");
            let list = get(&tier.service, &path).await;
            assert_eq!(list.code, StatusCode::OK, "{arguments:?} {query}");
            assert_eq!((list.names().len(), list.revision()), (4, revision));
        }
        assert_eq!(etcd.progress_requests(), 0, "{arguments:?}");
        let first = get(&tier.service, "/api/v1/pods?limit=3").await;
        let path = format!("/api/v1/pods?limit=3&continue={}", first.token());
        let second = get(&tier.service, &path).await;
        assert_eq!(second.names(), ["a/pod-3"], "{arguments:?}");
        assert_eq!(second.revision(), first.revision());
        assert!(started.elapsed() < Duration::from_secs(1), "{arguments:?}");
        // What storage does not have either is said at once.
        let none = "/api/v1/pods?resourceVersion=1000&resourceVersionMatch=Exact";
        let none = get(&tier.service, none).await;
        assert_eq!(none.code, StatusCode::GATEWAY_TIMEOUT);
        let message = format!("Timeout: Too large resource version: 1000, current: {revision}");
        assert_eq!(none.json()["message"], message);
        assert!(!none.headers.contains_key("retry-after"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_storage_that_hides_its_features_is_asked_again() {
    let etcd = FakeEtcd::default();
    put(&etcd, "a", "pod", "Running");
    etcd.set_no_features(true);
    let tier = ready(&etcd, &[]).await;
    let (streams, _) = etcd.lists();
    assert_eq!(get(&tier.service, "/api/v1/pods").await.names(), ["a/pod"]);
    assert_eq!(etcd.lists().0, streams + 1, "not known is not safe");
    tokio::time::sleep(Duration::from_secs(100)).await;
    etcd.set_no_features(false);
    tokio::time::sleep(Duration::from_secs(16)).await;
    assert_eq!(get(&tier.service, "/api/v1/pods").await.names(), ["a/pod"]);
    assert_eq!(etcd.lists().0, streams + 1, "from the cache");
    assert_eq!(etcd.revision_reads(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_never_needs_the_cache_does_not_wait_for_it() {
    for has_progress in [true, false] {
        let etcd = FakeEtcd::default();
        let current = put(&etcd, "a", "pod", "Running");
        etcd.set_has_progress(has_progress);
        // No cache is ever filled.
        etcd.set_stuck(true);
        let tier = start(&etcd, &[]).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        let started = Instant::now();
        // A consistent list whose pages are no stream of storage's.
        let list = get(&tier.service, "/api/v1/pods?limit=1&labelSelector=!none").await;
        let expected = match has_progress {
            true => StatusCode::TOO_MANY_REQUESTS,
            false => StatusCode::OK,
        };
        assert_eq!(list.code, expected);
        let one = "/api/v1/namespaces/a/pods/pod?resourceVersion=";
        let found = get(&tier.service, &format!("{one}{current}")).await;
        assert_eq!(found.code, StatusCode::OK);
        let future = get(&tier.service, &format!("{one}{}", current + 1)).await;
        assert_eq!(future.code, StatusCode::GATEWAY_TIMEOUT);
        assert_eq!(started.elapsed(), Duration::ZERO);
    }
    let etcd = FakeEtcd::default();
    let current = put(&etcd, "a", "pod", "Running");
    let tier = ready(&etcd, &["--watch-cache=false"]).await;
    let path = "/api/v1/namespaces/a/pods/pod?resourceVersion=18446744073709551615";
    let future = get(&tier.service, path).await;
    let expected = format!(
        "Timeout: Too large resource version: {}, current: {current}",
        i64::MAX
    );
    assert_eq!(future.code, StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(future.json()["message"], expected);
}

#[tokio::test(start_paused = true)]
async fn a_list_of_one_name_has_no_second_page() {
    let etcd = FakeEtcd::default();
    put(&etcd, "a", "one", "Running");
    let old = put(&etcd, "a", "two", "Running");
    put(&etcd, "a", "two", "Failed");
    let tier = ready(&etcd, &[]).await;
    let path = "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Dtwo";
    let lists = "apiserver_storage_list_total{group=\"\",resource=\"pods\",storage=\"etcd\"";
    let token = ContinueToken::after(old, "two").encode();
    for (i, (query, phase)) in [
        (format!("&continue={token}"), "Failed"),
        ("&continue=none&limit=1".to_owned(), "Failed"),
        (
            format!("&resourceVersion={old}&resourceVersionMatch=Exact"),
            "Running",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let list = get(&tier.service, &format!("{path}{query}")).await;
        assert_eq!(list.names(), ["a/two"], "{query}");
        assert_eq!(list.json()["items"][0]["status"]["phase"], phase, "{query}");
        assert_eq!(list.token(), "");
        assert_eq!(metric(&tier.service, lists).await, (i + 1) as f64);
    }
    let list = get(&tier.service, path).await;
    assert_eq!(list.names(), ["a/two"]);
    assert_eq!(metric(&tier.service, lists).await, 3.0, "from the cache");
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
        (two.code, &two.body[..]),
        (StatusCode::NOT_FOUND, &b"404 page not found\n"[..])
    );
    // A watch has no use for `timeout`, whatever it is.
    let path = "/api/v1/pods?timeout=x";
    let refused = get(&tier.service, path).await;
    assert_eq!(refused.code, StatusCode::BAD_REQUEST);
    let watched = get(&tier.service, &format!("{path}&watch=1&timeoutSeconds=1")).await;
    assert_eq!(watched.code, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_storage_without_streams_fills_the_cache_in_pages() {
    let etcd = FakeEtcd::default();
    put(&etcd, "a", "pod", "Running");
    etcd.set_no_stream(true);
    let tier = ready(&etcd, &[]).await;
    assert_eq!(
        get(&tier.service, "/api/v1/pods?resourceVersion=0")
            .await
            .names()
            .len(),
        1
    );
    let (streams, pages) = etcd.lists();
    assert_eq!(
        (streams, pages),
        (0, RESOURCES.len()),
        "one page for each resource"
    );

    let gated = FakeEtcd::default();
    let _tier = ready(&gated, &["--feature-gates=EtcdRangeStream=false"]).await;
    assert_eq!(gated.lists().0, 0);
}

#[tokio::test(start_paused = true)]
async fn a_transaction_is_seen_whole() {
    let etcd = FakeEtcd::default();
    let tier = ready(&etcd, &[]).await;
    let pods = [pod("a", "one", "Running"), pod("a", "two", "Running")];
    let revision = etcd.write(&[
        (&pods[0].0, pods[0].1.clone()),
        (&pods[1].0, pods[1].1.clone()),
    ]);
    let list = get(&tier.service, "/api/v1/pods").await;
    assert_eq!((list.names().len(), list.revision()), (2, revision));
    assert_eq!(
        list.json()["items"][0]["metadata"]["resourceVersion"],
        revision.to_string()
    );
}

#[tokio::test(start_paused = true)]
async fn a_gap_in_the_watch_fills_the_cache_again() {
    let etcd = FakeEtcd::default();
    put(&etcd, "a", "pod", "Running");
    let tier = ready(&etcd, &[]).await;
    // A lost connection is resumed from where it was, without a list.
    let before = etcd.lists();
    etcd.break_watches(|| WatchError::Canceled("connection lost".into()));
    let revision = put(&etcd, "a", "while-away", "Running");
    let list = get(&tier.service, "/api/v1/pods").await;
    assert_eq!((list.names().len(), list.revision()), (2, revision));
    assert_eq!(etcd.lists(), before);
    // A compacted one needs a list.
    let revision = put(&etcd, "a", "third", "Running");
    etcd.break_watches(move || WatchError::Compacted {
        compact_revision: revision,
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(
        get(&tier.service, "/api/v1/pods?resourceVersion=0")
            .await
            .names()
            .len(),
        3
    );
    assert_eq!(
        etcd.lists().0,
        before.0 + RESOURCES.len(),
        "each cache listed again"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_is_not_filled_says_when_to_come_back() {
    let etcd = FakeEtcd::default();
    put(&etcd, "a", "pod", "Running");
    etcd.set_down(true);
    let tier = start(&etcd, &[]).await;
    assert_eq!(
        get(&tier.service, "/readyz").await.code,
        StatusCode::INTERNAL_SERVER_ERROR
    );
    assert_eq!(get(&tier.service, "/livez").await.code, StatusCode::OK);
    let refused = get(&tier.service, "/api/v1/pods").await;
    assert_eq!(refused.code, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers["retry-after"], "1");
    let failed = get(&tier.service, "/api/v1/pods?limit=1").await;
    assert_eq!(
        (failed.code.as_u16(), &failed.json()["reason"]),
        (500, &json!("ServerTimeout"))
    );
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(
        get(&tier.service, "/api/v1/pods").await.headers["retry-after"],
        "30"
    );
    etcd.set_down(false);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(get(&tier.service, "/api/v1/pods").await.names(), ["a/pod"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_decode_hides_no_other() {
    let etcd = FakeEtcd::default();
    put(&etcd, "a", "good", "Running");
    etcd.write(&[("/registry/pods/a/bad", Some(b"{}".to_vec()))]);
    let tier = ready(&etcd, &[]).await;
    assert_eq!(get(&tier.service, "/api/v1/pods").await.names(), ["a/good"]);
    etcd.write(&[("/registry/pods/a/good", Some(b"k8s\0\x12\xff".to_vec()))]);
    assert_eq!(
        get(&tier.service, "/api/v1/pods").await.names(),
        [""; 0],
        "its old state would be wrong"
    );
    assert!(
        metric(
            &tier.service,
            "bench_undecodable_objects_total{group=\"\",resource=\"pods\"}"
        )
        .await
            >= 2.0
    );
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
        // And back: what the JSON says is what the protobuf holds.
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
            // And in pages: the same ones, and no word about how many remain.
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
