//! Small cases of each kind on servers that `loadgen` starts, and their reports. The tests do not
//! check times, only that the counts are complete and consistent.

use std::path::Path;

use serde_json::Value;

use crate::support::small_run;

/// The beginning of every scenario in this file; cases and loads follow.
const HEAD: &str = r#"
name = "small"
summary = "rows of one shape"
repeats = 3
warmup = 1
clients = 6
duration = "200ms"

[[data_set]]
name = "few"
kind = "raw"
objects = 300
object_size = 1_000
seed = 1
"#;

/// A finished run: its exit code and its saved report.
struct Run {
    code: Option<i32>,
    report: Value,
    log: String,
}

impl Run {
    /// Runs cases on bench-server.
    fn of(rows: &str) -> Self {
        Self::with_flags(rows, &[])
    }

    /// Runs cases with further command-line flags.
    fn with_flags(rows: &str, flags: &[&str]) -> Self {
        let (code, report, log) = small_run::run(&format!("{HEAD}\n{rows}"), flags);
        assert_ne!(report, Value::Null, "no result: {log}");
        Self { code, report, log }
    }

    /// Runs one case of the etcd tier.
    fn of_row(row: &str) -> Self {
        Self::of(&format!("[cases]\netcd = [{row}]"))
    }

    fn case(&self) -> &Value {
        &self.report["cases"][0]
    }

    /// Asserts that the case was measured, and that every object of its data set was read as it was
    /// written.
    #[track_caller]
    fn assert_measured(&self) {
        let case = self.case();
        assert_eq!(case["outcome"]["state"], "measured", "{}", self.log);
        assert_eq!((&case["valid"], &case["errors"]), (&true.into(), &0.into()));
        assert!(number(&case["server"]["cpu_s"]) > 0.0, "{case}");
    }

    #[track_caller]
    fn assert_verified(&self) {
        let verified = &self.case()["verified"];
        assert_eq!(verified["objects"], 300, "{verified}");
        let written = &self.report["data_sets"][0]["fingerprint"];
        assert_eq!(&verified["fingerprint"], written);
    }
}

