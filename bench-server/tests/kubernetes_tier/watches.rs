//! Events of WATCH: types, order, bookmarks, initial events, errors and ends.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{ALL, ONE, TestCluster, cases};
use crate::http::{Events, brief, revision_of};

cases! {
    a_selector_turns_changes_into_arrivals_and_departures on ALL;
    a_revision_before_the_cache_is_too_old on ALL;
    a_future_revision_is_waited_for_without_events on ONE;
    initial_events_end_with_one_annotated_bookmark on ALL;
    a_watch_continues_from_the_bookmark_before_its_end on ALL;
    invalid_options_are_rejected on ONE;
}

const PATH: &str = "/api/v1/namespaces/ns/configmaps";
const BY_LIST: &str =
    "watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";

fn end_of_initial_events(event: &Value) -> bool {
    event["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true"
}

/// Depending on whether the object matches the selector before and after a change, the event is
/// ADDED, MODIFIED, DELETED or none.
async fn a_selector_turns_changes_into_arrivals_and_departures(cluster: TestCluster) {
    let start = cluster.config_map("ns", "other").await;
    let path = format!("{PATH}?watch=true&labelSelector=in%3Dyes&resourceVersion={start}");
    let mut events = Events::open(&cluster.url, &path).await;
    assert_eq!(events.code, 200);
    let object = format!("{PATH}/x");
    cluster.config_map("ns", "x").await;
    let label = async |value: Value| {
        cluster
            .patch(&object, &json!({"metadata": {"labels": {"in": value}}}))
            .await
            .ok()
    };
    label("yes".into()).await;
    cluster
        .patch(&object, &json!({"data": {"k": "2"}}))
        .await
        .ok();
    let left = label("no".into()).await.revision();
    cluster
        .patch(&object, &json!({"data": {"k": "3"}}))
        .await
        .ok();
    label("yes".into()).await;
    cluster.delete(&object).await.ok();
    let now = cluster
        .get(&format!("{PATH}?limit=1"))
        .await
        .ok()
        .revision();
    let seen = events.take(5).await;
    let briefs: Vec<_> = seen.iter().map(brief).collect();
    assert_eq!(
        briefs,
        ["ADDED x", "MODIFIED x", "DELETED x", "ADDED x", "DELETED x"]
    );
    let departure = &seen[2];
    assert_eq!(revision_of(departure), left, "the revision of the change");
    assert_eq!(
        departure["object"]["metadata"]["labels"]["in"], "yes",
        "the content before it"
    );
    assert_eq!(departure["object"]["data"]["k"], "2");
    assert_eq!(seen[4]["object"]["data"]["k"], "3");
    assert_eq!(revision_of(&seen[4]), now, "the revision of the deletion");
    let revisions: Vec<_> = seen.iter().map(revision_of).collect();
    assert!(revisions.is_sorted(), "{revisions:?}");
    assert!(
        seen.iter()
            .all(|event| event["object"]["kind"] == "ConfigMap")
    );
}

/// A watch from before the cache's initial list fails with 410.
async fn a_revision_before_the_cache_is_too_old(mut cluster: TestCluster) {
    let old = cluster.config_map("ns", "a").await;
    cluster.config_map("ns", "b").await;
    if cluster.backend != crate::harness::Backend::Embedded {
        // A new cache has no history before its initial list.
        cluster.restart().await;
        let mut events = Events::open(
            &cluster.url,
            &format!("{PATH}?watch=true&resourceVersion={old}"),
        )
        .await;
        assert_eq!(
            events.code, 200,
            "headers are sent before anything is known"
        );
        let event = events.next().await.expect("an event");
        assert_eq!(
            (brief(&event), &event["object"]["code"]),
            ("ERROR".to_owned(), &json!(410))
        );
        assert_eq!(event["object"]["reason"], "Expired");
        let text = event["object"]["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert!(
            text.starts_with(&format!("too old resource version: {old} (")),
            "{text}"
        );
        assert_eq!(events.next().await, None);
    }
    let list = cluster.get(PATH).await.ok().revision();
    let mut events = Events::open(
        &cluster.url,
        &format!("{PATH}?watch=true&resourceVersion={list}"),
    )
    .await;
    cluster.config_map("ns", "c").await;
    assert_eq!(brief(&events.next().await.expect("an event")), "ADDED c");
}

/// A watch from a future revision sends nothing until that revision.
async fn a_future_revision_is_waited_for_without_events(cluster: TestCluster) {
    let now = cluster.config_map("ns", "a").await;
    let path = format!("{PATH}?watch=true&resourceVersion={}", now + 2);
    let mut events = Events::open(&cluster.url, &path).await;
    assert_eq!(events.code, 200);
    for name in ["b", "c", "d"] {
        cluster.config_map("ns", name).await;
    }
    assert_eq!(
        brief(&events.next().await.expect("an event")),
        "ADDED d",
        "the first after that revision"
    );
}

/// `sendInitialEvents` sends the state, then one bookmark annotated as the end of the initial
/// events.
async fn initial_events_end_with_one_annotated_bookmark(cluster: TestCluster) {
    for name in ["c", "a", "b"] {
        cluster.config_map("ns", name).await;
    }
    cluster
        .patch(&format!("{PATH}/a"), &json!({"data": {"k": "2"}}))
        .await
        .ok();
    for revision in ["", "&resourceVersion=0", "&resourceVersion="] {
        cluster.get(PATH).await.ok();
        let mut events = Events::open(&cluster.url, &format!("{PATH}?{BY_LIST}{revision}")).await;
        let seen = events.take(4).await;
        let briefs: Vec<_> = seen.iter().map(brief).collect();
        assert_eq!(briefs, ["ADDED a", "ADDED b", "ADDED c", "BOOKMARK"]);
        let bookmark = &seen[3];
        assert!(end_of_initial_events(bookmark), "{bookmark}");
        let newest = seen[..3].iter().map(revision_of).max();
        assert!(Some(revision_of(bookmark)) >= newest);
        assert_eq!(bookmark["object"]["kind"], "ConfigMap");
        let added = cluster
            .config_map("ns", &format!("later{}", revision.len()))
            .await;
        let live = events.next().await.expect("an event");
        assert_eq!(revision_of(&live), added, "{live}");
        cluster
            .delete(&format!("{PATH}/later{}", revision.len()))
            .await
            .ok();
    }
    // Without bookmarks the initial events come without an end.
    let path =
        format!("{PATH}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
    let mut events = Events::open(&cluster.url, &path).await;
    events.take(3).await;
    cluster.config_map("ns", "z").await;
    assert_eq!(brief(&events.next().await.expect("an event")), "ADDED z");
}

/// Shortly before its timeout a watch sends a bookmark, from which the next watch continues.
async fn a_watch_continues_from_the_bookmark_before_its_end(cluster: TestCluster) {
    let start = cluster.config_map("ns", "a").await;
    let path = format!(
        "{PATH}?watch=true&allowWatchBookmarks=true&timeoutSeconds=4&resourceVersion={start}"
    );
    let opened = Instant::now();
    let mut events = Events::open(&cluster.url, &path).await;
    cluster.config_map("ns", "b").await;
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        seen.push(event);
    }
    let took = opened.elapsed();
    assert!(
        (Duration::from_secs(3)..Duration::from_secs(10)).contains(&took),
        "{took:?}"
    );
    let briefs: Vec<_> = seen.iter().map(brief).collect();
    assert_eq!(
        briefs.first().map(String::as_str),
        Some("ADDED b"),
        "{briefs:?}"
    );
    assert!(
        briefs.len() > 1 && briefs[1..].iter().all(|brief| brief == "BOOKMARK"),
        "{briefs:?}"
    );
    let last = seen.last().expect("a bookmark");
    assert!(!end_of_initial_events(last));
    let bookmark = revision_of(last);
    assert!(bookmark >= revision_of(&seen[0]));
    cluster.config_map("ns", "c").await;
    let mut events = Events::open(
        &cluster.url,
        &format!("{PATH}?watch=true&resourceVersion={bookmark}"),
    )
    .await;
    assert_eq!(
        brief(&events.next().await.expect("an event")),
        "ADDED c",
        "nothing lost, nothing repeated"
    );
}

async fn invalid_options_are_rejected(cluster: TestCluster) {
    for (query, code) in [
        ("resourceVersionMatch=NotOlderThan", 422),
        ("sendInitialEvents=true", 422),
        (
            "sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1",
            422,
        ),
        (
            "resourceVersionMatch=NotOlderThan&sendInitialEvents=true&continue=x",
            422,
        ),
        ("labelSelector=%3D%3D", 400),
        ("fieldSelector=spec.nothing%3D1", 400),
    ] {
        let reply = cluster.get(&format!("{PATH}?watch=1&{query}")).await;
        assert_eq!(reply.failure().0, code, "{query}");
    }
}
