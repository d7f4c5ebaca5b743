//! Random requests to a tier with a watch cache and to one without, over the same etcd: at the same
//! revision, both must return the same bytes.

use std::collections::BTreeSet;

use futures::future::join_all;
use http::Method;
use kube_api::protobuf::find_bytes;
use serde_json::{Value, json};

use crate::harness::{APART, TestCluster, Tier, cases};
use crate::http::{Reply, send};
use test_support::rng::Rng;

cases! {
    lists_are_the_same_from_cache_and_from_etcd on APART with ["--feature-gates=CacheIndex=false"];
    lists_by_index_are_the_same_as_from_etcd on APART;
    watches_are_the_same_from_cache_and_from_etcd on APART;
}

/// Seed of the random requests.
const SEED: u64 = 0x5eed_0005;
const LISTS: usize = 300;
const WATCHES: usize = 40;
const CHANGES: usize = 80;
/// Maximum number of pages that are read of a list.
const PAGES: usize = 40;

const PODS: &str = "pods";
const KINDS: [(&str, &str); 4] = [
    (PODS, "/api/v1"),
    ("configmaps", "/api/v1"),
    ("nodes", "/api/v1"),
    ("widgets", "/apis/bench.example.com/v1"),
];
const NAMESPACES: [&str; 3] = ["a", "a-b", "a.b"];
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// Both tiers, and past revisions of their storage.
struct Pair {
    cluster: TestCluster,
    uncached: Tier,
    revisions: Vec<i64>,
}

fn labels(rng: &mut Rng) -> Value {
    let mut labels = json!({"app": format!("app-{}", rng.below(4))});
    if rng.below(3) > 0 {
        labels["tier"] = rng.of(&["front", "back"]).into();
    }
    labels
}

fn collection(kind: (&str, &str), namespace: &str) -> String {
    let (resource, group) = kind;
    match (resource, namespace) {
        ("nodes", _) | (_, "") => format!("{group}/{resource}"),
        _ => format!("{group}/namespaces/{namespace}/{resource}"),
    }
}

fn object(kind: (&str, &str), name: &str, rng: &mut Rng) -> Value {
    let mut object = json!({"metadata": {"name": name, "labels": labels(rng)}});
    match kind.0 {
        PODS => {
            let node = format!("node-{}", rng.below(3));
            object["spec"] = json!({"nodeName": node, "containers": [{"name": "c", "image": "i"}]});
        }
        "configmaps" => object["data"] = json!({"text": "x<&>\u{2028}".repeat(rng.below(9))}),
        "widgets" => {
            object["apiVersion"] = "bench.example.com/v1".into();
            object["kind"] = "Widget".into();
            object["spec"] = json!({"size": rng.below(100)});
        }
        _ => object["spec"] = json!({"unschedulable": rng.one_in(2)}),
    }
    object
}

impl Pair {
    /// Starts both tiers, and randomly creates, changes and deletes objects while they run.
    async fn start(cluster: TestCluster, rng: &mut Rng) -> Self {
        let uncached = cluster.another_with(&["--watch-cache=false"]).await;
        let mut there = BTreeSet::new();
        let mut revisions = Vec::new();
        for step in 0..CHANGES + 40 {
            let kind = rng.of(&KINDS);
            let path = collection(kind, rng.of(&NAMESPACES));
            let name = format!("o-{:02}", rng.below(12));
            let one = format!("{path}/{name}");
            let reply = if !there.contains(&one) {
                there.insert(one);
                cluster.post(&path, &object(kind, &name, rng)).await
            } else if step % 4 == 0 {
                there.remove(&one);
                cluster.delete(&one).await
            } else {
                let patch = json!({"metadata": {"labels": labels(rng)}});
                cluster.patch(&one, &patch).await
            };
            reply.ok();
            let path = "/api/v1/namespaces?limit=1";
            revisions.push(cluster.get(path).await.ok().revision());
        }
        // These lists bring every cache of the cached tier up to date with storage.
        for kind in KINDS {
            cluster.get(&collection(kind, "")).await.ok();
        }
        Self {
            cluster,
            uncached,
            revisions,
        }
    }

    /// Sends the request to both and compares; returns the response of the tier with a cache.
    async fn ask(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        // A table contains ages, which may change between two requests.
        let attempts = if headers[0].1 == TABLE { 5 } else { 1 };
        for attempt in 1..=attempts {
            let cached = send(&self.cluster.url, Method::GET, path, headers, "").await;
            let stored = send(&self.uncached.url, Method::GET, path, headers, "").await;
            let same = (cached.code, &cached.body) == (stored.code, &stored.body)
                && cached.headers.get("content-type") == stored.headers.get("content-type");
            if same {
                return cached;
            }
            assert!(
                attempt < attempts,
                "seed {SEED:#x}: {path} {headers:?}\ncached: {} {}\nstored: {} {}",
                cached.code,
                cached.body.escape_ascii(),
                stored.code,
                stored.body.escape_ascii()
            );
        }
        unreachable!("the last attempt answers or fails")
    }
}

fn accept(rng: &mut Rng) -> &'static str {
    rng.of(&[
        "",
        "application/json",
        "application/vnd.kubernetes.protobuf",
        TABLE,
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        "application/vnd.kubernetes.protobuf,application/json",
        "text/html",
    ])
}

