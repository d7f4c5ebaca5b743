//! Lists in pages: every object once, one revision for all pages, and the life of a token.

use etcd_api::kubernetes::KubernetesEtcd;
use kube_api::ContinueToken;
use serde_json::json;

use crate::harness::{ALL, ONE, TestCluster, cases};

cases! {
    pages_of_any_size_make_the_whole_list on ALL;
    writes_between_pages_are_not_seen on ALL;
    a_compacted_token_gives_a_new_one on ALL with ["--watch-cache=false"];
    invalid_tokens_are_rejected on ONE;
}

const PATH: &str = "/api/v1/configmaps";
const OBJECTS: usize = 20;

async fn fill(cluster: &TestCluster) {
    for i in 0..OBJECTS {
        let path = format!("/api/v1/namespaces/ns-{}/configmaps", i % 3);
        let object = json!({"metadata": {"name": format!("cm-{i:02}"), "labels": {"half": (i % 2).to_string()}}});
        cluster.post(&path, &object).await.ok();
    }
}

/// Pages of any size have every object once, in order, at the revision of the first page.
async fn pages_of_any_size_make_the_whole_list(cluster: TestCluster) {
    fill(&cluster).await;
    let whole = cluster.get(PATH).await.ok();
    for selector in ["", "&labelSelector=half%3D0"] {
        for limit in [1, 7, OBJECTS, OBJECTS + 1] {
            let (mut names, mut revisions, mut token) = (Vec::new(), Vec::new(), String::new());
            loop {
                let from = if token.is_empty() {
                    String::new()
                } else {
                    format!("&continue={token}")
                };
                let page = cluster
                    .get(&format!("{PATH}?limit={limit}{selector}{from}"))
                    .await
                    .ok();
                names.extend(page.names());
                revisions.push(page.revision());
                token = page.token();
                let remaining = page.json()["metadata"]["remainingItemCount"].as_u64();
                let left = (OBJECTS - names.len().min(OBJECTS)) as u64;
                if selector.is_empty() {
                    assert_eq!(remaining, (left > 0).then_some(left), "limit {limit}");
                    assert_eq!(token.is_empty(), left == 0, "limit {limit}");
                } else {
                    assert_eq!(remaining, None, "nobody knows how many are selected");
                }
                if token.is_empty() {
                    break;
                }
                assert!(revisions.len() <= OBJECTS, "paging ends");
            }
            let expected: Vec<_> = whole
                .names()
                .into_iter()
                .filter(|name| {
                    let even = name.ends_with(['0', '2', '4', '6', '8']);
                    selector.is_empty() || even
                })
                .collect();
            assert_eq!(names, expected, "limit {limit}{selector}");
            revisions.dedup();
            assert_eq!(
                revisions.len(),
                1,
                "one revision for every page: {revisions:?}"
            );
        }
    }
}

/// Later pages are read at the revision of the first one; writes between pages are not visible.
async fn writes_between_pages_are_not_seen(cluster: TestCluster) {
    fill(&cluster).await;
    let first = cluster.get(&format!("{PATH}?limit=5")).await.ok();
    cluster.config_map("ns-2", "zz").await;
    cluster
        .delete("/api/v1/namespaces/ns-2/configmaps/cm-17")
        .await
        .ok();
    cluster
        .patch(
            "/api/v1/namespaces/ns-2/configmaps/cm-14",
            &json!({"data": {"new": "1"}}),
        )
        .await
        .ok();
    let rest = cluster
        .get(&format!("{PATH}?continue={}", first.token()))
        .await
        .ok();
    assert_eq!(rest.revision(), first.revision());
    assert_eq!(first.names().len() + rest.names().len(), OBJECTS);
    assert!(rest.names().contains(&"ns-2/cm-17".to_owned()));
    assert!(!rest.names().contains(&"ns-2/zz".to_owned()));
    assert!(!String::from_utf8_lossy(&rest.body).contains("\"new\""));
}

/// A token whose revision is compacted fails with 410 and a new token for the rest at the latest
/// revision. Without a cache, whose snapshots live until it reads the compacted revision.
async fn a_compacted_token_gives_a_new_one(cluster: TestCluster) {
    fill(&cluster).await;
    let first = cluster.get(&format!("{PATH}?limit=5")).await.ok();
    let now = cluster.config_map("ns-9", "later").await;
    cluster
        .storage()
        .await
        .compact(now)
        .await
        .expect("compacts");
    let expired = cluster
        .get(&format!("{PATH}?limit=5&continue={}", first.token()))
        .await;
    assert_eq!(expired.failure(), (410, "Expired".to_owned()));
    let token = ContinueToken::decode(&expired.token()).expect("a token");
    let before = ContinueToken::decode(&first.token()).expect("a token");
    assert_eq!((token.resource_version, token.start), (-1, before.start));
    let rest = cluster
        .get(&format!("{PATH}?limit=5&continue={}", expired.token()))
        .await
        .ok();
    assert!(rest.revision() >= now);
    assert_eq!(
        rest.names()[0],
        "ns-0/cm-15",
        "goes on where the first page ended"
    );
    let next = ContinueToken::decode(&rest.token()).expect("a token");
    assert_eq!(
        next.resource_version,
        rest.revision(),
        "and is consistent from there"
    );

    let exact = format!(
        "{PATH}?resourceVersion={}&resourceVersionMatch=Exact",
        first.revision()
    );
    let gone = cluster.get(&exact).await;
    assert_eq!(gone.failure(), (410, "Expired".to_owned()));
    assert_eq!(gone.token(), "", "an exact list has no rest");
}

/// An undecodable token, or one with a path outside the list, is a bad request.
async fn invalid_tokens_are_rejected(cluster: TestCluster) {
    use base64::Engine as _;
    let encode = |text: &str| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text);
    let token = |version: &str, rv: &str, start: &str| {
        encode(&format!(
            r#"{{"v":"{version}","rv":{rv},"start":"{start}"}}"#
        ))
    };
    let v1 = "meta.k8s.io/v1";
    let bad = [
        "%25%25%25".to_owned(),
        encode("no json"),
        format!("{}=", token(v1, "5", "a\\u0000")),
        token("meta.k8s.io/v2", "5", "a\\u0000"),
        token(v1, "0", "a\\u0000"),
        token(v1, "5", ""),
        token(v1, "5", "../secrets/a"),
        token(v1, "5", "a//b"),
        token(v1, "5", "a/./b"),
        token(v1, "5", "a/"),
        token(v1, "\\\"5\\\"", "a"),
    ];
    for token in bad {
        let reply = cluster
            .get(&format!("{PATH}?limit=1&continue={token}"))
            .await;
        assert_eq!(reply.failure(), (400, "BadRequest".to_owned()), "{token}");
        let message = reply.json()["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert!(message.starts_with("invalid continue token: "), "{message}");
    }
    // More than a float can hold: it survives, and is a revision that storage does not have.
    let large = token(v1, "9007199254740993", "node-17\\u0000");
    let reply = cluster
        .get(&format!("{PATH}?limit=1&continue={large}"))
        .await;
    assert_eq!(reply.code, 504, "{}", reply.body.escape_ascii());
    assert!(
        reply.json()["message"]
            .as_str()
            .unwrap_or_default()
            .contains("9007199254740993")
    );
}
