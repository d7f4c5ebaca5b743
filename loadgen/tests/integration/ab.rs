//! `loadgen ab`: pairs of new starts of two targets, and its verdicts. The tests do not depend on
//! which server is faster.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::program::{first_report, text};

fn ab(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_loadgen"))
        .arg("ab")
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("it starts")
}

/// The same server on both sides.
const SAME: [&str; 4] = ["--base", "bench", "--new", "bench"];
const SMALL: [&str; 10] = [
    "--objects",
    "100",
    "--strategies",
    "stream",
    "--repeats",
    "1",
    "--out",
    "out",
    "--metric",
    "bytes",
];

#[test]
fn a_server_sends_as_many_bytes_as_itself_and_the_result_says_what_was_compared() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let other = ["--new-env", "ANY=1", "--show", "json"];
    let ended = ab(folder.path(), &[&SAME[..], &other, &SMALL].concat());
    let log = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(0), "{log}");
    let verdict: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    assert_eq!(verdict["end"], "within", "{verdict}");
    assert_eq!(verdict["lines"][0]["verdict"], "no_difference");
    let report = first_report(&folder.path().join("out"));
    assert_eq!(
        report["ab"],
        serde_json::json!({ "base": "bench-base", "new": "bench-new" })
    );
    let cases = report["cases"].as_array().expect("cases");
    let targets: Vec<_> = cases.iter().map(|case| &case["target"]).collect();
    assert_eq!(targets, ["bench-base", "bench-new"]);
    for case in cases {
        assert_eq!(case["starts"][0]["pair"], 0, "{case}");
    }
    // The saved folder is enough to produce the verdict again.
    let result = fs::read_dir(folder.path().join("out")).expect("a result");
    let result = result.flatten().next().expect("one").path();
    let again = Command::new(env!("CARGO_BIN_EXE_loadgen"))
        .arg("compare")
        .arg(result)
        .args([
            "--base",
            "bench-base",
            "--new",
            "bench-new",
            "--metric",
            "bytes",
        ])
        .output()
        .expect("it starts");
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
}

/// Makes the new side send chunks of a few keys instead of thousands, so that the same list always
/// takes the same number of additional bytes.
const SMALL_CHUNKS: [&str; 2] = ["--new-flag", "--max-request-bytes=16384"];

#[test]
fn a_flag_that_loadgen_gives_a_server_too_is_given_by_the_user() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let flag = ["--new-flag", "--range-encoding=buffered"];
    let ended = ab(folder.path(), &[&SAME[..], &flag, &SMALL].concat());
    let log = text(&ended.stderr);
    let report = first_report(&folder.path().join("out"));
    let servers = report["environment"]["servers"].as_array().expect(&log);
    let new = servers
        .iter()
        .find(|server| server["target"] == "bench-new");
    let flags = &new.expect(&log)["flags"];
    let flags = flags.as_array().expect(&log).iter();
    let encodings = flags.filter_map(|flag| flag.as_str());
    let encodings: Vec<_> = encodings.filter(|flag| flag.contains("encoding")).collect();
    assert_eq!(encodings, ["--range-encoding=buffered"], "{log}");
}

#[test]
fn what_is_worse_is_measured_again_and_red_when_it_is_worse_twice() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let gate = ["--margin", "0.01%", "--confirm"];
    let args = [&SAME[..], &SMALL_CHUNKS, &gate, &SMALL].concat();
    let ended = ab(folder.path(), &args);
    let log = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{log}");
    assert!(log.contains("worse twice: bytes of"), "{log}");
    let results = fs::read_dir(folder.path().join("out")).expect("results");
    assert_eq!(results.count(), 2, "{log}");
}

#[test]
fn a_second_measurement_ends_as_soon_as_a_metric_is_worse_again() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // No latency can be decided within this margin, so the first measurement takes as long as
    // `--within` allows.
    let gate = ["--metric", "p50", "--margin", "0.0001%", "--within", "6s"];
    let args = [&SAME[..], &SMALL_CHUNKS, &SMALL, &gate, &["--confirm"]].concat();
    let ended = ab(folder.path(), &args);
    let log = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{log}");
    let (_, second) = log.split_once("measured again").expect("two measurements");
    assert!(second.contains(" 1 pairs: bytes 1.0"), "{log}");
    assert!(!second.contains(" 2 pairs: "), "{log}");
}

#[test]
fn a_server_that_does_not_start_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let flag = ["--new-flag", "--no-such-flag"];
    let ended = ab(folder.path(), &[&SAME[..], &flag, &SMALL].concat());
    let log = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{log}");
    assert!(
        log.contains("bench-new") && log.contains("no-such-flag"),
        "{log}"
    );
}

