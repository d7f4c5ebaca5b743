//! `loadgen` against an existing endpoint: wrong responses are detected, and existing data is not
//! changed.

mod cheapest_first;
mod clean_up;
mod watchers;

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::support::fake_etcd::{FakeEtcd, Fault};
use crate::support::program::{ended, loadgen};
use crate::support::served::Served;

const EVERY_WAY: &str = "unary,stream,paged:40";

/// Makes a small run against `etcd`; returns its exit code, report and standard error.
fn run(etcd: &FakeEtcd, strategies: &str, more: &[&str]) -> (Option<i32>, String, String) {
    let out = tempfile::tempdir().expect("a temporary folder");
    let output = loadgen(out.path())
        .args(["run", "pods-150k", "--objects", "100", "--repeats", "1"])
        .args(["--etcd", &etcd.url(), "--strategies", strategies])
        .args(["--format", "json"])
        .args(more)
        .output()
        .expect("it runs");
    ended(&output)
}

#[test]
fn an_honest_server_passes_and_is_left_as_it_was() {
    let etcd = FakeEtcd::start(Fault::None);
    let (code, report, log) = run(&etcd, EVERY_WAY, &[]);
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(
        etcd.keys(),
        Vec::<String>::new(),
        "what was written is deleted again"
    );
    let report: serde_json::Value = serde_json::from_str(&report).expect("a report");
    let cases = report["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 3, "{log}");
    for case in cases {
        assert_eq!(case["valid"], true, "{case}");
        assert_eq!(case["verified"]["objects"], 100, "{case}");
        assert_eq!(
            case["verified"]["fingerprint"], report["data_sets"][0]["fingerprint"],
            "the fingerprint of what was received is that of what was written"
        );
    }
    assert_eq!(cases[2]["chunks"], 3, "100 objects in pages of 40");
}

/// The server is in this process, which a run in its own network namespace could not reach.
#[test]
fn an_endpoint_that_is_there_is_reached_over_the_hosts_network() {
    let etcd = FakeEtcd::start(Fault::None);
    let (code, report, log) = run(&etcd, "stream", &["--target", "bench"]);
    assert_eq!(code, Some(0), "{log}");
    let report: serde_json::Value = serde_json::from_str(&report).expect("a report");
    let environment = &report["environment"];
    assert_eq!(environment["network_namespace"], false);
    let reason = environment["network_namespace_reason"].as_str();
    assert!(
        reason.is_some_and(|reason| reason.contains(&etcd.url())),
        "{reason:?}"
    );
    let (code, _, log) = run(&etcd, "stream", &["--network-namespace", "yes"]);
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("cannot be reached from a namespace"), "{log}");
}

#[track_caller]
fn assert_found_out(fault: Fault, strategies: &str, word: &str) {
    let etcd = FakeEtcd::start(fault);
    let (code, report, log) = run(&etcd, strategies, &[]);
    assert_eq!(code, Some(1), "{fault:?} must be an error: {log}");
    assert!(log.contains(word), "the error says `{word}`: {log}");
    assert_eq!(etcd.keys(), Vec::<String>::new(), "cleaned up all the same");
    let report: serde_json::Value = serde_json::from_str(&report).expect("a report");
    for case in report["cases"].as_array().expect("cases") {
        assert_eq!(case["outcome"]["state"], "failed", "{case}");
        assert_eq!(case["valid"], false, "{case}");
    }
}

#[test]
fn a_missing_last_object_is_found() {
    assert_found_out(
        Fault::DropLast,
        EVERY_WAY,
        "99 objects where 100 were written",
    );
}

#[test]
fn two_swapped_objects_are_found() {
    assert_found_out(Fault::SwapTwo, EVERY_WAY, "out of order");
}

#[test]
fn an_object_too_many_is_found() {
    assert_found_out(Fault::Duplicate, EVERY_WAY, "out of order");
    assert_found_out(
        Fault::Append,
        EVERY_WAY,
        "101 objects where 100 were written",
    );
}

#[test]
fn another_version_or_a_lease_is_found() {
    assert_found_out(
        Fault::Version,
        EVERY_WAY,
        "what is said of the writes of `/",
    );
    assert_found_out(Fault::Lease, EVERY_WAY, "1 objects have a lease");
    assert_found_out(Fault::Lease, "unary", "(the first is `/");
}

#[test]
fn a_list_of_keys_is_held_against_the_keys_and_has_no_values() {
    let etcd = FakeEtcd::start(Fault::None);
    let (code, report, log) = run(&etcd, "keys-only,unary", &[]);
    assert_eq!(code, Some(0), "{log}");
    let report: serde_json::Value = serde_json::from_str(&report).expect("a report");
    let verified = |case: usize| report["cases"][case]["verified"].clone();
    assert_eq!(verified(0)["objects"], 100, "{log}");
    let bytes = |case: usize| verified(case)["bytes"].as_u64().expect("bytes");
    assert!(
        bytes(0) > 0 && bytes(0) < bytes(1) / 10,
        "those of the keys"
    );
    assert_found_out(
        Fault::KeepValues,
        "keys-only",
        "100 objects with a value in a list of keys (the first is `/",
    );
    assert_found_out(Fault::DropLast, "keys-only", "99 objects where 100");
    assert_found_out(Fault::SwapTwo, "keys-only", "out of order");
}

