//! Tests of watches of shards: each event is sent to one of them.

use std::num::NonZeroU32;

use kube_api::{ShardKey, ShardSelector};

use super::*;

/// The flags for the three ways in which the watches of an event are found: by the hash of its
/// object, by trying each watch, and by a watch of storage for each client.
const WAYS: [&[&str]; 3] = [
    &[],
    &["--feature-gates=ShardIndex=false"],
    &["--watch-cache=false"],
];
const FILTERED: &str = "apiserver_watch_filtered_events_total{group=\"\",resource=\"pods\"}";
const SHARDS: &str = "apiserver_watch_shards_total{group=\"\",resource=\"pods\"}";

fn equal_shards(key: ShardKey, shards: u32) -> Vec<ShardSelector> {
    ShardSelector::equal_shards(key, NonZeroU32::new(shards).expect("some"))
}

async fn open(service: &KubeService, path: &str, shard: &ShardSelector) -> Client {
    let shard = shard.to_string();
    let shard: String = form_urlencoded::byte_serialize(shard.as_bytes()).collect();
    let client = Client::open(service, &format!("{path}&shardSelector={shard}")).await;
    assert_eq!(client.code, StatusCode::OK, "{shard}");
    client
}

impl Client {
    /// Returns the events until none comes for 100 ms, as `TYPE name`.
    async fn all(&mut self) -> Vec<String> {
        let quiet = Duration::from_millis(100);
        let mut all = Vec::new();
        while let Ok(event) = tokio::time::timeout(quiet, self.next()).await {
            let event = event.expect("it goes on");
            let (kind, name) = (&event["type"], &event["object"]["metadata"]["name"]);
            let (kind, name) = (kind.as_str(), name.as_str());
            all.push(format!("{} {}", kind.expect("a type"), name.unwrap_or("-")));
        }
        all
    }
}