/// `paged:10` is a strategy of both tiers, but neither side has the Kubernetes tier.
#[test]
fn a_tier_that_neither_side_has_is_no_case() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = folder.path().join("etcd");
    let dies = "#!/bin/sh\n[ \"$1\" = --version ] && echo 'etcd Version: 3.7.3' || exit 1\n";
    fs::write(&program, dies).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a program");
    let target = format!("etcd:{}", program.display());
    let sides = ["--base", &target, "--new", &target];
    let small = SMALL.map(|word| if word == "stream" { "paged:10" } else { word });
    let ended = ab(folder.path(), &[&sides[..], &small].concat());
    let log = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "neither starts: {log}");
    let report = first_report(&folder.path().join("out"));
    let cases = report["cases"].as_array().expect("cases");
    assert!(!cases.is_empty(), "{log}");
    assert!(cases.iter().all(|case| case["tier"] == "etcd"), "{cases:?}");
}

#[test]
fn a_case_that_is_open_gets_the_time_that_others_leave_over() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let sides = ["--base", "bench", "--new", "bench", "--within", "10s"];
    // One side does not support the second case, and no p50 can be decided within this margin.
    let small = SMALL.map(|word| match word {
        "stream" => "unary,stream",
        "bytes" => "p50",
        _ => word,
    });
    let open = ["--margin", "0.01%", "--new-flag", "--emulate-version=3.6"];
    let ended = ab(folder.path(), &[&sides[..], &open, &small].concat());
    let log = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(3), "{log}");
    let mut lines = log.lines();
    assert!(lines.any(|line| line.contains("pairs:")), "{log}");
    assert!(lines.any(|line| line.contains("N/A")), "{log}");
    assert!(
        lines.any(|line| line.contains("pairs:")),
        "no more of it: {log}"
    );
}

/// A case of the Kubernetes tier, one side of which lists from storage.
#[test]
fn flags_of_the_kubernetes_tier_are_its_own() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let sides = [
        "--base",
        "bench",
        "--new",
        "bench",
        "--new-kube-flag=--watch-cache=false",
        "--within",
        "20s",
    ];
    let small = SMALL.map(|word| if word == "stream" { "consistent" } else { word });
    let ended = ab(folder.path(), &[&sides[..], &small].concat());
    let log = text(&ended.stderr);
    let report = first_report(&folder.path().join("out"));
    let servers = report["environment"]["servers"].as_array().expect("them");
    let flags = |target: &str| {
        let of_target = servers.iter().filter(|server| server["target"] == target);
        let flags: String = of_target
            .map(|server| server["flags"].to_string())
            .collect();
        assert!(flags.contains("--listen-kube-urls"), "{target}: {log}");
        flags
    };
    assert!(flags("bench-new").contains("--watch-cache=false"), "{log}");
    assert!(!flags("bench-base").contains("--watch-cache"), "{log}");
    assert_eq!(ended.status.code(), Some(0), "as many bytes: {log}");
}

#[test]
fn what_cannot_be_compared_in_pairs_is_refused_in_one_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let wrong: [(&[&str], &str); 9] = [
        (
            &["--base", "bench", "--new", "http://127.0.0.1:1"],
            "starts its targets itself",
        ),
        (
            &["--base", "bench", "--new", "bench", "--target", "bench"],
            "remove --target, --etcd and --kube",
        ),
        (
            &["--base", "bench", "--new", "bench", "--new-env", "GOGC"],
            "is not NAME=VALUE",
        ),
        (
            &[
                "--base",
                "bench",
                "--new",
                "etcd:/bin/true",
                "--new-kube-flag=--watch-cache=false",
            ],
            "start it as bench+etcd:PATH",
        ),
        (
            &[
                "--base",
                "bench",
                "--new",
                "bench",
                "--new-kube-flag=--watch-cache=false",
                "--strategies",
                "stream",
            ],
            "no case uses the Kubernetes tier",
        ),
        (
            &[
                "kube-150k",
                "--base",
                "bench",
                "--new",
                "bench",
                "--new-kube-flag=--feature-gates=EtcdRangeStream=false",
            ],
            "sets --feature-gates itself",
        ),
        (
            &["--base", "bench", "--new", "bench:/bin/true"],
            "is not a loadgen or bench-server",
        ),
        (
            &["--base", "bench", "--new", "etcd:/no/such"],
            "cannot run /no/such",
        ),
        (
            &["--base", "bench", "--new", "bench", "--starts", "3"],
            "remove --starts",
        ),
    ];
    for (args, says) in wrong {
        let ended = ab(folder.path(), args);
        let log = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{args:?}: {log}");
        assert!(log.contains(says), "{args:?}: {log}");
        assert_eq!(log.trim_end().lines().count(), 1, "{log}");
    }
}
