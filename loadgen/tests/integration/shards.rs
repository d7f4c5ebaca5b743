//! Workers that share the objects: lists and watches on bench-server with a few thousand objects,
//! with a worker that is added while objects are written, with sharding disabled, and behind a
//! proxy that loses an event. `kube.rs` tests other servers, which do not shard.

mod losing_proxy;
mod lost_event;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

const OBJECTS: u64 = 2_000;

const SCENARIO: &str = r#"
name = "shards"
summary = "workers that share the objects"
repeats = 2
duration = "500ms"
rate = 300

[cases]
kube = [
    "sharded:1",
    "sharded:3",
    { strategy = "sharded:3", shard_key = "namespace", shard_plan = "weighted" },
    "client-filtered:3",
    "watch-sharded:3",
    { strategy = "watch-sharded:3", writes = "churn" },
    { strategy = "watch-sharded:2", shard_key = "namespace", shard_plan = "weighted", writes = "churn" },
    { strategy = "watch-client-filtered:3", writes = "churn" },
    { strategy = "watch-sharded:3", writes = "churn", reshard = "replan" },
    { strategy = "watch-sharded:2", shard_key = "namespace", shard_plan = "weighted", reshard = "give" },
    { strategy = "watch-client-filtered:2", reshard = "give" },
    { strategy = "watch-sharded:3", writes = "patches" },
    { strategy = "no-watches", writes = "patches" },
    "no-watches",
    { strategy = "sharded:3", server = ["--feature-gates=ShardedListAndWatch=false"] },
    { strategy = "watch-sharded:3", server = ["--feature-gates=ShardedListAndWatch=false"] },
]

[[data_set]]
name = "pods"
kind = "pods"
objects = 2_000
namespaces = 20
nodes = 4
seed = 1
"#;

/// Runs `loadgen` in this folder; returns exit code, report and standard error.
fn loadgen(folder: &Path, args: &[&str]) -> (Option<i32>, Value, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_loadgen"))
        .args(["run", "--out", "out"])
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut results = fs::read_dir(folder.join("out")).expect("a result was saved");
    let result = results.next().and_then(Result::ok).expect("one").path();
    let report = fs::read(result.join("report.json")).expect("a report");
    let report = serde_json::from_slice(&report).expect("JSON");
    let charts = ["shards.svg", "shards.png"].map(|chart| result.join(chart));
    assert!(
        charts.iter().all(|chart| chart.is_file()),
        "sharded:1 and sharded:3 make a line: {log}"
    );
    (output.status.code(), report, log)
}

fn case<'r>(report: &'r Value, row: &str) -> &'r Value {
    let mut cases = report["cases"].as_array().expect("cases").iter();
    let case = cases.find(|case| case["row"] == row);
    case.unwrap_or_else(|| panic!("there is no row {row}"))
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

fn sum(shards: &Value, of: &str) -> f64 {
    let shards = shards["shards"].as_array().expect("workers");
    shards.iter().map(|shard| number(&shard[of])).sum()
}

