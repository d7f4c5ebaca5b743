//! An endpoint with existing data receives cheap requests before expensive ones, and none once it
//! is overloaded.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::proto::etcdserverpb::PutRequest;
use serde_json::Value;

use crate::support::fake_etcd::{FakeEtcd, Fault};
use crate::support::program::{ended_with_json, loadgen};
use crate::support::served::Served;

const PREFIX: &str = "/theirs/";

/// Runs `loadgen run --prefix` on an endpoint, without pauses; returns exit code, cases and
/// standard error.
fn run(url: &str, more: &[&str]) -> (Option<i32>, Vec<Value>, String) {
    let out = tempfile::tempdir().expect("a temporary folder");
    let output = loadgen(out.path())
        .args(["run", "--prefix", PREFIX, "--etcd", url])
        .args(["--format", "json", "--pause", "0s"])
        .args(more)
        .output()
        .expect("it runs");
    let (code, report, log) = ended_with_json(&output);
    let cases = report["cases"].as_array().cloned().unwrap_or_default();
    (code, cases, log)
}

fn names(cases: &[Value]) -> Vec<&str> {
    let names = cases.iter().map(|case| case["row"].as_str());
    names.map(Option::unwrap_or_default).collect()
}

/// Returns state and reason of each case, in order.
fn outcomes(cases: &[Value]) -> Vec<(&str, &str)> {
    cases
        .iter()
        .map(|case| {
            let of = |field: &str| case["outcome"][field].as_str().unwrap_or_default();
            (of("state"), of("reason"))
        })
        .collect()
}

#[test]
fn cases_go_from_the_cheapest_to_the_dearest_and_each_step_says_a_line() {
    let etcd = FakeEtcd::start(Fault::None);
    etcd.fill(PREFIX, 1_000, 1_000);
    let (code, cases, log) = run(&etcd.url(), &[]);
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(
        names(&cases),
        ["paged:500", "paged:10000", "stream", "unary"],
        "{log}"
    );
    for step in [
        "etcd 3.7.3, members not told",
        "no alarm",
        "1,000 objects, about",
        "its memory cannot be watched",
        "etcd/unary: reads",
        "watching it by a small read",
        "before the load",
    ] {
        assert!(log.contains(step), "`{step}`: {log}");
    }
    // One list before the measurement and three measured ones. There are no lists to check for
    // support, no unchecked lists, and none for the time to the first object.
    assert_eq!(
        etcd.whole_lists(),
        4 + 4 + 1 + 20,
        "of unary, of stream, to see that it is known, of its first objects"
    );
}

#[test]
fn a_dry_run_shows_the_plan_and_lists_nothing() {
    let etcd = FakeEtcd::start(Fault::None);
    etcd.fill(PREFIX, 5_000, 1_000);
    let out = tempfile::tempdir().expect("a temporary folder");
    let output = loadgen(out.path())
        .args(["run", "--dry-run", "--prefix", PREFIX])
        .args(["--etcd", &etcd.url(), "--server-memory", "256MiB"])
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let unary = text.lines().find(|line| line.contains("etcd/unary: N/A"));
    let unary = unary.unwrap_or_else(|| panic!("31 MB are more than a tenth: {text}"));
    assert!(
        unary.contains("10 % of 256 MiB; --yes allows it"),
        "{unary}"
    );
    let pages = text
        .lines()
        .position(|line| line.contains("etcd/paged:500: reads"));
    let streams = text
        .lines()
        .position(|line| line.contains("etcd/stream: reads"));
    assert!(pages.is_some() && pages < streams, "{text}");
    assert!(
        etcd.keys_sent() <= 256,
        "{} keys were sent",
        etcd.keys_sent()
    );
    assert!(etcd.keys_sent() >= 200, "and so many say something");
}

