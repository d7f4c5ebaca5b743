//! Cases of several loads on servers that `loadgen` starts, small, and what their report says: what was counted fits
//! together, and what was written reached its watchers. How long anything took is not looked at.

#[allow(dead_code, reason = "the other tests start Kubernetes tiers")]
#[path = "support/served.rs"]
mod served;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use served::Served;

const HEAD: &str = r#"
name = "small"
summary = "loads that run together"
repeats = 1
duration = "1s"

[[data_set]]
name = "few"
kind = "raw"
objects = 300
object_size = 1_000
seed = 1
"#;

/// Runs `cases` on our server; the exit code and the report.
fn run(cases: &str) -> (Option<i32>, Value, String) {
    run_with(cases, &[])
}

fn run_with(cases: &str, more: &[&str]) -> (Option<i32>, Value, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("small.toml"), format!("{HEAD}\n{cases}")).expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_loadgen"))
        .args(["run", "small.toml", "--out", "out"])
        .args(more)
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), saved(&folder.path().join("out")), log)
}

/// The report of the only result in a folder; null where there is none.
fn saved(out: &Path) -> Value {
    let folders = fs::read_dir(out).into_iter().flatten().flatten();
    let reports = folders.map(|folder| folder.path().join("report.json"));
    let mut reports = reports.filter_map(|report| fs::read(report).ok());
    reports.next().map_or(Value::Null, |report| {
        serde_json::from_slice(&report).expect("JSON")
    })
}

/// A load of the first case, by name.
#[track_caller]
fn load<'a>(report: &'a Value, name: &str) -> &'a Value {
    let loads = report["cases"][0]["loads"].as_array().expect("loads");
    let mut loads = loads.iter();
    loads.find(|load| load["name"] == name).expect("that load")
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