#[test]
fn a_flipped_bit_is_found() {
    assert_found_out(Fault::FlipByte, EVERY_WAY, "altered");
}

#[test]
fn a_stale_answer_is_found() {
    // A Txn writes 100 objects at once, and the response is the state before it.
    assert_found_out(
        Fault::Stale,
        "unary,stream",
        "objects where 100 were written",
    );
}

/// Options of a short load of puts.
const PUTS: [&str; 4] = ["--duration", "100ms", "--clients", "4"];

#[test]
fn honest_puts_pass() {
    let etcd = FakeEtcd::start(Fault::None);
    let (code, report, log) = run(&etcd, "put", &PUTS);
    assert_eq!(code, Some(0), "{log}");
    let report: serde_json::Value = serde_json::from_str(&report).expect("a report");
    let puts = report["cases"][0]["requests"].as_u64().expect("a number");
    assert!(
        puts > 0 && etcd.writes() > puts,
        "more than the data set was written"
    );
}

#[track_caller]
fn assert_puts_found_out(fault: Fault, word: &str) {
    let etcd = FakeEtcd::start(fault);
    let (code, _, log) = run(&etcd, "put", &PUTS);
    assert_eq!(code, Some(1), "{fault:?} must be an error: {log}");
    assert!(log.contains(word), "the error says `{word}`: {log}");
    assert_eq!(etcd.keys(), Vec::<String>::new(), "cleaned up all the same");
}

#[test]
fn a_put_that_is_acknowledged_and_not_done_is_found() {
    assert_puts_found_out(Fault::LosePuts, "was acknowledged at revision");
}

#[test]
fn a_put_that_is_answered_with_an_old_revision_is_found() {
    assert_puts_found_out(Fault::StalePuts, "a put returned revision");
}

#[test]
fn a_tenth_of_puts_that_fails_is_counted_by_its_error() {
    assert_puts_found_out(
        Fault::FailPuts,
        "requests failed: etcdserver: request timed out",
    );
}

#[test]
fn an_endpoint_that_holds_keys_is_only_read() {
    let etcd = FakeEtcd::start(Fault::None);
    etcd.put("/theirs/1");
    etcd.put("/theirs/2");
    let (code, _, log) = run(&etcd, EVERY_WAY, &[]);
    assert_eq!(code, Some(2), "{log}");
    assert!(
        log.contains("holds 2 keys") && log.contains("--seed-data"),
        "{log}"
    );
    assert_eq!(etcd.writes(), 0, "nothing was written");

    let (code, _, log) = run(&etcd, EVERY_WAY, &["--seed-data", "--pause", "0s"]);
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(etcd.keys(), ["/theirs/1", "/theirs/2"]);
    assert!(log.contains("compacts and defragments"), "{log}");
}

#[test]
fn a_failed_clean_up_hides_no_reason() {
    let etcd = FakeEtcd::start(Fault::RefuseWrites);
    let (code, _, log) = run(&etcd, "stream", &[]);
    assert_eq!(code, Some(2), "{log}");
    let errors: Vec<_> = log.lines().filter(|l| l.starts_with("error:")).collect();
    assert_eq!(errors.len(), 1, "{log}");
    assert!(
        errors[0].contains("seeding: ") && errors[0].contains("keys may be left below /loadgen/"),
        "{log}"
    );
}

#[test]
fn a_failed_row_is_not_made_a_wrong_command_line_by_a_failed_clean_up() {
    let etcd = FakeEtcd::start(Fault::KeepKeys);
    let (code, report, log) = run(&etcd, "stream", &[]);
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("keys may be left below /loadgen/"), "{log}");
    let report: serde_json::Value = serde_json::from_str(&report).expect("a report");
    assert_eq!(report["cases"][0]["outcome"]["state"], "failed");
    assert_eq!(report["interrupted"], false, "every row has been measured");
}

#[test]
fn a_table_that_cannot_be_printed_is_saved_all_the_same() {
    let etcd = FakeEtcd::start(Fault::None);
    let out = tempfile::tempdir().expect("a temporary folder");
    let full = std::fs::File::options().write(true).open("/dev/full");
    let output = std::process::Command::new(assert_cmd::cargo::cargo_bin("loadgen"))
        .args(["run", "pods-150k", "--objects", "100", "--repeats", "1"])
        .args(["--etcd", &etcd.url(), "--strategies", "stream"])
        .args(["--out", "kept"])
        .current_dir(out.path())
        .stdout(full.expect("the kernel has it"))
        .stderr(Stdio::piped())
        .output()
        .expect("it runs");
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{log}");
    assert!(log.contains("error: cannot write the output"), "{log}");
    let kept = std::fs::read_dir(out.path().join("kept")).expect("a result");
    assert_eq!(kept.count(), 1, "{log}");
}

