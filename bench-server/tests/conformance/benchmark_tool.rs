//! Runs etcd's own benchmark tool against every server: each of its loads must succeed and report
//! the requested number of results.

use std::process::Stdio;

use tokio::process::Command;

use test_support::program;

use crate::harness::{ONE_ENCODING, Target, cases};

/// The program, as [`tool`] finds it.
const BENCHMARK: (&str, &str) = ("ETCD_BENCHMARK_BIN", "benchmark");

cases![on ONE_ENCODING, needs BENCHMARK; requests, transactions, watches, leases];

/// Runs the tool with `arguments`, separated by spaces; returns the number of results in its
/// histograms.
async fn run(t: &Target, arguments: &str) -> u64 {
    let program = program(BENCHMARK.0, BENCHMARK.1).expect("looked for before the case began");
    let authority = t.server.url.trim_start_matches("http://");
    let output = Command::new(program)
        .args(["--endpoints", authority, "--conns=5", "--clients=20"])
        .args(arguments.split_whitespace())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .expect("the tool starts");
    let printed = String::from_utf8_lossy(&output.stdout);
    let log = String::from_utf8_lossy(&output.stderr);
    let failed = !output.status.success() || printed.contains("Error distribution");
    assert!(!failed, "benchmark {arguments}: {printed}{log}");
    results(&printed)
}

/// Returns the sum of the numbers in brackets in the lines of the tool's histograms, `  0.0014
/// [32]\t|∎∎`.
fn results(printed: &str) -> u64 {
    let of_line = |line: &str| {
        let (_, rest) = line.strip_prefix("  ")?.split_once(" [")?;
        rest.split_once(']')?.0.parse::<u64>().ok()
    };
    printed.lines().filter_map(of_line).sum()
}

async fn requests(t: Target) {
    let puts = "put --total=2000 --val-size=256 --key-space-size=500 --sequential-keys";
    assert_eq!(run(&t, puts).await, 2_000);
    assert_eq!(t.revision().await, 2_001, "each put is a revision");
    assert_eq!(run(&t, "put --total=500 --key-space-size=500").await, 500);
    assert_eq!(run(&t, "range k --total=500").await, 500);
    let serializable = "range a z --total=100 --consistency=s --limit=10";
    assert_eq!(run(&t, serializable).await, 100);
}

async fn transactions(t: Target) {
    let puts = "txn-put --total=500 --txn-ops=5 --key-space-size=100";
    assert_eq!(run(&t, puts).await, 500);
    assert_eq!(run(&t, "txn-mixed foo --total=500").await, 500);
    assert_eq!(
        run(&t, "stm --total=200 --keys=4 --keys-per-txn=2").await,
        200
    );
    let locked = "stm --total=200 --keys=4 --stm-locker=lock-client";
    assert_eq!(run(&t, locked).await, 200);
}

async fn watches(t: Target) {
    let watch = "watch --streams=5 --watch-per-stream=20 --put-total=100 --watched-key-total=50";
    assert_eq!(run(&t, watch).await, 100 + 100 * 100, "created, and told");
    let latency =
        "watch-latency --put-total=100 --put-rate=500 --streams=5 --watchers-per-stream=10";
    assert_eq!(run(&t, latency).await, 100 + 100 * 50, "put, and told");
    assert!(run(&t, "watch-get --events=8 --watchers=50").await > 0);
}

async fn leases(t: Target) {
    assert_eq!(run(&t, "lease-keepalive --total=500").await, 500);
}