#[test]
fn shards_are_whole_and_disjoint_and_so_are_their_events() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("shards.toml"), SCENARIO).expect("a writable folder");
    let (code, report, log) = loadgen(folder.path(), &["./shards.toml"]);
    // On a machine that is busy with other tests, writers may be late. This makes the times
    // invalid, but not the checks of shards.
    assert!(matches!(code, Some(0 | 3)), "{log}");
    let whole = &report["data_sets"][0]["fingerprint"];
    let whole_bytes = number(&case(&report, "sharded:1")["shards"]["bytes_max"]);
    for (row, workers) in [
        ("sharded:3", 3.0),
        ("sharded:3/by-namespace/weighted", 3.0),
        ("client-filtered:3", 3.0),
    ] {
        let case = case(&report, row);
        assert_eq!(case["outcome"]["state"], "measured", "{row}: {log}");
        assert_eq!(&case["verified"]["fingerprint"], whole, "{row}");
        let shards = &case["shards"];
        assert_eq!(sum(shards, "objects"), OBJECTS as f64, "{row}");
        assert!(number(&shards["objects_skew"]) < 1.15, "{row}: {shards}");
        let bytes = sum(shards, "bytes");
        let sent = if row.starts_with("client") {
            whole_bytes * workers
        } else {
            whole_bytes
        };
        assert!(
            (bytes / sent - 1.0).abs() < 0.01,
            "{row}: {bytes} of {sent}"
        );
        assert!(number(&shards["moved_to_next"]) >= number(&shards["least_moved"]));
    }
    for (row, thrown_away) in [
        ("watch-sharded:3", false),
        ("watch-sharded:3/churn", false),
        ("watch-sharded:2/by-namespace/weighted/churn", false),
        ("watch-client-filtered:3/churn", true),
        ("watch-sharded:3/patches", false),
    ] {
        let case = case(&report, row);
        assert_ne!(case["outcome"]["state"], "failed", "{row}: {log}");
        let shards = &case["shards"];
        let events = &shards["events"];
        assert!(number(&events["writes"]) > 50.0, "{row}: {events}");
        assert_eq!(events["delivered"], events["writes"], "{row}");
        assert_eq!(sum(shards, "events"), number(&events["writes"]), "{row}");
        assert_eq!(
            (&events["dropped"], &events["superfluous"]),
            (&0.into(), &0.into())
        );
        assert_eq!(events["reconnects"], 1, "{row}");
        assert_eq!(number(&events["filtered"]) > 0.0, thrown_away, "{row}");
        assert_eq!(case["latency_ms"]["n"], events["writes"], "{row}");
        // A worker holds at least a key's hash, a revision, a hash and a length for each of its
        // objects.
        let of = |shard: &Value| number(&shard["memory_bytes"]) / number(&shard["objects"]);
        let workers = shards["shards"].as_array().expect("workers");
        let enough = workers.iter().all(|worker| of(worker) > 32.0);
        assert!(enough, "{row}: {shards}");
        assert!(
            number(&shards["worker_memory_max"]) < 32e6,
            "{row}: {shards}"
        );
    }
    for row in ["no-watches", "no-watches/patches"] {
        let case = case(&report, row);
        assert_ne!(case["outcome"]["state"], "failed", "{row}: {log}");
        assert!(case["shards"].is_null(), "{row} has no workers");
        assert_eq!(case["latency_ms"]["n"], case["requests"], "{row}");
        let counters = case["server"]["counters"].as_object().expect("counters");
        let is_patch = |name: &str| name.starts_with("apiserver_request_total{verb=\"PATCH\"");
        let patches = counters.iter().filter(|(name, _)| is_patch(name));
        let patches: f64 = patches.map(|(_, count)| number(count)).sum();
        let through_the_api = row.ends_with("patches");
        let expected = if through_the_api {
            number(&case["requests"])
        } else {
            0.0
        };
        assert_eq!(patches, expected, "{row}");
    }
    for (row, moved, filtered) in [
        ("watch-sharded:3/churn/reshard-replan", 0.5, false),
        (
            "watch-sharded:2/by-namespace/weighted/reshard-give",
            0.35,
            false,
        ),
        ("watch-client-filtered:2/reshard-give", 1.0 / 3.0, true),
    ] {
        let case = case(&report, row);
        assert_ne!(case["outcome"]["state"], "failed", "{row}: {log}");
        let shards = &case["shards"];
        let (events, resharding) = (&shards["events"], &shards["resharding"]);
        assert_eq!(events["delivered"], events["writes"], "{row}");
        let joined = number(&resharding["joined"]["events"]);
        assert!(joined > 0.0, "{row}: the new worker sees writes");
        assert_eq!(
            sum(shards, "events") + joined,
            number(&events["writes"]),
            "{row}"
        );
        let part = number(&resharding["moved"]);
        assert!((part - moved).abs() < 0.05, "{row}: {part} moved");
        // The numbers differ because some objects were deleted, or have another UID.
        let listed = number(&resharding["objects_listed"]) / OBJECTS as f64;
        assert!((listed - part).abs() < 0.05, "{row}: {listed} listed");
        let bytes = number(&resharding["bytes_listed"]) / sum(shards, "bytes");
        // Only the new worker lists; it lists everything if clients filter.
        let expected = if filtered { 0.5 } else { part };
        assert!(
            (bytes - expected).abs() < 0.1,
            "{row}: {bytes} of all bytes listed"
        );
    }
    for row in ["sharded:3", "watch-sharded:3"] {
        let row = format!("{row}/--feature-gates=ShardedListAndWatch=false");
        let outcome = &case(&report, &row)["outcome"];
        assert_eq!(outcome["state"], "not_applicable", "{row}");
        let reason = outcome["reason"].as_str().expect("a reason");
        assert!(reason.contains("metadata.shardInfo"), "{reason}");
    }
}
