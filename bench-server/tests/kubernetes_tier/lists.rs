//! Responses to LIST: order, resourceVersion and limit, future revisions, exact bytes.

use std::time::Instant;

use http::Method;
use prost::Message;
use serde_json::Value;

use crate::harness::{ALL, ONE, TestCluster, cases};
use crate::http::send;

cases! {
    namespaces_are_ordered_as_parts_of_the_storage_key on ALL;
    revision_zero_ignores_the_limit on ALL;
    an_exact_revision_never_changes on ALL;
    a_future_revision_is_waited_for_and_then_rejected on ALL;
    a_json_list_is_its_objects_byte_for_byte on ALL;
    a_protobuf_list_is_read_by_a_stock_library on ALL;
    discovery_and_health_are_served on ONE;
}

const PATH: &str = "/api/v1/configmaps";

/// A list is in the order of storage keys, `NAMESPACE/NAME`, where `-` sorts before `/`.
async fn namespaces_are_ordered_as_parts_of_the_storage_key(cluster: TestCluster) {
    for namespace in ["a", "a-b", "a.b"] {
        cluster.config_map(namespace, "x").await;
    }
    for query in ["", "?resourceVersion=0", "?limit=5"] {
        let names = cluster.get(&format!("{PATH}{query}")).await.ok().names();
        assert_eq!(names, ["a-b/x", "a.b/x", "a/x"], "{query}");
    }
    let one = cluster
        .get("/api/v1/namespaces/a/configmaps")
        .await
        .ok()
        .names();
    assert_eq!(one, ["a/x"], "`a-b` is no part of namespace `a`");
}

/// `resourceVersion=0` with a limit returns the whole list from the cache, without a token.
async fn revision_zero_ignores_the_limit(cluster: TestCluster) {
    for name in ["a", "b", "c"] {
        cluster.config_map("ns", name).await;
    }
    // The cache may lag; a consistent list makes it catch up.
    cluster.get(PATH).await.ok();
    for query in [
        "limit=2&resourceVersion=0",
        "limit=1&resourceVersion=0&resourceVersionMatch=NotOlderThan",
    ] {
        let list = cluster.get(&format!("{PATH}?{query}")).await.ok();
        assert_eq!(
            (list.names().len(), list.token()),
            (3, String::new()),
            "{query}"
        );
    }
}

/// A list at an exact revision is the same after later writes.
async fn an_exact_revision_never_changes(cluster: TestCluster) {
    let now = cluster.config_map("ns", "a").await;
    let path = format!("{PATH}?resourceVersion={now}&resourceVersionMatch=Exact");
    let before = cluster.get(&path).await.ok();
    cluster.config_map("ns", "b").await;
    cluster
        .delete("/api/v1/namespaces/ns/configmaps/a")
        .await
        .ok();
    assert_eq!(cluster.get(&path).await.ok().body, before.body);
}

/// A list at a future revision waits, then fails with 504 and `ResourceVersionTooLarge`.
async fn a_future_revision_is_waited_for_and_then_rejected(cluster: TestCluster) {
    let now = cluster.config_map("ns", "a").await;
    let ahead = now + 1000;
    for query in [
        format!("resourceVersion={ahead}"),
        format!("resourceVersion={ahead}&resourceVersionMatch=Exact"),
    ] {
        let started = Instant::now();
        let reply = cluster.get(&format!("{PATH}?{query}")).await;
        let took = started.elapsed().as_secs_f64();
        assert_eq!(reply.failure(), (504, "Timeout".to_owned()), "{query}");
        assert!((2.5..6.0).contains(&took), "{query} took {took} s");
        assert_eq!(reply.headers["retry-after"], "1");
        let status = reply.json();
        assert_eq!(
            status["details"]["causes"][0]["reason"],
            "ResourceVersionTooLarge"
        );
        let text = format!("Timeout: Too large resource version: {ahead}, current: ");
        assert!(
            status["message"]
                .as_str()
                .unwrap_or_default()
                .starts_with(&text),
            "{status}"
        );
    }
}

