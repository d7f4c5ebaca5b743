//! Servers that `loadgen` starts: a server that dies is reported, and no server outlives `loadgen`.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Starts a long run and waits until it lists; returns the run, its log, and its server's process
/// ID.
fn started(folder: &Path) -> (Child, BufReader<ChildStderr>, String) {
    let few = ["pods-150k", "--objects", "500", "--strategies", "stream"];
    let arguments = [&few[..], &["--repeats", "100000"]].concat();
    let (child, stderr) = caught(folder, &arguments, "listing");
    // The server is a child of the thread that started it, so all threads are searched.
    let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).expect("it runs");
    let servers: String = tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .collect();
    let server = servers
        .split_whitespace()
        .next()
        .expect("it has a server")
        .to_owned();
    (child, stderr, server)
}

/// Starts a run and waits until its log contains `phase`.
fn caught(folder: &Path, arguments: &[&str], phase: &str) -> (Child, BufReader<ChildStderr>) {
    let mut child = Command::new(assert_cmd::cargo::cargo_bin("loadgen"))
        .arg("run")
        .args(arguments)
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stderr = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut line = String::new();
    while !line.contains(phase) {
        line.clear();
        let read = stderr.read_line(&mut line).expect("it is text");
        assert!(read > 0, "it ended before it came to {phase:?}");
    }
    (child, stderr)
}

/// Returns the only result in a folder, finished or not.
fn only_result(folder: &Path) -> PathBuf {
    let results = fs::read_dir(folder.join("scratch")).expect("a result was saved");
    let results: Vec<_> = results.flatten().map(|entry| entry.path()).collect();
    assert_eq!(results.len(), 1, "{results:?}");
    results[0].clone()
}

fn signal(name: &str, pid: &str) {
    let killed = Command::new("kill").args([name, pid]).status();
    assert!(killed.expect("there is a kill").success());
}

fn rest(stderr: BufReader<ChildStderr>) -> String {
    let lines: Vec<_> = stderr.lines().map_while(Result::ok).collect();
    lines.join("\n")
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

#[test]
fn a_server_killed_in_mid_run_fails_its_row() {
    let folder = folder();
    let (mut child, stderr, server) = started(folder.path());
    signal("-KILL", &server);
    let log = rest(stderr);
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("etcd died (signal: 9"), "{log}");
}

#[test]
fn a_killed_generator_leaves_no_server() {
    let folder = folder();
    let (mut child, stderr, server) = started(folder.path());
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    // The end of a process that is not a child cannot be waited for, so it is polled.
    drop(stderr);
    let gone = || !Path::new("/proc").join(&server).exists();
    let begun = Instant::now();
    while !gone() && begun.elapsed() < Duration::from_secs(20) {
        thread::sleep(Duration::from_millis(20));
    }
    assert!(gone(), "process {server} is still there");
}

#[test]
fn a_killed_generator_has_lost_no_row_that_it_measured() {
    let folder = folder();
    let scenario = r#"
name = "two"
summary = "a row that ends and one that does not"
repeats = 2
duration = "600s"

[cases]
etcd = ["stream", "put"]

[[data_set]]
name = "few"
kind = "raw"
objects = 300
object_size = 1_000
seed = 1
"#;
    fs::write(folder.path().join("two.toml"), scenario).expect("a writable folder");
    let (mut child, _stderr) = caught(folder.path(), &["two.toml"], "bench/put: seeding");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let left = only_result(folder.path());
    let report = |result: &Path| {
        let mut loadgen = assert_cmd::Command::cargo_bin("loadgen").expect("it is built");
        let asserted = loadgen.arg("report").arg(result).assert();
        let output = asserted.get_output();
        let said = [&output.stdout[..], &output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        (output.status.code(), said)
    };
    let (code, said) = report(&left);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("rename the folder"), "{said}");
    let named = left.with_extension("");
    fs::rename(&left, &named).expect("a free name");
    let (code, said) = report(&named);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("stream") && !said.contains("put"), "{said}");
}

#[test]
fn an_interrupted_run_keeps_what_it_measured_and_leaves_no_server() {
    let folder = folder();
    let (mut child, stderr, server) = started(folder.path());
    signal("-INT", &child.id().to_string());
    let log = rest(stderr);
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(130), "{log}");
    assert!(log.contains("press Ctrl-C again"), "{log}");
    assert!(
        !Path::new("/proc").join(&server).exists(),
        "the server is gone"
    );
    let result = only_result(folder.path());
    let report = fs::read(result.join("report.json")).expect("a report");
    let report: serde_json::Value = serde_json::from_slice(&report).expect("JSON");
    assert_eq!(report["interrupted"], true);
    assert_eq!(report["cases"][0]["outcome"]["state"], "interrupted");
    assert_eq!(report["cases"][0]["valid"], false);
}
