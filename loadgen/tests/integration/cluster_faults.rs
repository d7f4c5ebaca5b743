//! A member that fails or loses the leadership while its cluster is measured: the result reports
//! the failed requests, and the measurement of the remaining members continues.

use std::fs;
use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread;
use std::time::Duration;

use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::proto::etcdserverpb::PutRequest;
use serde_json::Value;

use crate::support::etcd_cluster::EtcdCluster;
use crate::support::small_run::{count, load, saved};

/// Loads on schedules for six seconds, each with a connection to each member.
const SCENARIO: &str = r#"
name = "small"
summary = "a schedule over three members"
repeats = 1

[[data_set]]
name = "few"
kind = "raw"
objects = 300
object_size = 1_000
seed = 1

[[case]]
name = "scheduled"
duration = "6s"
load = [
    { name = "gets", operation = "get", arrivals = { constant = 300 }, connections = 3 },
    { name = "serializable", operation = "get-serializable", arrivals = { constant = 300 }, connections = 3 },
    { name = "updates", operation = "update", arrivals = { constant = 90 }, connections = 3 },
    { name = "watchers", operation = "watch", clients = 6, connections = 3 },
]
"#;
/// Number of requests that are due of each load, in the order of the loads.
const DUE: [(&str, u64); 3] = [("gets", 1_800), ("serializable", 1_800), ("updates", 540)];
/// Time for which a member hangs before it is killed.
const HANGS_FOR: Duration = Duration::from_millis(500);

/// A run in progress.
struct Running {
    folder: tempfile::TempDir,
    child: Child,
    said: Vec<String>,
    log: Lines<BufReader<ChildStderr>>,
}

