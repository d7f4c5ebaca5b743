//! Tests of lists of shards: by index, by testing every object, and from storage.

use std::num::NonZeroU32;

use kube_api::protobuf::find_bytes;
use kube_api::{ShardKey, ShardSelector};

use super::*;

/// The flags for the three ways to find a shard's objects. The first needs an index, which is
/// requested by its first use.
const WAYS: [&[&str]; 3] = [
    &[],
    &["--feature-gates=ShardIndex=false"],
    &["--watch-cache=false"],
];
/// A shard that is small enough to be read from the index.
const SMALL: &str = "shardRange(object.metadata.uid, '0x0000000000000000', '0x0100000000000000')";
const HALF: &str = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')";
const INDEXED: &str = r#"apiserver_storage_list_total{group="",resource="pods",storage="watchcache",index="h:metadata.uid"}"#;
const EVALUATED: &str = r#"apiserver_storage_list_evaluated_objects_total{group="",resource="pods",storage="watchcache"}"#;

fn equal_shards(key: ShardKey, shards: u32) -> Vec<ShardSelector> {
    ShardSelector::equal_shards(key, NonZeroU32::new(shards).expect("some"))
}

fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// Returns a storage key, and a pod with this uid.
fn write(namespace: &str, name: &str, uid: u64) -> (String, Option<Vec<u8>>) {
    // Uids are not consecutive numbers, because hashes of texts that differ only at their ends are
    // close together.
    let uid = format!("{:016x}", uid.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let pod = json!({"metadata": {"name": name, "namespace": namespace, "uid": uid}});
    let mut raw = Vec::new();
    from_json(&schema::POD, pod.as_object().expect("an object"), &mut raw).expect("a pod");
    let value = envelope::seal("v1", "Pod", &raw);
    (format!("/registry/pods/{namespace}/{name}"), Some(value))
}

fn fill(etcd: &FakeEtcd, pods: u64) {
    let writes: Vec<_> = (0..pods)
        .map(|i| write(&format!("ns-{}", i % 7), &format!("pod-{i:04}"), i))
        .collect();
    let writes: Vec<_> = writes
        .iter()
        .map(|(key, value)| (key.as_str(), value.clone()))
        .collect();
    etcd.write(&writes);
}

/// Lists a shard until its index is built.
async fn indexed(service: &KubeService) {
    let path = format!("/api/v1/pods?shardSelector={}", encoded(SMALL));
    for _ in 0..10_000 {
        get(service, &path).await;
        if metric(service, INDEXED).await > 0.0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("no index is built");
}

/// Together, the shards of a resource are the whole list, at one revision, page by page, during
/// writes.
#[tokio::test(start_paused = true)]
async fn shards_make_the_whole_list_while_writes_go_on() {
    for arguments in WAYS {
        let etcd = FakeEtcd::default();
        fill(&etcd, 150);
        let tier = ready(&etcd, arguments).await;
        if arguments.is_empty() {
            indexed(&tier.service).await;
        }
        let mut written = 1_000;
        for (shards, key, limit, below) in [
            (1, ShardKey::Uid, 40, ""),
            (2, ShardKey::Uid, 7, ""),
            (3, ShardKey::Uid, 1, ""),
            (4, ShardKey::Namespace, 7, ""),
            (7, ShardKey::Uid, 0, ""),
            (100, ShardKey::Uid, 2, ""),
            (16, ShardKey::Uid, 5, "/namespaces/ns-3"),
            (9, ShardKey::Namespace, 0, ""),
        ] {
            let path = format!("/api/v1{below}/pods");
            let whole = get(&tier.service, &path).await;
            let (revision, mut names) = (whole.revision(), Vec::new());
            for shard in equal_shards(key, shards) {
                let selector = format!(
                    "limit={limit}&shardSelector={}",
                    encoded(&shard.to_string())
                );
                let mut query = format!("resourceVersion={revision}&resourceVersionMatch=Exact");
                let mut last = String::new();
                loop {
                    let page = get(&tier.service, &format!("{path}?{query}&{selector}")).await;
                    let meta = page.json()["metadata"].clone();
                    assert_eq!(page.revision(), revision, "{arguments:?} {shard}");
                    assert_eq!(meta["shardInfo"], json!({"selector": shard.to_string()}));
                    assert!(meta.get("remainingItemCount").is_none(), "{meta}");
                    let some = page.names();
                    assert!(limit == 0 || some.len() <= limit, "{shard}");
                    for name in &some {
                        assert!(*name > last, "in key order");
                        last.clone_from(name);
                    }
                    names.extend(some);
                    query = format!("continue={}", page.token());
                    // After each page, a pod is created, one is deleted, and one takes an existing
                    // name.
                    written += 1;
                    let new = write("ns-3", &format!("new-{written}"), written);
                    let taken = write("ns-1", "pod-0001", written);
                    let gone = format!("/registry/pods/ns-3/pod-{:04}", 3 + 7 * (written % 20));
                    etcd.write(&[(&new.0, new.1), (&taken.0, taken.1), (&gone, None)]);
                    if page.token().is_empty() {
                        break;
                    }
                }
            }
            names.sort();
            let mut expected = whole.names();
            expected.sort();
            assert_eq!(names, expected, "{arguments:?}: {shards} shards by {key:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_shard_is_named_where_upstream_names_it() {
    for arguments in WAYS {
        let etcd = FakeEtcd::default();
        fill(&etcd, 20);
        let tier = ready(&etcd, arguments).await;
        let written = HALF.replace(", ", ",").replace('\'', "\"");
        let path = format!(
            "/api/v1/pods?shardSelector={}",
            encoded(&format!(" ({written}) "))
        );
        let json = get(&tier.service, &path).await;
        assert!(json.body.starts_with(
            b"{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\""
        ));
        assert_eq!(json.json()["metadata"]["shardInfo"]["selector"], HALF);
        let protobuf = request(&tier.service, Method::GET, &path, envelope::MEDIA_TYPE).await;
        let list = envelope::open(&protobuf.body).expect("a list");
        let field = |message, number| {
            find_bytes(message, number)
                .expect("well formed")
                .expect("there")
        };
        let info = field(field(list, 1), 5);
        assert_eq!(field(info, 1), HALF.as_bytes());
        for shape in ["Table", "PartialObjectMetadataList"] {
            let accept = format!("application/json;as={shape};v=v1;g=meta.k8s.io");
            let list = request(&tier.service, Method::GET, &path, &accept)
                .await
                .json();
            assert_eq!(list["kind"], shape);
            assert!(list["metadata"].get("shardInfo").is_none(), "{shape}");
            let rows = list["rows"].as_array().or(list["items"].as_array());
            assert_eq!(rows.expect("objects").len(), json.names().len(), "{shape}");
        }
        let custom = path.replace("/api/v1/pods", "/apis/bench.example.com/v1/widgets");
        let custom = get(&tier.service, &custom).await;
        assert!(custom.json()["metadata"].get("shardInfo").is_none());
        let whole = get(&tier.service, "/api/v1/pods?shardSelector=").await;
        assert_eq!(whole.names().len(), 20, "an empty selector is none");
        assert!(whole.json()["metadata"].get("shardInfo").is_none());
        let one = get(
            &tier.service,
            "/api/v1/namespaces/ns-1/pods/pod-0001?shardSelector=x",
        )
        .await;
        assert_eq!(
            one.code,
            StatusCode::OK,
            "it is no option of a single object's"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_selector_is_a_failure_of_the_server_as_upstream_has_it() {
    let etcd = FakeEtcd::default();
    let tier = ready(&etcd, &[]).await;
    for (selector, why) in [
        (
            " ",
            "empty shard selector is not allowed; omit the parameter for unfiltered lists",
        ),
        (
            "shardRange()",
            "shardRange() requires exactly 3 arguments, got 0",
        ),
        (
            "shardRange(object.metadata.uid,",
            "CEL parse error: Syntax error: mismatched input '<EOF>'",
        ),
        (
            "true",
            "unexpected expression kind 5; expected shardRange() call or || operator",
        ),
    ] {
        for path in [
            "pods?",
            "pods?limit=1&",
            "pods?watch=true&",
            "namespaces/a/configmaps?",
        ] {
            let path = format!("/api/v1/{path}shardSelector={}", encoded(selector));
            let refused = get(&tier.service, &path).await;
            assert_eq!(refused.code, StatusCode::INTERNAL_SERVER_ERROR, "{path}");
            let status = refused.json();
            assert_eq!(status["message"], format!("invalid shard selector: {why}"));
            assert!(status.get("reason").is_none(), "{status}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn without_its_gate_the_parameter_is_ignored() {
    let etcd = FakeEtcd::default();
    fill(&etcd, 20);
    let tier = ready(&etcd, &["--feature-gates=ShardedListAndWatch=false"]).await;
    for selector in [HALF, "nonsense"] {
        let path = format!("/api/v1/pods?limit=15&shardSelector={}", encoded(selector));
        let list = get(&tier.service, &path).await;
        assert_eq!(list.names().len(), 15);
        assert_eq!(list.json()["metadata"]["remainingItemCount"], 5);
        assert!(list.json()["metadata"].get("shardInfo").is_none());
    }
}

/// Counts the objects that are read for a shard, by its index and by testing every object.
#[tokio::test(start_paused = true)]
async fn a_shard_costs_what_it_returns() {
    const PODS: u64 = 2_000;
    for (arguments, looks_at_all) in [(WAYS[0], false), (WAYS[1], true)] {
        let etcd = FakeEtcd::default();
        fill(&etcd, PODS);
        let tier = ready(&etcd, arguments).await;
        if !looks_at_all {
            indexed(&tier.service).await;
        }
        for (key, shards) in [
            (ShardKey::Uid, 16),
            (ShardKey::Uid, 5),
            (ShardKey::Uid, 100),
            (ShardKey::Namespace, 7),
        ] {
            for shard in equal_shards(key, shards) {
                let path = format!("/api/v1/pods?shardSelector={}", encoded(&shard.to_string()));
                let before = metric(&tier.service, EVALUATED).await;
                let returned = get(&tier.service, &path).await.names().len() as u64;
                let looked = (metric(&tier.service, EVALUATED).await - before) as u64;
                let expected = match (looks_at_all, key) {
                    (true, _) => PODS..=PODS,
                    (false, ShardKey::Uid) if shards == 100 => returned..=returned + PODS / 100,
                    (false, _) => returned..=returned,
                };
                assert!(
                    expected.contains(&looked),
                    "{looked} for {returned} of {shard}"
                );
            }
        }
        // A past snapshot also has the index.
        let revision = get(&tier.service, "/api/v1/pods?limit=1").await.revision();
        let new = write("ns-0", "new", 1);
        etcd.write(&[(&new.0, new.1)]);
        let shard = equal_shards(ShardKey::Uid, 256).remove(3);
        let path = format!(
            "/api/v1/pods?resourceVersion={revision}&resourceVersionMatch=Exact&shardSelector={}",
            encoded(&shard.to_string())
        );
        let before = metric(&tier.service, EVALUATED).await;
        let returned = get(&tier.service, &path).await.names().len() as u64;
        let looked = (metric(&tier.service, EVALUATED).await - before) as u64;
        assert_eq!(looked, if looks_at_all { PODS } else { returned });
    }
}

/// Label or field selectors and a shard apply together, regardless of which has fewer candidates.
#[tokio::test(start_paused = true)]
async fn other_selectors_hold_as_well() {
    for arguments in WAYS {
        let etcd = FakeEtcd::default();
        for i in 0..60_u64 {
            let uid = format!("{:016x}", i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let labels = json!({"odd": (i % 2).to_string(), "rare": (i % 20).to_string()});
            let pod = json!({
                "metadata": {"name": format!("pod-{i:02}"), "namespace": "a", "uid": uid, "labels": labels},
                "spec": {"nodeName": format!("node-{}", i % 3), "containers": []},
            });
            let mut raw = Vec::new();
            from_json(&schema::POD, pod.as_object().expect("an object"), &mut raw).expect("a pod");
            let value = envelope::seal("v1", "Pod", &raw);
            etcd.write(&[(&format!("/registry/pods/a/pod-{i:02}"), Some(value))]);
        }
        let tier = ready(&etcd, arguments).await;
        if arguments.is_empty() {
            indexed(&tier.service).await;
        }
        for selector in [
            "labelSelector=odd%3D1",
            "labelSelector=rare%3D3",
            "labelSelector=rare%3D3",
            "fieldSelector=spec.nodeName%3Dnode-1",
            "fieldSelector=metadata.name%3Dpod-07",
            "labelSelector=none",
        ] {
            let whole = get(
                &tier.service,
                &format!("/api/v1/namespaces/a/pods?{selector}"),
            )
            .await;
            let mut names = Vec::new();
            for shard in equal_shards(ShardKey::Uid, 3) {
                let shard = encoded(&shard.to_string());
                let mut token = String::new();
                loop {
                    let path = format!(
                        "/api/v1/namespaces/a/pods?{selector}&shardSelector={shard}&limit=4{token}"
                    );
                    let page = get(&tier.service, &path).await;
                    names.extend(page.names());
                    token = format!("&continue={}", page.token());
                    if page.token().is_empty() {
                        break;
                    }
                }
            }
            names.sort();
            assert_eq!(names, whole.names(), "{arguments:?} {selector}");
        }
    }
}
