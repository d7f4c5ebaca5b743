//! Runs the real etcdctl against every server: the same commands must print the same text.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

use test_support::program;

use crate::harness::{ONE_ENCODING, Target, cases};

/// The program, as [`tool`] finds it.
const ETCDCTL: (&str, &str) = ("ETCDCTL_BIN", "etcdctl");

cases![on ONE_ENCODING, needs ETCDCTL;
    put_get_del, get_with_options, get_streams, transactions, watches, leases, compactions,
    endpoints, members_and_alarms, locks, refusals_are_errors,
];

fn etcdctl(t: &Target, arguments: &[&str]) -> Command {
    let mut command =
        Command::new(program(ETCDCTL.0, ETCDCTL.1).expect("looked for before the case began"));
    command.args(["--endpoints", &t.server.url]).args(arguments);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Runs a command to its end; returns whether it succeeded, its standard output and its standard
/// error.
async fn run(t: &Target, arguments: &[&str]) -> (bool, String, String) {
    let output = etcdctl(t, arguments)
        .output()
        .await
        .expect("etcdctl starts");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (
        output.status.success(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// Runs a command that must succeed; returns its standard output.
async fn ok(t: &Target, arguments: &[&str]) -> String {
    let (success, stdout, stderr) = run(t, arguments).await;
    assert!(success, "etcdctl {arguments:?}: {stdout}{stderr}");
    stdout
}

async fn put_get_del(t: Target) {
    assert_eq!(ok(&t, &["put", "k", "one"]).await, "OK\n");
    assert_eq!(
        ok(&t, &["put", "--prev-kv", "k", "two"]).await,
        "OK\nk\none\n"
    );
    assert_eq!(ok(&t, &["get", "k"]).await, "k\ntwo\n");
    assert_eq!(ok(&t, &["get", "--rev=2", "k"]).await, "k\none\n");
    assert_eq!(ok(&t, &["get", "missing"]).await, "");
    assert_eq!(ok(&t, &["del", "--prev-kv", "k"]).await, "1\nk\ntwo\n");
    assert_eq!(ok(&t, &["del", "k"]).await, "0\n");
}

async fn fill(t: &Target) {
    for key in ["p/a", "p/b", "p/c", "q"] {
        t.set(key, format!("value of {key}")).await;
    }
}

async fn get_with_options(t: Target) {
    fill(&t).await;
    let rows: &[(&[&str], &str)] = &[
        (
            &["--prefix", "p/"],
            "p/a\nvalue of p/a\np/b\nvalue of p/b\np/c\nvalue of p/c\n",
        ),
        (&["--prefix", "--keys-only", "p/"], "p/a\n\np/b\n\np/c\n\n"),
        (
            &["--prefix", "--limit=1", "--print-value-only", "p/"],
            "value of p/a\n",
        ),
        (&["p/b", "q"], "p/b\nvalue of p/b\np/c\nvalue of p/c\n"),
        (&["--from-key", "--keys-only", "p/c"], "p/c\n\nq\n\n"),
        (
            &[
                "--prefix",
                "--keys-only",
                "--sort-by=CREATE",
                "--order=DESCEND",
                "p/",
            ],
            "p/c\n\np/b\n\np/a\n\n",
        ),
        (
            &["--prefix", "--keys-only", "--consistency=s", ""],
            "p/a\n\np/b\n\np/c\n\nq\n\n",
        ),
    ];
    for (arguments, expected) in rows {
        assert_eq!(
            ok(&t, &[&["get"], *arguments].concat()).await,
            *expected,
            "get {arguments:?}"
        );
    }
    let counted = ok(
        &t,
        &[
            "get",
            "--prefix",
            "--count-only",
            "--write-out=fields",
            "p/",
        ],
    )
    .await;
    assert!(
        counted.lines().any(|line| line == r#""Count" : 3"#),
        "{counted}"
    );
}

async fn get_streams(t: Target) {
    fill(&t).await;
    for arguments in [
        &["--prefix", "p/"][..],
        &["q"],
        &["--from-key", "p/b"],
        &["--prefix", "--keys-only", ""],
    ] {
        let unary = ok(&t, &[&["get"], arguments].concat()).await;
        let streamed = ok(&t, &[&["get", "--stream"], arguments].concat()).await;
        assert!(!unary.is_empty());
        assert_eq!(streamed, unary, "get --stream {arguments:?}");
    }
}

/// Runs `txn` with compares, a success branch and a failure branch.
async fn transaction(t: &Target, compares: &str, success: &str, failure: &str) -> String {
    let mut child = etcdctl(t, &["txn"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("etcdctl starts");
    let mut stdin = child.stdin.take().expect("its input is a pipe");
    let script = format!("{compares}\n\n{success}\n\n{failure}\n\n");
    stdin.write_all(script.as_bytes()).await.expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().await.expect("it ends");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

async fn transactions(t: Target) {
    let output = transaction(&t, r#"create("k") = "0""#, "put k one\nget k", "get k").await;
    assert_eq!(output, "SUCCESS\n\nOK\n\nk\none\n");
    let output = transaction(&t, r#"create("k") = "0""#, "put k two", "get k\ndel k").await;
    assert_eq!(output, "FAILURE\n\nk\none\n\n1\n");
    let output = transaction(
        &t,
        "value(\"k\") > \"a\"\nmod(\"k\") = \"0\"",
        "get k",
        "put k three",
    )
    .await;
    assert_eq!(output, "FAILURE\n\nOK\n");
}

async fn watches(t: Target) {
    fill(&t).await;
    t.delete(crate::request::delete("p/b", ""))
        .await
        .expect("delete");
    let mut child = etcdctl(&t, &["watch", "--prefix", "p/", "--rev=3", "--prev-kv"])
        .spawn()
        .expect("etcdctl starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output is a pipe")).lines();
    let expected = [
        "PUT",
        "p/b",
        "value of p/b",
        "PUT",
        "p/c",
        "value of p/c",
        "DELETE",
        "p/b",
        "value of p/b",
        "p/b",
        "",
    ];
    for expected in expected {
        assert_eq!(next_line(&mut lines).await, expected);
    }
    t.set("p/d", "live").await;
    for expected in ["PUT", "p/d", "live"] {
        assert_eq!(next_line(&mut lines).await, expected);
    }
    child.kill().await.expect("it is still there");
}

async fn next_line<R: tokio::io::AsyncBufRead + Unpin>(lines: &mut tokio::io::Lines<R>) -> String {
    let line = tokio::time::timeout(Duration::from_secs(20), lines.next_line())
        .await
        .expect("a line in time");
    line.expect("readable").expect("it is still writing")
}

async fn leases(t: Target) {
    let granted = ok(&t, &["lease", "grant", "600"]).await;
    let id = granted
        .split_whitespace()
        .nth(1)
        .expect("its second word is the id")
        .to_owned();
    assert_eq!(granted, format!("lease {id} granted with TTL(600s)\n"));
    ok(&t, &["put", "--lease", &id, "k", "v"]).await;
    assert_eq!(
        ok(&t, &["lease", "list"]).await,
        format!("found 1 leases\n{id}\n")
    );
    let shown = ok(&t, &["lease", "timetolive", "--keys", &id]).await;
    assert!(
        shown.starts_with(&format!("lease {id} granted with TTL(600s), remaining(")),
        "{shown}"
    );
    assert!(shown.ends_with(", attached keys([k])\n"), "{shown}");
    assert_eq!(
        ok(&t, &["lease", "keep-alive", "--once", &id]).await,
        format!("lease {id} keepalived with TTL(600)\n")
    );
    assert_eq!(
        ok(&t, &["lease", "revoke", &id]).await,
        format!("lease {id} revoked\n")
    );
    assert_eq!(ok(&t, &["get", "k"]).await, "");
    assert_eq!(
        ok(&t, &["lease", "timetolive", &id]).await,
        format!("lease {id} already expired\n")
    );
}

async fn compactions(t: Target) {
    fill(&t).await;
    assert_eq!(ok(&t, &["compaction", "3"]).await, "compacted revision 3\n");
    assert_eq!(
        ok(&t, &["compaction", "--physical", "5"]).await,
        "compacted revision 5\n"
    );
    assert!(
        ok(&t, &["defrag"])
            .await
            .starts_with("Finished defragmenting etcd member")
    );
}

async fn endpoints(t: Target) {
    crate::maintenance::storage_version_is_known(&t).await;
    let (success, stdout, stderr) = run(&t, &["endpoint", "health"]).await;
    assert!(
        success
            && format!("{stdout}{stderr}").contains("is healthy: successfully committed proposal"),
        "{stdout}{stderr}"
    );
    let status: serde_json::Value =
        serde_json::from_str(&ok(&t, &["endpoint", "status", "--write-out=json"]).await)
            .expect("JSON");
    let status = &status[0]["Status"];
    assert!(
        status["version"]
            .as_str()
            .is_some_and(|v| v.starts_with("3.7.")),
        "{status}"
    );
    assert_eq!(status["leader"], status["header"]["member_id"]);
    let table = ok(&t, &["endpoint", "status", "--write-out=table"]).await;
    assert!(
        table.contains("3.7.0") && table.contains("2.1 GB"),
        "storage version and quota: {table}"
    );
    let hashes: serde_json::Value =
        serde_json::from_str(&ok(&t, &["endpoint", "hashkv", "--write-out=json"]).await)
            .expect("JSON");
    assert_eq!(hashes[0]["HashKV"]["hash_revision"], 1);
}

async fn members_and_alarms(t: Target) {
    let members = ok(&t, &["member", "list"]).await;
    let fields: Vec<_> = members.trim().split(", ").collect();
    assert_eq!(
        (fields.len(), fields[1], fields[2], fields[5]),
        (6, "started", "default", "false"),
        "{members}"
    );
    assert_eq!(ok(&t, &["alarm", "list"]).await, "");
    assert_eq!(ok(&t, &["alarm", "disarm"]).await, "");
    assert_eq!(
        ok(&t, &["auth", "status"]).await,
        "Authentication Status: false\nAuthRevision: 1\n"
    );
}

/// A recipe of the client library: lease, keep-alive, transaction, sorted range, watch.
async fn locks(t: Target) {
    assert_eq!(ok(&t, &["lock", "name", "echo", "held"]).await, "held\n");
    assert_eq!(ok(&t, &["get", "--prefix", "name"]).await, "", "released");
}

async fn refusals_are_errors(t: Target) {
    fill(&t).await;
    t.compact(4, false).await.expect("compact");
    let rows: &[(&[&str], &str)] = &[
        (
            &["get", "--rev=2", "p/a"],
            "etcdserver: mvcc: required revision has been compacted",
        ),
        (
            &["get", "--rev=99", "p/a"],
            "etcdserver: mvcc: required revision is a future revision",
        ),
        (
            &["compaction", "4"],
            "etcdserver: mvcc: required revision has been compacted",
        ),
        (
            &["lease", "revoke", "7b"],
            "etcdserver: requested lease not found",
        ),
        (
            &["put", "--lease=7b", "k", "v"],
            "etcdserver: requested lease not found",
        ),
        (&["put", "", "v"], "etcdserver: key is not provided"),
    ];
    for (arguments, text) in rows {
        let (success, _, stderr) = run(&t, arguments).await;
        assert!(
            !success && stderr.contains(text),
            "etcdctl {arguments:?}: {stderr}"
        );
    }
}
