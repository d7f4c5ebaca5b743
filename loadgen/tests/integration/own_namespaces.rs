//! `--kube URL --seed-data`: objects are loaded into namespaces of the run, listed among existing
//! objects, and removed even if the run fails.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use test_support::scripted_api::{Answer, Scripted};

use crate::support::program::ended_with_json;
use crate::support::served::Served;

/// Pods in three namespaces, which are listed by every strategy, and ConfigMaps in one.
const SCENARIO: &str = r#"
name = "own"
summary = "every way"
repeats = 2
first_chunk_streams = 3

[cases]
kube = [
    "no-lists",
    "cached",
    "consistent",
    "exact",
    "paged:7",
    "watch-list",
    "selector:team=billing",
    "selector:spec.nodeName={node}",
    "sharded:2",
    { strategy = "sharded:2", shard_key = "namespace", shard_plan = "weighted" },
    { strategy = "consistent", media = "json" },
    { strategy = "watch-list", media = "json", http = "h2", gzip = true },
]

[[data_set]]
name = "pods"
kind = "pods"
objects = 60
namespaces = 3
nodes = 4
seed = 1

[[data_set]]
name = "config-maps"
kind = "config-maps"
objects = 20
object_size = 2_000
namespaces = 1
seed = 1
"#;

fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("own.toml"), SCENARIO).expect("a writable folder");
    folder
}

/// Returns the command `loadgen run ./own.toml --kube URL --seed-data` in this folder.
fn loadgen(folder: &Path, url: &str) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("loadgen"));
    command.current_dir(folder);
    command.args(["run", "./own.toml", "--kube", url, "--seed-data"]);
    command.args(["--pause", "0s"]);
    command
}

/// Runs the command; returns exit code, `report.json` if there is one, and standard error.
fn run(command: &mut Command) -> (Option<i32>, Value, String) {
    let output = command
        .args(["--format", "json"])
        .output()
        .expect("it runs");
    ended_with_json(&output)
}

