//! Tests of a storage that is restored to an earlier revision. What was read from the abandoned
//! history must not be mixed with the history that continues.

use super::*;
use crate::cache::index::{LabelIndex, NewIndex};
use crate::feature_gates::FeatureGates;
use crate::resource::filter::Filter;

/// Longer than the cache takes to notice that storage was restored, and to list it again.
const NOTICED: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_watch_of_the_left_history_ends_and_cannot_be_resumed() {
    let etcd = FakeEtcd::default();
    let kept = put(&etcd, "a", "kept", "Running");
    let tier = ready(&etcd, &[]).await;
    let path = format!("/api/v1/pods?watch=1&resourceVersion={kept}");
    let mut client = Client::open(&tier.service, &path).await;
    let lost = put(&etcd, "a", "lost", "Running");
    put(&etcd, "a", "lost-too", "Running");
    assert_eq!(client.brief().await, "ADDED lost");
    assert_eq!(client.brief().await, "ADDED lost-too");
    etcd.restore(kept);
    assert_eq!(client.brief().await, "end");
    tokio::time::sleep(NOTICED).await;
    assert_eq!(get(&tier.service, "/api/v1/pods").await.names(), ["a/kept"]);

    // The last revision that the client has seen is ahead of storage. The watch does not wait for
    // it, because it belongs to the abandoned history.
    let path = format!("/api/v1/pods?watch=1&resourceVersion={lost}");
    let mut client = Client::open(&tier.service, &path).await;
    let status = &client.next().await.expect("an event")["object"];
    assert_eq!(
        (&status["code"], &status["reason"]),
        (&json!(410), &json!("Expired"))
    );
    assert_eq!(client.brief().await, "end");

    // A watch does wait for a revision that no client can have seen.
    let path = format!("/api/v1/pods?watch=1&resourceVersion={}", lost + 100);
    let mut client = Client::open(&tier.service, &path).await;
    put(&etcd, "a", "new", "Running");
    assert!(client.is_silent().await);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_still_at_its_initial_events_does_not_join_the_other_history() {
    let etcd = FakeEtcd::default();
    let restored_to = put(&etcd, "a", "pod", "Running");
    let filler = "x".repeat(100_000);
    for i in 0..10 {
        put_pod(&etcd, &format!("big-{i}"), "node", json!({"l": filler}));
    }
    let tier = ready(&etcd, &[]).await;
    let path = format!("/api/v1/pods?watch=1&{SIE}");
    let mut client = Client::open(&tier.service, &path).await;
    assert_eq!(client.brief().await, "ADDED big-0");
    etcd.restore(restored_to);
    tokio::time::sleep(NOTICED).await;
    for i in 0..5 {
        put(&etcd, "a", &format!("other-{i}"), "Running");
    }
    let mut seen = Vec::new();
    while let Some(event) = client.next().await {
        seen.push(event);
        assert!(seen.len() <= 11, "the state as it was, and its end");
    }
    assert_eq!(seen.len(), 11, "nine objects more, pod, and the bookmark");
    assert_eq!(seen[10]["type"], "BOOKMARK");
}

#[tokio::test(start_paused = true)]
async fn an_index_of_the_left_history_is_given_up() {
    let etcd = FakeEtcd::default();
    let restored_to = put_pod(&etcd, "kept", "node", json!({"app": "one"}));
    put_pod(&etcd, "lost", "node", json!({"app": "one"}));
    let tier = ready(&etcd, &[]).await;
    let cache = tier.service.handler("pods").expect("served").cache.clone();
    let cache = cache.expect("on by default");
    let before = cache.snapshot();
    let index = NewIndex::Label(LabelIndex::build("app", &before.tree));
    etcd.restore(restored_to);
    tokio::time::sleep(NOTICED).await;
    cache.add_index(index, &before).await;

    let path = "/api/v1/pods?labelSelector=app%3Done";
    assert_eq!(get(&tier.service, path).await.names(), ["a/kept"]);
    tokio::time::sleep(NOTICED).await;
    // The list above has requested the index again.
    let options = kube_api::ListOptions::parse("labelSelector=app%3Done").expect("a query");
    let pods = tier.service.handler("pods").expect("served").resource;
    let filter = Filter::parse(pods, &options, FeatureGates::default()).expect("a filter");
    let found = cache.candidates(&cache.snapshot(), &filter);
    assert_eq!(found.index, "l:*");
    let everything = etcd_api::keys::KeyRange::From(b"");
    assert_eq!(found.objects.iter(everything).count(), 1);
    assert_eq!(get(&tier.service, path).await.names(), ["a/kept"]);
}
