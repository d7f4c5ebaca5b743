//! Tests of watches when storage loses events, is restarted empty, is compacted, or differs from
//! the cache.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_gap_in_storage_s_watch_ends_every_watch() {
    let etcd = FakeEtcd::default();
    let first = put(&etcd, "a", "one", "Running");
    let tier = ready(&etcd, &[]).await;
    let path = format!("/api/v1/pods?watch=1&resourceVersion={first}");
    let mut client = Client::open(&tier.service, &path).await;
    assert!(client.is_silent().await);
    // Clients do not notice a lost connection.
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

/// A storage that is restarted empty, and whose revision cannot be read at first.
#[tokio::test(start_paused = true)]
async fn a_storage_that_starts_over_is_not_followed_before_it_says_where_it_is() {
    let etcd = FakeEtcd::default();
    for i in 0..10 {
        put(&etcd, "a", &format!("old-{i}"), "Running");
    }
    let tier = ready(&etcd, &[]).await;
    etcd.set_no_revisions(true);
    etcd.restart_empty();
    tokio::time::sleep(Duration::from_secs(1)).await;
    etcd.set_no_revisions(false);
    tokio::time::sleep(Duration::from_secs(5)).await;
    put(&etcd, "a", "new", "Running");
    assert_eq!(get(&tier.service, "/api/v1/pods").await.names(), ["a/new"]);
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
    // Longer than the longest time between two consistency checks, so that each step has at least
    // one.
    let step = Duration::from_secs(451);
    tokio::time::sleep(step).await;
    assert!(
        checks("success").await >= 1.0 && checks("failure").await == 0.0,
        "what does not decode is no difference"
    );
    let (key, value) = crate::tests::pod("a", "lost", "Running");
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

    // Once the lost object is deleted, cache and storage are equal again.
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
