//! Consistent lists from the cache: what they cost storage, proven by counting.

use http::Method;
use serde_json::json;

use crate::stage::{ALL, Backend, Stage, cases};

/// Too old to report progress when asked.
const OLD: &[Backend] = &[Backend::Etcd34];

cases! {
    a_consistent_list_reads_the_revision_and_no_objects on ALL;
    without_waiters_no_progress_is_requested on ALL;
    an_old_etcd_answers_consistent_lists_itself on OLD;
}

const LISTS: &str = "apiserver_storage_list_total";

async fn a_consistent_list_reads_the_revision_and_no_objects(stage: Stage) {
    stage.config_map("ns", "a").await;
    let count = async |name: &str, label: &str| {
        stage
            .metric(name, &["resource=\"configmaps\"", label])
            .await
    };
    let reads = count("bench_revision_reads_total", "").await;
    let (cached, stored) = (
        count(LISTS, "watchcache").await,
        count(LISTS, "storage=\"etcd\"").await,
    );
    for _ in 0..10 {
        stage.get("/api/v1/configmaps").await.ok();
    }
    assert_eq!(count("bench_revision_reads_total", "").await - reads, 10.0);
    assert_eq!(count(LISTS, "watchcache").await - cached, 10.0);
    assert_eq!(count(LISTS, "storage=\"etcd\"").await, stored);
    for _ in 0..10 {
        stage.get("/api/v1/configmaps?resourceVersion=0").await.ok();
    }
    assert_eq!(
        count("bench_revision_reads_total", "").await - reads,
        10.0,
        "any state is good enough for these"
    );
}

/// Check 10, and the other half of it: whoever waits asks.
async fn without_waiters_no_progress_is_requested(stage: Stage) {
    let asked = async || {
        stage
            .metric(
                "bench_progress_requests_total",
                &["resource=\"configmaps\""],
            )
            .await
    };
    stage.get("/api/v1/configmaps").await.ok();
    let before = asked().await;
    for i in 0..20 {
        let object = json!({"metadata": {"name": format!("s-{i}")}});
        stage
            .post("/api/v1/namespaces/ns/secrets", &object)
            .await
            .ok();
        stage.get("/api/v1/configmaps?resourceVersion=0").await.ok();
    }
    assert_eq!(asked().await, before, "nobody waited");
    // Storage moved on without this resource: only progress can tell its cache so.
    let list = stage.get("/api/v1/configmaps").await.ok();
    assert!(
        asked().await > before || list.revision() > 20,
        "somebody waited"
    );
}

async fn an_old_etcd_answers_consistent_lists_itself(stage: Stage) {
    stage.config_map("ns", "a").await;
    let from = async |storage: &str| {
        stage
            .metric(LISTS, &["resource=\"configmaps\"", storage])
            .await
    };
    let (etcd, cache) = (from("storage=\"etcd\"").await, from("watchcache").await);
    let names = stage.get("/api/v1/configmaps").await.ok().names();
    assert_eq!(names, ["ns/a"]);
    assert_eq!(from("storage=\"etcd\"").await - etcd, 1.0);
    assert_eq!(from("watchcache").await, cache);
    stage
        .request(Method::GET, "/api/v1/configmaps?resourceVersion=0", "", "")
        .await
        .ok();
    assert_eq!(
        from("watchcache").await - cache,
        1.0,
        "what need not be consistent stays with the cache"
    );
}