/// Items of a JSON list equal the objects of GETs, which another encoder writes.
async fn a_json_list_is_its_objects_byte_for_byte(cluster: TestCluster) {
    let mut expected = Vec::new();
    for name in ["a", "b<&>\u{2028}", "c"] {
        let name_in_url = name.split('<').next().unwrap_or_default();
        let object = serde_json::json!({"metadata": {"name": name_in_url}, "data": {"text": name}});
        cluster
            .post("/api/v1/namespaces/ns/configmaps", &object)
            .await
            .ok();
        let one = cluster
            .get(&format!("/api/v1/namespaces/ns/configmaps/{name_in_url}"))
            .await
            .ok();
        let text = String::from_utf8(one.body.to_vec()).expect("UTF-8");
        let head = r#"{"kind":"ConfigMap","apiVersion":"v1","#;
        expected.push(format!(
            "{{{}",
            text.strip_prefix(head).expect(head).trim_end()
        ));
    }
    let list = cluster.get(PATH).await.ok();
    let whole = format!(
        "{{\"kind\":\"ConfigMapList\",\"apiVersion\":\"v1\",\"metadata\":{{\"resourceVersion\":\"{}\"}},\"items\":[{}]}}\n",
        list.revision(),
        expected.join(",")
    );
    assert_eq!(String::from_utf8_lossy(&list.body), whole);
}

#[derive(Clone, PartialEq, Message)]
struct Unknown {
    #[prost(message, optional, tag = "1")]
    type_meta: Option<TypeMeta>,
    #[prost(bytes = "vec", tag = "2")]
    raw: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct TypeMeta {
    #[prost(string, tag = "1")]
    api_version: String,
    #[prost(string, tag = "2")]
    kind: String,
}

#[derive(Clone, PartialEq, Message)]
struct List {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ListMeta>,
    #[prost(message, repeated, tag = "2")]
    items: Vec<ConfigMap>,
}

#[derive(Clone, PartialEq, Message)]
struct ListMeta {
    #[prost(string, tag = "2")]
    resource_version: String,
}

#[derive(Clone, PartialEq, Message)]
struct ConfigMap {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
    #[prost(map = "string, string", tag = "2")]
    data: std::collections::HashMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
struct ObjectMeta {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "6")]
    resource_version: String,
}

/// A protobuf list is decoded by prost from the published field numbers.
async fn a_protobuf_list_is_read_by_a_stock_library(cluster: TestCluster) {
    let mut revisions = Vec::new();
    for name in ["a", "b"] {
        revisions.push(cluster.config_map("ns", name).await.to_string());
    }
    let media_type = "application/vnd.kubernetes.protobuf";
    let reply = send(
        &cluster.url,
        Method::GET,
        PATH,
        &[("accept", media_type)],
        "",
    )
    .await
    .ok();
    assert_eq!(reply.headers["content-type"], media_type);
    let envelope = reply.body.strip_prefix(b"k8s\0").expect("the magic");
    let envelope = Unknown::decode(envelope).expect("an envelope");
    let kind = envelope.type_meta.expect("a kind");
    assert_eq!((&*kind.api_version, &*kind.kind), ("v1", "ConfigMapList"));
    let list = List::decode(&envelope.raw[..]).expect("a list");
    let metadata = list.items.iter().filter_map(|item| item.metadata.clone());
    let found: Vec<_> = metadata
        .map(|one| (one.name, one.resource_version))
        .collect();
    assert_eq!(
        found,
        [
            ("a".to_owned(), revisions[0].clone()),
            ("b".to_owned(), revisions[1].clone())
        ]
    );
    assert_eq!(list.items[0].data["k"], "v");
    let list_revision: i64 = list
        .metadata
        .expect("metadata")
        .resource_version
        .parse()
        .expect("a number");
    assert!(list_revision >= revisions[1].parse().expect("a number"));
}

async fn discovery_and_health_are_served(cluster: TestCluster) {
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(&cluster.get(path).await.ok().body[..], b"ok", "{path}");
    }
    let verbose = cluster.get("/readyz?verbose").await.ok().body;
    assert!(
        verbose.ends_with(b"readyz check passed\n"),
        "{}",
        verbose.escape_ascii()
    );
    for path in [
        "/api",
        "/apis",
        "/api/v1",
        "/apis/coordination.k8s.io",
        "/apis/coordination.k8s.io/v1",
        "/version",
        "/openapi/v3",
        "/openapi/v3/api/v1",
    ] {
        let document = cluster.get(path).await.ok();
        assert!(document.json().is_object(), "{path}");
    }
    let accept =
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let groups = send(
        &cluster.url,
        Method::GET,
        "/apis",
        &[("accept", accept)],
        "",
    )
    .await
    .ok();
    assert_eq!(
        groups.headers["content-type"],
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    );
    let names: Vec<Value> = groups.json()["items"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|group| group["metadata"]["name"].clone())
        .collect();
    assert!(names.contains(&"coordination.k8s.io".into()), "{names:?}");
    let missing = cluster.get("/apis/apps/v1/deployments").await;
    assert_eq!(
        (missing.code.as_u16(), &missing.body[..]),
        (404, &b"404 page not found\n"[..])
    );
}