#[test]
fn what_takes_much_of_the_memory_needs_consent_and_what_takes_half_is_refused() {
    let etcd = FakeEtcd::start(Fault::None);
    etcd.fill(PREFIX, 1_000, 1_000);
    // Of 10 MiB, pages and streams take 2 MiB (a fifth), and unary takes 6 MiB.
    let ten = ["--server-memory", "10MiB"];
    let (code, cases, log) = run(&etcd.url(), &ten);
    assert_eq!(code, Some(0), "{log}");
    for (state, reason) in outcomes(&cases) {
        assert_eq!(state, "not_applicable", "{log}");
        assert!(reason.contains("of 10.0 MiB"), "{reason}");
    }
    let (code, cases, log) = run(&etcd.url(), &[&ten[..], &["--yes"]].concat());
    assert_eq!(code, Some(0), "{log}");
    let states: Vec<_> = outcomes(&cases).iter().map(|(state, _)| *state).collect();
    assert_eq!(
        states,
        ["measured", "measured", "measured", "not_applicable"],
        "{log}"
    );
    let (_, unary) = outcomes(&cases)[3];
    assert!(
        unary.contains("more than 50 %") && !unary.contains("--yes"),
        "{unary}"
    );
}

#[test]
fn a_budget_of_bytes_is_kept() {
    let etcd = FakeEtcd::start(Fault::None);
    etcd.fill(PREFIX, 1_000, 1_000);
    // A case reads 1 MB four times.
    let (code, cases, log) = run(&etcd.url(), &["--max-bytes", "9MiB"]);
    assert_eq!(code, Some(0), "{log}");
    let states: Vec<_> = outcomes(&cases).iter().map(|(state, _)| *state).collect();
    assert_eq!(states[..2], ["measured", "measured"], "{log}");
    assert_eq!(states[2..], ["not_applicable", "not_applicable"], "{log}");
    assert!(log.contains("are left of --max-bytes 9.00 MiB"), "{log}");
}

/// Asserts that the first case is stopped for this reason, and that no other starts.
#[track_caller]
fn assert_stops(fault: Fault, why: &str) {
    let etcd = FakeEtcd::start(fault);
    etcd.fill(PREFIX, 1_000, 1_000);
    let (code, cases, log) = run(&etcd.url(), &[]);
    assert_eq!(code, Some(4), "{fault:?}: {log}");
    let outcomes = outcomes(&cases);
    let (first, rest) = outcomes.split_first().expect("cases");
    assert_eq!(first.0, "stopped", "{fault:?}: {log}");
    assert!(first.1.contains(why), "{fault:?}: {}", first.1);
    assert_eq!(rest.len(), 3, "{log}");
    for (state, reason) in rest {
        assert_eq!(*state, "not_applicable", "{fault:?}: {log}");
        assert!(reason.contains(why), "{fault:?}: {reason}");
    }
    assert_eq!(
        etcd.whole_lists(),
        0,
        "{fault:?}: the first case lists in pages"
    );
}

#[test]
fn a_server_whose_small_reads_become_slow_is_left_alone() {
    assert_stops(Fault::SlowUnderLoad, "a small read took 2 s");
}

#[test]
fn a_server_whose_small_reads_fail_is_left_alone() {
    assert_stops(
        Fault::RefuseUnderLoad,
        "a small read failed: Unavailable: too busy",
    );
}

#[test]
fn a_server_that_refuses_a_list_is_not_asked_again() {
    assert_stops(
        Fault::RefuseLists,
        "a list failed: ResourceExhausted: too much",
    );
}

#[test]
fn a_server_with_an_alarm_is_not_measured() {
    let etcd = FakeEtcd::start(Fault::Alarm);
    etcd.fill(PREFIX, 10, 10);
    let (code, _, log) = run(&etcd.url(), &[]);
    assert_eq!(code, Some(2), "{log}");
    assert!(
        log.contains("not measured") && log.contains("alarm:NOSPACE"),
        "{log}"
    );
    assert_eq!(etcd.keys_sent(), 0);
}

