//! Tests of a cache whose storage fails: its content, and the responses to clients.

use super::*;

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

/// Otherwise the tier would continue to serve the state of the cache at the time of the panic.
#[tokio::test(start_paused = true)]
async fn a_cache_that_panics_is_told_by_the_tier() {
    let etcd = FakeEtcd::default();
    let mut tier = ready(&etcd, &[]).await;
    etcd.set_broken(true);
    etcd.break_watches(|| WatchError::Canceled("connection lost".into()));
    let ended = tokio::time::timeout(Duration::from_secs(600), tier.ended()).await;
    let ended = ended.expect("it is told").to_string();
    assert!(
        ended.starts_with("the watch cache of ")
            && ended.ends_with(" panicked: this fake is broken"),
        "{ended}"
    );
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
    // After a lost connection, the cache watches again from the revision that it has reached,
    // without a list.
    let before = etcd.lists();
    etcd.break_watches(|| WatchError::Canceled("connection lost".into()));
    let revision = put(&etcd, "a", "while-away", "Running");
    let list = get(&tier.service, "/api/v1/pods").await;
    assert_eq!((list.names().len(), list.revision()), (2, revision));
    assert_eq!(etcd.lists(), before);
    // After a compaction, it has to list.
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

/// The metadata of the object is valid, so the cache keeps it, and protobuf lists contain it
/// unchanged.
#[tokio::test(start_paused = true)]
async fn an_object_that_json_cannot_show_hides_no_other_and_is_counted() {
    let etcd = FakeEtcd::default();
    put(&etcd, "a", "good", "Running");
    let metadata = json!({"metadata": {"name": "bad", "namespace": "a"}});
    let mut raw = Vec::new();
    from_json(&schema::POD, metadata.as_object().unwrap(), &mut raw).expect("a pod");
    // A `spec` of one byte, which is an incomplete number.
    raw.extend_from_slice(b"\x12\x01\xff");
    let value = envelope::seal("v1", "Pod", &raw);
    etcd.write(&[("/registry/pods/a/bad", Some(value))]);
    let tier = ready(&etcd, &[]).await;
    let counted = "bench_undecodable_objects_total{group=\"\",resource=\"pods\"}";
    let before = metric(&tier.service, counted).await;
    assert_eq!(get(&tier.service, "/api/v1/pods").await.names(), ["a/good"]);
    assert_eq!(metric(&tier.service, counted).await, before + 1.0);
}

/// If storage compacts faster than a cache can be filled, there are pauses between lists.
#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_again_and_again_is_listed_for_less_and_less_often() {
    let etcd = FakeEtcd::default();
    put(&etcd, "a", "pod", "Running");
    let _tier = ready(&etcd, &[]).await;
    let before = etcd.lists().0;
    for _ in 0..12_000 {
        etcd.break_watches(|| WatchError::Compacted {
            compact_revision: 1,
        });
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let lists = (etcd.lists().0 - before) / RESOURCES.len();
    assert!((5..12).contains(&lists), "{lists} of each in a minute");
}
