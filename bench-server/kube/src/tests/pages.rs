//! Tests of lists in pages: every object is listed once, at one revision, from the cache and from
//! storage.

use super::*;

/// Lists `path` in pages. Returns the names, and the revision of each page.
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
    let phase = |answer: &TestResponse| answer.json()["items"][2]["status"]["phase"].clone();
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
    // Wait until the cache has read the compacted revision again.
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
async fn revision_zero_ignores_the_limit() {
    let etcd = FakeEtcd::default();
    for i in 0..5 {
        put(&etcd, "a", &format!("pod-{i}"), "Running");
    }
    let tier = ready(&etcd, &[]).await;
    let list = get(&tier.service, "/api/v1/pods?resourceVersion=0&limit=2").await;
    assert_eq!((list.names().len(), list.token()), (5, String::new()));
    let reads = revision_reads(&tier.service).await;
    assert_eq!(reads, 0.0, "whatever the cache holds");
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
    let token = ContinueToken::after(old, "one").encode();
    let latest = ContinueToken::after(-1, "one").encode();
    for (i, (query, phase)) in [
        (format!("&continue={token}"), "Running"),
        (format!("&continue={latest}&limit=1"), "Failed"),
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
