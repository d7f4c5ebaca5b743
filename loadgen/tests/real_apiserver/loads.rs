//! Small requests, watchers and `probe` against a real kube-apiserver: the counts of loads are
//! consistent, every event is received once, and nothing is left behind.

use serde_json::Value;

use crate::administrator::{FILE, loadgen};
use crate::apiserver::Apiserver;
use crate::names;
use crate::served::Served;

const SCENARIO: &str = r#"
name = "loads"
summary = "small requests beside lists and watchers"
repeats = 1
duration = "2s"

[[case]]
name = "together"
tier = "kube"
load = [
    { name = "mix", tier = "kube", operation = { get = 4, update = 4, patch = 4, create = 4, delete = 3 }, arrivals = { poisson = 100 }, keys = { zipf = 0.9 }, connections = 2 },
    { name = "lists", operation = { list = "consistent" }, arrivals = { constant = 2 } },
    { name = "watchers", tier = "kube", operation = "watch", clients = 3 },
    { name = "cut", tier = "kube", operation = "watch", clients = 2, cut_every = "300ms" },
]

[[data_set]]
name = "few"
kind = "pods"
objects = 200
namespaces = 3
nodes = 2
seed = 1
"#;

fn count(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("no count: {value}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_reach_every_watcher_once_and_nothing_is_left() {
    let etcd = Served::etcd();
    let real = Apiserver::start(&etcd.url).await.expect("a kube-apiserver");
    let before = names(&real, "namespaces").await;
    let url = format!("https://{}", real.address);
    let arguments = [
        "run",
        FILE,
        "--seed-data",
        "--format",
        "json",
        "--pause",
        "0s",
        "--yes",
        "--kube",
        &url,
    ];
    let output = loadgen(&real, SCENARIO, &arguments).await;
    let log = String::from_utf8_lossy(&output.stderr);
    // A generator in a debug build may be late.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{log}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    let case = &report["cases"][0];
    assert_ne!(case["outcome"]["state"], "failed", "{log}");
    let loads = case["loads"].as_array().expect("loads");
    let load = |name: &str| {
        let mut loads = loads.iter().filter(|load| load["name"] == name);
        loads
            .next()
            .unwrap_or_else(|| panic!("no load {name}: {case}"))
    };
    let mix = load("mix");
    assert_eq!(mix["errors"], 0, "{mix}");
    let kinds = mix["kinds"].as_array().expect("kinds");
    let written = kinds.iter().filter(|kind| {
        let operation = kind["operation"].as_str();
        matches!(operation, Some("update" | "patch" | "create"))
    });
    let writes: u64 = written.map(|kind| count(&kind["requests"])).sum();
    assert!(writes > 0, "{mix}");
    assert_eq!(load("watchers")["events"], 3 * writes, "{case}");
    let cut = load("cut");
    assert_eq!(cut["events"], 2 * writes, "{case}");
    assert!(count(&cut["cut_ms"]["n"]) > 0, "{cut}");
    assert_eq!(load("lists")["errors"], 0, "{case}");
    assert_eq!(case["objects"], 200, "what loads made does not count");
    assert_eq!(names(&real, "namespaces").await, before, "{log}");
    assert_eq!(names(&real, "pods").await, Vec::<String>::new(), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_apiserver_honours_what_is_probed() {
    let etcd = Served::etcd();
    let real = Apiserver::start(&etcd.url).await.expect("a kube-apiserver");
    let url = format!("kube:https://{}", real.address);
    let arguments = ["probe", &url, "--seed-data", "--format", "json"];
    let output = loadgen(&real, SCENARIO, &arguments).await;
    let (text, log) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert_eq!(output.status.code(), Some(0), "{text}{log}");
}
