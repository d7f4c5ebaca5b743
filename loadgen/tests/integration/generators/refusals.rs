//! Combinations of options and targets that several generators refuse.

use super::*;

#[test]
fn what_cannot_be_shared_is_refused_in_one_line() {
    let folder = folder();
    let at = &*in_seconds(1_000);
    let mixed = ["shared.toml", "--cases", "mixed"];
    let there = ["--etcd", "http://127.0.0.1:1"];
    let refused = |args: &[&[&str]], index: Option<&str>, says: &str| {
        let args = args.concat();
        let mut command = loadgen(folder.path(), &[&["run"], &args[..]].concat());
        if let Some(index) = index {
            command.env("JOB_COMPLETION_INDEX", index);
        }
        let (code, _, log) = ended(&command.output().expect("it starts"));
        assert_eq!(code, Some(2), "{args:?}: {log}");
        assert!(log.contains(says), "{args:?} says `{says}`: {log}");
        let errors = log.lines().filter(|line| line.starts_with("error:"));
        assert_eq!(errors.count(), 1, "{log}");
        assert!(!folder.path().join("scratch").exists(), "{args:?}");
    };
    let shard = |text: &'static str| ["--shard", text];
    let beginning = ["--start-at", at];
    for (text, says) in [
        ("2/2", "generator 2 of 2: their numbers are from 0 to 1"),
        ("0/0", "is of 0 generators"),
        ("1", "`1` is not I/N, as 0/8"),
        ("-1/2", "is not I/N"),
        ("a/b", "`a/b` is not I/N"),
        ("auto/0", "is of 0 generators"),
    ] {
        let text = format!("--shard={text}");
        refused(&[&mixed, &there, &beginning, &[&*text]], None, says);
    }
    let auto = shard("auto/2");
    refused(
        &[&mixed, &there, &beginning, &auto],
        None,
        "JOB_COMPLETION_INDEX is not set",
    );
    refused(
        &[&mixed, &there, &beginning, &auto],
        Some("2"),
        "numbers are from 0 to 1",
    );
    refused(
        &[&mixed, &there, &beginning, &auto],
        Some("x"),
        "`x` is no number",
    );
    for (text, says) in [
        ("2020-01-01T00:00:00Z", "s ago"),
        ("1", "s ago"),
        ("soon", "`soon` is no moment like"),
    ] {
        let past = ["--start-at", text];
        refused(&[&mixed, &there, &shard("0/2"), &past], None, says);
        refused(&[&mixed, &past], None, says);
    }
    let two = shard("0/2");
    refused(&[&mixed, &there, &two], None, "needs --start-at");
    refused(
        &[&["shared.toml"], &there, &shard("0/1")],
        None,
        "--shard is for one case",
    );
    refused(
        &[&mixed, &beginning, &two],
        None,
        "start a server and name it with --etcd",
    );
    let kube = ["--kube", "http://127.0.0.1:1"];
    refused(
        &[&mixed, &kube, &beginning, &two],
        None,
        "can measure nothing",
    );
    refused(
        &[&mixed, &there, &beginning, &two, &["--seed-data"]],
        None,
        "--seed-data",
    );
    refused(
        &[&["shared.toml"], &there, &beginning, &two],
        None,
        "these are 3",
    );
    let prefix = ["--prefix", "/a"];
    refused(
        &[&prefix, &there, &beginning, &two],
        None,
        "--prefix lists what is there",
    );
    refused(
        &[&mixed, &there, &beginning, &shard("0/5")],
        None,
        "`each` has 4 connections for 5 generators",
    );
    let searched = ["saturate", "--slo", "p99=10ms", "--strategies", "get"];
    let (code, _, log) = run_to_end(
        folder.path(),
        &[&searched[..], &there, &beginning, &two].concat(),
    );
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("is made by one generator"), "{log}");
    let sides = ["ab", "--base", "bench", "--new", "bench"];
    let (code, _, log) = run_to_end(folder.path(), &[&sides[..], &beginning].concat());
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("remove --shard and --start-at"), "{log}");
    let lists = ["pods-150k", "--strategies", "stream"];
    refused(
        &[&lists, &there, &beginning, &two],
        None,
        "`etcd/stream` is neither",
    );
}

#[test]
fn the_job_of_kubernetes_runs_a_scenario_that_can_be_shared() {
    let scenario =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/kubernetes/scenario.toml");
    let folder = folder();
    let at = in_seconds(1_000);
    let args = [
        "--etcd",
        "http://127.0.0.1:1",
        "--shard",
        "auto/8",
        "--dry-run",
    ];
    let mut command = loadgen(folder.path(), &["run"]);
    command.arg(scenario).args(args).args(["--start-at", &at]);
    command.env("JOB_COMPLETION_INDEX", "7");
    let (code, out, log) = ended(&command.output().expect("it starts"));
    assert_eq!(code, Some(0), "{log}");
    assert!(out.contains("reads-and-writes"), "{out}");
}

#[test]
fn generators_that_do_not_fit_together_do_not_begin() {
    let folder = folder();
    let server = Served::etcd();
    let at = in_seconds(12);
    let start = |shard: &str, out: &str, more: &[&str]| -> Child {
        let args = of_case("mixed", &server);
        loadgen(folder.path(), &args)
            .args(["--shard", shard, "--start-at", &at, "--out", out])
            .args(more)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts")
    };
    let others = start("2/3", "c", &["--objects", "300"]);
    let twins = [start("1/3", "a", &[]), start("1/3", "b", &[])];
    assert_refused(start("0/3", "d", &[]), NOT_BEGUN);
    assert_refused(others, "generator 0 has another scenario than this one");
    assert_twins_refused(twins);
    assert_eq!(writes(&server), BTreeMap::new(), "nothing is left there");
    // An etcd with an existing key is not changed.
    put(&server, "/somebodys");
    let at = in_seconds(1_000);
    let args = of_case("mixed", &server);
    let args = [&args[..], &["--shard", "0/3", "--start-at", &at]].concat();
    let (code, _, log) = run_to_end(folder.path(), &args);
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("holds 1 keys: several generators"), "{log}");
    let left = BTreeMap::from([("/somebodys".to_owned(), 1)]);
    assert_eq!(writes(&server), left);
}
