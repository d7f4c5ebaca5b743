//! Writes over a storage in memory.

use http::{Method, Request, StatusCode};
use http_body_util::Full;
use kube_api::{envelope, from_json, schema};
use serde_json::json;

use crate::kube::fake::FakeEtcd;
use crate::kube::service::KubeService;
use crate::kube::tests::{get, put, ready};

async fn delete(service: &KubeService, path: &str, body: &str) -> StatusCode {
    let body = Full::new(bytes::Bytes::from(body.to_owned()));
    let request = Request::builder()
        .method(Method::DELETE)
        .uri(path)
        .header("content-type", "application/json")
        .body(body)
        .expect("a request");
    service.answer(request).await.status()
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
