//! `--resource` and `--namespace`: any resource of a Kubernetes API is found by discovery, listed,
//! and checked like pods. Nothing is written.

mod fake_api;
mod refusals;

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use self::fake_api::{FakeApi, Fault};
use crate::support::program::ended_with_json;
use crate::support::served::Served;

/// Every strategy, and a case that requests JSON.
const SCENARIO: &str = r#"
name = "ways"
summary = "every way"
repeats = 2
first_chunk_streams = 3

[cases]
kube = [
    "no-lists",
    "cached",
    "consistent",
    "exact",
    "paged:7",
    "watch-list",
    "selector:team=a",
    "selector:status.phase=Running",
    "sharded:2",
    { strategy = "consistent", media = "json" },
    { strategy = "watch-list", http = "h2", gzip = true },
]

[[data_set]]
name = "pods"
kind = "pods"
objects = 10
namespaces = 1
nodes = 1
seed = 1

[[data_set]]
name = "more-pods"
kind = "pods"
objects = 20
namespaces = 1
nodes = 1
seed = 2
"#;

/// The path of bench-server's custom resource.
const WIDGETS: &str = "/apis/bench.example.com/v1/namespaces";

/// Runs a scenario against an API; returns exit code, `report.json` if there is one, and standard
/// error.
fn run(scenario: &str, url: &str, more: &[&str]) -> (Option<i32>, Value, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("ways.toml"), scenario).expect("a writable folder");
    let output = Command::new(assert_cmd::cargo::cargo_bin("loadgen"))
        .current_dir(folder.path())
        .args(["run", "./ways.toml", "--kube", url, "--pause", "0s"])
        .args(["--format", "json"])
        .args(more)
        .output()
        .expect("it runs");
    ended_with_json(&output)
}

/// Starts a tier with widgets and leases in two namespaces, seven in the first and five in the
/// second, a pod in each, and three nodes.
fn tier() -> Served {
    let server = Served::kube();
    for (namespace, count) in [("a", 7), ("b", 5)] {
        for i in 0..count {
            let metadata = json!({"name": format!("w-{i}"), "labels": {"team": namespace}});
            let widget = json!({"apiVersion": "bench.example.com/v1", "kind": "Widget",
                "metadata": metadata, "spec": {"size": i, "parts": [{"kind": "bolt"}]}});
            server.post(&format!("{WIDGETS}/{namespace}/widgets"), &widget);
            let lease = json!({"metadata": metadata, "spec": {"leaseDurationSeconds": i + 1}});
            let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
            server.post(&leases, &lease);
        }
    }
    for namespace in ["a", "b"] {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": []}});
        server.post(&format!("/api/v1/namespaces/{namespace}/pods"), &pod);
    }
    for name in ["n-0", "n-1", "n-2"] {
        server.post("/api/v1/nodes", &json!({"metadata": {"name": name}}));
    }
    server
}

/// Returns the case with this name.
fn case<'r>(report: &'r Value, row: &str, log: &str) -> &'r Value {
    let cases = report["cases"].as_array();
    let mut cases = cases.unwrap_or_else(|| panic!("no cases: {log}")).iter();
    let found = cases.find(|case| case["row"] == row);
    found.unwrap_or_else(|| panic!("no {row}: {log}"))
}

#[track_caller]
fn assert_not_applicable(case: &Value, says: &str) {
    assert_eq!(case["outcome"]["state"], "not_applicable", "{case}");
    let reason = case["outcome"]["reason"].as_str().expect("a reason");
    assert!(reason.contains(says), "{reason}");
}

