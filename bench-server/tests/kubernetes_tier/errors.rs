//! Errors: code, reason, details and headers, as an apiserver returns them.

use http::Method;
use serde_json::{Value, json};

use crate::harness::{ONE, TestCluster, cases};
use crate::http::{Events, Reply, send};

cases! {
    options_that_exclude_each_other_name_their_fields on ONE;
    an_invalid_value_is_a_bad_request on ONE;
    urls_methods_and_media_types on ONE;
    a_request_ends_at_its_deadline on ONE;
    a_watch_is_rejected_before_it_begins_or_by_an_event on ONE;
}

const PODS: &str = "/api/v1/namespaces/ns/pods";

fn message(reply: &Reply) -> String {
    let status = reply.json();
    status["message"].as_str().unwrap_or_default().to_owned()
}

/// 422 names the fields, and whether they are forbidden or unsupported.
async fn options_that_exclude_each_other_name_their_fields(cluster: TestCluster) {
    let (forbidden, unsupported) = ("FieldValueForbidden", "FieldValueNotSupported");
    let version_match = "resourceVersionMatch";
    for (query, reason, field) in [
        ("resourceVersionMatch=Exact", forbidden, version_match),
        (
            "resourceVersion=1&resourceVersionMatch=Exact&continue=x",
            forbidden,
            version_match,
        ),
        (
            "resourceVersion=1&resourceVersionMatch=Newest",
            unsupported,
            version_match,
        ),
        (
            "resourceVersion=0&resourceVersionMatch=Exact",
            forbidden,
            version_match,
        ),
        ("sendInitialEvents=true", forbidden, "sendInitialEvents"),
        (
            "watch=1&resourceVersionMatch=NotOlderThan",
            forbidden,
            version_match,
        ),
        ("watch=1&sendInitialEvents=true", forbidden, version_match),
        (
            "watch=1&sendInitialEvents=true&resourceVersionMatch=Exact",
            unsupported,
            version_match,
        ),
        (
            "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&continue=x",
            forbidden,
            version_match,
        ),
    ] {
        let reply = cluster.get(&format!("{PODS}?{query}")).await;
        assert_eq!(reply.failure(), (422, "Invalid".to_owned()), "{query}");
        let text = message(&reply);
        let begin = "ListOptions.meta.k8s.io \"\" is invalid: ";
        assert!(text.starts_with(begin), "{query}: {text}");
        let details = &reply.json()["details"];
        assert_eq!(
            (&details["group"], &details["kind"]),
            (&json!("meta.k8s.io"), &json!("ListOptions"))
        );
        let causes = details["causes"].as_array().expect("causes");
        let named = |cause: &Value| (cause["reason"] == reason) && (cause["field"] == field);
        assert!(causes.iter().any(named), "{query}: {causes:?}");
        assert!(
            causes.iter().all(|cause| cause["message"].is_string()),
            "{query}: {causes:?}"
        );
    }
}

/// 400, with a text that names the invalid value.
async fn an_invalid_value_is_a_bad_request(cluster: TestCluster) {
    for (query, text) in [
        ("limit=x", "x"),
        ("limit=1.5", "1.5"),
        ("timeoutSeconds=x&watch=1", "x"),
        ("timeout=soon", "invalid timeout"),
        ("labelSelector=a%20b", "unable to parse requirement"),
        ("labelSelector=a+in+(b", "unable to parse requirement"),
        ("labelSelector=a%3D%3D%3Db", ""),
        ("fieldSelector=x", "x"),
        (
            "fieldSelector=spec.unknown%3Dx",
            "field label not supported: spec.unknown",
        ),
        ("resourceVersion=x", "invalid resource version"),
        ("continue=x", "invalid continue token: "),
        (
            "resourceVersion=7&continue=x",
            "specifying resource version is not allowed when using continue",
        ),
        ("includeObject=All", "includeObject"),
    ] {
        let path = format!("{PODS}?{query}");
        let headers = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
        let reply = send(&cluster.url, Method::GET, &path, &headers, "").await;
        assert_eq!(reply.failure(), (400, "BadRequest".to_owned()), "{query}");
        assert!(
            message(&reply).contains(text),
            "{query}: {}",
            message(&reply)
        );
    }
    // The error for a kind that supports only the common fields names these.
    let path = "/api/v1/namespaces/ns/configmaps?fieldSelector=data%3Dx";
    let reply = cluster.get(path).await;
    assert_eq!(reply.failure().0, 400);
    assert_eq!(
        message(&reply),
        "\"data\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
    );
    let path = "/api/v1/watch/namespaces/ns/pods/a?fieldSelector=metadata.name%3Db";
    let reply = cluster.get(path).await;
    assert_eq!(
        (reply.failure().0, message(&reply)),
        (
            400,
            "fieldSelector metadata.name doesn't match requested name".to_owned()
        )
    );
}

