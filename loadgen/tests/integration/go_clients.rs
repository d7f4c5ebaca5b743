//! Cases of Go clients, which are separate programs: etcd's clientv3 and Kubernetes' client-go, on
//! bench-server, on a real etcd, and with programs that respond wrongly. `scripts/oracle clientv3
//! client-go etcd` provides the programs. If one is missing, its tests are skipped; in CI they
//! fail.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use test_support::program_or_skip;

use crate::support::fake_etcd::{FakeEtcd, Fault};
use crate::support::program::loadgen;

const ETCD_ROWS: &str = r#"[cases]
etcd = ["clientv3:unary", "clientv3:stream", "clientv3:paged:25", { strategy = "clientv3:stream", clients = 2 }]
"#;
const KUBE_ROWS: &str = r#"[cases]
kube = [
    "client-go:list",
    { strategy = "client-go:list", media = "json" },
    { strategy = "client-go:list", gzip = true },
    "client-go:informer",
    { strategy = "client-go:informer", media = "json" },
]
"#;
const HEAD: &str = r#"
name = "clients"
summary = "rows by Go clients"
repeats = 2
warmup = 1
first_chunk_streams = 3
"#;
const DATA: &str = r#"
[[data_set]]
name = "pods"
kind = "pods"
objects = 60
namespaces = 3
nodes = 4
seed = 1
"#;

fn clientv3() -> Option<PathBuf> {
    program_or_skip("CLIENTV3_BIN", "clientv3")
}

fn log_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the cases of a run, all of which were measured and verified.
fn measured(rows: &str, target: &str, variable: &str, program: &Path) -> Vec<Value> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let scenario = format!("{HEAD}{rows}{DATA}");
    fs::write(folder.path().join("clients.toml"), scenario).expect("a writable folder");
    let output = loadgen(folder.path())
        .args([
            "run",
            "./clients.toml",
            "--target",
            target,
            "--format",
            "json",
        ])
        .env(variable, program)
        .output()
        .expect("it runs");
    let log = log_of(&output);
    assert_eq!(output.status.code(), Some(0), "{log}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    let cases = report["cases"].as_array().expect("cases").clone();
    for case in &cases {
        let row = &case["row"];
        assert_eq!(case["outcome"]["state"], "measured", "{row}: {log}");
        assert_eq!(case["valid"], true, "{row}: {log}");
        let written = &report["data_sets"][0]["fingerprint"];
        assert_eq!(&case["verified"]["fingerprint"], written, "{row}");
        assert!(case["bytes"].as_u64() > Some(60 * 9_000), "{row}: {case}");
        let client = &case["client"];
        let name = client["program"].as_str().expect("a program");
        assert!(
            case["strategy"]
                .as_str()
                .expect("a name")
                .starts_with(name.split(' ').next().expect("a word"))
        );
        assert!(client["cpu_s"].as_f64() > Some(0.0), "{row}: {client}");
        assert!(
            client["rss_peak"].as_u64() > Some(5 << 20),
            "{row}: {client}"
        );
        assert_eq!(case["null_sink_ms"], Value::Null, "{row}");
    }
    cases
}

fn assert_etcd_cases(cases: &[Value]) {
    assert_eq!(cases.len(), 4);
    for (case, requests) in cases.iter().zip([2, 2, 2, 4]) {
        assert_eq!(case["latency_ms"]["n"], requests, "{case}");
    }
    assert_eq!(
        (&cases[0]["chunks"], &cases[2]["chunks"]),
        (&1.into(), &3.into())
    );
    assert_eq!(cases[1]["encoding"], "stream");
}

#[test]
fn clientv3_lists_from_our_server() {
    let Some(program) = clientv3() else { return };
    assert_etcd_cases(&measured(ETCD_ROWS, "bench", "CLIENTV3_BIN", &program));
}

#[test]
fn clientv3_lists_from_etcd() {
    let peers = clientv3().zip(program_or_skip("ETCD_BIN", "etcd"));
    let Some((program, etcd)) = peers else { return };
    let target = format!("etcd:{}", etcd.display());
    assert_etcd_cases(&measured(ETCD_ROWS, &target, "CLIENTV3_BIN", &program));
}

