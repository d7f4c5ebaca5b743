//! A run's own network namespace and CPUs: the head line and the result report what was in effect.
//! `foreign.rs` tests existing endpoints, which use the host's network.

use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::program::text;

const TINY: &str = r#"
name = "tiny"
summary = "one list"
repeats = 1

[cases]
etcd = ["stream"]

[[data_set]]
name = "few"
kind = "raw"
objects = 20
object_size = 100
seed = 1
"#;

/// Runs the tiny scenario with these arguments; returns the output and the folder.
fn run(arguments: &[&str]) -> (Output, TempDir) {
    run_text(TINY, arguments)
}

/// Runs a scenario with these arguments; returns the output and the folder.
fn run_text(scenario: &str, arguments: &[&str]) -> (Output, TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("tiny.toml"), scenario).expect("a writable folder");
    let output = Command::new(env!("CARGO_BIN_EXE_loadgen"))
        .args(["run", "tiny.toml"])
        .args(arguments)
        .current_dir(folder.path())
        .output()
        .expect("it starts");
    (output, folder)
}

/// Returns the content of the only file of this name in the result.
fn saved(folder: &TempDir, name: &str) -> String {
    let results = std::fs::read_dir(folder.path().join("scratch")).expect("a result");
    let paths: Vec<_> = results.flatten().map(|entry| entry.path()).collect();
    assert_eq!(paths.len(), 1, "{paths:?}");
    std::fs::read_to_string(paths[0].join(name)).expect("a file of a result")
}

fn environment(folder: &TempDir) -> Value {
    let report: Value = serde_json::from_str(&saved(folder, "report.json")).expect("JSON");
    report["environment"].clone()
}

/// Returns the congestion control of the host's connections.
fn host_control() -> String {
    let setting = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
    setting.expect("Linux tells it").trim().to_owned()
}

/// Returns whether this system allows the program a network namespace. If it does not, the result
/// must say why.
fn is_allowed() -> bool {
    let tried = Command::new(env!("CARGO_BIN_EXE_loadgen"))
        .arg("try-network-namespace")
        .output();
    tried.expect("it starts").status.success()
}

#[test]
fn a_run_of_started_servers_has_a_network_of_its_own_where_the_system_allows_it() {
    let (output, folder) = run(&[]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let environment = environment(&folder);
    let control = environment["congestion_control"]
        .as_str()
        .expect("Linux tells it");
    let head = match is_allowed() {
        true => {
            assert_eq!(environment["network_namespace"], true);
            assert!(["cubic", "reno"].contains(&control), "{control}");
            format!("Congestion control {control}, in a network namespace of the run's own")
        }
        false => {
            assert_eq!(environment["network_namespace"], false);
            assert_eq!(control, host_control());
            let reason = environment["network_namespace_reason"].as_str();
            let reason = reason.expect("there is one");
            format!("Congestion control {control}, the system's ({reason})")
        }
    };
    assert!(shown.starts_with(&head), "{shown}");
    for file in ["README.md", "report.html"] {
        let page = saved(&folder, file).replace("&#x27;", "'");
        assert!(page.contains(&head), "{file}");
    }
}

#[test]
fn without_a_namespace_the_system_keeps_its_congestion_control() {
    let (output, folder) = run(&["--network-namespace", "no"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let environment = environment(&folder);
    assert_eq!(environment["network_namespace"], false);
    assert_eq!(environment["congestion_control"], host_control().as_str());
    let shown = text(&output.stdout);
    assert!(
        shown.contains("the system's (--network-namespace no)"),
        "{shown}"
    );
}

#[test]
fn servers_and_generator_stay_on_their_cpus() {
    let (output, folder) = run(&["--server-cpus", "0", "--client-cpus", "0-0"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let environment = environment(&folder);
    assert_eq!(environment["server_cpus"], "0");
    assert_eq!(environment["client_cpus"], "0");
    let shown = text(&output.stdout);
    assert!(
        shown.contains("; servers on CPUs 0; generator on CPUs 0."),
        "{shown}"
    );
}

/// Returns the tiny scenario with these CPUs for servers and generator.
fn on_cpus(servers: &str, generator: &str) -> String {
    let keys = format!("repeats = 1\nserver_cpus = \"{servers}\"\nclient_cpus = \"{generator}\"");
    TINY.replace("repeats = 1", &keys)
}

#[test]
fn a_scenario_says_the_cpus_and_a_flag_wins() {
    let scenario = on_cpus("0", "0");
    let (output, folder) = run_text(&scenario, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let held = environment(&folder);
    assert_eq!(
        (&held["server_cpus"], &held["client_cpus"]),
        (&"0".into(), &"0".into())
    );
    let shown = text(&output.stdout);
    assert!(
        shown.contains("; servers on CPUs 0; generator on CPUs 0."),
        "{shown}"
    );
    let (output, folder) = run_text(&scenario, &["--server-cpus", "0"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let held = environment(&folder);
    assert_eq!(
        (&held["server_cpus"], &held["client_cpus"]),
        (&"0".into(), &Value::Null)
    );
    let (output, _folder) = run_text(&scenario, &["--dry-run"]);
    let shown = text(&output.stdout);
    assert!(
        shown.contains("\ntiny: servers on CPUs 0; generator on CPUs 0\n"),
        "{shown}"
    );
}

#[test]
fn a_scenario_whose_cpus_are_not_there_says_so_and_goes_on() {
    let (output, folder) = run_text(&on_cpus("0", "1023"), &[]);
    let log = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{log}");
    let says = "tiny: servers and generator are not kept apart as the scenario says: CPU 1023 is not among";
    assert_eq!(log.matches(says).count(), 1, "{log}");
    let held = environment(&folder);
    assert_eq!(
        (&held["server_cpus"], &held["client_cpus"]),
        (&Value::Null, &Value::Null)
    );
}

#[test]
fn cpus_that_are_not_there_are_a_usage_error() {
    for (flag, list, says) in [
        (
            "--server-cpus",
            "0,1023",
            "--server-cpus: CPU 1023 is not among",
        ),
        (
            "--client-cpus",
            "1023",
            "--client-cpus: CPU 1023 is not among",
        ),
        ("--client-cpus", "1-0", "is not a list of CPUs"),
    ] {
        let (output, _folder) = run(&[flag, list]);
        assert_eq!(output.status.code(), Some(2));
        let error = text(&output.stderr);
        assert!(error.contains(says), "{error}");
    }
}

/// The process is started by the hidden command that also starts servers.
#[test]
fn a_started_process_runs_on_the_servers_cpus() {
    let own = std::process::id().to_string();
    let status = "/proc/self/status";
    let output = Command::new(env!("CARGO_BIN_EXE_loadgen"))
        .args(["exec-child", "--cpus=0", &own, "/bin/cat", status])
        .output()
        .expect("it starts");
    let shown = text(&output.stdout);
    let allowed = shown
        .lines()
        .find(|line| line.starts_with("Cpus_allowed_list:"));
    assert_eq!(
        allowed,
        Some("Cpus_allowed_list:\t0"),
        "{}",
        text(&output.stderr)
    );
}