#[test]
fn a_wrong_list_fails_its_case_and_no_other_is_kept_from_it() {
    let etcd = FakeEtcd::start(Fault::SwapTwo);
    etcd.fill(PREFIX, 1_000, 100);
    let (code, cases, log) = run(&etcd.url(), &[]);
    assert_eq!(code, Some(1), "{log}");
    for (state, reason) in outcomes(&cases) {
        assert_eq!(state, "failed", "{log}");
        assert!(reason.contains("out of order"), "{reason}");
    }
}

async fn put(url: &str, count: usize) {
    let config = ClientConfig::new(url).expect("a URL");
    let client = Client::connect(config).await.expect("it is there");
    for i in 0..count {
        let request = PutRequest {
            key: format!("{PREFIX}team-{}/pod-{i:05}", i % 7).into(),
            value: vec![b'v'; 500 + i % 1_000].into(),
            ..PutRequest::default()
        };
        client.kv().put(request).await.expect("it takes a write");
    }
}

#[tokio::test]
async fn our_own_server_is_watched_by_its_metrics_and_left_as_it_was() {
    let server = Served::etcd();
    put(&server.url, 2_000).await;
    let (code, cases, log) = run(&server.url, &[]);
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("cannot be watched"), "{log}");
    assert!(log.contains("1 member, leader"), "{log}");
    for case in &cases {
        assert_eq!(case["outcome"]["state"], "measured", "{log}");
        assert_eq!(case["verified"]["objects"], 2_000, "{log}");
    }
}

/// A process that loadgen has not started; killed and waited for when dropped.
struct Stranger {
    process: Child,
    _folder: tempfile::TempDir,
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Starts the etcd that `scripts/oracle` installs; returns it and its URL, or `None` if it is
/// missing.
fn real_etcd() -> Option<(Stranger, String)> {
    let program = test_support::program_or_skip("ETCD_BIN", "etcd")?;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut process = Command::new(program)
        .arg("--data-dir")
        .arg(folder.path())
        .args(["--listen-client-urls", "http://127.0.0.1:0"])
        .args(["--advertise-client-urls", "http://127.0.0.1:0"])
        .args(["--listen-peer-urls", "http://127.0.0.1:0"])
        .args(["--unsafe-no-fsync", "--log-level", "info"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let log = BufReader::new(process.stderr.take().expect("it is piped"));
    let stranger = Stranger {
        process,
        _folder: folder,
    };
    // etcd logs the port that it listens on.
    let mut lines = log.lines().map_while(Result::ok);
    let url = lines.find_map(|line| {
        let entry: Value = serde_json::from_str(&line).ok()?;
        let serves = entry["msg"].as_str()?.starts_with("serving client traffic");
        let address = entry["address"].as_str().filter(|_| serves)?;
        Some(format!("http://{address}"))
    });
    // The log is read to its end: etcd would exit if the pipe were closed.
    std::thread::spawn(move || lines.for_each(drop));
    Some((stranger, url.expect("it says where it listens")))
}

#[tokio::test]
async fn a_real_etcd_is_listed_with_all_precautions() {
    let Some((_etcd, url)) = real_etcd() else {
        return;
    };
    put(&url, 2_000).await;
    let (code, cases, log) = run(&url, &[]);
    assert_eq!(code, Some(0), "{log}");
    assert!(
        log.contains("1 member, leader default") && log.contains("no alarm"),
        "{log}"
    );
    assert!(
        log.contains("below /theirs/: 2,000 objects, about"),
        "{log}"
    );
    assert_eq!(cases.len(), 4, "{log}");
    for case in &cases {
        let state = case["outcome"]["state"].as_str();
        assert!(
            matches!(state, Some("measured" | "not_applicable")),
            "{log}"
        );
    }
    assert_eq!(cases[0]["verified"]["objects"], 2_000, "{log}");
}
