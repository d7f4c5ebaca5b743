//! Servers that `loadgen` starts: one that dies is named, none outlives it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A run that would go on for long, caught while it lists; its server's process number.
fn started(folder: &Path) -> (Child, BufReader<ChildStderr>, String) {
    let mut child = Command::new(assert_cmd::cargo::cargo_bin("loadgen"))
        .args([
            "run",
            "pods-150k",
            "--objects",
            "500",
            "--strategies",
            "stream",
        ])
        .args(["--repeats", "100000"])
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stderr = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut line = String::new();
    while !line.contains("listing") {
        line.clear();
        let read = stderr.read_line(&mut line).expect("it is text");
        assert!(read > 0, "it ended before it listed anything");
    }
    // Whichever thread started the server is its parent's task.
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
    // Nobody tells when a process that is not ours to wait for has gone: look until it has.
    drop(stderr);
    let gone = || !Path::new("/proc").join(&server).exists();
    let begun = Instant::now();
    while !gone() && begun.elapsed() < Duration::from_secs(20) {
        thread::sleep(Duration::from_millis(20));
    }
    assert!(gone(), "process {server} is still there");
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
    let results = fs::read_dir(folder.path().join("scratch")).expect("a result was saved");
    let results: Vec<_> = results.flatten().map(|entry| entry.path()).collect();
    assert_eq!(results.len(), 1, "{results:?}");
    let report = fs::read(results[0].join("report.json")).expect("a report");
    let report: serde_json::Value = serde_json::from_slice(&report).expect("JSON");
    assert_eq!(report["interrupted"], true);
    assert_eq!(report["cases"][0]["outcome"]["state"], "interrupted");
    assert_eq!(report["cases"][0]["valid"], false);
}
