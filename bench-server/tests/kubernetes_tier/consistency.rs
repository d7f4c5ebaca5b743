//! Consistent lists from the cache, and the number of storage requests that they cost.

use http::Method;
use serde_json::json;

use crate::harness::{ALL, Backend, TestCluster, cases};

/// An etcd that does not support progress requests.
const OLD: &[Backend] = &[Backend::Etcd34];

cases! {
    a_consistent_list_reads_the_revision_and_no_objects on ALL;
    without_waiters_no_progress_is_requested on ALL;
    without_progress_requests_storage_serves_consistent_lists on OLD;
}

const LISTS: &str = "apiserver_storage_list_total";

async fn a_consistent_list_reads_the_revision_and_no_objects(cluster: TestCluster) {
    cluster.config_map("ns", "a").await;
    let count = async |name: &str, label: &str| {
        cluster
            .metric(name, &["resource=\"configmaps\"", label])
            .await
    };
    let reads = count("bench_revision_reads_total", "").await;
    let (cached, stored) = (
        count(LISTS, "watchcache").await,
        count(LISTS, "storage=\"etcd\"").await,
    );
    for _ in 0..10 {
        cluster.get("/api/v1/configmaps").await.ok();
    }
    assert_eq!(count("bench_revision_reads_total", "").await - reads, 10.0);
    assert_eq!(count(LISTS, "watchcache").await - cached, 10.0);
    assert_eq!(count(LISTS, "storage=\"etcd\"").await, stored);
    for _ in 0..10 {
        cluster
            .get("/api/v1/configmaps?resourceVersion=0")
            .await
            .ok();
    }
    assert_eq!(
        count("bench_revision_reads_total", "").await - reads,
        10.0,
        "any state is good enough for these"
    );
}

/// A cache requests progress only while a read waits for a revision.
async fn without_waiters_no_progress_is_requested(cluster: TestCluster) {
    let asked = async || {
        cluster
            .metric(
                "bench_progress_requests_total",
                &["resource=\"configmaps\""],
            )
            .await
    };
    cluster.get("/api/v1/configmaps").await.ok();
    let before = asked().await;
    for i in 0..20 {
        let object = json!({"metadata": {"name": format!("s-{i}")}});
        cluster
            .post("/api/v1/namespaces/ns/secrets", &object)
            .await
            .ok();
        cluster
            .get("/api/v1/configmaps?resourceVersion=0")
            .await
            .ok();
    }
    assert_eq!(asked().await, before, "nobody waited");
    // Storage has a newer revision without a change of this resource, which its cache can learn
    // only from progress.
    let list = cluster.get("/api/v1/configmaps").await.ok();
    assert!(
        asked().await > before || list.revision() > 20,
        "somebody waited"
    );
}

async fn without_progress_requests_storage_serves_consistent_lists(cluster: TestCluster) {
    cluster.config_map("ns", "a").await;
    let from = async |storage: &str| {
        cluster
            .metric(LISTS, &["resource=\"configmaps\"", storage])
            .await
    };
    let (etcd, cache) = (from("storage=\"etcd\"").await, from("watchcache").await);
    let names = cluster.get("/api/v1/configmaps").await.ok().names();
    assert_eq!(names, ["ns/a"]);
    assert_eq!(from("storage=\"etcd\"").await - etcd, 1.0);
    assert_eq!(from("watchcache").await, cache);
    cluster
        .request(Method::GET, "/api/v1/configmaps?resourceVersion=0", "", "")
        .await
        .ok();
    assert_eq!(
        from("watchcache").await - cache,
        1.0,
        "what need not be consistent stays with the cache"
    );
}