fn uid(number: u64) -> String {
    format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn stored(namespace: &str, name: &str, uid: &str, labels: &Value) -> (String, Option<Vec<u8>>) {
    let pod =
        json!({"metadata": {"name": name, "namespace": namespace, "uid": uid, "labels": labels}});
    let mut raw = Vec::new();
    from_json(&schema::POD, pod.as_object().expect("an object"), &mut raw).expect("a pod");
    let value = envelope::seal("v1", "Pod", &raw);
    (format!("/registry/pods/{namespace}/{name}"), Some(value))
}

/// Creates, changes and deletes objects, and lets other objects take their names. Each shard must
/// receive exactly the events of its objects.
#[tokio::test(start_paused = true)]
async fn each_event_comes_to_one_shard() {
    for arguments in WAYS {
        for (key, shards) in [
            (ShardKey::Uid, 1),
            (ShardKey::Uid, 5),
            (ShardKey::Namespace, 3),
        ] {
            let etcd = FakeEtcd::default();
            let start = put(&etcd, "z", "before", "Running");
            let tier = ready(&etcd, arguments).await;
            let shards = equal_shards(key, shards);
            let path = format!("/api/v1/pods?watch=1&resourceVersion={start}");
            let mut clients = Vec::new();
            for shard in &shards {
                clients.push(open(&tier.service, &path, shard).await);
            }
            let below = format!("/api/v1/namespaces/ns-1/pods?watch=1&resourceVersion={start}");
            let mut within = Vec::new();
            for shard in &shards {
                within.push(open(&tier.service, &below, shard).await);
            }
            // The events of the first round come from the history, because no watch has read yet.
            // Those of later rounds are live. The events of a round fit in a queue.
            let mut there: std::collections::BTreeMap<String, String> = Default::default();
            for round in 0..15_u64 {
                let mut expected = vec![Vec::new(); shards.len()];
                let mut expected_within = vec![Vec::new(); shards.len()];
                for step in 8 * round..8 * (round + 1) {
                    let mixed = step.wrapping_mul(0xd134_2543_de82_ef95) >> 33;
                    let (namespace, name) =
                        (format!("ns-{}", mixed % 3), format!("pod-{}", mixed % 8));
                    let at = format!("{namespace}/{name}");
                    let old = there.get(&at).cloned();
                    let new = match (mixed / 8 % 4, &old) {
                        (0, Some(_)) => None,
                        (1, Some(old)) => Some(old.clone()),
                        // The same write deletes the old object and gives its name to another one.
                        _ => Some(uid(step)),
                    };
                    let (key_there, value) = stored(
                        &namespace,
                        &name,
                        new.as_deref().unwrap_or_default(),
                        &json!({}),
                    );
                    etcd.write(&[(&key_there, value.filter(|_| new.is_some()))]);
                    for (i, shard) in shards.iter().enumerate() {
                        let is_in = |uid: &Option<String>| {
                            let hash =
                                |uid: &String| key.hash(uid.as_bytes(), namespace.as_bytes());
                            uid.as_ref().is_some_and(|uid| shard.selects(hash(uid)))
                        };
                        let told = match (is_in(&old), is_in(&new)) {
                            (false, true) => "ADDED",
                            (true, true) => "MODIFIED",
                            (true, false) => "DELETED",
                            (false, false) => continue,
                        };
                        expected[i].push(format!("{told} {name}"));
                        if namespace == "ns-1" {
                            expected_within[i].push(format!("{told} {name}"));
                        }
                    }
                    match new {
                        Some(new) => there.insert(at, new),
                        None => there.remove(&at),
                    };
                }
                for (client, expected) in clients.iter_mut().zip(expected) {
                    assert_eq!(client.all().await, expected, "{arguments:?} {key:?}");
                }
                for (client, expected) in within.iter_mut().zip(expected_within) {
                    assert_eq!(client.all().await, expected, "{arguments:?} {key:?} ns-1");
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn shards_begin_with_their_part_of_the_state() {
    for arguments in WAYS {
        let etcd = FakeEtcd::default();
        let names: Vec<_> = (0..100).map(|i| format!("pod-{i:02}")).collect();
        for (i, name) in (0..).zip(&names) {
            let (key, value) = stored(&format!("ns-{}", i % 9), name, &uid(i), &json!({}));
            etcd.write(&[(&key, value)]);
        }
        let tier = ready(&etcd, arguments).await;
        // At first every object is tested, until the index is built.
        for key in [ShardKey::Uid, ShardKey::Uid, ShardKey::Namespace] {
            let mut seen = Vec::new();
            for shard in equal_shards(key, 3) {
                let mut client = open(
                    &tier.service,
                    &format!("/api/v1/pods?watch=1&{SIE}"),
                    &shard,
                )
                .await;
                let mut all = client.all().await;
                assert_eq!(
                    all.pop().as_deref(),
                    Some("BOOKMARK -"),
                    "the end is marked for each"
                );
                seen.extend(all);
            }
            seen.sort();
            let expected: Vec<_> = names.iter().map(|name| format!("ADDED {name}")).collect();
            assert_eq!(seen, expected, "{arguments:?} {key:?}");
        }
    }
}

/// A label that is added and removed is reported to the object's shard only.
#[tokio::test(start_paused = true)]
async fn labels_come_and_go_within_a_shard() {
    for arguments in WAYS {
        let etcd = FakeEtcd::default();
        let start = put(&etcd, "z", "before", "Running");
        let tier = ready(&etcd, arguments).await;
        let path = format!("/api/v1/pods?watch=1&resourceVersion={start}&labelSelector=on%3Dyes");
        let shards = equal_shards(ShardKey::Uid, 2);
        let mut clients = Vec::new();
        for shard in &shards {
            clients.push(open(&tier.service, &path, shard).await);
        }
        let pod = uid(7);
        for on in ["no", "yes", "yes", "no", "yes"] {
            let (key, value) = stored("a", "pod", &pod, &json!({"on": on}));
            etcd.write(&[(&key, value)]);
        }
        delete(&etcd, "pod");
        for (client, shard) in clients.iter_mut().zip(&shards) {
            let expected: &[_] = match shard.selects(ShardKey::Uid.hash(pod.as_bytes(), b"")) {
                true => &[
                    "ADDED pod",
                    "MODIFIED pod",
                    "DELETED pod",
                    "ADDED pod",
                    "DELETED pod",
                ],
                false => &[],
            };
            assert_eq!(client.all().await, expected, "{arguments:?}");
        }
    }
}

/// Revisions are those of the whole resource, so every shard receives bookmarks, and shards can be
/// compared by revision.
#[tokio::test(start_paused = true)]
async fn every_shard_gets_bookmarks() {
    let etcd = FakeEtcd::default();
    let tier = ready(&etcd, &[]).await;
    let path = "/api/v1/pods?watch=1&allowWatchBookmarks=true&resourceVersion=1";
    let mut clients = Vec::new();
    for shard in &equal_shards(ShardKey::Uid, 4) {
        let mut client = open(&tier.service, path, shard).await;
        assert!(client.is_silent().await);
        clients.push(client);
    }
    let (key, value) = stored("a", "pod", &uid(1), &json!({}));
    let latest = etcd.write(&[(&key, value)]);
    let mut told = 0;
    for client in &mut clients {
        let mut event = client.next().await.expect("an event");
        if event["type"] == "ADDED" {
            told += 1;
            event = client.next().await.expect("an event");
        }
        assert_eq!(
            (&event["type"], revision(&event)),
            (&json!("BOOKMARK"), latest)
        );
    }
    assert_eq!(told, 1, "the others were told of the revision alone");
}

/// Counts as k8s.io/apiserver does: a creation or deletion once for each watch that does not
/// receive it, a change twice.
#[tokio::test(start_paused = true)]
async fn what_shards_are_not_told_is_counted() {
    for arguments in WAYS {
        let etcd = FakeEtcd::default();
        let tier = ready(&etcd, arguments).await;
        assert_eq!(metric(&tier.service, SHARDS).await, 0.0);
        let path = "/api/v1/pods?watch=1&resourceVersion=1";
        let mut everything = Client::open(&tier.service, path).await;
        let mut clients = Vec::new();
        for shard in &equal_shards(ShardKey::Uid, 4) {
            let mut client = open(&tier.service, path, shard).await;
            assert!(client.is_silent().await);
            clients.push(client);
        }
        let elsewhere = "/api/v1/namespaces/b/pods?watch=1&resourceVersion=1";
        let mut other = open(&tier.service, elsewhere, &equal_shards(ShardKey::Uid, 1)[0]).await;
        assert!(other.is_silent().await);
        assert_eq!(metric(&tier.service, SHARDS).await, 5.0);
        let (key, value) = stored("a", "pod", &uid(1), &json!({}));
        for (write, filtered) in [(value.clone(), 3.0), (value, 9.0), (None, 12.0)] {
            etcd.write(&[(&key, write)]);
            assert!(everything.next().await.is_some());
            // Without a cache, one watch of storage may be ahead of another.
            for client in &mut clients {
                client.all().await;
            }
            assert_eq!(
                metric(&tier.service, FILTERED).await,
                filtered,
                "{arguments:?}"
            );
        }
        drop((clients, other));
        assert_eq!(metric(&tier.service, SHARDS).await, 0.0, "they have left");
    }
}
