//! Tests of writes, with an in-memory storage.

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use kube_api::{envelope, from_json, schema};
use serde_json::json;

use crate::http::service::KubeService;
use crate::tests::fake::FakeEtcd;
use crate::tests::{TestResponse, get, put, ready};

const MAPS: &str = "/api/v1/namespaces/a/configmaps";
const PODS: &str = "/api/v1/namespaces/a/pods";
const WIDGETS: &str = "/apis/bench.example.com/v1/namespaces/a/widgets";
const MERGE: &str = "application/merge-patch+json";

/// Sends a body with a media type, and one more header.
async fn send(
    service: &KubeService,
    method: Method,
    path: &str,
    (media_type, body): (&str, &str),
    (header, value): (&str, &str),
) -> TestResponse {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media_type)
        .header(header, value)
        .body(Full::new(Bytes::copy_from_slice(body.as_bytes())))
        .expect("a request");
    let response = service.serve(request).await;
    let (code, headers) = (response.status(), response.headers().clone());
    let body = response.into_body().collect().await.expect("infallible");
    let body = body.to_bytes().to_vec();
    TestResponse {
        code,
        headers,
        body,
    }
}

async fn json(service: &KubeService, method: Method, path: &str, body: &str) -> TestResponse {
    let media_type = match method {
        Method::PATCH => MERGE,
        _ => "application/json",
    };
    send(service, method, path, (media_type, body), ("accept", "")).await
}

async fn delete(service: &KubeService, path: &str, body: &str) -> StatusCode {
    json(service, Method::DELETE, path, body).await.code
}

