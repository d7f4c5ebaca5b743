//! What a LIST answers: order, the table of resourceVersion and limit, revisions ahead, exact bytes.

use std::time::Instant;

use http::Method;
use prost::Message;
use serde_json::Value;

use crate::http::send;
use crate::stage::{ALL, ONE, Stage, cases};

cases! {
    namespaces_are_ordered_as_parts_of_the_storage_key on ALL;
    revision_zero_ignores_the_limit on ALL;
    an_exact_revision_never_changes on ALL;
    a_revision_ahead_is_waited_for_and_refused on ALL;
    a_json_list_is_its_objects_byte_for_byte on ALL;
    a_protobuf_list_is_read_by_a_stock_library on ALL;
    discovery_and_health_answer on ONE;
}

const PATH: &str = "/api/v1/configmaps";

/// Check 1 of the reference.
async fn namespaces_are_ordered_as_parts_of_the_storage_key(stage: Stage) {
    for namespace in ["a", "a-b", "a.b"] {
        stage.config_map(namespace, "x").await;
    }
    for query in ["", "?resourceVersion=0", "?limit=5"] {
        let names = stage.get(&format!("{PATH}{query}")).await.ok().names();
        assert_eq!(names, ["a-b/x", "a.b/x", "a/x"], "{query}");
    }
    let one = stage
        .get("/api/v1/namespaces/a/configmaps")
        .await
        .ok()
        .names();
    assert_eq!(one, ["a/x"], "`a-b` is no part of namespace `a`");
}

/// Check 7.
async fn revision_zero_ignores_the_limit(stage: Stage) {
    for name in ["a", "b", "c"] {
        stage.config_map("ns", name).await;
    }
    // The cache may lag; a consistent list makes it catch up.
    stage.get(PATH).await.ok();
    for query in [
        "limit=2&resourceVersion=0",
        "limit=1&resourceVersion=0&resourceVersionMatch=NotOlderThan",
    ] {
        let list = stage.get(&format!("{PATH}?{query}")).await.ok();
        assert_eq!(
            (list.names().len(), list.token()),
            (3, String::new()),
            "{query}"
        );
    }
}

/// What is exact stays as it is.
async fn an_exact_revision_never_changes(stage: Stage) {
    let now = stage.config_map("ns", "a").await;
    let path = format!("{PATH}?resourceVersion={now}&resourceVersionMatch=Exact");
    let before = stage.get(&path).await.ok();
    stage.config_map("ns", "b").await;
    stage
        .delete("/api/v1/namespaces/ns/configmaps/a")
        .await
        .ok();
    assert_eq!(stage.get(&path).await.ok().body, before.body);
}

/// Check 8, the LIST half.
async fn a_revision_ahead_is_waited_for_and_refused(stage: Stage) {
    let now = stage.config_map("ns", "a").await;
    let ahead = now + 1000;
    for query in [
        format!("resourceVersion={ahead}"),
        format!("resourceVersion={ahead}&resourceVersionMatch=Exact"),
    ] {
        let started = Instant::now();
        let reply = stage.get(&format!("{PATH}?{query}")).await;
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

/// Check 16, JSON: a GET's encoder writes whole objects, and knows nothing of lists.
async fn a_json_list_is_its_objects_byte_for_byte(stage: Stage) {
    let mut expected = Vec::new();
    for name in ["a", "b<&>\u{2028}", "c"] {
        let name_in_url = name.split('<').next().unwrap_or_default();
        let object = serde_json::json!({"metadata": {"name": name_in_url}, "data": {"text": name}});
        stage
            .post("/api/v1/namespaces/ns/configmaps", &object)
            .await
            .ok();
        let one = stage
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
    let list = stage.get(PATH).await.ok();
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

/// Check 16, protobuf.
async fn a_protobuf_list_is_read_by_a_stock_library(stage: Stage) {
    let mut revisions = Vec::new();
    for name in ["a", "b"] {
        revisions.push(stage.config_map("ns", name).await.to_string());
    }
    let media_type = "application/vnd.kubernetes.protobuf";
    let reply = send(&stage.url, Method::GET, PATH, &[("accept", media_type)], "")
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

async fn discovery_and_health_answer(stage: Stage) {
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(&stage.get(path).await.ok().body[..], b"ok", "{path}");
    }
    let verbose = stage.get("/readyz?verbose").await.ok().body;
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
        let document = stage.get(path).await.ok();
        assert!(document.json().is_object(), "{path}");
    }
    let accept =
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let groups = send(&stage.url, Method::GET, "/apis", &[("accept", accept)], "")
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
    let missing = stage.get("/apis/apps/v1/deployments").await;
    assert_eq!(
        (missing.code.as_u16(), &missing.body[..]),
        (404, &b"404 page not found\n"[..])
    );
}
