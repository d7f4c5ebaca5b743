//! Tests of further options of lists: tables and partial metadata, indentation, compression, a
//! single name, a timeout.

use std::io::Read;

use flate2::read::GzDecoder;

use super::*;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";

async fn ask(service: &KubeService, path: &str, headers: &[(&str, &str)]) -> TestResponse {
    super::ask(service, Method::GET, path, headers).await
}

#[tokio::test(start_paused = true)]
async fn tables_have_columns_rows_and_as_much_of_the_object_as_asked_for() {
    let etcd = FakeEtcd::default();
    for name in ["one", "two", "three"] {
        put(&etcd, "a", name, "Running");
    }
    let tier = ready(&etcd, &[]).await;
    let table = ask(&tier.service, "/api/v1/pods?limit=2", &[("accept", TABLE)]).await;
    assert_eq!(table.headers["content-type"], "application/json");
    let table = table.json();
    assert_eq!(
        (&table["kind"], &table["apiVersion"]),
        (&json!("Table"), &json!("meta.k8s.io/v1"))
    );
    assert_eq!(table["metadata"]["remainingItemCount"], 1);
    assert_eq!(table["columnDefinitions"][0]["name"], "Name");
    let rows = table["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0]["cells"][0], "one");
    assert_eq!(rows[0]["cells"][2], "Running");
    assert_eq!(rows[0]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(rows[0]["object"]["metadata"]["name"], "one");
    assert!(rows[0]["object"].get("spec").is_none());

    for (include, kind) in [("None", Value::Null), ("Object", json!("Pod"))] {
        let path = format!("/api/v1/namespaces/a/pods?includeObject={include}");
        let table = ask(&tier.service, &path, &[("accept", TABLE)]).await.json();
        assert_eq!(table["rows"][0]["object"]["kind"], kind, "{include}");
    }
    let bad = ask(
        &tier.service,
        "/api/v1/pods?includeObject=All",
        &[("accept", TABLE)],
    )
    .await;
    assert_eq!(bad.code, StatusCode::BAD_REQUEST);

    let one = ask(
        &tier.service,
        "/api/v1/namespaces/a/pods/two",
        &[("accept", TABLE)],
    )
    .await;
    assert_eq!(one.json()["rows"][0]["cells"][0], "two");
}

#[tokio::test(start_paused = true)]
async fn partial_metadata_comes_in_both_encodings() {
    let etcd = FakeEtcd::default();
    for name in ["one", "two"] {
        put(&etcd, "a", name, "Running");
    }
    let tier = ready(&etcd, &[]).await;
    let partial = |media: &str| format!("{media};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
    let json = ask(
        &tier.service,
        "/api/v1/pods",
        &[("accept", &partial("application/json"))],
    )
    .await;
    let list = json.json();
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(list["items"][1]["kind"], "PartialObjectMetadata");
    assert_eq!(json.names(), ["a/one", "a/two"]);
    let protobuf = ask(
        &tier.service,
        "/api/v1/pods",
        &[("accept", &partial(envelope::MEDIA_TYPE))],
    )
    .await;
    assert_eq!(
        envelope::type_meta(&protobuf.body),
        Ok((&b"meta.k8s.io/v1"[..], &b"PartialObjectMetadataList"[..]))
    );
    let raw = envelope::open(&protobuf.body).expect("lengths are right");
    let items = kube_api::protobuf::Fields::new(raw)
        .filter(|field| field.as_ref().expect("well formed").number == kube_api::list::ITEMS);
    assert_eq!(items.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn large_lists_are_compressed_and_people_get_indented_ones() {
    let etcd = FakeEtcd::default();
    for i in 0..1_500 {
        put(&etcd, "a", &format!("pod-{i:04}"), "Running");
    }
    let tier = ready(&etcd, &[]).await;
    let plain = get(&tier.service, "/api/v1/pods").await.body;
    assert!(plain.len() > 256 * 1024, "more than one frame");
    let gzip = [("accept-encoding", "deflate, gzip")];
    let packed = ask(&tier.service, "/api/v1/pods", &gzip).await;
    assert_eq!(packed.headers["content-encoding"], "gzip");
    assert_eq!(packed.headers["vary"], "Accept-Encoding");
    let mut unpacked = Vec::new();
    GzDecoder::new(&packed.body[..])
        .read_to_end(&mut unpacked)
        .expect("one whole gzip member");
    assert!(unpacked == plain, "the same list");
    let small = ask(&tier.service, "/api/v1/pods?limit=2", &gzip).await;
    assert!(!small.headers.contains_key("content-encoding"));

    for (path, headers) in [
        ("/api/v1/pods?pretty=true", &[][..]),
        ("/api/v1/pods", &[("user-agent", "curl/8.5.0")][..]),
        (
            "/api/v1/pods",
            &[("accept", "application/json;pretty=1")][..],
        ),
    ] {
        let pretty = ask(&tier.service, path, headers).await;
        assert!(pretty.body.starts_with(b"{\n  \"kind\": \"PodList\",\n"));
        assert!(pretty.body.ends_with(b"\n}"), "no newline, as Go indents");
        assert!(pretty.json() == serde_json::from_slice::<Value>(&plain).expect("JSON"));
    }
    let compact = ask(
        &tier.service,
        "/api/v1/pods?pretty=0",
        &[("user-agent", "curl/8.5.0")],
    )
    .await;
    assert!(compact.body == plain);
}

#[tokio::test(start_paused = true)]
async fn a_list_of_one_name_reads_one_key() {
    let etcd = FakeEtcd::default();
    let revision = put(&etcd, "a", "one", "Running");
    put(&etcd, "a", "two", "Running");
    let tier = ready(&etcd, &[]).await;
    let path = "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Done";
    let before = etcd.lists();
    for query in [
        "",
        "&resourceVersion=0",
        "&limit=1",
        "&limit=500&resourceVersion=0",
    ] {
        let list = get(&tier.service, &format!("{path}{query}")).await;
        assert_eq!(
            (list.names(), list.token()),
            (vec!["a/one".to_owned()], String::new()),
            "{query}"
        );
    }
    let exact = format!("{path}&resourceVersion={revision}&resourceVersionMatch=Exact");
    let list = get(&tier.service, &exact).await;
    assert_eq!((list.names().len(), list.revision()), (1, revision));
    assert_eq!(etcd.lists(), before, "no list of storage for any of them");
    let none = get(&tier.service, &format!("{path},status.phase%3DFailed")).await;
    assert_eq!(none.names().len(), 0, "the other selectors still count");
    let missing = get(
        &tier.service,
        "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Dx",
    )
    .await;
    assert_eq!((missing.code, missing.names().len()), (StatusCode::OK, 0));
}

#[tokio::test(start_paused = true)]
async fn a_client_may_wait_less_than_the_server_would() {
    let etcd = FakeEtcd::default();
    let current = put(&etcd, "a", "pod", "Running");
    let tier = ready(&etcd, &[]).await;
    let began = tokio::time::Instant::now();
    let path = format!("/api/v1/pods?resourceVersion={}&timeout=1s", current + 1000);
    let late = get(&tier.service, &path).await;
    assert_eq!(began.elapsed(), Duration::from_secs(1));
    assert_eq!(
        (late.code, &late.json()["reason"]),
        (StatusCode::GATEWAY_TIMEOUT, &json!("Timeout"))
    );
    let bad = get(&tier.service, "/api/v1/pods?timeout=5").await;
    assert_eq!(bad.code, StatusCode::BAD_REQUEST);
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_is_not_filled_leaves_only_plain_pages_to_storage() {
    let etcd = FakeEtcd::default();
    put(&etcd, "a", "pod", "Running");
    etcd.set_down(true);
    let tier = start(&etcd, &[]).await;
    for (query, code) in [
        ("limit=1", 500),
        ("resourceVersion=0&limit=1", 500),
        ("resourceVersion=2&resourceVersionMatch=Exact", 500),
        ("limit=1&labelSelector=a", 429),
        ("limit=1&fieldSelector=status.phase%3DRunning", 429),
        ("resourceVersion=0", 429),
        ("", 429),
    ] {
        let answer = get(&tier.service, &format!("/api/v1/pods?{query}")).await;
        assert_eq!(answer.code.as_u16(), code, "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn custom_objects_are_json_wherever_they_are_shown() {
    let etcd = FakeEtcd::default();
    let stored = r#"{"apiVersion":"bench.example.com/v1","kind":"Widget","metadata":{"name":"w","namespace":"a","labels":{"x":"y"}},"spec":{"size":3}}"#;
    let revision = etcd.write(&[(
        "/registry/bench.example.com/widgets/a/w",
        Some(stored.as_bytes().to_vec()),
    )]);
    let tier = ready(&etcd, &[]).await;
    let path = "/apis/bench.example.com/v1/widgets";
    for query in [
        "",
        "?labelSelector=x%3Dy",
        "?fieldSelector=metadata.name%3Dw",
    ] {
        let list = get(&tier.service, &format!("{path}{query}")).await;
        assert_eq!(list.json()["kind"], "WidgetList");
        let item = &list.json()["items"][0];
        assert_eq!(
            (&item["kind"], &item["spec"]["size"]),
            (&json!("Widget"), &json!(3)),
            "{query}"
        );
        assert_eq!(item["metadata"]["resourceVersion"], revision.to_string());
    }
    let none = get(&tier.service, &format!("{path}?labelSelector=x%3Dz")).await;
    assert_eq!(none.names().len(), 0);
    let bad = get(
        &tier.service,
        &format!("{path}?fieldSelector=spec.size%3D3"),
    )
    .await;
    assert_eq!(bad.code, StatusCode::BAD_REQUEST);
    assert_eq!(
        bad.json()["message"],
        "field label not supported: spec.size"
    );
    let protobuf = ask(&tier.service, path, &[("accept", envelope::MEDIA_TYPE)]).await;
    assert_eq!(protobuf.code, StatusCode::NOT_ACCEPTABLE);
    let table = ask(&tier.service, path, &[("accept", TABLE)]).await.json();
    assert_eq!(table["rows"][0]["cells"][0], "w");
    let one = get(
        &tier.service,
        "/apis/bench.example.com/v1/namespaces/a/widgets/w",
    )
    .await;
    assert_eq!(one.json()["spec"]["size"], 3);
}

#[tokio::test(start_paused = true)]
async fn every_resource_is_served_and_knows_its_selectable_fields() {
    let etcd = FakeEtcd::default();
    let tier = ready(&etcd, &[]).await;
    for resource in &RESOURCES {
        let prefix = match resource.group {
            "" => "/api/v1".to_owned(),
            group => format!("/apis/{group}/{}", resource.version()),
        };
        let path = format!("{prefix}/{}", resource.name);
        let list = get(&tier.service, &path).await.json();
        assert_eq!(list["kind"], resource.list_kind);
        for (field, _) in resource.selectable.unwrap_or_default() {
            let list = get(&tier.service, &format!("{path}?fieldSelector={field}%3Dx")).await;
            assert_eq!(list.code, StatusCode::OK, "{field}");
        }
        let refused = get(
            &tier.service,
            &format!("{path}?fieldSelector=spec.unknown%3Dx"),
        )
        .await;
        assert_eq!(refused.code, StatusCode::BAD_REQUEST);
    }
    let namespace = get(
        &tier.service,
        "/api/v1/nodes?fieldSelector=metadata.namespace%3Dx",
    )
    .await;
    assert_eq!(namespace.code, StatusCode::BAD_REQUEST, "nodes are in none");
    let other = "/api/v1/watch/namespaces/a/pods/one?fieldSelector=metadata.name%3Dtwo";
    assert_eq!(
        get(&tier.service, other).await.code,
        StatusCode::BAD_REQUEST
    );
}