fn selectors(kind: (&str, &str), rng: &mut Rng) -> String {
    let labels = rng.of(&[
        "",
        "",
        "",
        "app%3Dapp-1",
        "app+in+(app-0,app-2),tier",
        "tier!%3Dfront",
        "!tier",
        "app+notin+(app-3)",
        "none",
        "a%20b",
    ]);
    let fields = match kind.0 {
        PODS => rng.of(&[
            "",
            "",
            "spec.nodeName%3Dnode-1",
            "spec.nodeName!%3Dnode-1",
            "status.phase%3DPending",
            "metadata.name%3Do-03",
            "metadata.namespace%3Da,metadata.name%3Do-04",
            "spec.unknown%3D1",
        ]),
        "nodes" => rng.of(&["", "spec.unschedulable%3Dtrue", "metadata.name%3Do-01"]),
        _ => rng.of(&["", "", "metadata.name%3Do-02", "metadata.namespace%3Da-b"]),
    };
    format!("&labelSelector={labels}&fieldSelector={fields}")
}

async fn lists_are_the_same_from_cache_and_from_etcd(cluster: TestCluster) {
    let (whole, continued, refused) = ask_for_lists(cluster, &[0, 0, 1, 2, 3, 7, 500]).await;
    // The random requests cover enough of each kind.
    assert!(
        whole > LISTS / 3 && continued > LISTS / 3 && refused > LISTS / 10,
        "{whole} lists, {continued} further pages, {refused} refusals"
    );
}

/// Whole lists only: with an index, the last page of a list has no token for an empty next one.
async fn lists_by_index_are_the_same_as_from_etcd(cluster: TestCluster) {
    let (whole, ..) = ask_for_lists(cluster, &[0]).await;
    assert!(whole > LISTS / 3, "{whole} lists");
}

/// Returns the number of lists, of further pages and of errors. Excluded are resourceVersion 0 with
/// a limit, which a cache ignores, and future revisions, for which a cache waits.
async fn ask_for_lists(cluster: TestCluster, limits: &[usize]) -> (usize, usize, usize) {
    let mut rng = Rng(SEED);
    let pair = Pair::start(cluster, &mut rng).await;
    let (mut whole, mut continued, mut refused) = (0, 0, 0);
    for _ in 0..LISTS {
        let kind = rng.of(&KINDS);
        let path = collection(kind, rng.of(&["", "", "a", "a-b", "none"]));
        let revision = match rng.below(4) {
            0 => "0".to_owned(),
            1 => String::new(),
            _ => rng.of(&pair.revisions).to_string(),
        };
        let matched = match &*revision {
            "" => rng.of(&["", "", "", "", "", "Exact"]),
            _ => rng.of(&[
                "",
                "",
                "",
                "NotOlderThan",
                "NotOlderThan",
                "Exact",
                "Exact",
                "Exactly",
            ]),
        };
        let limit = match &*revision {
            "0" => 0,
            _ => rng.of(limits),
        };
        let selectors = selectors(kind, &mut rng);
        let pretty = rng.of(&["", "", "&pretty=true"]);
        let headers = [("accept", accept(&mut rng))];
        let query = format!("limit={limit}{selectors}{pretty}");
        let options = format!("resourceVersion={revision}&resourceVersionMatch={matched}");
        let mut page = pair
            .ask(&format!("{path}?{options}&{query}"), &headers)
            .await;
        whole += usize::from(page.code == 200);
        refused += usize::from(page.code != 200);
        for _ in 0..PAGES {
            let token = token(&page);
            if token.is_empty() {
                break;
            }
            let next = format!("{path}?continue={token}&{query}");
            page = pair.ask(&next, &headers).await;
            assert_eq!(page.code, 200, "{next}");
            continued += 1;
        }
        assert_eq!(token(&page), "", "{path}?{query} ends");
    }
    (whole, continued, refused)
}

/// Returns the token of a page; empty without one, and for other responses.
fn token(page: &Reply) -> String {
    if page.code != 200 {
        return String::new();
    }
    match kube_api::envelope::open(&page.body) {
        Ok(list) => {
            let metadata = find_bytes(list, 1).expect("a list").unwrap_or_default();
            let token = find_bytes(metadata, 3).expect("metadata");
            String::from_utf8(token.unwrap_or_default().to_vec()).expect("text")
        }
        Err(_) => page.token(),
    }
}

/// Excluded are bookmarks of a watch without initial events, which depend on the progress of the
/// cache.
async fn watches_are_the_same_from_cache_and_from_etcd(cluster: TestCluster) {
    let mut rng = Rng(SEED);
    let pair = Pair::start(cluster, &mut rng).await;
    let by_list =
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut questions = Vec::new();
    for _ in 0..WATCHES {
        let kind = rng.of(&KINDS);
        let path = collection(kind, rng.of(&["", "", "a", "a-b"]));
        let start = match rng.below(4) {
            0 => by_list.to_owned(),
            1 => "resourceVersion=0".to_owned(),
            _ => format!("resourceVersion={}", rng.of(&pair.revisions)),
        };
        let selectors = selectors(kind, &mut rng);
        let query = format!("watch=1&timeoutSeconds=6&{start}{selectors}");
        // Tables are excluded: their ages would require retries, and a watch does not end
        // immediately.
        let accept = match accept(&mut rng) {
            TABLE => "application/json",
            other => other,
        };
        questions.push((format!("{path}?{query}"), [("accept", accept)]));
    }
    let asked = questions
        .iter()
        .map(|(path, headers)| pair.ask(path, headers));
    let answers = join_all(asked).await;
    let sent: usize = answers.iter().map(|answer| answer.body.len()).sum();
    let begun = answers.iter().filter(|answer| answer.code == 200).count();
    assert!(
        begun > WATCHES / 2 && sent > 50_000,
        "{begun} watches, {sent} bytes"
    );
}
