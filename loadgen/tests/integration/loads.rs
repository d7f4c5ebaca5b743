//! Small cases of several loads on servers that `loadgen` starts, and their reports: the counts are
//! consistent, and all writes reached the watchers. The tests do not check times.

mod compacted;
mod metrics;
mod saturated;
mod stall;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use report::result::SavedResult;
use serde_json::Value;
use test_support::proxy::Proxy;

use self::metrics::{SERVED, until_counted};
use crate::support::served::Served;
use crate::support::small_run::{self, count, load, mixed, saved};

/// The time for which a server is stopped or unreachable.
const GAP: Duration = Duration::from_millis(500);
/// Requests that take longer than this are counted as affected by the gap: half of it.
const HIT: Duration = Duration::from_millis(250);

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

/// Runs `cases` on bench-server; returns exit code, report and log.
fn run(cases: &str) -> (Option<i32>, Value, String) {
    run_with(cases, &[])
}

fn run_with(cases: &str, more: &[&str]) -> (Option<i32>, Value, String) {
    small_run::run(&format!("{HEAD}\n{cases}"), more)
}

/// Returns the only result of a run in this folder.
fn result_in(folder: &Path) -> SavedResult {
    let results = fs::read_dir(folder.join("out")).expect("a result");
    let result = results.flatten().next().expect("one").path();
    SavedResult::load(&result).expect("it can be read")
}

/// Returns the number of requests of a load that took longer than [`HIT`] by one of its measures of
/// time.
fn hit(result: &SavedResult, load: &str, measure: &str) -> u64 {
    let measure = format!("{load}.{measure}");
    let mut all = result.histograms.iter();
    let times = all.find(|times| times.measure == measure);
    let times = &times.expect("it was timed").histogram;
    times
        .histogram_ns()
        .count_between(HIT.as_nanos() as u64, u64::MAX)
}

