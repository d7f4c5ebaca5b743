//! Invalid input and failures: one clear message, the right exit code, no files left behind.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use assert_cmd::Command;
use tempfile::TempDir;

use crate::support::program;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// Runs `loadgen` in `folder`; returns exit code and standard error.
fn loadgen(folder: &Path, args: &[&str]) -> (Option<i32>, String) {
    let output = program::loadgen(folder).args(args).output();
    let (code, _, log) = program::ended(&output.expect("it runs"));
    (code, log)
}

/// Asserts exit code 2 and an error of one line that contains all of `words`.
#[track_caller]
fn assert_refused(args: &[&str], words: &[&str]) {
    let folder = folder();
    let (code, log) = loadgen(folder.path(), args);
    assert_eq!(code, Some(2), "{args:?}: {log}");
    for word in words {
        assert!(log.contains(word), "{args:?} says `{word}`: {log}");
    }
    let errors = log
        .lines()
        .filter(|line| line.starts_with("error:"))
        .count();
    assert_eq!(errors, 1, "one line: {log}");
    let left = fs::read_dir(folder.path()).expect("the folder").flatten();
    let left: Vec<_> = left
        .flat_map(|entry| fs::read_dir(entry.path()).into_iter().flatten().flatten())
        .collect();
    assert!(left.is_empty(), "nothing is left behind: {left:?}");
}

#[test]
fn unknown_names_get_their_nearest() {
    assert_refused(&["run", "pods-150"], &["unknown scenario", "pods-150k"]);
    assert_refused(
        &["scenarios", "pods"],
        &["unknown scenario", "did you mean"],
    );
    assert_refused(
        &["run", "--strategies", "steam"],
        &["did you mean `stream`"],
    );
    assert_refused(
        &["run", "--target", "bnech"],
        &["`bnech`", "http[s]://HOST:PORT"],
    );
}

#[test]
fn a_scenario_with_an_unknown_key_is_refused_by_line() {
    let folder = folder();
    let text = "name = \"a\"\nsummary = \"b\"\nrepeets = 3\n";
    fs::write(folder.path().join("a.toml"), text).expect("a file");
    let (code, log) = loadgen(folder.path(), &["run", "./a.toml"]);
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("line 3") && log.contains("repeets"), "{log}");
}

#[test]
fn a_file_of_thresholds_that_fits_no_scenario_is_refused_by_line() {
    let folder = folder();
    let file = folder.path().join("machine.toml");
    let limit = "case = \"etcd/steam\"\nmetric = \"latency_ms.p50\"\nat_most = 1\n";
    fs::write(&file, format!("[[pods-150k]]\nname = \"a\"\n{limit}")).expect("written");
    let file = file.display().to_string();
    assert_refused(
        &["run", "--thresholds", &file],
        &[
            "line 1",
            "no case `etcd/steam`",
            "did you mean `etcd/stream`",
        ],
    );
    let none = ["suite", "quick", "--thresholds", "none.toml"];
    assert_refused(&none, &["thresholds none.toml", "No such file"]);
}

#[test]
fn an_endpoint_that_is_not_there_is_named() {
    // Port 1 is privileged, and nothing listens on it.
    let args = ["run", "--etcd", "http://127.0.0.1:1", "--objects", "10"];
    assert_refused(&args, &["cannot reach", "127.0.0.1:1"]);
    let args = ["run", "--etcd", "http://127.0.0.1:1", "--prefix", "/a"];
    assert_refused(&args, &["127.0.0.1:1"]);
}

#[test]
fn a_missing_certificate_authority_is_named() {
    let args = [
        "run",
        "--etcd",
        "https://127.0.0.1:1",
        "--cacert",
        "missing.pem",
    ];
    assert_refused(&args, &["missing.pem"]);
}

#[test]
fn contradictions_are_refused() {
    assert_refused(&["run", "--prefix", "/a"], &["--prefix", "`bench`"]);
    assert_refused(&["run", "--object-size", "5"], &["--object-size"]);
    let twice = ["run", "--target", "bench", "--target", "bench"];
    assert_refused(&twice, &["named twice"]);
    assert_refused(
        &["run", "--target", "etcd:/missing/etcd"],
        &["/missing/etcd"],
    );
    assert_refused(
        &["run", "--user", ":secret", "--etcd", "http://127.0.0.1:1"],
        &["user"],
    );
    let there = ["run", "--starts", "2", "--etcd", "http://127.0.0.1:1"];
    assert_refused(
        &there,
        &["--starts", "127.0.0.1:1", "is an existing endpoint"],
    );
    let search = ["saturate", "--slo", "p99=10ms", "--starts", "2"];
    assert_refused(&search, &["--starts", "--searches"]);
}

