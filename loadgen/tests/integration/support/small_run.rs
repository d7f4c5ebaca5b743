//! Runs of a scenario that a test defines, and access to their reports.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

/// Runs `scenario` with further flags; returns exit code, report and log.
pub(crate) fn run(scenario: &str, flags: &[&str]) -> (Option<i32>, Value, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("small.toml"), scenario).expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_loadgen"))
        .args(["run", "small.toml", "--out", "out"])
        .args(flags)
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), saved(&folder.path().join("out")), log)
}

/// Returns the report of the only result in a folder, or null if there is none.
pub(crate) fn saved(out: &Path) -> Value {
    let folders = fs::read_dir(out).into_iter().flatten().flatten();
    let reports = folders.map(|folder| folder.path().join("report.json"));
    let mut reports = reports.filter_map(|report| fs::read(report).ok());
    reports.next().map_or(Value::Null, |report| {
        serde_json::from_slice(&report).expect("JSON")
    })
}

/// Returns a load of the first case, by name.
#[track_caller]
pub(crate) fn load<'a>(report: &'a Value, name: &str) -> &'a Value {
    let loads = report["cases"][0]["loads"].as_array().expect("loads");
    let mut loads = loads.iter();
    loads.find(|load| load["name"] == name).expect("that load")
}

/// Returns a count of a report, or 0 if it is missing.
pub(crate) fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// Asserts that the load `mix` sent requests of this number of kinds and had no error. Returns its
/// number of requests by kind.
#[track_caller]
pub(crate) fn mixed(report: &Value, kinds: usize) -> BTreeMap<String, u64> {
    let mix = load(report, "mix");
    assert_eq!(mix["errors"], 0, "{mix}");
    let of_kinds = mix["kinds"].as_array().expect("kinds").iter();
    let name = |kind: &Value| kind["operation"].as_str().unwrap_or_default().to_owned();
    let requests: BTreeMap<_, _> = of_kinds
        .map(|kind| (name(kind), count(&kind["requests"])))
        .collect();
    let sum = requests.values().sum::<u64>();
    assert_eq!(
        (requests.len(), sum),
        (kinds, count(&mix["requests"])),
        "{mix}"
    );
    assert!(requests.values().all(|count| *count > 0), "{mix}");
    requests
}