#[test]
fn what_was_loaded_is_listed_and_what_is_others_stays() {
    let server = Served::kube();
    // Namespaces before and after those of the run in the order of keys.
    for namespace in ["a-team", "z-team"] {
        for resource in ["pods", "configmaps"] {
            let object = json!({"metadata": {"name": "theirs"}, "spec": {"containers": []}});
            let object = match resource {
                "pods" => object,
                _ => json!({"metadata": {"name": "theirs"}}),
            };
            server.post(
                &format!("/api/v1/namespaces/{namespace}/{resource}"),
                &object,
            );
        }
    }
    let folder = folder();
    let (code, report, log) = run(&mut loadgen(folder.path(), &server.url));
    assert_eq!(code, Some(0), "{log}");
    let cases = report["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 24, "{log}");
    for case in cases {
        let (row, set) = (&case["row"], &case["data_set"]);
        if row.as_str().is_some_and(|row| row.contains("nodeName")) {
            assert_eq!(case["outcome"]["state"], "not_applicable", "{set} {row}");
            continue;
        }
        assert_eq!(case["outcome"]["state"], "measured", "{set} {row}: {log}");
        assert!(
            case["server"]["cpu_s"].is_number(),
            "{set} {row} has figures of its server"
        );
        assert_eq!(case["server"]["is_own_word"], true);
        if row == "no-lists" || row == "selector:team=billing" {
            continue;
        }
        let number = if set == "pods" { 60 } else { 20 };
        assert_eq!(case["verified"]["objects"], number, "{set} {row}");
    }
    assert_eq!(
        server.names("namespaces"),
        Vec::<String>::new(),
        "removed: {log}"
    );
    for resource in ["pods", "configmaps"] {
        assert_eq!(server.names(resource), ["theirs", "theirs"], "{resource}");
    }
}

#[test]
fn what_shall_stay_stays_and_is_said() {
    let server = Served::kube();
    let folder = folder();
    let mut command = loadgen(folder.path(), &server.url);
    let (code, _, log) = run(command.args(["--strategies", "consistent", "--keep-data"]));
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(server.names("pods").len(), 60);
    assert_eq!(server.names("namespaces").len(), 4);
    assert!(
        log.contains("kubectl delete namespace -l loadgen.test/run="),
        "{log}"
    );
}

#[test]
fn an_interrupted_load_removes_what_it_has_made() {
    let server = Served::kube();
    let folder = folder();
    let mut child = loadgen(folder.path(), &server.url)
        .args(["--objects", "2000000"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    server.until("pods", |names| !names.is_empty());
    let killed = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(killed.expect("there is a kill").success());
    let stderr = BufReader::new(child.stderr.take().expect("it is piped"));
    let log: Vec<_> = stderr.lines().map_while(Result::ok).collect();
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{log:?}");
    assert_eq!(server.names("namespaces"), Vec::<String>::new(), "{log:?}");
    assert_eq!(server.names("pods"), Vec::<String>::new(), "{log:?}");
}

/// Returns a Status like that of an apiserver.
fn status(code: u16, message: &str) -> (u16, Value) {
    (
        code,
        json!({"kind": "Status", "code": code, "message": message}),
    )
}

/// The path whose list is empty if an API has no objects.
const EMPTY_LIST: &str = "/api/v1/pods";

/// Runs against an API with scripted responses; returns exit code, standard error and the requests.
fn against(answer: Answer) -> (Option<i32>, String, Vec<String>) {
    let server = Scripted::start(answer);
    let folder = folder();
    let mut command = loadgen(folder.path(), &server.url());
    let (code, _, log) = run(command.args(["--strategies", "consistent"]));
    (code, log, server.asked())
}

#[track_caller]
fn assert_refused(answer: Answer, code: &str, message: &str) {
    let (exit, log, asked) = against(answer);
    assert_eq!(exit, Some(2), "{log}");
    let errors: Vec<_> = log
        .lines()
        .filter(|line| line.starts_with("error:"))
        .collect();
    assert_eq!(errors.len(), 1, "{log}");
    assert!(
        errors[0].contains(code) && errors[0].contains(message),
        "{log}"
    );
    assert!(
        !asked.iter().any(|asked| asked.starts_with("DELETE")),
        "{asked:?}"
    );
}

#[test]
fn who_is_not_let_in_is_told_in_one_line() {
    assert_refused(|_, _, _| status(401, "Unauthorized"), "401", "Unauthorized");
}

#[test]
fn who_may_only_read_is_told_in_one_line() {
    let answer: Answer = |method, path, _| match (method, path) {
        ("GET", EMPTY_LIST) => (200, json!({})),
        ("POST", _) => status(
            403,
            "namespaces is forbidden: User \"eve\" cannot create it",
        ),
        _ => status(404, "not found"),
    };
    assert_refused(answer, "403", "User \"eve\" cannot create it");
}

#[test]
fn a_namespace_that_exists_is_not_touched() {
    let (exit, log, asked) = against(|method, path, _| match (method, path) {
        ("GET", EMPTY_LIST) => (200, json!({})),
        ("POST", "/api/v1/namespaces") => status(409, "already exists"),
        // The namespace has the label of another run.
        _ => (
            200,
            json!({"metadata": {"name": "n", "uid": "u", "labels": {"loadgen.test/run": "other"}}}),
        ),
    });
    assert_eq!(exit, Some(2), "{log}");
    assert!(
        log.contains("exists, and this generator has not made it"),
        "{log}"
    );
    let writes: Vec<_> = asked
        .iter()
        .filter(|asked| !asked.starts_with("GET"))
        .collect();
    assert_eq!(writes, ["POST /api/v1/namespaces"]);
}

#[test]
fn a_namespace_that_cannot_be_removed_is_named() {
    let (exit, log, _) = against(|method, path, _| match (method, path) {
        ("POST", "/api/v1/namespaces") => (201, json!({})),
        ("POST", path) if path.ends_with("/serviceaccounts") => (201, json!({})),
        ("GET", EMPTY_LIST) => (200, json!({})),
        ("POST", _) => status(403, "exceeded quota"),
        ("DELETE", _) => status(403, "nobody may delete"),
        (_, path) if path.starts_with("/api/v1/namespaces/loadgen-") => status(500, "no answer"),
        _ => status(404, "not found"),
    });
    assert_eq!(exit, Some(2), "{log}");
    assert!(log.contains("exceeded quota"), "{log}");
    assert!(log.contains("left behind: loadgen-"), "{log}");
    assert!(
        log.contains("kubectl delete namespace -l loadgen.test/run="),
        "{log}"
    );
}

#[test]
fn what_a_server_puts_off_is_sent_again() {
    let (exit, log, asked) = against(|method, path, nth| match (method, path, nth) {
        ("GET", EMPTY_LIST, _) => (200, json!({})),
        ("POST", _, 0..4) => status(429, "too many requests"),
        ("POST", ..) => status(403, "that was the fourth"),
        _ => status(404, "not found"),
    });
    assert_eq!(exit, Some(2), "{log}");
    assert!(log.contains("that was the fourth"), "{log}");
    let posts = asked
        .iter()
        .filter(|asked| asked.starts_with("POST"))
        .count();
    assert_eq!(posts, 4, "{asked:?}");
}
