//! Checks that an index finds the same objects as reading every object.

use kube_api::{ListOptions, envelope, from_json, schema};
use serde_json::json;

use super::*;
use crate::feature_gates::FeatureGates;
use crate::resource::RESOURCES;
use crate::tests::fake::FakeEtcd;
use crate::tests::{get, ready};

fn pods() -> &'static Resource {
    let mut resources = RESOURCES.iter();
    let pods = resources.find(|resource| resource.name == "pods");
    pods.expect("served")
}

fn value(name: &str, node: u64, app: u64) -> Vec<u8> {
    let mut labels = json!({"app": format!("app-{app}"), "part": "all"});
    if app == 0 {
        labels["odd"] = json!("");
    }
    let pod = json!({
        "metadata": {"name": name, "namespace": "a", "labels": labels},
        "spec": {"nodeName": format!("node-{node}"), "containers": [{"name": "c"}]},
    });
    let mut raw = Vec::new();
    from_json(&schema::POD, pod.as_object().expect("an object"), &mut raw).expect("a pod");
    envelope::seal("v1", "Pod", &raw)
}

fn object(name: &str, node: u64, app: u64) -> Object {
    let key = format!("a/{name}");
    Object::decode(&RESOURCES[0], key.as_bytes(), &value(name, node, app), 1).expect("a pod")
}

fn filter(query: &str) -> Filter {
    let options = ListOptions::parse(query).expect("a query");
    Filter::parse(pods(), &options, FeatureGates::default()).expect("a filter")
}

fn len(objects: &ObjectSet) -> usize {
    objects.iter(KeyRange::From(b"")).count()
}

fn keys(objects: &ObjectSet, filter: &Filter) -> Vec<String> {
    let selected = objects
        .iter(KeyRange::From(b""))
        .filter(|object| filter.matches(object));
    let key = |object: Object| String::from_utf8_lossy(object.key()).into_owned();
    selected.map(key).collect()
}

#[test]
fn candidates_hold_what_a_filter_selects_after_any_change() {
    let mut tree = Tree::default();
    let mut indexes = Indexes::build(pods(), &tree);
    for label in ["app", "part", "odd", "none"] {
        indexes.add(NewIndex::Label(LabelIndex::build(label, &tree)));
    }
    let queries = [
        "fieldSelector=spec.nodeName%3Dnode-3",
        "fieldSelector=spec.nodeName%3Dnode-99",
        "labelSelector=app%3Dapp-2",
        "labelSelector=app+in+(app-1,app-4)",
        "labelSelector=odd",
        "labelSelector=none",
        "labelSelector=part%3Dall,app%3Dapp-3,!odd",
        "labelSelector=app%3Dapp-3&fieldSelector=spec.nodeName%3Dnode-1",
    ];
    // A fixed sequence of creations, moves and deletions.
    for step in 0..3_000_u64 {
        let mixed = step.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let name = format!("pod-{:03}", mixed % 400);
        let new = (mixed % 7 != 0).then(|| object(&name, mixed / 7 % 20, mixed / 140 % 9));
        let old = match &new {
            Some(new) => tree.insert(new.clone()),
            None => tree.remove(format!("a/{name}").as_bytes()),
        };
        indexes.change(pods(), old.as_ref(), new.as_ref());
        if step % 100 != 0 {
            continue;
        }
        for query in queries {
            let filter = filter(query);
            if let Some(found) = indexes.candidates(&filter, tree.len()) {
                assert_eq!(
                    keys(&found.objects, &filter),
                    keys(&ObjectSet::All(tree.clone()), &filter),
                    "{query}"
                );
            }
        }
    }
    let found = |query| indexes.candidates(&filter(query), tree.len());
    assert!(len(&found(queries[1]).expect("indexed").objects) == 0);
    assert!(len(&found(queries[5]).expect("indexed").objects) == 0);
    let fewest = |query| len(&found(query).expect("indexed").objects);
    let (node, app) = (
        fewest("fieldSelector=spec.nodeName%3Dnode-1"),
        fewest("labelSelector=app%3Dapp-3"),
    );
    assert_eq!(
        fewest(queries[7]),
        node.min(app),
        "the smaller one is taken"
    );
    assert!(found("labelSelector=part").is_none(), "that is everything");
    assert!(found("labelSelector=app!%3Dapp-1").is_none());
}

#[test]
fn the_least_recently_used_label_makes_room() {
    let mut indexes = Indexes::default();
    for i in 0..MAX_LABELS {
        indexes.add(NewIndex::Label(LabelIndex::build(
            &format!("l{i}"),
            &Tree::default(),
        )));
    }
    let used = filter("labelSelector=l0");
    assert!(indexes.candidates(&used, 100).is_some());
    indexes.add(NewIndex::Label(LabelIndex::build(
        "another",
        &Tree::default(),
    )));
    assert_eq!(indexes.labels.len(), MAX_LABELS);
    assert_eq!(indexes.missing_label(&used), None, "it was just used");
    assert_eq!(
        indexes.missing_label(&filter("labelSelector=l1")),
        Some("l1")
    );
}