#[track_caller]
fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn a_closed_loop_of_puts_counts_each_and_finds_it_again() {
    let run = Run::of_row(r#"{ strategy = "put", connections = 2 }"#);
    assert_eq!(run.code, Some(0), "{}", run.log);
    run.assert_measured();
    run.assert_verified();
    let case = run.case();
    assert_eq!(
        case["starts"],
        serde_json::json!([]),
        "the case is its start"
    );
    assert_eq!(
        (&case["clients"], &case["connections"]),
        (&6.into(), &2.into())
    );
    assert!(number(&case["requests"]) > 0.0 && number(&case["requests_per_s"]) > 0.0);
    assert_eq!(case["latency_ms"]["n"], case["requests"]);
    assert_eq!(case["service_ms"], Value::Null, "that is for schedules");
    assert!(number(&case["client"]["cpu_s_per_request"]) > 0.0, "{case}");
}

/// Three pages over a network with a round trip of 20 ms have two gaps of at least that.
#[test]
fn each_list_has_its_longest_time_without_an_object() {
    let paged = r#"{ strategy = "paged:100", network = { rtt = "20ms" } }"#;
    let rows = format!("[cases]\netcd = [\"unary\", \"stream\", {paged}]");
    let run = Run::of(&rows);
    assert_eq!(run.code, Some(0), "{}", run.log);
    let cases = run.report["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 3);
    for case in cases {
        let (gaps, times) = (&case["longest_gap_ms"], &case["latency_ms"]);
        assert_eq!(gaps["n"], times["n"], "{case}");
        assert!(number(&gaps["max"]) <= number(&times["max"]), "{case}");
        if case["strategy"] == "paged:100" {
            assert!(number(&gaps["min"]) >= 20.0, "{case}");
        }
    }
}

/// Each start is a process of its own, and comparisons of the targets pair the starts of a round.
#[test]
fn a_case_of_several_starts_is_the_middle_one_with_the_figures_of_all() {
    let rows = "[cases]\netcd = [\"stream\", \"paged:100\"]";
    let targets = ["--target", "bench", "--target", "bench-log"];
    let run = Run::with_flags(rows, &[&["--starts", "3"], &targets[..]].concat());
    assert_eq!(run.code, Some(0), "{}", run.log);
    run.assert_measured();
    run.assert_verified();
    let cases = run.report["cases"].as_array().expect("cases");
    let of = |field: &str| {
        cases
            .iter()
            .map(|case| case[field].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(of("target"), ["bench", "bench-log", "bench", "bench-log"]);
    assert_eq!(
        of("strategy"),
        ["stream", "stream", "paged:100", "paged:100"]
    );
    for case in cases {
        let starts = case["starts"].as_array().expect("starts");
        let pairs: Vec<_> = starts.iter().map(|start| start["pair"].clone()).collect();
        assert_eq!(pairs, [0, 1, 2], "{case}");
        let mut times: Vec<_> = starts
            .iter()
            .map(|s| number(&s["latency_ms"]["p50"]))
            .collect();
        times.sort_by(f64::total_cmp);
        assert_eq!(number(&case["latency_ms"]["p50"]), times[1], "{case}");
        assert_eq!(
            case["requests"],
            3 * 6,
            "of one start: 3 lists by 6 clients"
        );
    }
    let begun = |case| run.log.matches(&format!("{case}: start 3 of 3")).count();
    assert_eq!(begun("bench/stream"), 1, "{}", run.log);
    assert_eq!(begun("bench-log/paged:100"), 1, "{}", run.log);
}

/// The targets that are compared with an etcd with fsync: a server with a log is restarted from it
/// before the measured phase.
#[test]
fn a_target_with_a_log_is_restarted_from_it() {
    for (target, mode) in [("bench-fsync", "always"), ("bench-log", "never")] {
        let rows = "[cases]\netcd = [\"stream\"]";
        let run = Run::with_flags(rows, &["--target", target]);
        assert_eq!(run.code, Some(0), "{}", run.log);
        run.assert_measured();
        run.assert_verified();
        assert_eq!(run.case()["target"], target);
        let server = &run.report["environment"]["servers"][0];
        let flags = server["flags"].as_array().expect("flags");
        let after = |flag: &str| {
            let at = flags.iter().position(|found| found == flag);
            flags[at.expect(flag) + 1].as_str().expect("text")
        };
        assert_eq!(after("--fsync"), mode);
        assert!(
            !Path::new(after("--data-dir")).exists(),
            "its folder is gone"
        );
        assert_eq!(server["fsync"], mode == "always");
        assert_eq!(server["restarted_after_seeding"], true);
    }
}

#[test]
fn an_open_loop_keeps_its_schedule_apart_from_its_answers() {
    let row = r#"{ strategy = "get", connections = 3, rate = 2_000 }"#;
    let run = Run::of_row(row);
    let case = run.case();
    // On a machine that is busy with other tests, the generator may miss its schedule; the case
    // must then be reported as invalid.
    let expected = match case["outcome"]["state"].as_str() {
        Some("measured") => (Some(0), true),
        Some("invalid") => (Some(3), false),
        _ => panic!("{}", run.log),
    };
    assert_eq!((run.code, case["valid"] == true), expected, "{}", run.log);
    assert_eq!(
        (&case["offered_per_s"], &case["errors"]),
        (&2_000.0.into(), &0.into())
    );
    run.assert_verified();
    assert!(number(&case["requests"]) > 0.0, "{case}");
    for times in [
        &case["latency_ms"],
        &case["service_ms"],
        &case["client"]["lag_ms"],
    ] {
        assert_eq!(times["n"], case["requests"], "each request has its {times}");
    }
    assert!(number(&case["client"]["stall_ms"]) >= 0.0);
}

#[test]
fn a_schedule_without_a_single_request_is_no_measurement() {
    let run = Run::of_row(r#"{ strategy = "get", rate = 0.000_001 }"#);
    assert_eq!(run.code, Some(3), "{}", run.log);
    let case = run.case();
    assert_eq!(
        (&case["requests"], &case["valid"]),
        (&0.into(), &false.into())
    );
    assert_eq!(case["outcome"]["state"], "invalid");
    assert!(run.log.contains("not one request was sent"), "{}", run.log);
}

#[test]
fn a_put_reaches_every_watcher() {
    let row = r#"{ strategy = "fan-out", watchers = 60, connections = 4 }"#;
    let run = Run::of_row(row);
    assert_eq!(run.code, Some(0), "{}", run.log);
    run.assert_measured();
    let case = run.case();
    assert_eq!(
        (&case["watchers"], &case["connections"]),
        (&60.into(), &4.into())
    );
    assert_eq!(case["requests"], 3);
    assert_eq!(
        case["latency_ms"]["n"],
        3 * 60,
        "an event each, warm-up not counted"
    );
}

#[test]
fn loads_beside_a_row_are_counted_and_change_nothing_of_what_it_lists() {
    let run = Run::of(
        r#"
[cases]
etcd = [{ strategy = "stream", repeats = 20, background = ["writes", "lists", "watchers"] }]

[[background]]
name = "writes"
strategy = "put"
clients = 2
keys = "data-set"

[[background]]
name = "lists"
strategy = "unary"

[[background]]
name = "watchers"
strategy = "watch"
watchers = 20
connections = 2
"#,
    );
    assert_eq!(run.code, Some(0), "{}", run.log);
    run.assert_measured();
    run.assert_verified();
    let beside = run.case()["beside"].as_array().expect("three loads");
    let names: Vec<_> = beside.iter().map(|load| &load["name"]).collect();
    assert_eq!(names, ["writes", "lists", "watchers"]);
    for load in &beside[..2] {
        assert!(number(&load["requests"]) > 0.0, "{load}");
    }
    assert!(beside.iter().all(|load| load["errors"] == 0), "{beside:?}");
    assert_eq!(beside[2]["clients"], 20);
}

#[test]
fn a_list_is_interleaved_with_its_bytes_and_its_own_figures_know_nothing_of_it() {
    let rows = r#"[cases]
etcd = [
    { strategy = "stream", clients = 1, repeats = 4 },
    { strategy = "paged:50", baseline = "checked" },
]
[[threshold]]
name = "beyond its bytes"
case = "etcd/paged:50"
metric = "yardstick.time_ratio.p50"
at_most = 1.2
"#;
    let run = Run::of(rows);
    assert_eq!(run.code, Some(0), "{}", run.log);
    run.assert_measured();
    assert_eq!(run.case()["yardstick"], Value::Null, "nobody asked for it");
    let case = &run.report["cases"][1];
    // Three rounds of six clients; lists for the baseline do not count.
    assert_eq!(case["requests"], 18);
    let yardstick = &case["yardstick"];
    assert_eq!(yardstick["checked"], true);
    assert_eq!(yardstick["body_bytes"], case["bytes"]);
    let rounds = yardstick["rounds"].as_array().expect("rounds");
    let first = |round: &&Value| round["list_first"] == true;
    assert_eq!(rounds.len(), 2 * rounds.iter().filter(first).count());
    for round in rounds {
        for part in ["list", "body", "socket"] {
            assert!(number(&round[part]["ms"]) > 0.0, "{round}");
            assert!(number(&round[part]["server_cpu_ms"]) > 0.0, "{round}");
        }
    }
    assert!(number(&yardstick["socket_ms"]["p50"]) > 0.0, "{yardstick}");
    assert!(
        number(&yardstick["socket_time_ratio"]["p50"]) > 0.0,
        "{yardstick}"
    );
    let rounds = case["rounds"].as_array().expect("measured rounds");
    assert_eq!(rounds.len(), 3);
    for round in rounds {
        assert!(number(&round["ms"]) > 0.0, "{round}");
        assert!(number(&round["server_cpu_ms"]) > 0.0, "{round}");
    }
    assert!(number(&case["cold"]["ms"]) > 0.0, "the first list");
    let warm_up = &case["warm_up"];
    assert!(number(&warm_up["lists"]) >= 3.0, "{warm_up}");
    assert!(warm_up["stands_still"].is_boolean(), "{warm_up}");
    let server = &case["server"];
    for size in [
        "rss_anon_idle",
        "rss_file_idle",
        "rss_anon_peak",
        "rss_resolution",
    ] {
        assert!(number(&server[size]) > 0.0, "{size}: {server}");
    }
    assert!(server["socket_peak"].is_u64(), "{server}");
    let of_all = ["rss_anon_idle", "peak_above_idle", "cpu_s"];
    for sum in of_all {
        assert_eq!(server[sum], server["etcd"][sum], "{sum} of one process");
    }
    let ratio = &yardstick["time_ratio"];
    let bar = &run.report["bars"][0];
    assert_eq!(
        (&bar["figure"], &bar["value"]),
        (&ratio["p50"], &ratio["p50"])
    );
    assert_eq!(
        (&bar["range"][0], &bar["range"][1]),
        (&ratio["min"], &ratio["max"])
    );
}

#[test]
fn a_missed_threshold_ends_a_run_with_1_where_that_was_asked_for() {
    let rows = |at_most: &str| {
        format!(
            r#"[cases]
etcd = ["stream"]
[[threshold]]
name = "bytes of one list"
case = "etcd/stream"
metric = "bytes"
at_most = {at_most}
"#
        )
    };
    let asked = ["--fail-on-threshold"];
    let codes = [
        Run::of(&rows("1")).code,
        Run::with_flags(&rows("1"), &asked).code,
        Run::with_flags(&rows("1e9"), &asked).code,
    ];
    assert_eq!(codes, [Some(0), Some(1), Some(0)]);
    // A threshold whose metric is missing is not met.
    let unknown = rows("1").replace("\"bytes\"", "\"server.kube.cpu_s\"");
    let run = Run::with_flags(&unknown, &asked);
    assert_eq!(run.code, Some(3), "{}", run.log);
}

#[test]
fn limits_of_one_machine_come_from_a_file_of_their_own() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("machine.toml");
    let limits = r#"
[[small]]
name = "bytes of one list"
case = "etcd/stream"
metric = "bytes"
at_most = 1

[[pods-150k]]
name = "of a scenario that does not run"
case = "etcd/stream"
metric = "latency_ms.p50"
at_most = 600
"#;
    std::fs::write(&file, limits).expect("written");
    let file = file.display().to_string();
    let flags = ["--thresholds", &file, "--fail-on-threshold"];
    let run = Run::with_flags("[cases]\netcd = [\"stream\"]\n", &flags);
    assert_eq!(run.code, Some(1), "{}", run.log);
    let judged = run.report["bars"].as_array().expect("thresholds");
    assert_eq!(judged.len(), 1, "{judged:?}");
    assert_eq!(judged[0]["name"], "bytes of one list");
    let none = Run::with_flags("[cases]\netcd = [\"stream\"]\n", &["--fail-on-threshold"]);
    assert_eq!(none.code, Some(3), "nothing was judged: {}", none.log);
}
