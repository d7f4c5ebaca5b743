//! Lists of the Kubernetes tier by every strategy, encoding and HTTP version, on bench-server with
//! few objects, and on a server that violates the API.

mod faults;

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::fake_kube::{FakeKube, Fault};
use crate::support::program::{first_report, loadgen};

/// Every strategy, on a few pods.
const SCENARIO: &str = r#"
name = "kube"
summary = "every way"
repeats = 2
first_chunk_streams = 3

[cases]
kube = [
    "cached",
    "consistent",
    "exact",
    "paged:7",
    "watch-list",
    "selector:app=none-of-these",
    "selector:spec.nodeName={node}",
    "read-your-write",
    "no-lists",
    { strategy = "consistent", media = "json", baseline = "checked" },
    { strategy = "paged:7", media = "json", http = "h2" },
    { strategy = "watch-list", media = "json" },
    { strategy = "watch-list", http = "h2", gzip = true, baseline = "checked" },
    { strategy = "consistent", http = "h2", clients = 3 },
    { strategy = "consistent", gzip = true },
    { strategy = "consistent", read_per_s = "100MiB" },
    { strategy = "consistent", server = ["--watch-cache=false"] },
    { strategy = "selector:spec.nodeName={node}", server = ["--feature-gates=CacheIndex=false"] },
]

[[data_set]]
name = "pods"
kind = "pods"
objects = 60
namespaces = 3
nodes = 4
seed = 1
"#;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

#[test]
fn every_way_of_asking_gives_what_was_seeded() {
    let folder = folder();
    fs::write(folder.path().join("kube.toml"), SCENARIO).expect("a writable folder");
    let assert = loadgen(folder.path()).args(["run", "./kube.toml"]).assert();
    let output = assert.get_output();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{log}");
    let report = first_report(&folder.path().join("scratch"));
    let cases = report["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 18);
    for case in cases {
        let row = case["row"].as_str().expect("a name");
        assert_eq!(case["outcome"]["state"], "measured", "{row}");
        assert_eq!(case["errors"], 0, "{row}");
        let expected = match row.split('/').next().expect("a strategy") {
            "selector:app=none-of-these" => 0,
            "selector:spec.nodeName={node}" => 15,
            "read-your-write" | "no-lists" => {
                assert_eq!(case["verified"], Value::Null, "{row}");
                assert_eq!(case["latency_ms"].is_null(), row == "no-lists", "{row}");
                continue;
            }
            _ => 60,
        };
        assert_eq!(case["verified"]["objects"], expected, "{row}");
        if expected == 60 {
            let whole = &report["data_sets"][0]["fingerprint"];
            assert_eq!(&case["verified"]["fingerprint"], whole, "{row}");
        }
    }
    let of = |row: &str| cases.iter().find(|case| case["row"] == row).expect("a row");
    assert_eq!(of("consistent")["served_from"], "watch_cache");
    assert_eq!(of("consistent/--watch-cache=false")["served_from"], "store");
    assert_eq!(of("consistent/json")["encoding"], "json");
    let bytes = |row: &str| of(row)["bytes"].as_u64().expect("bytes");
    for (row, checked) in [("consistent/json", true), ("watch-list/gzip/h2", true)] {
        let yardstick = &of(row)["yardstick"];
        assert_eq!(yardstick["checked"], checked, "{row}");
        assert_eq!(yardstick["body_bytes"], of(row)["bytes"], "{row}");
        assert!(
            yardstick["time_ratio"]["p50"].is_f64(),
            "{row}: {yardstick}"
        );
    }
    let zipped = bytes("watch-list/gzip/h2");
    assert!(
        zipped < bytes("watch-list") / 2,
        "{zipped} bytes are not zipped"
    );
}

/// Frames of a cancelled list arrive late. h2 counts these as errors of the server, and closes the
/// connection after too many of them.
#[test]
fn a_connection_survives_hundreds_of_lists_that_were_given_up() {
    let folder = folder();
    let scenario = r#"
name = "given-up"
summary = "lists that nobody reads to their end"
repeats = 1
first_chunk_streams = 400
first_chunk_within = "2m"

[cases]
kube = [{ strategy = "cached", http = "h2" }]

[[data_set]]
name = "pods"
kind = "pods"
objects = 600
namespaces = 3
nodes = 4
seed = 1
"#;
    fs::write(folder.path().join("given-up.toml"), scenario).expect("a writable folder");
    let run = loadgen(folder.path())
        .args(["run", "./given-up.toml"])
        .assert();
    let output = run.get_output();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{log}");
    let case = &first_report(&folder.path().join("scratch"))["cases"][0];
    assert_eq!(case["outcome"]["state"], "measured", "{log}");
    assert_eq!(case["first_chunk_ms"]["n"], 400, "{case}");
}

/// Runs one strategy against a server with pods and this fault; returns exit code and standard
/// error.
fn against(fault: Fault, strategy: &str) -> (Option<i32>, String) {
    let folder = folder();
    let server = FakeKube::start(fault);
    let assert = loadgen(folder.path())
        .args([
            "run",
            "pods-150k",
            "--kube",
            &server.url(),
            "--repeats",
            "3",
        ])
        .args(["--strategies", strategy, "--pause", "0s"])
        .assert();
    let output = assert.get_output();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), log)
}

#[test]
fn whole_lists_are_never_taken_for_shards() {
    for (strategy, says) in [
        ("sharded:2", "no metadata.shardInfo"),
        ("watch-sharded:2", "the etcd behind the API"),
        ("client-filtered:2", "client-filtered:2: median"),
    ] {
        let (code, log) = against(Fault::None, strategy);
        assert_eq!(code, Some(0), "{strategy}: {log}");
        assert!(log.contains(says), "{strategy}: {log}");
    }
    // Every other list lacks an item: the lists of the workers, or the list that these are compared
    // with.
    let (code, log) = against(Fault::Drop, "client-filtered:2");
    assert_eq!(code, Some(1), "{log}");
}