#[test]
fn a_run_that_could_measure_nothing_is_refused() {
    let kube = ["run", "--kube", "http://127.0.0.1:1"];
    // Raw values cannot be loaded into a Kubernetes API, and its keys have no prefix.
    for (more, scenario) in [
        (["stream-shapes", "--seed-data"], "`stream-shapes`"),
        (["--prefix", "/a"], "`prefix`"),
    ] {
        let args = [&kube[..], &more].concat();
        assert_refused(&args, &[scenario, "can measure nothing", "127.0.0.1:1"]);
    }
}

#[test]
fn a_dry_run_knows_the_rows_that_are_not_for_other_peoples_servers() {
    let text = dry_run(&["watchers", "--etcd", "http://127.0.0.1:1"]);
    let fan_out = text.lines().find(|line| line.contains("/fan-out/"));
    let fan_out = fan_out.expect("the scenario has it");
    assert!(fan_out.contains("N/A: it leaves keys"), "{fan_out}");
}

#[test]
fn an_out_folder_that_is_a_file_is_refused() {
    let folder = folder();
    fs::write(folder.path().join("taken"), "").expect("a file");
    let args = ["run", "--out", "taken", "--etcd", "http://127.0.0.1:1"];
    let (code, log) = loadgen(folder.path(), &args);
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("taken"), "{log}");
}

/// Returns the output of `loadgen run --dry-run` with these arguments. The run must have no
/// effects.
fn dry_run(more: &[&str]) -> String {
    let folder = folder();
    let output = program::loadgen(folder.path())
        .args(["run", "--dry-run", "--objects", "1000"])
        .args(more)
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 0);
    text
}

#[test]
fn a_dry_run_says_what_it_would_do_and_needs() {
    let text = dry_run(&[]);
    assert!(text.contains("bench/etcd/stream: 1000 objects"), "{text}");
    assert!(text.contains("MiB of memory"), "{text}");
}

#[test]
fn a_dry_run_promises_only_what_the_run_does() {
    let etcd = ["--etcd", "http://127.0.0.1:1"];
    let text = dry_run(&etcd);
    assert!(text.contains("removes them after"), "{text}");
    assert!(
        text.contains("refused where it already holds a key"),
        "{text}"
    );
    let text = dry_run(&[&etcd[..], &["--seed-data", "--keep-data"]].concat());
    assert!(text.contains("leaves them there"), "{text}");
    assert!(
        !text.contains("removes") && !text.contains("refused"),
        "{text}"
    );
}

#[test]
fn a_row_that_does_not_fit_is_not_applicable_with_what_would() {
    let folder = folder();
    let args = ["run", "--objects", "4000000000", "--strategies", "stream"];
    let (code, log) = loadgen(folder.path(), &args);
    assert_eq!(code, Some(0), "{log}");
    assert!(
        log.contains("N/A: needs") && log.contains("--objects"),
        "{log}"
    );
}

#[test]
fn a_server_that_dies_is_named_with_its_last_words() {
    let folder = folder();
    let path = folder.path().join("etcd");
    let script = "#!/bin/sh\n[ \"$1\" = --version ] && echo 'etcd Version: 9.9.9' && exit\n[ \"$1\" = --help ] && exit\necho 'address already in use' >&2; exit 7\n";
    fs::write(&path, script).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let target = format!("etcd:{}", path.display());
    let args = [
        "run",
        "--objects",
        "10",
        "--strategies",
        "unary",
        "--target",
        &target,
        "--starts",
        "3",
    ];
    let (code, log) = loadgen(folder.path(), &args);
    assert_eq!(code, Some(1), "{log}");
    let begun = |number: u32| log.contains(&format!("start {number} of 3"));
    assert!(begun(1) && !begun(2), "it is not started again: {log}");
    for word in [
        "etcd-9.9.9",
        "died",
        "exit status: 7",
        "address already in use",
    ] {
        assert!(log.contains(word), "it says `{word}`: {log}");
    }
}

#[test]
fn a_disk_that_is_full_costs_the_folder_and_not_the_table() {
    let folder = folder();
    // Files are limited to a block or two, so that the write fails as on a full disk.
    let program = Command::cargo_bin("loadgen").expect("it is built for its tests");
    let program = program.get_program().to_string_lossy().into_owned();
    let limited = format!(
        "trap '' XFSZ; ulimit -f 2; exec '{program}' run --objects 100 --repeats 3 --strategies stream"
    );
    let output = Command::new("sh")
        .args(["-c", &limited])
        .current_dir(folder.path())
        .output()
        .expect("it runs");
    let log = String::from_utf8_lossy(&output.stderr);
    let table = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(2), "{log}");
    assert!(table.contains("stream"), "{table}: {log}");
    let errors: Vec<&str> = log
        .lines()
        .filter(|line| line.starts_with("error:"))
        .collect();
    assert_eq!(errors.len(), 1, "{log}");
    assert!(errors[0].contains("File too large"), "{log}");
}