async fn urls_methods_and_media_types(cluster: TestCluster) {
    // Below a served version, an unknown path returns a Status.
    for path in [
        "/api/v1/services",
        "/api/v2/pods",
        "/api/v1/namespaces/ns/pods/a/log",
        "/api/v1/namespaces/ns/pods/a/log/b",
        "/api/v1/namespaces/ns/configmaps/a/status",
    ] {
        let reply = cluster.get(path).await;
        assert_eq!(reply.failure(), (404, "NotFound".to_owned()), "{path}");
        assert_eq!(reply.json()["details"], json!({}), "{path}");
    }
    for path in ["/apis/apps/v1/deployments", "/nothing"] {
        let reply = cluster.get(path).await;
        assert_eq!(reply.code, 404, "{path}");
        assert_eq!(&reply.body[..], b"404 page not found\n", "{path}");
        assert!(
            reply.headers["content-type"]
                .to_str()
                .expect("text")
                .starts_with("text/plain"),
            "{path}"
        );
    }
    let missing = cluster.get(&format!("{PODS}/none")).await;
    assert_eq!(missing.failure(), (404, "NotFound".to_owned()));
    assert_eq!(message(&missing), "pods \"none\" not found");
    let details = json!({"name": "none", "kind": "pods"});
    assert_eq!(missing.json()["details"], details);
    let lease = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/none";
    let missing = cluster.get(lease).await;
    let details = json!({"name": "none", "group": "coordination.k8s.io", "kind": "leases"});
    assert_eq!(missing.json()["details"], details);
    assert_eq!(
        message(&missing),
        "leases.coordination.k8s.io \"none\" not found"
    );

    for (method, path) in [
        (Method::PUT, PODS),
        (Method::PATCH, PODS),
        (Method::POST, "/api/v1/namespaces/ns/pods/a"),
        (Method::POST, "/api/v1/pods"),
        (Method::OPTIONS, PODS),
    ] {
        let reply = cluster
            .request(method.clone(), path, "application/json", "{}")
            .await;
        let expected = (405, "MethodNotAllowed".to_owned());
        assert_eq!(reply.failure(), expected, "{method} {path}");
    }

    for accept in [
        "application/yaml",
        "text/html",
        "application/json;as=Table;v=v9;g=meta.k8s.io",
    ] {
        let reply = send(&cluster.url, Method::GET, PODS, &[("accept", accept)], "").await;
        assert_eq!(
            reply.failure(),
            (406, "NotAcceptable".to_owned()),
            "{accept}"
        );
        assert!(message(&reply).contains("application/json"), "{accept}");
    }
    let refused = cluster
        .request(
            Method::POST,
            PODS,
            "application/x-www-form-urlencoded",
            "a=b",
        )
        .await;
    assert_eq!(refused.failure(), (415, "UnsupportedMediaType".to_owned()));
}

/// 504 at the request's own deadline, while it waits for a revision that is not reached.
async fn a_request_ends_at_its_deadline(cluster: TestCluster) {
    let now = cluster.config_map("ns", "a").await;
    let path = "/api/v1/namespaces/ns/configmaps";
    let future = format!("resourceVersion={}", now + 1000);
    for path in [path.to_owned(), format!("{path}/a")] {
        let reply = cluster.get(&format!("{path}?{future}&timeout=300ms")).await;
        assert_eq!(reply.failure(), (504, "Timeout".to_owned()), "{path}");
        assert_eq!(
            message(&reply),
            "Timeout: request did not complete within the allotted timeout"
        );
        assert!(!reply.headers.contains_key("retry-after"));
        assert!(reply.json().get("details").is_none());
    }
}

async fn a_watch_is_rejected_before_it_begins_or_by_an_event(cluster: TestCluster) {
    let now = cluster.config_map("ns", "a").await;
    let path = "/api/v1/namespaces/ns/configmaps?watch=1";
    // kube-apiserver returns this error without a reason.
    let reply = cluster.get(&format!("{path}&resourceVersion=x")).await;
    assert_eq!(reply.failure(), (500, String::new()));
    assert!(reply.json().get("reason").is_none(), "{}", reply.json());

    let by_list =
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let ahead = now + 1000;
    let path = format!("{path}&{by_list}&resourceVersion={ahead}");
    let mut events = Events::open(&cluster.url, &path).await;
    assert_eq!(events.code, 200);
    let event = events.next().await.expect("an event");
    let status = &event["object"];
    assert_eq!(event["type"], "ERROR");
    assert_eq!(
        (&status["code"], &status["reason"]),
        (&json!(504), &json!("Timeout"))
    );
    assert_eq!(status["details"]["retryAfterSeconds"], 1);
    assert_eq!(
        status["details"]["causes"][0]["reason"],
        "ResourceVersionTooLarge"
    );
    assert_eq!(events.next().await, None, "and nothing else");
}