/// Starts a run. Returns its folder, its process, its log up to the measurement of `case`, and the
/// following lines.
fn started(
    cases: &str,
    case: &str,
    more: &[&str],
) -> (
    tempfile::TempDir,
    Child,
    Vec<String>,
    impl Iterator<Item = String> + use<>,
) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("small.toml"), format!("{HEAD}\n{cases}")).expect("a folder");
    let mut run = Command::new(env!("CARGO_BIN_EXE_loadgen"))
        .args(["run", "small.toml", "--out", "out"])
        .args(more)
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let log = BufReader::new(run.stderr.take().expect("it is piped"));
    let mut log = log.lines().map_while(Result::ok);
    let mut said: Vec<String> = Vec::new();
    let measures = format!("/{case} …");
    while !said.last().is_some_and(|line| line.ends_with(&measures)) {
        said.push(log.next().expect("it says when it measures"));
    }
    (folder, run, said, log)
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
    let mixed = mixed(&report, 7);
    // Two loads update the same objects, so some updates have a conflict and are repeated.
    let waiting = load(&report, "waiting");
    assert!(count(&waiting["conflicts"]) > 0, "{waiting}");
    // Each write of an object, by any load, is received once by each of five watchers.
    let of_kind = |name: &str| mixed.get(name).copied().unwrap_or(0);
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
    // The first measured load represents the case, and the data set is complete.
    assert_eq!(case["latency_ms"], load(&report, "mix")["latency_ms"]);
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
[[threshold]]
name = "gets that failed"
case = "etcd/reads"
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
        (one("{ lease-revoke = 1 }"), "needs `lease-grant`"),
        (one(r#""get", value = { bytes = 5 }"#), "it creates nothing"),
        (
            one(r#""create", value = { bytes = 0 }"#),
            "bytes = 0 must be from 1",
        ),
        (one(r#""get", cut_every = "1s""#), "is for watchers"),
        (
            one(r#""get", streams = "one""#),
            "`streams` is for keep-alives of leases alone",
        ),
        (
            one(r#"{ lease-grant = 1, lease-keep-alive = 1 }, streams = "one""#),
            "`streams` is for keep-alives of leases alone",
        ),
        (
            one(r#""lease-keep-alive", streams = "two""#),
            "unknown variant `two`",
        ),
        (
            one(r#""watch", stall = { read = "5s", every = "5s" }"#),
            "shorter than every 5s",
        ),
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
fn watchers_that_lose_their_connections_or_read_slowly_get_every_event_once() {
    let (code, report, log) = run(r#"
[[case]]
name = "disturbed"
duration = "2s"
load = [
    { name = "puts", operation = "put", arrivals = { constant = 300 }, connections = 2 },
    { name = "cut", operation = "watch", clients = 5, connections = 2, cut_every = "300ms" },
    { name = "slow", operation = "watch", clients = 2, stall = { read = "300ms", every = "600ms" }, window = "64KiB" },
]
"#);
    assert!(matches!(code, Some(0 | 3)), "{log}");
    assert_ne!(report["cases"][0]["outcome"]["state"], "failed", "{log}");
    let cut = load(&report, "cut");
    assert_eq!(
        (&cut["requests"], &cut["events"]),
        (&600.into(), &3_000.into())
    );
    assert!(count(&cut["cut_ms"]["n"]) >= 4, "{cut}");
    let slow = load(&report, "slow");
    assert_eq!(slow["events"], 1_200, "{slow}");
    // Events that arrived while nothing was read had to wait, at least for the duration of a stall.
    assert!(slow["latency_ms"]["max"].as_f64() > Some(200.0), "{slow}");
    let slowest = slow["watchers"]["slowest"]
        .as_array()
        .expect("two watchers");
    assert_eq!(slowest.len(), 2, "{slow}");
    assert!(slow["watchers"]["p50_ms"]["min"].as_f64() > Some(0.0));
}

#[test]
fn leases_ranges_and_compactions_are_part_of_a_mix() {
    let (code, report, log) = run(r#"
[[case]]
name = "all"
load = [
    { name = "keys", operation = { create = 30, delete-range = 2, delete = 1, update = 5 }, arrivals = { poisson = 400 }, connections = 2, value = { lognormal = { median = 300, sigma = 0.5, most = 4000 }, entropy = 0.5 } },
    { name = "leases", operation = { lease-grant = 3, lease-keep-alive = 10, lease-revoke = 2 }, arrivals = { poisson = 200 }, connections = 2 },
    { name = "compactions", operation = "compact", arrivals = { constant = 10 } },
    { name = "keep-alive", operation = "lease-keep-alive", clients = 2, connections = 2 },
    { name = "one-stream", operation = "lease-keep-alive", streams = "one", arrivals = { constant = 100 }, connections = 2 },
    { name = "waiting", operation = "lease-keep-alive", streams = "one", clients = 2 },
    { name = "watchers", operation = "watch", clients = 2 },
]
"#);
    assert!(matches!(code, Some(0 | 3)), "{log}");
    assert_ne!(report["cases"][0]["outcome"]["state"], "failed", "{log}");
    for name in [
        "keys",
        "leases",
        "compactions",
        "keep-alive",
        "one-stream",
        "waiting",
    ] {
        let load = load(&report, name);
        assert!(
            count(&load["requests"]) > 0 && load["errors"] == 0,
            "{load}"
        );
    }
    let kinds = |name: &str| -> Vec<String> {
        let kinds = load(&report, name)["kinds"].as_array().expect("a mix");
        let sent = kinds.iter().filter(|kind| count(&kind["requests"]) > 0);
        let name = |kind: &Value| kind["operation"].as_str().unwrap_or_default().to_owned();
        sent.map(name).collect()
    };
    assert_eq!(
        kinds("keys"),
        ["update", "create", "delete", "delete-range"]
    );
    assert_eq!(
        kinds("leases"),
        ["lease-grant", "lease-keep-alive", "lease-revoke"]
    );
    assert_eq!(load(&report, "compactions")["requests"], 10);
    let one_stream = load(&report, "one-stream");
    assert_eq!(one_stream["requests"], 100, "{one_stream}");
    assert_eq!(one_stream["operation"], "lease-keep-alive on one stream");
}

#[test]
fn a_server_that_is_away_in_an_open_loop_is_an_error_by_its_code_and_a_gap_in_the_latencies() {
    let server = Served::etcd();
    let way = Proxy::start(&server.url);
    let cases = r#"
[[case]]
name = "cut"
duration = "3s"
load = [{ name = "gets", operation = "get", arrivals = { constant = 500 }, connections = 2 }]
"#;
    let (folder, mut run, said, log) = started(cases, "cut", &["--etcd", &way.url(), SERVED, "0"]);
    until_counted(&said, "gets");
    way.cut_for(GAP);
    let log: Vec<String> = log.collect();
    let ended = run.wait().expect("it ends");
    let report = saved(&folder.path().join("out"));
    let gets = load(&report, "gets");
    // All due requests were sent, and all except those in flight got a response after the gap.
    assert_eq!(gets["requests"], 1_500, "{gets} {log:?}");
    let errors = count(&gets["errors"]);
    // Requests that were due in the first half of the gap waited throughout its second half.
    let hit = hit(&result_in(folder.path()), "gets", "latency");
    assert!(hit + errors >= 120, "{hit}, {gets}");
    assert_eq!(gets["latency_ms"]["n"], 1_500 - errors);
    if errors > 0 {
        assert_eq!(ended.code(), Some(1), "{log:?}");
        let sample = gets["error_samples"][0].as_str().expect("a text");
        assert!(sample.starts_with("Unavailable: connection: "), "{sample}");
    }
}

#[test]
fn a_network_delays_every_request_of_a_case_and_is_part_of_its_name() {
    let cases = r#"
[[case]]
name = "far"
load = [
    { name = "gets", operation = "get" },
    { name = "lists", operation = { list = "paged:100" } },
]
"#;
    let (code, report, log) = run_with(cases, &["--rtt", "30ms", "--bandwidth", "100Mbit"]);
    assert_eq!(code, Some(0), "{log}");
    let case = &report["cases"][0];
    assert_eq!(case["network"], "rtt-30ms-at-100Mbit", "{case}");
    let least = |name: &str| load(&report, name)["latency_ms"]["min"].as_f64();
    assert!(least("gets") >= Some(30.0), "{:?}", least("gets"));
    // A list is three pages, one after the other.
    assert!(least("lists") >= Some(90.0), "{:?}", least("lists"));
    let (code, _, log) = run_with(cases, &["--bandwidth", "10"]);
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("`10` is not a bandwidth"), "{log}");
}

const WRITTEN_AND_WATCHED: &str = r#"
[[case]]
name = "long"
duration = "10m"
load = [
    { name = "puts", operation = "put", arrivals = { constant = 200 }, connections = 2 },
    { name = "watchers", operation = "watch", clients = 3 },
    { name = "lists", operation = { list = "stream" } },
]
"#;

#[test]
fn a_case_of_loads_that_is_interrupted_keeps_what_was_measured() {
    let (folder, mut run, said, log) = started(WRITTEN_AND_WATCHED, "long", &[SERVED, "0"]);
    until_counted(&said, "puts");
    until_counted(&said, "lists");
    let pid = nix::unistd::Pid::from_raw(run.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::SIGINT).expect("it runs");
    let log: Vec<String> = log.collect();
    let ended = run.wait().expect("it ends");
    assert_eq!(ended.code(), Some(130), "{log:?}");
    let report = saved(&folder.path().join("out"));
    assert_eq!(report["interrupted"], true, "{log:?}");
    assert_eq!(report["cases"][0]["outcome"]["state"], "interrupted");
    let puts = load(&report, "puts");
    let sent = count(&puts["requests"]);
    assert!(sent > 0 && puts["errors"] == 0, "{puts}");
    assert_eq!(puts["latency_ms"]["n"], sent);
    let watchers = load(&report, "watchers");
    assert_eq!(watchers["events"], 3 * sent, "{watchers}");
    assert!(count(&load(&report, "lists")["requests"]) > 0);
}