#[test]
fn custom_resources_are_listed_in_json_in_every_way() {
    let server = tier();
    let named = ["--resource", "widgets.bench.example.com"];
    let (code, report, log) = run(SCENARIO, &server.url, &named);
    assert_eq!(code, Some(0), "{log}");
    assert!(
        log.contains("widgets.v1.bench.example.com is served in JSON only"),
        "{log}"
    );
    // The case that requests JSON is the same as the other case, and both data sets are the
    // existing objects.
    assert_eq!(report["cases"].as_array().map(Vec::len), Some(10), "{log}");
    let mut fingerprints = Vec::new();
    for (row, objects) in [
        ("cached/json", 12),
        ("consistent/json", 12),
        ("exact/json", 12),
        ("paged:7/json", 12),
        ("watch-list/json", 12),
        ("watch-list/json/gzip/h2", 12),
        ("selector:team=a/json", 7),
    ] {
        let case = case(&report, row, &log);
        assert_eq!(case["outcome"]["state"], "measured", "{row}: {log}");
        assert_eq!(case["data_set"], "widgets.v1.bench.example.com");
        assert_eq!(case["encoding"], "json", "{row}");
        assert_eq!(case["verified"]["objects"], objects, "{row}");
        if objects == 12 {
            fingerprints.push(case["verified"]["fingerprint"].clone());
        }
    }
    assert_eq!(case(&report, "paged:7/json", &log)["chunks"], 2);
    // All strategies return the same state.
    fingerprints.dedup();
    assert_eq!(fingerprints.len(), 1, "{fingerprints:?}");
    assert_not_applicable(case(&report, "sharded:2", &log), "served in JSON only");
    let phase = case(&report, "selector:status.phase=Running/json", &log);
    assert_not_applicable(phase, "field label not supported: status.phase");
}

#[test]
fn what_is_served_in_protobuf_is_listed_in_it() {
    let server = tier();
    let (code, report, log) = run(SCENARIO, &server.url, &["--resource", "Lease"]);
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("JSON only"), "{log}");
    assert_eq!(report["cases"].as_array().map(Vec::len), Some(11), "{log}");
    for (row, encoding) in [
        ("cached", "protobuf"),
        ("exact", "protobuf"),
        ("paged:7", "protobuf"),
        ("watch-list", "protobuf"),
        ("watch-list/gzip/h2", "protobuf"),
        ("sharded:2", "protobuf"),
        ("consistent/json", "json"),
    ] {
        let case = case(&report, row, &log);
        assert_eq!(case["outcome"]["state"], "measured", "{row}: {log}");
        assert_eq!(case["data_set"], "leases.v1.coordination.k8s.io");
        assert_eq!(case["encoding"], encoding, "{row}");
        assert_eq!(case["verified"]["objects"], 12, "{row}");
    }
    let phase = case(&report, "selector:status.phase=Running", &log);
    assert_not_applicable(phase, "is not a known field selector");
}

#[test]
fn one_namespace_and_none_are_listed() {
    let server = tier();
    let strategies = ["--strategies", "consistent,watch-list"];
    for (resource, namespace, data_set, objects) in [
        ("widgets", "b", "b/widgets.v1.bench.example.com", 5),
        (
            "leases.v1.coordination.k8s.io",
            "a",
            "a/leases.v1.coordination.k8s.io",
            7,
        ),
        ("no", "", "nodes", 3),
        // Both data sets of the scenario are pods.
        ("", "b", "b/pods", 1),
    ] {
        let mut more = strategies.to_vec();
        for (flag, value) in [("--resource", resource), ("--namespace", namespace)] {
            if !value.is_empty() {
                more.extend([flag, value]);
            }
        }
        let (code, report, log) = run(SCENARIO, &server.url, &more);
        assert_eq!(code, Some(0), "{more:?}: {log}");
        let cases = report["cases"].as_array().expect("cases");
        let rows = if resource == "widgets" { 3 } else { 4 };
        assert_eq!(cases.len(), rows, "{more:?}: {log}");
        for case in cases {
            assert_eq!(case["outcome"]["state"], "measured", "{more:?}: {log}");
            assert_eq!(case["data_set"], data_set);
            assert_eq!(case["verified"]["objects"], objects, "{more:?}");
        }
    }
}

