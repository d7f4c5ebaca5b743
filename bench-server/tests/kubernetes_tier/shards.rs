//! Shards of lists and watches (KEP-5866): together they have every object once, and each list
//! returns its canonical selector.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use kube_api::{ShardKey, ShardSelector};
use serde_json::{Value, json};

use crate::harness::{ALL, ONE, TestCluster, cases};
use crate::http::{Events, brief, revision_of};

cases! {
    shards_cover_each_object_once on ALL;
    shards_without_a_cache_cover_each_object_once on ALL with ["--watch-cache=false"];
    shards_by_hashing_cover_each_object_once on ONE with ["--feature-gates=ShardIndex=false"];
    watches_of_shards_cover_each_event_once on ALL;
    a_collection_is_deleted_shard_by_shard on ALL;
    invalid_selectors_are_rejected on ALL;
    without_its_feature_gate_the_selector_is_ignored on ONE with ["--feature-gates=ShardedListAndWatch=false"];
}

const PATH: &str = "/api/v1/configmaps";
const OBJECTS: usize = 40;
/// The query of a watch with initial events and bookmarks.
const WATCH: &str =
    "watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";

pub(crate) fn equal_shards(key: ShardKey, shards: u32) -> Vec<String> {
    let shards = NonZeroU32::new(shards).expect("some");
    let selectors = ShardSelector::equal_shards(key, shards);
    selectors.iter().map(ToString::to_string).collect()
}

pub(crate) fn encoded(selector: &str) -> String {
    form_urlencoded::byte_serialize(selector.as_bytes()).collect()
}

async fn fill(cluster: &TestCluster) {
    for i in 0..OBJECTS {
        // Names that differ at their beginning, so that the hashes of the namespaces are spread.
        let namespace = format!("{}-ns", ["a", "bb", "c", "dd"][i % 4]);
        let object = json!({"metadata": {"name": format!("cm-{i:02}"), "labels": {"half": (i % 2).to_string()}}});
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        cluster.post(&path, &object).await.ok();
    }
}

async fn shards_cover_each_object_once(cluster: TestCluster) {
    fill(&cluster).await;
    let mut written = 0;
    for (key, shards) in [
        (ShardKey::Uid, 3),
        (ShardKey::Namespace, 4),
        (ShardKey::Uid, 16),
    ] {
        for (scope, selector) in [
            ("", ""),
            ("/namespaces/c-ns", ""),
            ("", "&labelSelector=half%3D1"),
        ] {
            let path = format!("/api/v1{scope}/configmaps");
            let whole = cluster.get(&format!("{path}?{selector}")).await.ok();
            let (revision, mut union) = (whole.revision(), Vec::new());
            for shard in equal_shards(key, shards) {
                let mut query = format!("resourceVersion={revision}&resourceVersionMatch=Exact");
                let shown = encoded(&shard);
                for page in 0.. {
                    assert!(page <= OBJECTS, "paging ends");
                    let query_here = format!("{query}{selector}&limit=4&shardSelector={shown}");
                    let reply = cluster.get(&format!("{path}?{query_here}")).await.ok();
                    let meta = reply.json()["metadata"].clone();
                    assert_eq!(meta["shardInfo"], json!({"selector": shard}));
                    assert!(meta.get("remainingItemCount").is_none(), "{meta}");
                    assert_eq!(
                        reply.revision(),
                        revision,
                        "one revision for all pages of all shards"
                    );
                    let names = reply.names();
                    assert!(names.is_sorted() && names.len() <= 4, "{names:?}");
                    union.extend(names);
                    // Later pages must not show these objects.
                    cluster
                        .config_map("c-ns", &format!("later-{written}"))
                        .await;
                    written += 1;
                    match reply.token() {
                        token if token.is_empty() => break,
                        token => query = format!("continue={token}"),
                    }
                }
            }
            union.sort();
            let mut expected = whole.names();
            expected.sort();
            assert_eq!(
                union, expected,
                "{shards} shards by {key:?} of {path}?{selector}"
            );
        }
    }
}