fn put_namespace(etcd: &FakeEtcd, name: &str) {
    let namespace = json!({"metadata": {"name": name, "uid": "u"}});
    let fields = namespace.as_object().expect("an object");
    let mut raw = Vec::new();
    from_json(&schema::NAMESPACE, fields, &mut raw).expect("a namespace");
    let value = envelope::seal("v1", "Namespace", &raw);
    etcd.write(&[(&format!("/registry/namespaces/{name}"), Some(value))]);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_not_deleted_keeps_its_objects() {
    let etcd = FakeEtcd::default();
    put_namespace(&etcd, "a");
    put(&etcd, "a", "one", "Running");
    put(&etcd, "nowhere", "two", "Running");
    let tier = ready(&etcd, &[]).await;
    for (path, body, code) in [
        ("a?dryRun=All", "", 200),
        ("a", r#"{"dryRun":["All"]}"#, 200),
        ("a", r#"{"preconditions":{"uid":"other"}}"#, 409),
        ("a", r#"{"preconditions":{"resourceVersion":"1"}}"#, 409),
        ("a", "[", 400),
        ("a?dryRun=Some", "", 422),
        ("a/status", "", 405),
        ("a/finalize", "", 405),
        ("nowhere", "", 404),
    ] {
        let path = format!("/api/v1/namespaces/{path}");
        let found = delete(&tier.service, &path, body).await;
        assert_eq!(found.as_u16(), code, "{path} {body}");
        let pods = get(&tier.service, "/api/v1/pods").await;
        assert_eq!(pods.names(), ["a/one", "nowhere/two"], "{path} {body}");
    }
    let uid = r#"{"preconditions":{"uid":"u"}}"#;
    let deleted = delete(&tier.service, "/api/v1/namespaces/a", uid).await;
    assert_eq!(deleted, StatusCode::OK);
    let pods = get(&tier.service, "/api/v1/pods").await;
    assert_eq!(pods.names(), ["nowhere/two"]);
    let namespace = get(&tier.service, "/api/v1/namespaces/a").await;
    assert_eq!(namespace.code, StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_is_asked_for_wrongly_deletes_nothing() {
    let etcd = FakeEtcd::default();
    put(&etcd, "a", "one", "Running");
    let tier = ready(&etcd, &[]).await;
    let path = |query: &str| format!("{PODS}/one{query}");
    for (query, body, code) in [
        ("?resourceVersion=1", "", 409),
        ("?uid=other", "", 409),
        ("?propagationPolicy=Bogus", "", 422),
        ("?gracePeriodSeconds=x", "", 400),
        ("", r#"{"dryRun":["Some"]}"#, 422),
        ("", r#"{"propagationPolicy":"Bogus"}"#, 422),
        (
            "",
            r#"{"propagationPolicy":"Orphan","orphanDependents":true}"#,
            422,
        ),
        ("", r#"{"gracePeriodSeconds":"x"}"#, 400),
        ("?dryRun=All&fieldValidation=bogus", "", 200),
    ] {
        let found = delete(&tier.service, &path(query), body).await;
        assert_eq!(found.as_u16(), code, "{query} {body}");
        let of_all = delete(&tier.service, &format!("{PODS}{query}"), body).await;
        assert_eq!(of_all.as_u16(), code, "{query} {body}, a collection");
        let left = get(&tier.service, "/api/v1/pods").await;
        assert_eq!(left.names(), ["a/one"], "{query} {body}");
    }
    let body = r#"{"preconditions":null,"dryRun":null}"#;
    let gone = delete(&tier.service, &path("?uid=other&dryRun=All"), body).await;
    assert_eq!(gone, StatusCode::OK, "with a body the query says nothing");
    let left = get(&tier.service, "/api/v1/pods").await;
    assert!(left.names().is_empty());
}

#[tokio::test(start_paused = true)]
async fn only_what_the_query_asks_for_is_counted_as_a_dry_run() {
    let etcd = FakeEtcd::default();
    put(&etcd, "a", "one", "Running");
    let tier = ready(&etcd, &[]).await;
    let counted = async |dry_run: &str| {
        let body = get(&tier.service, "/metrics").await.body;
        let text = String::from_utf8(body).expect("text");
        let deletions = text.lines().filter(|line| {
            line.starts_with("apiserver_request_total{")
                && line.contains(r#"verb="DELETE""#)
                && line.contains(&format!(r#"dry_run="{dry_run}""#))
        });
        deletions.count()
    };
    for (query, all, none) in [
        ("one?dryRun=%41ll", 1, 0),
        ("one?fieldManager=dryRun=All", 1, 1),
    ] {
        let found = delete(&tier.service, &format!("{PODS}/{query}"), "").await;
        assert_eq!(found, StatusCode::OK, "{query}");
        assert_eq!(
            (counted("All").await, counted("").await),
            (all, none),
            "{query}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_cascades_tells_whether_the_object_waits() {
    let tier = ready(&FakeEtcd::default(), &[]).await;
    let object = r#"{"metadata":{"name":"x","finalizers":["example.com/wait"]}}"#;
    json(&tier.service, Method::POST, MAPS, object).await;
    let path = format!("{MAPS}/x");
    let code = async |body| delete(&tier.service, &path, body).await.as_u16();
    assert_eq!(code(r#"{"orphanDependents":false}"#).await, 202);
    assert_eq!(code(r#"{"orphanDependents":true}"#).await, 200);
    assert_eq!(code("").await, 200);
}

#[tokio::test(start_paused = true)]
async fn three_namespaces_are_never_deleted() {
    let etcd = FakeEtcd::default();
    for name in ["default", "kube-system", "kube-public"] {
        put_namespace(&etcd, name);
    }
    put(&etcd, "default", "one", "Running");
    let tier = ready(&etcd, &[]).await;
    for name in ["default", "kube-system", "kube-public"] {
        let path = format!("/api/v1/namespaces/{name}");
        let refused = json(&tier.service, Method::DELETE, &path, "").await;
        assert_eq!(refused.code, StatusCode::FORBIDDEN);
        let message =
            format!("namespaces {name:?} is forbidden: this namespace may not be deleted");
        assert_eq!(refused.json()["message"], message);
    }
    let pods = get(&tier.service, "/api/v1/pods").await;
    assert_eq!(pods.names(), ["default/one"]);
}

#[tokio::test(start_paused = true)]
async fn the_path_that_always_watches_takes_no_writes() {
    let etcd = FakeEtcd::default();
    put(&etcd, "a", "one", "Running");
    let tier = ready(&etcd, &[]).await;
    for (method, path) in [
        (Method::DELETE, "/api/v1/watch/namespaces/a/pods/one"),
        (Method::DELETE, "/api/v1/watch/namespaces/a/pods"),
        (Method::PATCH, "/api/v1/watch/namespaces/a/pods/one"),
        (Method::PUT, "/api/v1/watch/namespaces/a/pods/one"),
        (Method::POST, "/api/v1/watch/namespaces/a/pods"),
    ] {
        let refused = json(
            &tier.service,
            method,
            path,
            r#"{"metadata":{"name":"one"}}"#,
        )
        .await;
        assert_eq!(refused.code, StatusCode::METHOD_NOT_ALLOWED, "{path}");
    }
    let pods = get(&tier.service, "/api/v1/pods").await;
    assert_eq!(pods.names(), ["a/one"]);
}

#[tokio::test(start_paused = true)]
async fn a_custom_object_that_could_not_be_read_is_not_stored() {
    let tier = ready(&FakeEtcd::default(), &[]).await;
    let deep = format!("{}1{}", r#"{"a":"#.repeat(140), "}".repeat(140));
    for body in [
        r#"{"kind":"Widget","apiVersion":"bench.example.com/v1","metadata":{"name":"w","labels":{"a":1}}}"#.to_owned(),
        r#"{"kind":"Widget","apiVersion":"bench.example.com/v1","metadata":{"name":"w","finalizers":"x"}}"#.to_owned(),
        format!(r#"{{"kind":"Widget","apiVersion":"bench.example.com/v1","metadata":{{"name":"w"}},"spec":{deep}}}"#),
    ] {
        let refused = json(&tier.service, Method::POST, WIDGETS, &body).await;
        assert_eq!(
            (refused.code, refused.json()["reason"].as_str()),
            (StatusCode::BAD_REQUEST, Some("BadRequest")),
            "{body}"
        );
        let free = json(&tier.service, Method::GET, &format!("{WIDGETS}/w"), "").await;
        assert_eq!(free.code, StatusCode::NOT_FOUND, "{body}");
    }
}

/// client-go's metadata client patches and deletes in this way.
#[tokio::test(start_paused = true)]
async fn what_a_write_answers_has_the_form_that_was_asked_for() {
    let etcd = FakeEtcd::default();
    put(&etcd, "a", "one", "Running");
    let tier = ready(&etcd, &[]).await;
    let widget = r#"{"kind":"Widget","apiVersion":"bench.example.com/v1","metadata":{"name":"w"},"spec":{"a":1}}"#;
    json(&tier.service, Method::POST, WIDGETS, widget).await;
    let patch = (MERGE, r#"{"metadata":{"labels":{"x":"y"}}}"#);
    let partial = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
    for path in [format!("{PODS}/one"), format!("{WIDGETS}/w")] {
        let accept = ("accept", partial);
        let answer = send(&tier.service, Method::PATCH, &path, patch, accept).await;
        let kind = envelope::type_meta(&answer.body).expect("an envelope");
        assert_eq!(
            kind,
            (&b"meta.k8s.io/v1"[..], &b"PartialObjectMetadata"[..]),
            "{path}"
        );
        let read = send(&tier.service, Method::GET, &path, ("", ""), accept).await;
        assert_eq!(read.body, answer.body, "{path}");
    }
    let path = format!("{PODS}/one");
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let answer = send(
        &tier.service,
        Method::PATCH,
        &path,
        patch,
        ("accept", table),
    )
    .await;
    assert_eq!(answer.json()["kind"], "Table");
    assert_eq!(answer.json()["rows"][0]["cells"][0], "one");

    let pretty = format!("{path}?pretty=true");
    let answer = send(&tier.service, Method::PATCH, &pretty, patch, ("accept", "")).await;
    assert!(
        answer.body.starts_with(b"{\n  \"kind\": \"Pod\""),
        "{}",
        answer.body.escape_ascii()
    );
    let large = json!({"metadata": {"annotations": {"a": "x".repeat(200_000)}}}).to_string();
    let gzip = ("accept-encoding", "gzip");
    let answer = send(&tier.service, Method::PATCH, &path, (MERGE, &large), gzip).await;
    assert_eq!(answer.headers["content-encoding"], "gzip");
    assert!(answer.body.len() < 10_000);

    let all = send(
        &tier.service,
        Method::DELETE,
        PODS,
        ("", ""),
        ("accept", partial),
    )
    .await;
    let kind = envelope::type_meta(&all.body).expect("an envelope");
    assert_eq!(kind.1, b"PartialObjectMetadataList");
}

#[tokio::test(start_paused = true)]
async fn options_of_lists_are_nothing_to_single_objects() {
    let etcd = FakeEtcd::default();
    put(&etcd, "a", "one", "Running");
    let tier = ready(&etcd, &[]).await;
    let path = format!("{PODS}/one?limit=abc&timeoutSeconds=soon&watch=1");
    let code = async |method, body| json(&tier.service, method, &path, body).await.code;
    assert_eq!(code(Method::GET, "").await, StatusCode::OK);
    assert_eq!(code(Method::PATCH, "{}").await, StatusCode::OK);
    assert_eq!(code(Method::DELETE, "").await, StatusCode::OK);
    let list = get(&tier.service, &format!("{PODS}?limit=abc")).await;
    assert_eq!(list.code, StatusCode::BAD_REQUEST);
}

#[tokio::test(start_paused = true)]
async fn a_status_write_changes_what_it_may() {
    let tier = ready(&FakeEtcd::default(), &[]).await;
    let widget = r#"{"kind":"Widget","apiVersion":"bench.example.com/v1","metadata":{"name":"w","labels":{"a":"b"}},"spec":{"x":1},"status":{"made":"up"}}"#;
    let made = json(&tier.service, Method::POST, WIDGETS, widget)
        .await
        .json();
    assert!(made["status"].is_null(), "a new one has none");
    let path = format!("{WIDGETS}/w/status");
    let body = r#"{"metadata":{"labels":{"a":"c"},"finalizers":["x/y"]},"spec":{"x":2},"extra":3,"status":{"done":true}}"#;
    let written = json(&tier.service, Method::PATCH, &path, body).await.json();
    assert_eq!(written["status"], json!({"done": true}));
    assert_eq!(
        (&written["spec"], &written["extra"]),
        (&json!({"x": 1}), &json!(null))
    );
    assert_eq!(written["metadata"]["labels"], json!({"a": "b"}));
    assert!(written["metadata"]["finalizers"].is_null());

    let owner = r#"{"apiVersion":"v1","kind":"Node","name":"n","uid":"u"}"#;
    let pod = format!(
        r#"{{"metadata":{{"name":"p","ownerReferences":[{owner}]}},"status":{{"qosClass":"BestEffort"}}}}"#
    );
    let made = json(&tier.service, Method::POST, PODS, &pod).await.json();
    assert_eq!(made["status"]["qosClass"], "BestEffort", "pods keep theirs");
    let path = format!("{PODS}/p/status");
    let body = r#"{"metadata":{"name":"p","labels":{"a":"b"}},"status":{"phase":"Running"}}"#;
    let written = json(&tier.service, Method::PUT, &path, body).await.json();
    assert_eq!(
        written["metadata"]["ownerReferences"],
        made["metadata"]["ownerReferences"]
    );
    assert_eq!(
        written["status"],
        json!({"phase": "Running", "qosClass": "BestEffort"})
    );
    assert_eq!(
        written["metadata"]["labels"],
        json!({"a": "b"}),
        "as an apiserver does"
    );
}

#[tokio::test(start_paused = true)]
async fn what_keeps_a_namespace_is_written_by_itself() {
    let tier = ready(&FakeEtcd::default(), &[]).await;
    let body = r#"{"metadata":{"name":"n"},"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Odd"}}"#;
    let namespaces = "/api/v1/namespaces";
    let made = json(&tier.service, Method::POST, namespaces, body)
        .await
        .json();
    assert_eq!(made["status"]["phase"], "Active");
    let path = format!("{namespaces}/n");
    let without = r#"{"metadata":{"name":"n"},"spec":{}}"#;
    let kept = json(&tier.service, Method::PUT, &path, without)
        .await
        .json();
    assert_eq!(kept["spec"]["finalizers"], json!(["kubernetes"]));
    let finalize = format!("{path}/finalize");
    let gone = json(&tier.service, Method::PUT, &finalize, without)
        .await
        .json();
    assert!(gone["spec"]["finalizers"].is_null(), "{gone}");
    for method in [Method::GET, Method::PATCH, Method::DELETE, Method::POST] {
        let refused = json(&tier.service, method.clone(), &finalize, "{}").await;
        assert_eq!(refused.code, StatusCode::METHOD_NOT_ALLOWED, "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_put_that_creates_is_no_continuation() {
    let tier = ready(&FakeEtcd::default(), &[]).await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/a/leases";
    let put = async |name: &str, metadata: &str| {
        let body = format!(r#"{{"metadata":{{"name":"{name}",{metadata}}}}}"#);
        let path = format!("{leases}/{name}");
        json(&tier.service, Method::PUT, &path, &body)
            .await
            .code
            .as_u16()
    };
    assert_eq!(put("one", r#""resourceVersion":"7""#).await, 201);
    assert_eq!(put("two", r#""uid":"u""#).await, 409);
}

#[tokio::test(start_paused = true)]
async fn who_meets_a_dying_object_is_told() {
    let tier = ready(&FakeEtcd::default(), &[]).await;
    let object = r#"{"metadata":{"name":"x","finalizers":["example.com/wait"]}}"#;
    let post = async || json(&tier.service, Method::POST, MAPS, object).await;
    post().await;
    let taken = post().await.json()["message"].clone();
    assert_eq!(taken, "configmaps \"x\" already exists");
    delete(&tier.service, &format!("{MAPS}/x"), "").await;
    let dying = post().await.json()["message"].clone();
    assert_eq!(
        dying,
        "object is being deleted: configmaps \"x\" already exists"
    );
}

#[tokio::test(start_paused = true)]
async fn texts_of_a_secret_are_written_as_data() {
    let tier = ready(&FakeEtcd::default(), &[]).await;
    let secrets = "/api/v1/namespaces/a/secrets";
    let post = async |fields: &str| {
        let body = format!(r#"{{"metadata":{{"generateName":"s-"}},{fields}}}"#);
        json(&tier.service, Method::POST, secrets, &body).await
    };
    let made = post(r#""data":null,"stringData":{"a":"b","none":null}"#)
        .await
        .json();
    assert_eq!(made["data"], json!({"a": "Yg==", "none": ""}));
    assert!(made["stringData"].is_null());
    let refused = post(r#""stringData":{"a":1}"#).await;
    assert_eq!(refused.code, StatusCode::BAD_REQUEST);

    let pod = r#"{"metadata":{"name":"p"},"status":null}"#;
    let made = json(&tier.service, Method::POST, PODS, pod).await.json();
    assert_eq!(made["status"]["phase"], "Pending");
}

#[tokio::test(start_paused = true)]
async fn a_custom_object_is_wanted_otherwise_when_any_of_its_fields_changes() {
    let tier = ready(&FakeEtcd::default(), &[]).await;
    let widget = r#"{"kind":"Widget","apiVersion":"bench.example.com/v1","metadata":{"name":"w"},"spec":{"a":1},"extra":1}"#;
    json(&tier.service, Method::POST, WIDGETS, widget).await;
    let path = format!("{WIDGETS}/w");
    let generation = async |body: &str| {
        let made = json(&tier.service, Method::PATCH, &path, body).await.json();
        made["metadata"]["generation"].clone()
    };
    assert_eq!(
        generation(r#"{"metadata":{"labels":{"a":"b"}},"status":{"x":1}}"#).await,
        1
    );
    assert_eq!(generation(r#"{"extra":2}"#).await, 2);
    assert_eq!(generation(r#"{"spec":{"a":1.5}}"#).await, 3);
}

#[tokio::test(start_paused = true)]
async fn names_that_are_generated_and_versions_that_are_sent_are_checked() {
    let tier = ready(&FakeEtcd::default(), &[]).await;
    let post = async |query: &str, metadata: &str| {
        let body = format!(r#"{{"metadata":{metadata}}}"#);
        json(
            &tier.service,
            Method::POST,
            &format!("{MAPS}{query}"),
            &body,
        )
        .await
    };
    let refused = post("", r#"{"generateName":"UP-"}"#).await;
    assert_eq!(refused.code, StatusCode::UNPROCESSABLE_ENTITY);
    let causes = refused.json()["details"]["causes"].clone();
    assert_eq!(causes[0]["field"], "metadata.generateName");
    assert_eq!(causes[1]["field"], "metadata.name");
    let version = |text: &str| format!(r#"{{"name":"v","resourceVersion":"{text}"}}"#);
    for (query, text, code) in [("", "7", 500), ("?dryRun=All", "7", 201), ("", "abc", 201)] {
        let response = post(query, &version(text)).await;
        assert_eq!(response.code.as_u16(), code, "{query} {text}");
    }
    let both = r#"{"name":"v","generateName":"v-"}"#;
    let taken = post("", both).await.json();
    assert_eq!(
        (&taken["code"], &taken["details"]["retryAfterSeconds"]),
        (&json!(409), &json!(1))
    );
}