/// The API has separate discovery documents, two versions, and a version that does not respond.
#[test]
fn an_api_without_aggregated_discovery_is_only_read() {
    let server = FakeApi::start(Fault::None);
    let ways = ["--strategies", "cached,consistent,paged:3,watch-list"];
    let named = ["--resource", "widgets.example.com"];
    let (code, report, log) = run(SCENARIO, &server.url(), &[ways, named].concat());
    assert_eq!(code, Some(0), "{log}");
    for row in ["cached/json", "consistent/json", "paged:3/json"] {
        let case = case(&report, row, &log);
        assert_eq!(case["outcome"]["state"], "measured", "{row}: {log}");
        assert_eq!(case["data_set"], "widgets.v1.example.com");
        assert_eq!(case["verified"]["objects"], 10, "{row}");
    }
    assert_eq!(case(&report, "paged:3/json", &log)["chunks"], 4);
    let watch = case(&report, "watch-list/json", &log);
    assert_not_applicable(watch, "widgets.v1.example.com cannot be watched");
    // The only POST is a review of the user's own permissions.
    for request in server.requests() {
        let is_read = request.starts_with("GET ");
        assert!(
            is_read || request.contains("selfsubjectreviews"),
            "{request}"
        );
    }
}

#[test]
fn wrong_lists_of_custom_resources_are_found() {
    for (fault, whole, paged) in [
        (Fault::Drop, "held: 10 objects, then 9", "count is 6"),
        (Fault::Swap, "out of order", "out of order"),
        (Fault::Alter, "held: fingerprint", "held: fingerprint"),
        (
            Fault::OtherKind,
            "its kind is GadgetList",
            "its kind is GadgetList",
        ),
        (
            Fault::OtherItem,
            "an item of kind Gadget",
            "an item of kind Gadget",
        ),
        (Fault::Truncate, "cut short", "cut short"),
        (
            Fault::Stale,
            "stale: the list is of revision 99",
            "stale: the list is of revision 99",
        ),
    ] {
        let server = FakeApi::start(fault);
        let ways = ["--strategies", "consistent,paged:3", "--repeats", "3"];
        let named = ["--resource", "widgets.example.com"];
        let (code, report, log) = run(SCENARIO, &server.url(), &[&ways[..], &named].concat());
        assert_eq!(code, Some(1), "{fault:?}: {log}");
        for (row, says) in [("consistent/json", whole), ("paged:3/json", paged)] {
            let case = case(&report, row, &log);
            assert_eq!(case["outcome"]["state"], "failed", "{fault:?} {row}: {log}");
            let reason = case["outcome"]["reason"].as_str().expect("a reason");
            assert!(reason.contains(says), "{fault:?} {row}: {reason}");
        }
    }
}

/// Protobuf and watches are used only if every column supports them, in any order of columns:
/// columns may differ only in the server.
#[test]
fn a_column_without_protobuf_makes_all_columns_json() {
    let (fake, tier) = (FakeApi::start(Fault::None), tier());
    let (fake, tier) = (fake.url(), tier.url.clone());
    for [first, second] in [[&fake, &tier], [&tier, &fake]] {
        let second = format!("kube:{second}");
        let named = ["--target", &second, "--resource", "leases"];
        let ways = ["--strategies", "consistent,watch-list"];
        let (code, report, log) = run(SCENARIO, first, &[&named[..], &ways].concat());
        assert_eq!(code, Some(0), "{log}");
        let cases = report["cases"].as_array().expect("cases");
        assert_eq!(cases.len(), 6, "{log}");
        for case in cases {
            if case["strategy"] == "watch-list" {
                assert_not_applicable(case, "leases.v1.coordination.k8s.io cannot be watched");
                continue;
            }
            assert_eq!(case["row"], "consistent/json", "{log}");
            assert_eq!(case["encoding"], "json", "{log}");
            let target = case["target"].as_str().expect("a target");
            let objects = if target.contains(&*tier) { 12 } else { 10 };
            assert_eq!(case["verified"]["objects"], objects, "{log}");
        }
    }
}