async fn shards_without_a_cache_cover_each_object_once(cluster: TestCluster) {
    shards_cover_each_object_once(cluster).await;
}

async fn shards_by_hashing_cover_each_object_once(cluster: TestCluster) {
    shards_cover_each_object_once(cluster).await;
}

/// Together, the initial events of all shards are the state. Each later event is sent to one shard;
/// the event of a recreated object to that of its new UID.
async fn watches_of_shards_cover_each_event_once(cluster: TestCluster) {
    fill(&cluster).await;
    for key in ShardKey::ALL {
        let mut watches = Vec::new();
        for shard in equal_shards(key, 4) {
            let path = format!("{PATH}?{WATCH}&shardSelector={}", encoded(&shard));
            let events = Events::open(&cluster.url, &path).await;
            assert_eq!(events.code, 200);
            watches.push((shard, events));
        }
        let mut seen = Vec::new();
        for (shard, events) in &mut watches {
            loop {
                let event = events.next().await.expect("it goes on");
                if event["type"] == "BOOKMARK" {
                    break;
                }
                assert!(belongs(shard, &event), "{event} in {shard}");
                seen.push(brief(&event));
            }
        }
        let whole = cluster.get(PATH).await.ok();
        seen.sort();
        let name =
            |name: &String| format!("ADDED {}", name.split('/').next_back().unwrap_or_default());
        let mut expected: Vec<_> = whole.names().iter().map(name).collect();
        expected.sort();
        assert_eq!(seen, expected, "{key:?}");

        let object = "/api/v1/namespaces/bb-ns/configmaps/again";
        let mut last = 0;
        for round in 0..6 {
            cluster.config_map("bb-ns", "again").await;
            let change = json!({"data": {"k": round.to_string()}});
            cluster.patch(object, &change).await.ok();
            cluster.delete(object).await.ok();
            last = cluster
                .config_map("a-ns", &format!("{key:?}-{round}").to_lowercase())
                .await;
        }
        // An unsharded watch returns all of these events, each of which must be in exactly one
        // shard.
        let mut told = Vec::new();
        let unsharded = format!("{PATH}?watch=true&resourceVersion={}", whole.revision());
        let mut events = Events::open(&cluster.url, &unsharded).await;
        loop {
            let event = events.next().await.expect("it goes on");
            let revision = revision_of(&event);
            let at: Vec<_> = (0..watches.len())
                .filter(|i| belongs(&watches[*i].0, &event))
                .collect();
            assert_eq!(at.len(), 1, "one shard for each event");
            told.push((at[0], event));
            if revision >= last {
                break;
            }
        }
        assert_eq!(told.len(), 24);
        for (i, (shard, events)) in watches.iter_mut().enumerate() {
            for (_, expected) in told.iter().filter(|(at, _)| *at == i) {
                let event = events.next().await.expect("it goes on");
                assert_eq!(event, *expected, "{shard}");
            }
        }
        let shards: BTreeSet<_> = told.iter().map(|(at, _)| at).collect();
        assert!(
            key == ShardKey::Namespace || shards.len() > 1,
            "uids are new each time"
        );
    }
}

fn belongs(shard: &str, event: &Value) -> bool {
    let shard = ShardSelector::parse(shard).expect("a selector");
    let metadata = &event["object"]["metadata"];
    let field = |name: &str| metadata[name].as_str().unwrap_or_default().as_bytes();
    shard.selects(shard.key().hash(field("uid"), field("namespace")))
}

async fn a_collection_is_deleted_shard_by_shard(cluster: TestCluster) {
    fill(&cluster).await;
    let mut left = cluster.get(PATH).await.ok().names().len();
    for shard in equal_shards(ShardKey::Uid, 2) {
        for namespace in ["a", "bb", "c", "dd"] {
            let path = format!(
                "/api/v1/namespaces/{namespace}-ns/configmaps?shardSelector={}",
                encoded(&shard)
            );
            let members = cluster.get(&path).await.ok().names().len();
            cluster.delete(&path).await.ok();
            left -= members;
            let now = cluster.get(PATH).await.ok().names();
            assert_eq!(now.len(), left, "only those of the shard");
        }
    }
    assert_eq!(left, 0);
}