#[test]
fn a_prefix_is_listed_without_writing() {
    let etcd = FakeEtcd::start(Fault::None);
    for i in 0..100 {
        etcd.put(&format!("/theirs/{i:03}"));
    }
    let out = tempfile::tempdir().expect("a temporary folder");
    let output = loadgen(out.path())
        .args(["run", "--prefix", "/theirs/", "--etcd", &etcd.url()])
        .args(["--format", "json", "--out", "kept", "--pause", "0s"])
        .output()
        .expect("it runs");
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{log}");
    assert_eq!(etcd.writes(), 0, "nothing was written");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a report");
    for case in report["cases"].as_array().expect("cases") {
        assert_eq!(case["verified"]["objects"], 100, "{case}");
    }
    // The data set was not seeded by loadgen, but the result shows it.
    let mut results = std::fs::read_dir(out.path().join("kept")).expect("a folder");
    let result = results.next().expect("a result").expect("readable").path();
    for file in ["README.md", "report.html"] {
        let text = std::fs::read_to_string(result.join(file)).expect("written");
        assert!(
            text.contains("prefix:/theirs/"),
            "{file} has no such section"
        );
    }
}

#[test]
fn an_etcd_that_is_there_is_asked_what_it_costs() {
    let etcd = Served::etcd();
    let out = tempfile::tempdir().expect("a temporary folder");
    let output = loadgen(out.path())
        .args(["run", "pods-150k", "--objects", "100", "--repeats", "1"])
        .args(["--etcd", &etcd.url, "--strategies", "stream"])
        .args(["--format", "json"])
        .output()
        .expect("it runs");
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{log}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a report");
    let server = &report["cases"][0]["server"];
    assert_eq!(server["is_own_word"], true, "{log}");
    assert!(server["rss_idle"].as_u64() > Some(0), "{server}");
}

#[test]
fn data_that_shall_stay_stays() {
    let etcd = FakeEtcd::start(Fault::None);
    let (code, _, log) = run(&etcd, "unary", &["--keep-data"]);
    assert_eq!(code, Some(0), "{log}");
    let keys = etcd.keys();
    assert_eq!(keys.len(), 100);
    assert!(
        keys.iter().all(|key| key.starts_with("/loadgen/")),
        "{keys:?}"
    );
}

#[test]
fn a_reader_that_goes_away_makes_no_success_of_a_failure() {
    let etcd = FakeEtcd::start(Fault::DropLast);
    let out = tempfile::tempdir().expect("a temporary folder");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let status = std::process::Command::new(assert_cmd::cargo::cargo_bin("loadgen"))
        .args(["run", "pods-150k", "--objects", "100", "--repeats", "1"])
        .args(["--etcd", &etcd.url(), "--strategies", "stream"])
        .current_dir(out.path())
        .stdout(writer)
        .stderr(Stdio::null())
        .status()
        .expect("it runs");
    assert_eq!(status.code(), Some(1));
}

#[test]
fn what_was_measured_is_kept_when_another_target_cannot_be_reached() {
    let etcd = FakeEtcd::start(Fault::None);
    let out = tempfile::tempdir().expect("a temporary folder");
    let nobody = "http://127.0.0.1:1";
    let output = loadgen(out.path())
        .args(["run", "pods-150k", "--objects", "100", "--repeats", "1"])
        .args(["--strategies", "stream", "--out", "kept"])
        .args(["--target", &etcd.url(), "--target", nobody])
        .output()
        .expect("it runs");
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{log}");
    assert!(log.contains(&format!("error: {nobody}")), "{log}");
    let kept = std::fs::read_dir(out.path().join("kept")).expect("a result");
    let folders: Vec<_> = kept.flatten().map(|entry| entry.path()).collect();
    assert!(
        folders.len() == 1 && folders[0].join("report.json").exists(),
        "{folders:?}: {log}"
    );
}

#[test]
fn an_endpoint_that_says_nothing_can_be_left() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", silent.local_addr().expect("it is bound"));
    let out = tempfile::tempdir().expect("a temporary folder");
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("loadgen"))
        .args(["run", "pods-150k", "--objects", "100", "--etcd", &url])
        .current_dir(out.path())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let _connection = silent.accept().expect("it connects");
    let killed = std::process::Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status();
    assert!(killed.expect("there is a kill").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
}

#[test]
fn an_interrupted_run_cleans_up_and_says_so() {
    let etcd = FakeEtcd::start(Fault::Hang);
    let out = tempfile::tempdir().expect("a temporary folder");
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("loadgen"))
        .args([
            "run",
            "pods-150k",
            "--objects",
            "100",
            "--strategies",
            "paged:40",
        ])
        .args(["--etcd", &etcd.url()])
        .current_dir(out.path())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    // The data is written before the first request of the case, which hangs.
    let stderr = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut lines = stderr.lines().map_while(Result::ok);
    let written = lines.any(|line| line.contains("written"));
    assert!(written, "it says when it has written");
    let killed = std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(killed.expect("there is a kill").success());
    let rest: Vec<String> = lines.collect();
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(130), "{rest:?}");
    assert_eq!(etcd.keys(), Vec::<String>::new(), "cleaned up: {rest:?}");
}
