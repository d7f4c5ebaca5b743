//! Tests of the reasons to read storage for a list instead of the cache: each is counted by its
//! label.

use super::*;

/// Returns the counts of `bench_lists_from_storage_total` for pods, by reason.
async fn reasons(service: &KubeService) -> Vec<(String, f64)> {
    let body = get(service, "/metrics").await.body;
    let text = String::from_utf8(body).expect("text");
    let prefix = "bench_lists_from_storage_total{group=\"\",resource=\"pods\",reason=\"";
    let counts = text.lines().filter_map(|line| line.strip_prefix(prefix));
    counts
        .map(|line| {
            let (reason, count) = line.split_once("\"} ").expect("a label and a value");
            (reason.to_owned(), count.parse().expect("a number"))
        })
        .collect()
}

/// Lists `path`, and asserts that the list was read from storage once, for this reason.
async fn assert_reason(service: &KubeService, path: &str, reason: &str) {
    let list = get(service, path).await;
    assert_eq!(list.code, StatusCode::OK, "{path}");
    let counted = reasons(service).await;
    assert_eq!(counted, [(reason.to_owned(), 1.0)], "{path}");
    let from_etcd = "apiserver_storage_list_total{group=\"\",resource=\"pods\",storage=\"etcd\"";
    assert_eq!(metric(service, from_etcd).await, 1.0, "{path}");
}

#[tokio::test(start_paused = true)]
async fn a_list_from_the_cache_has_no_reason() {
    let etcd = FakeEtcd::default();
    let revision = put(&etcd, "a", "one", "Running");
    let tier = ready(&etcd, &[]).await;
    for query in [
        "",
        "?resourceVersion=0",
        "?limit=1",
        &format!("?resourceVersion={revision}&resourceVersionMatch=Exact"),
    ] {
        let list = get(&tier.service, &format!("/api/v1/pods{query}")).await;
        assert_eq!(list.names(), ["a/one"], "{query}");
    }
    assert_eq!(reasons(&tier.service).await, []);
}

#[tokio::test(start_paused = true)]
async fn flags_and_gates_are_reasons() {
    for (flag, exact, reason) in [
        ("--watch-cache=false", false, "no_cache"),
        (
            "--feature-gates=ConsistentListFromCache=false",
            false,
            "consistent_list_gate_off",
        ),
        (
            "--feature-gates=ListFromCacheSnapshot=false",
            true,
            "snapshot_gate_off",
        ),
    ] {
        let etcd = FakeEtcd::default();
        let revision = put(&etcd, "a", "one", "Running");
        let tier = ready(&etcd, &[flag]).await;
        let path = match exact {
            true => format!("/api/v1/pods?resourceVersion={revision}&resourceVersionMatch=Exact"),
            false => "/api/v1/pods".to_owned(),
        };
        assert_reason(&tier.service, &path, reason).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_storage_without_progress_is_a_reason() {
    let etcd = FakeEtcd::default();
    put(&etcd, "a", "one", "Running");
    etcd.set_has_progress(false);
    let tier = ready(&etcd, &[]).await;
    assert_reason(&tier.service, "/api/v1/pods", "no_progress").await;
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_is_late_is_a_reason() {
    let etcd = FakeEtcd::default();
    put(&etcd, "a", "one", "Running");
    let tier = ready(&etcd, &[]).await;
    etcd.set_silent(true);
    put(&etcd, "a", "two", "Running");
    assert_reason(&tier.service, "/api/v1/pods", "not_fresh").await;
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_is_not_filled_is_a_reason_for_a_page_and_refuses_other_lists() {
    let etcd = FakeEtcd::default();
    put(&etcd, "a", "one", "Running");
    // No cache is ever filled.
    etcd.set_stuck(true);
    let tier = start(&etcd, &[]).await;
    let refused = get(&tier.service, "/api/v1/pods").await;
    assert_eq!(refused.code, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(reasons(&tier.service).await, [], "storage was not read");
    assert_reason(&tier.service, "/api/v1/pods?limit=1", "not_ready").await;
}

#[tokio::test(start_paused = true)]
async fn an_exact_revision_that_the_cache_does_not_keep_is_a_reason() {
    let etcd = FakeEtcd::default();
    let before = put(&etcd, "a", "one", "Running");
    put(&etcd, "a", "two", "Running");
    // The initial list of the cache has the second revision.
    let tier = ready(&etcd, &[]).await;
    let path = format!("/api/v1/pods?resourceVersion={before}&resourceVersionMatch=Exact");
    assert_reason(&tier.service, &path, "no_snapshot").await;
}

#[tokio::test(start_paused = true)]
async fn one_name_at_an_exact_revision_is_a_reason() {
    let etcd = FakeEtcd::default();
    let revision = put(&etcd, "a", "one", "Running");
    let tier = ready(&etcd, &[]).await;
    let path = format!(
        "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Done\
         &resourceVersion={revision}&resourceVersionMatch=Exact"
    );
    assert_reason(&tier.service, &path, "single_object").await;
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_differs_from_storage_is_a_reason() {
    let etcd = FakeEtcd::default();
    put(&etcd, "a", "one", "Running");
    let tier = ready(&etcd, &[]).await;
    let (key, value) = pod("a", "lost", "Running");
    etcd.write_unseen(&[(&key, value)]);
    let revision = put(&etcd, "a", "two", "Running");
    // Longer than the longest time between two consistency checks.
    tokio::time::sleep(Duration::from_secs(451)).await;
    let path = format!("/api/v1/pods?resourceVersion={revision}&resourceVersionMatch=Exact");
    assert_reason(&tier.service, &path, "inconsistent").await;
}