#[test]
fn client_go_lists_and_syncs_from_our_server() {
    let Some(program) = program_or_skip("CLIENT_GO_BIN", "client-go") else {
        return;
    };
    let cases = measured(KUBE_ROWS, "bench", "CLIENT_GO_BIN", &program);
    let chunks: Vec<_> = cases.iter().map(|case| case["chunks"].as_u64()).collect();
    // An informer receives its state as a watch: each object is an event.
    assert_eq!(chunks, [1, 1, 1, 60, 60].map(Some));
    let encodings: Vec<_> = cases.iter().map(|case| case["encoding"].as_str()).collect();
    assert_eq!(
        encodings,
        ["protobuf", "json", "protobuf", "protobuf", "json"].map(Some)
    );
}

#[test]
fn what_a_go_client_was_answered_wrongly_is_an_error() {
    let Some(program) = clientv3() else { return };
    let faults = [
        (Fault::DropLast, "99 objects where 100 were written"),
        (Fault::SwapTwo, "is out of order"),
        (Fault::FlipByte, "altered"),
    ];
    for (fault, message) in faults {
        let etcd = FakeEtcd::start(fault);
        for way in ["unary", "stream", "paged:40"] {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let output = loadgen(folder.path())
                .args(["run", "pods-150k", "--objects", "100", "--repeats", "1"])
                .args([
                    "--etcd",
                    &etcd.url(),
                    "--strategies",
                    &format!("clientv3:{way}"),
                ])
                .env("CLIENTV3_BIN", &program)
                .output()
                .expect("it runs");
            let text = String::from_utf8_lossy(&output.stdout).into_owned() + &log_of(&output);
            assert_eq!(output.status.code(), Some(1), "{fault:?} {way}: {text}");
            assert!(text.contains(message), "{fault:?} {way}: {text}");
        }
    }
}

/// Runs two cases with the programs of `folder`; returns exit code and report.
fn with_programs(folder: &Path) -> (Option<i32>, Value) {
    let out = tempfile::tempdir().expect("a temporary folder");
    let output = loadgen(out.path())
        .args(["run", "pods-150k", "--objects", "20", "--repeats", "1"])
        .args(["--strategies", "stream,clientv3:stream", "--format", "json"])
        .arg("--go-clients")
        .arg(folder)
        .output()
        .expect("it runs");
    let report = serde_json::from_slice(&output.stdout);
    (
        output.status.code(),
        report.unwrap_or_else(|e| panic!("{e}: {}", log_of(&output))),
    )
}

#[test]
fn without_the_program_the_row_is_not_applicable() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (code, report) = with_programs(folder.path());
    assert_eq!(code, Some(0));
    let [stream, client] = [0, 1].map(|i| &report["cases"][i]["outcome"]);
    assert_eq!(stream["state"], "measured");
    assert_eq!(client["state"], "not_applicable");
    let reason = client["reason"].as_str().expect("a reason");
    assert!(
        reason.contains("`scripts/oracle clientv3` builds it"),
        "{reason}"
    );
}

/// Implausible outputs of the program are errors: a list that took longer than the generator
/// waited, or an incomplete output.
#[test]
fn a_program_that_answers_wrongly_fails_its_row_with_one_line() {
    let ready = r#"echo '{"ready":"fake 1"}'; read command"#;
    let list = r#"{"ns":9000000000000,"objects":20,"revision":2,"chunks":1,"more":false}"#;
    let scripts = [
        (
            format!("{ready}; echo '{list}'; sleep 60"),
            "its list took 9000s",
        ),
        (
            format!("{ready}; echo gone >&2; exit 3"),
            "clientv3 died (exit status: 3); its last lines: gone",
        ),
        (
            format!("{ready}; echo hello; sleep 60"),
            "clientv3 prints an unexpected line: hello",
        ),
    ];
    for (script, message) in scripts {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let program = folder.path().join("clientv3");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("a writable folder");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("ours");
        let (code, report) = with_programs(folder.path());
        assert_eq!(code, Some(1), "{message}");
        let outcome = &report["cases"][1]["outcome"];
        assert_eq!(outcome["state"], "failed", "{message}");
        let reason = outcome["reason"].as_str().expect("a reason");
        assert!(
            reason.contains(message) && !reason.contains('\n'),
            "{reason}"
        );
    }
}