#[tokio::test(start_paused = true)]
async fn an_index_takes_in_what_changed_while_it_was_built() {
    for changes in [0, 1, 255, 256, 257, 700] {
        let etcd = FakeEtcd::default();
        let tier = ready(&etcd, &[]).await;
        let cache = tier.service.handler("pods").expect("served").cache.clone();
        let cache = cache.expect("on by default");
        let before = cache.snapshot();
        let mut latest = before.revision;
        for i in 0..changes {
            let name = format!("pod-{:03}", i % 500);
            let pod = Some(value(&name, 1, i % 7));
            latest = etcd.write(&[(&format!("/registry/pods/a/{name}"), pod)]);
        }
        cache.wait_until_fresh(latest).await.expect("told");
        let index = NewIndex::Label(LabelIndex::build("app", &before.tree));
        cache.add_index(index, &before).await;
        let selects = filter("labelSelector=app%3Dapp-3");
        let snapshot = cache.snapshot();
        let found = cache.candidates(&snapshot, &selects);
        assert_eq!(found.index, LABEL_INDEX);
        assert_eq!(
            keys(&found.objects, &selects),
            keys(&ObjectSet::All(snapshot.tree), &selects)
        );
        assert_eq!(len(&found.objects), keys(&found.objects, &selects).len());
    }
}

#[tokio::test(start_paused = true)]
async fn a_label_is_indexed_from_its_first_use_on() {
    let etcd = FakeEtcd::default();
    let put = |name: &str, node, app| {
        etcd.write(&[(
            &format!("/registry/pods/a/{name}"),
            Some(value(name, node, app)),
        )])
    };
    for i in 0..40 {
        put(&format!("pod-{i:02}"), i % 4, i % 8);
    }
    let tier = ready(&etcd, &[]).await;
    let cache = tier.service.handler("pods").expect("served").cache.clone();
    let cache = cache.expect("on by default");
    let selects = filter("labelSelector=app%3Dapp-3");
    assert!(
        cache.snapshot().indexes.missing_label(&selects).is_some(),
        "costs nothing before"
    );
    let path = "/api/v1/pods?labelSelector=app%3Dapp-3";
    assert_eq!(get(&tier.service, path).await.names().len(), 5);
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    put("pod-99", 0, 3);
    assert_eq!(get(&tier.service, path).await.names().len(), 6);
    let snapshot = cache.snapshot();
    let found = cache.candidates(&snapshot, &selects);
    assert_eq!(len(&found.objects), 6, "nothing else is looked at");
    // The next page has the revision of the first one.
    let page = get(&tier.service, &format!("{path}&limit=4")).await;
    let token = page.json()["metadata"]["continue"].clone();
    put("pod-50", 0, 3);
    let token = token.as_str().expect("a token");
    let rest = get(&tier.service, &format!("{path}&limit=4&continue={token}")).await;
    assert_eq!((page.names().len(), rest.names().len()), (4, 2));

    let gated = ready(&etcd, &["--feature-gates=CacheIndex=false"]).await;
    let cache = gated.service.handler("pods").expect("served").cache.clone();
    let cache = cache.expect("on by default");
    assert_eq!(get(&gated.service, path).await.names().len(), 7);
    assert_eq!(cache.candidates(&cache.snapshot(), &selects).index, "");
}

/// A thread that serves a cache must not compute for long, because events would be delayed.
#[tokio::test(start_paused = true)]
async fn events_are_handed_out_while_an_index_is_built() {
    let etcd = FakeEtcd::default();
    let tier = ready(&etcd, &[]).await;
    let cache = tier.service.handler("pods").expect("served").cache.clone();
    let cache = cache.expect("on by default");
    let (go_on, gate) = std::sync::mpsc::channel();
    let building = tokio::spawn({
        let cache = cache.clone();
        async move {
            let build = move |objects: &_| {
                let patience = std::time::Duration::from_secs(30);
                gate.recv_timeout(patience).expect("events come meanwhile");
                NewIndex::Label(LabelIndex::build("app", objects))
            };
            cache.build_index(build).await;
        }
    });
    // Each event is delivered before the next is written.
    for i in 0..10 {
        let pod = Some(value("pod", 1, i));
        let revision = etcd.write(&[("/registry/pods/a/pod", pod)]);
        for _ in 0..1_000 {
            if cache.dispatched_revision() >= revision {
                break;
            }
            tokio::task::yield_now().await;
        }
        assert_eq!(cache.dispatched_revision(), revision);
    }
    assert!(!building.is_finished());
    go_on.send(()).expect("it waits");
    building.await.expect("built");
    let selects = filter("labelSelector=app%3Dapp-9");
    let found = cache.candidates(&cache.snapshot(), &selects);
    assert_eq!(found.index, LABEL_INDEX);
    assert_eq!(len(&found.objects), 1, "with what has changed meanwhile");
}