#[test]
fn a_mix_watchers_and_lists_run_together_and_all_is_accounted_for() {
    let (code, report, log) = run(r#"
[[case]]
name = "together"
load = [
    { name = "mix", operation = { update = 6, create = 2, delete = 2, get = 4, count = 1, get-serializable = 1, put = 1 }, arrivals = { poisson = 600 }, keys = { zipf = 0.9 }, connections = 3 },
    { name = "waiting", operation = "update", clients = 4, connections = 2 },
    { name = "watchers", operation = "watch", clients = 5, connections = 2 },
    { name = "lists", operation = { list = "stream" }, arrivals = { constant = 5 }, clients = 2 },
]
"#);
    let case = &report["cases"][0];
    assert!(matches!(code, Some(0 | 3)), "{log}");
    assert_ne!(case["outcome"]["state"], "failed", "{log}");
    let mix = load(&report, "mix");
    assert_eq!(mix["errors"], 0, "{mix}");
    let kinds = mix["kinds"].as_array().expect("kinds");
    let sum: u64 = kinds.iter().map(|kind| count(&kind["requests"])).sum();
    assert_eq!((kinds.len(), sum), (7, count(&mix["requests"])), "{mix}");
    assert!(
        kinds.iter().all(|kind| count(&kind["requests"]) > 0),
        "{mix}"
    );
    // Two loads update the same objects: some find them changed, and try again.
    let waiting = load(&report, "waiting");
    assert!(count(&waiting["conflicts"]) > 0, "{waiting}");
    // Each write of an object, by any load, once at each of five watchers.
    let of_kind = |name: &str| {
        let mut kinds = kinds.iter().filter(|kind| kind["operation"] == name);
        kinds.next().map_or(0, |kind| count(&kind["requests"]))
    };
    let writes = of_kind("update") + of_kind("put") + count(&waiting["requests"]);
    let watchers = load(&report, "watchers");
    assert_eq!(watchers["requests"], writes, "{watchers}");
    assert_eq!(watchers["events"], 5 * writes, "{watchers}");
    let lists = load(&report, "lists");
    assert_eq!(
        (&lists["requests"], &lists["errors"]),
        (&5.into(), &0.into())
    );
    assert_eq!(lists["latency_ms"]["n"], 5, "{lists}");
    // The first measured load stands for the case, and what was written is there.
    assert_eq!(case["latency_ms"], mix["latency_ms"]);
    let fingerprint = &report["data_sets"][0]["fingerprint"];
    assert_eq!(&case["verified"]["fingerprint"], fingerprint);
}

#[test]
fn loads_begin_and_end_when_they_are_told_to() {
    let (_, report, log) = run(r#"
[[case]]
name = "windows"
duration = "2s"
load = [
    { name = "always", operation = "get", arrivals = { constant = 100 } },
    { name = "middle", operation = "get", arrivals = { constant = 100 }, start = "500ms", stop = "1s" },
    { name = "beside", operation = { list = "unary" }, measured = false, checked = false },
]
"#);
    assert_eq!(load(&report, "always")["requests"], 200, "{log}");
    let middle = load(&report, "middle");
    assert_eq!(middle["requests"], 50, "{middle}");
    assert_eq!(middle["window_s"], serde_json::json!([0.5, 1.0]));
    let beside = load(&report, "beside");
    assert_eq!(beside["measured"], false);
    assert!(count(&beside["requests"]) > 0, "{beside}");
}

#[test]
fn a_threshold_may_be_about_one_load() {
    let (code, report, log) = run(r#"
[[case]]
name = "reads"
load = [{ name = "gets", operation = "get", clients = 3 }]
[[bar]]
name = "gets that failed"
row = "etcd/reads"
metric = "loads.gets.errors"
at_most = 0
"#);
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(report["bars"][0]["met"], true, "{}", report["bars"]);
}

#[test]
fn what_cannot_be_is_refused_in_one_line() {
    let one = |operation: &str| {
        format!("[[case]]\nname = \"one\"\nload = [{{ name = \"it\", operation = {operation} }}]")
    };
    let wrong = [
        (one(r#""gets""#), "did you mean `get`"),
        (one("{ get = 0, put = 0 }"), "sum to 0"),
        (one("{ delete = 1 }"), "needs `create`"),
        (one(r#"{ list = "stream", get = 1 }"#), "stands alone"),
        (
            one(r#"{ list = "consistent" }"#),
            "no list that a load of the etcd tier",
        ),
        (one(r#""watch""#), "need a load that writes"),
        (one(r#""get", keys = { zipf = 0 }"#), "zipf = 0"),
        (one(r#""get", arrivals = { poisson = 0 }"#), "poisson = 0"),
        (
            one(r#""get", arrivals = "open""#),
            "arrivals are `\"closed\"`",
        ),
        (
            one(r#""get", arrivals = { poisson = 5 }, clients = 2"#),
            "closed loop",
        ),
        (one(r#""get", start = "2s""#), "the case lasts 1s"),
        (
            one(r#""get", measured = false"#),
            "no load that is measured",
        ),
    ];
    for (case, says) in wrong {
        let (code, report, log) = run(&case);
        assert_eq!((code, &report), (Some(2), &Value::Null), "{case}: {log}");
        assert!(log.contains(says), "{case}: {log}");
        assert_eq!(log.trim_end().lines().count(), 1, "{log}");
    }
    let two = one(r#""get""#);
    let (code, _, log) = run_with(&two, &["--cases", "on"]);
    assert_eq!(code, Some(2));
    assert!(
        log.contains("there is no case `on`, did you mean `one`"),
        "{log}"
    );
}

#[test]
fn a_stall_is_in_the_quantiles_of_a_schedule_and_not_in_those_of_who_waits() {
    let server = Served::etcd();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cases = r#"
[[case]]
name = "stalled"
duration = "4s"
load = [
    { name = "open", operation = "get", arrivals = { constant = 500 } },
    { name = "closed", operation = "get" },
]
"#;
    fs::write(folder.path().join("small.toml"), format!("{HEAD}\n{cases}")).expect("a folder");
    let mut run = Command::new(env!("CARGO_BIN_EXE_loadgen"))
        .args(["run", "small.toml", "--out", "out", "--etcd", &server.url])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let log = BufReader::new(run.stderr.take().expect("it is piped"));
    let mut log = log.lines().map_while(Result::ok);
    let measured = log.find(|line| line.ends_with("/stalled …"));
    assert!(measured.is_some(), "it says when it measures");
    thread::sleep(Duration::from_millis(500));
    server.stall(Duration::from_millis(500));
    let log: Vec<String> = log.collect();
    run.wait().expect("it ends");
    let report = saved(&folder.path().join("out"));
    let times = |name: &str| load(&report, name)["latency_ms"].clone();
    let (open, closed) = (times("open"), times("closed"));
    // 250 of 2,000 were due meanwhile; the other client waited once.
    assert_eq!(open["n"], 2_000, "{log:?}");
    assert!(open["p99"].as_f64() > Some(400.0), "{open}");
    assert!(count(&closed["n"]) > 1_000, "{closed}");
    assert!(closed["p99"].as_f64() < Some(100.0), "{closed}");
    assert!(closed["max"].as_f64() > Some(400.0), "{closed}");
}