impl Running {
    /// Starts `loadgen run` in a new folder.
    fn start(args: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join("small.toml"), SCENARIO).expect("a folder");
        let mut child = Command::new(assert_cmd::cargo::cargo_bin("loadgen"))
            .arg("run")
            .args(args)
            .args(["--out", "out"])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let log = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        Self {
            folder,
            child,
            said: Vec::new(),
            log,
        }
    }

    /// Reads the run's log until a line contains `words`.
    fn until(&mut self, words: &str) {
        while !self.said.last().is_some_and(|line| line.contains(words)) {
            let line = self.log.next().and_then(Result::ok);
            let line = line.unwrap_or_else(|| panic!("it never says {words}: {:?}", self.said));
            self.said.push(line);
        }
    }

    /// Waits for the end of the run; returns exit code, report and log.
    fn ended(mut self) -> (Option<i32>, Value, String) {
        self.said.extend(self.log.by_ref().map_while(Result::ok));
        let status = self.child.wait().expect("it ends");
        let report = saved(&self.folder.path().join("out"));
        (status.code(), report, self.said.join("\n"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The run may have ended already; either way it must be reaped.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Kills a member while the load runs, and returns the run's exit code, report and log, and the
/// member's URL. The member hangs before, so that some requests are waiting when it dies.
async fn run_with_a_death(leads: bool) -> Option<(Option<i32>, Value, String, String)> {
    let mut cluster = EtcdCluster::start(3)?;
    let endpoints = cluster.urls().join(",");
    let leader = cluster.leader().await;
    // Seeding uses the first endpoint.
    let killed = match leads {
        true => leader,
        false => (0..3).rev().find(|nth| *nth != leader).expect("a follower"),
    };
    let url = cluster.urls()[killed].clone();
    let ended = tokio::task::spawn_blocking(move || {
        let mut run = Running::start(&["./small.toml", "--etcd", &endpoints]);
        run.until("/scheduled …");
        // The first two seconds are the warm-up.
        thread::sleep(Duration::from_secs(4));
        cluster.kill_hanging(killed, HANGS_FOR);
        run.ended()
    });
    let (code, report, log) = ended.await.expect("no panic");
    Some((code, report, log, url))
}

/// Asserts what must hold for any lost member.
#[track_caller]
fn assert_accounted(code: Option<i32>, report: &Value, log: &str, killed: &str) {
    let case = &report["cases"][0];
    assert_eq!(code, Some(1), "{log}");
    assert_eq!(case["outcome"]["state"], "failed", "{case:#}");
    for (name, due) in DUE {
        let load = load(report, name);
        assert_eq!(load["requests"], due, "each that was due has ended: {load}");
        let failed = count(&load["errors"]);
        assert!(
            failed < due * 2 / 3,
            "others go on at the other members: {load}"
        );
        let times = &load["latency_ms"];
        assert_eq!(count(&times["n"]) + failed, due, "{load}");
        // The requests of one connection in half a second were waiting at the member that hung.
        let hung = due / 6 / 3 / 2;
        assert!(failed >= hung / 2, "what hung was lost: {load}");
        // etcd's own errors are reported by their text, others by their code.
        let samples = load["error_samples"].as_array().expect("samples");
        assert!(!samples.is_empty(), "{load}");
        for sample in samples {
            let sample = sample.as_str().unwrap_or_default();
            let known = ["Unavailable", "etcdserver: ", "cannot reach"]
                .iter()
                .any(|words| sample.contains(words));
            assert!(known, "{samples:?}");
        }
    }
    // Watchers resumed at another member: each received every acknowledged update exactly once.
    let watchers = load(report, "watchers");
    assert!(count(&watchers["lost_streams"]) >= 1, "{watchers}");
    assert_eq!(watchers["relists"], 0, "{watchers}");
    let updates = count(&watchers["requests"]);
    assert!(updates > 0, "{watchers}");
    assert_eq!(watchers["events"], 6 * updates, "{watchers}");
    // The metrics of the lost member are unknown; the others were measured to the end.
    let members = case["server"]["members"].as_array().expect("members");
    assert_eq!(members.len(), 2, "{members:?}");
    for member in members {
        let url = member["endpoint"].as_str().expect("a URL");
        assert!(!url.starts_with(killed), "{member}");
        assert!(member["cpu_s"].as_f64() > Some(0.0), "{member}");
    }
    let sum: u64 = members
        .iter()
        .map(|member| count(&member["rss_idle"]))
        .sum();
    assert_eq!(count(&case["server"]["rss_idle"]), sum, "{case:#}");
}

#[tokio::test]
async fn a_follower_that_dies_costs_its_own_requests_and_is_told() {
    let Some((code, report, log, killed)) = run_with_a_death(false).await else {
        return;
    };
    assert_accounted(code, &report, &log, &killed);
}

#[tokio::test]
async fn a_leader_that_dies_costs_an_election_and_is_told() {
    let Some((code, report, log, killed)) = run_with_a_death(true).await else {
        return;
    };
    assert_accounted(code, &report, &log, &killed);
}

/// A balancer that ignores the state of connections would lose a third of all requests to the
/// member.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_a_cluster_loses_one_request_to_a_member_that_is_down() {
    let Some(mut cluster) = EtcdCluster::start(3) else {
        return;
    };
    let config = ClientConfig::new(&cluster.urls().join(",")).expect("URLs");
    let client = Client::connect(config).await.expect("it is there");
    let count = async || {
        let mut failed = 0;
        for i in 0..90 {
            let put = PutRequest {
                key: format!("/key/{i}").into(),
                ..PutRequest::default()
            };
            failed += u32::from(client.kv().put(put).await.is_err());
        }
        failed
    };
    assert_eq!(count().await, 0);
    let leader = cluster.leader().await;
    let killing = tokio::task::spawn_blocking(move || {
        cluster.kill_hanging((leader + 1) % 3, Duration::ZERO);
        cluster
    });
    let _cluster = killing.await.expect("no panic");
    let failed = count().await;
    assert!(
        failed <= 1,
        "{failed} of 90: none was under way when it died"
    );
}

/// The measurement of a cluster with existing data stops when its leader changes.
#[tokio::test]
async fn a_change_of_leader_stops_what_is_measured_on_somebodys_cluster() {
    let Some(cluster) = EtcdCluster::start(3) else {
        return;
    };
    let endpoints = cluster.urls().join(",");
    let config = ClientConfig::new(&endpoints).expect("URLs");
    let client = Client::connect(config).await.expect("it is there");
    for i in 0..50 {
        let put = PutRequest {
            key: format!("/theirs/{i:03}").into(),
            value: vec![b'x'; 500].into(),
            ..PutRequest::default()
        };
        client.kv().put(put).await.expect("it takes a write");
    }
    let started = tokio::task::spawn_blocking(move || {
        let prefix = ["--prefix", "/theirs/", "--pause", "1s", "--repeats", "30"];
        let target = ["--etcd", &endpoints, "--strategies", "paged:10"];
        let mut run = Running::start(&[&target[..], &prefix].concat());
        run.until("before the load");
        run
    });
    let run = started.await.expect("no panic");
    cluster.move_leader().await;
    let ended = tokio::task::spawn_blocking(|| run.ended());
    let (code, report, log) = ended.await.expect("no panic");
    assert_eq!(code, Some(4), "{log}");
    // Between two leaders a read may find none, and so may the server.
    let says = [
        "the leader has changed",
        "the cluster has no leader",
        "etcdserver: no leader",
    ];
    assert!(says.iter().any(|says| log.contains(says)), "{log}");
    assert_ne!(
        report["cases"][0]["outcome"]["state"], "measured",
        "{report:#}"
    );
}
