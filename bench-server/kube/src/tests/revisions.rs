//! Tests of the revision of a list: when the list waits for the cache, and when storage is read
//! instead.

use super::*;

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

    // A write of another resource increases the revision. Only by progress can the cache of pods
    // learn that it is current.
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
    assert_eq!(revision_reads(&tier.service).await, 2.0);
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
    // One request is sent immediately, then one every 100 ms while the reader waits.
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
    // Waiting for the cache of a quiet resource times out, because storage is not asked for
    // progress that cannot be relied on.
    let revision = etcd.write(&[("/registry/elsewhere/x", Some(b"x".to_vec()))]);
    let path = format!("/api/v1/pods?resourceVersion={revision}");
    let late = get(&tier.service, &path).await;
    assert_eq!(late.code, StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(etcd.progress_requests(), 0);
    assert_eq!(revision_reads(&tier.service).await, 0.0);
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
        // A write of another resource increases the revision, which the cache of pods does not
        // notice.
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
        // A revision that storage has not reached either is refused immediately.
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
    assert_eq!(revision_reads(&tier.service).await, 1.0);
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
        // A consistent list in pages, which are not read by RangeStream.
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
