//! `--kube URL --seed-data` against a real kube-apiserver, over TLS: it stores other bytes than it
//! is sent, its namespaces have no controller here, and its metrics cannot be verified. Runs only
//! by `scripts/test real-apiserver`, since the program takes long to build.

#[path = "real_apiserver/administrator.rs"]
mod administrator;
#[allow(dead_code, reason = "the bench server's tests use more of it")]
#[path = "../../bench-server/tests/real_apiserver/apiserver.rs"]
mod apiserver;
#[allow(dead_code, reason = "the bench server's tests use more of it")]
#[path = "../../bench-server/tests/kubernetes_tier/http.rs"]
mod http;
#[path = "real_apiserver/loads.rs"]
mod loads;
#[path = "real_apiserver/resources.rs"]
mod resources;
#[allow(dead_code, reason = "each test starts another server")]
#[path = "integration/support/served.rs"]
mod served;
#[path = "../../bench-server/tests/real_apiserver/tls.rs"]
mod tls;

use administrator::{FILE, loadgen};
use apiserver::Apiserver;
use serde_json::{Value, json};
use served::Served;

/// The strategies that a real server supports, with pods in three namespaces and ConfigMaps in one.
const SCENARIO: &str = r#"
name = "real"
summary = "the ways that a real one has"
repeats = 2
first_chunk_streams = 3

[cases]
kube = [
    "no-lists",
    "cached",
    "consistent",
    "exact",
    "paged:70",
    "watch-list",
    "selector:team=billing",
    "selector:app=none-of-these",
    "sharded:2",
    { strategy = "sharded:2", shard_key = "namespace" },
    { strategy = "consistent", http = "h2" },
    { strategy = "consistent", media = "json" },
    { strategy = "consistent", media = "json", gzip = true },
    { strategy = "consistent", gzip = true },
    { strategy = "paged:70", media = "json" },
    { strategy = "watch-list", media = "json" },
    { strategy = "watch-list", http = "h2" },
]

[[data_set]]
name = "pods"
kind = "pods"
objects = 300
namespaces = 3
nodes = 4
seed = 1

[[data_set]]
name = "config-maps"
kind = "config-maps"
objects = 50
object_size = 20_000
namespaces = 1
seed = 1
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_real_apiserver_is_loaded_listed_and_left_as_it_was() {
    let etcd = Served::etcd();
    let real = Apiserver::start(&etcd.url).await.expect("a kube-apiserver");
    post(
        &real,
        "namespaces",
        &json!({"metadata": {"name": "z-team"}}),
    )
    .await;
    let theirs = json!({"metadata": {"name": "theirs"}});
    post(&real, "namespaces/z-team/configmaps", &theirs).await;
    let before = (
        names(&real, "namespaces").await,
        names(&real, "configmaps").await,
    );

    let url = format!("https://{}", real.address);
    let run = ["run", FILE, "--seed-data", "--format", "json"];
    let target = ["--pause", "0s", "--yes", "--kube", &url];
    let output = loadgen(&real, SCENARIO, &[&run[..], &target].concat()).await;
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{log}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    let program = &report["environment"]["servers"][0]["program"];
    assert!(
        program
            .as_str()
            .is_some_and(|program| program.contains(" v1.")),
        "{program}"
    );
    let cases = report["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 34, "{log}");
    for case in cases {
        let row = format!("{}/{}", case["data_set"], case["row"]);
        assert_eq!(case["outcome"]["state"], "measured", "{row}: {log}");
        let rss = case["server"]["rss_idle"].as_u64().unwrap_or_default();
        assert!(rss > 50 << 20, "{row}: a kube-apiserver in {rss} bytes");
        if case["row"] == "consistent/json" {
            assert_eq!(case["served_from"], "watch_cache", "{row}");
        }
    }
    let after = (
        names(&real, "namespaces").await,
        names(&real, "configmaps").await,
    );
    assert_eq!(after, before, "{log}");
    assert_eq!(names(&real, "pods").await, Vec::<String>::new());
}

async fn post(real: &Apiserver, collection: &str, object: &Value) {
    let path = format!("/api/v1/{collection}");
    let json = [("content-type", "application/json")];
    let reply = http::send(
        &real.url,
        ::http::Method::POST,
        &path,
        &json,
        object.to_string(),
    );
    reply.await.ok();
}

async fn names(real: &Apiserver, resource: &str) -> Vec<String> {
    real.get(&format!("/api/v1/{resource}")).await.ok().names()
}