/// With and without a cache, lists and watches fail without a reason, as upstream.
async fn invalid_selectors_are_rejected(cluster: TestCluster) {
    let range =
        |field: &str, start: &str, end: &str| format!("shardRange({field}, {start}, {end})");
    let (uid, zero, half) = (
        "object.metadata.uid",
        "'0x0000000000000000'",
        "'0x8000000000000000'",
    );
    let good = range(uid, zero, half);
    for (selector, why) in [
        (
            " ".to_owned(),
            "empty shard selector is not allowed; omit the parameter for unfiltered lists",
        ),
        (
            format!("{good} ||"),
            "CEL parse error: Syntax error: mismatched input '<EOF>'",
        ),
        (
            format!("{good} && {good}"),
            "unsupported function \"_&&_\"; only shardRange() and || are allowed",
        ),
        (
            uid.to_owned(),
            "unexpected expression kind 7; expected shardRange() call or || operator",
        ),
        (
            format!("shardRange({uid})"),
            "shardRange() requires exactly 3 arguments, got 1",
        ),
        (
            range("metadata.uid", zero, half),
            "unsupported field path \"metadata.uid\"; supported: object.metadata.uid, object.metadata.namespace",
        ),
        (
            format!(
                "{good} || {}",
                range("object.metadata.namespace", zero, half)
            ),
            "all shard ranges must use the same field, got \"object.metadata.uid\" and \"object.metadata.namespace\"",
        ),
        (
            range(uid, half, zero),
            "shard range start 0x8000000000000000 must be less than end 0x0000000000000000",
        ),
        (
            range(uid, "0", half),
            "hexStart must be a string literal, got int64",
        ),
        (
            range(uid, zero, "f(1)"),
            "hexEnd must be a string literal (e.g. '0xff'), got expression kind 1",
        ),
        (
            range(uid, zero, "'8'"),
            "hexEnd must have '0x' prefix, got \"8\"",
        ),
        (
            range(uid, "'0x'", half),
            "hexStart: hex value is required after '0x'",
        ),
        (
            range(uid, zero, "'0x100000000000000000'"),
            "hexEnd: hex value too long (18 chars, max 17): \"100000000000000000\"",
        ),
        (
            range(uid, zero, "'0x800000000000000F'"),
            "hexEnd: invalid hex character \"F\" in \"0x800000000000000F\"",
        ),
        (
            range(uid, zero, "'0x20000000000000000'"),
            "hexEnd: 17-digit hex value must be '0x10000000000000000' (2^64), got \"0x20000000000000000\"",
        ),
        (
            range(uid, "'0x0'", half),
            "hexStart must be a 0x-prefixed 16-digit hex value, got \"0x0\" (did you mean \"0x0000000000000000\"?)",
        ),
    ] {
        for how in ["", "limit=1&", "watch=true&"] {
            let path = format!("{PATH}?{how}shardSelector={}", encoded(&selector));
            let refused = cluster.get(&path).await;
            assert_eq!(refused.failure(), (500, String::new()), "{path}");
            let message = &refused.json()["message"];
            assert_eq!(*message, format!("invalid shard selector: {why}"), "{path}");
        }
    }
}

async fn without_its_feature_gate_the_selector_is_ignored(cluster: TestCluster) {
    fill(&cluster).await;
    let shard = encoded(&equal_shards(ShardKey::Uid, 2)[0]);
    for selector in [&*shard, "nonsense"] {
        let path = format!("{PATH}?limit=30&shardSelector={selector}");
        let list = cluster.get(&path).await.ok();
        assert_eq!(list.names().len(), 30);
        let meta = list.json()["metadata"].clone();
        assert_eq!(meta["remainingItemCount"], OBJECTS - 30);
        assert!(meta.get("shardInfo").is_none(), "{meta}");
    }
    let mut events = Events::open(
        &cluster.url,
        &format!("{PATH}?{WATCH}&shardSelector={shard}"),
    )
    .await;
    assert_eq!(events.take(OBJECTS + 1).await[OBJECTS]["type"], "BOOKMARK");
}
