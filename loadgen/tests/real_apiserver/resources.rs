//! `--resource` of a real kube-apiserver: a built-in resource of a named group, and a custom
//! resource whose list kind is not the default.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::administrator::{FILE, loadgen};
use crate::apiserver::Apiserver;
use crate::http::send;
use crate::served::Served;

/// Every strategy, except for those that write or use another client.
const SCENARIO: &str = r#"
name = "resources"
summary = "every way"
repeats = 2
first_chunk_streams = 3

[cases]
kube = [
    "cached",
    "consistent",
    "exact",
    "paged:2",
    "watch-list",
    "selector:team=a",
    { strategy = "consistent", media = "json" },
    { strategy = "watch-list", media = "json", http = "h2", gzip = true },
]

[[data_set]]
name = "pods"
kind = "pods"
objects = 1
namespaces = 1
nodes = 1
seed = 1
"#;

/// Maximum number of requests until a custom resource is served; [`PAUSE`] is the time between
/// them.
const ASKS: usize = 300;
const PAUSE: Duration = Duration::from_millis(100);

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

#[tokio::test(flavor = "multi_thread")]
async fn deployments_and_custom_resources_are_listed() {
    let etcd = Served::etcd();
    let real = Apiserver::start(&etcd.url).await.expect("a kube-apiserver");
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetCollection"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    });
    post(&real, DEFINITIONS, &definition).await;
    until_served(&real).await;
    for i in 0..5 {
        let metadata = json!({"name": format!("o-{i}"), "labels": {"team": "a"}});
        let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": metadata, "spec": {"size": i}});
        post(&real, WIDGETS, &widget).await;
        let pod = json!({"metadata": {"labels": {"app": "o"}},
            "spec": {"containers": [{"name": "c", "image": "none"}]}});
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
            "spec": {"selector": {"matchLabels": {"app": "o"}}, "template": pod}});
        post(&real, DEPLOYMENTS, &deployment).await;
    }
    for (resource, data_set, encoding, cases) in [
        ("deployments.apps", "deployments.v1.apps", "protobuf", 8),
        ("deploy", "deployments.v1.apps", "protobuf", 8),
        ("widgets.example.com", "widgets.v1.example.com", "json", 7),
    ] {
        let (report, log) = listed(&real, resource).await;
        let found = report["cases"].as_array().expect("cases");
        assert_eq!(found.len(), cases, "{resource}: {log}");
        for case in found {
            let row = case["row"].as_str().expect("a name");
            assert_eq!(
                case["outcome"]["state"], "measured",
                "{resource} {row}: {log}"
            );
            assert_eq!(case["data_set"], data_set, "{row}");
            assert_eq!(case["verified"]["objects"], 5, "{resource} {row}");
            let expected = if row.contains("json") {
                "json"
            } else {
                encoding
            };
            assert_eq!(case["encoding"], expected, "{resource} {row}");
        }
    }
}

/// Lists a resource by every strategy; returns report and standard error.
async fn listed(real: &Apiserver, resource: &str) -> (Value, String) {
    let url = format!("https://{}", real.address);
    let run = ["run", FILE, "--resource", resource, "--format", "json"];
    let target = ["--pause", "0s", "--yes", "--kube", &url];
    let output = loadgen(real, SCENARIO, &[&run[..], &target].concat()).await;
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{resource}: {log}");
    let report = serde_json::from_slice(&output.stdout).expect("a report");
    (report, log)
}

async fn post(real: &Apiserver, path: &str, object: &Value) {
    let json = [("content-type", "application/json")];
    let reply = send(&real.url, Method::POST, path, &json, object.to_string());
    reply.await.ok();
}

async fn until_served(real: &Apiserver) {
    for _ in 0..ASKS {
        if real.get(WIDGETS).await.code.is_success() {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
    panic!("the custom resource is not served");
}
