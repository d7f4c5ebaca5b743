//! Small rounds of the same loads on servers that `loadgen` starts: what the servers hold at rest
//! returns to its earlier value, and the case fails if a client leaks connections, watchers or
//! data.

mod kube_leak;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::proto::etcdserverpb::watch_request::RequestUnion;
use etcd_api::proto::etcdserverpb::{PutRequest, WatchCreateRequest, WatchRequest};
use serde_json::Value;
use test_support::ports::free_port;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;

use crate::support::small_run::{self, count};

const SCENARIO: &str = r#"
name = "small"
summary = "rounds of loads"
repeats = 1
duration = "400ms"

[[data_set]]
name = "few"
kind = "pods"
objects = 200
namespaces = 2
nodes = 2
seed = 1

[[case]]
name = "etcd"
warm_up = "100ms"
rounds = 5
load = [
    { name = "writes", operation = { update = 6, put = 1, create = 2, delete = 1 }, clients = 2 },
    { name = "leases", operation = { lease-grant = 3, lease-keep-alive = 1, lease-revoke = 1 }, clients = 1, measured = false },
    { name = "compactions", operation = "compact", arrivals = { constant = 5 }, measured = false },
    { name = "lists", operation = { list = "stream" }, measured = false },
    { name = "watchers", operation = "watch", clients = 3, connections = 2 },
    { name = "cut", operation = "watch", clients = 2, cut_every = "100ms", measured = false },
]
"#;

/// The same through the Kubernetes tier, whose watch cache holds few events. The cache drops its
/// past snapshots when it detects a compaction, every 15 s.
const KUBE_CASE: &str = r#"
[[case]]
name = "kube"
tier = "kube"
warm_up = "100ms"
rounds = 5
server = ["--watch-cache-max-events=100"]
load = [
    { name = "writes", tier = "kube", operation = { update = 5, create = 2, delete = 1, get = 1 }, clients = 2 },
    { name = "compactions", operation = "compact", arrivals = { constant = 5 }, measured = false },
    { name = "lists", operation = { list = "consistent" }, measured = false },
    { name = "watch-lists", operation = { list = "watch-list" }, measured = false },
    { name = "watchers", tier = "kube", operation = "watch", clients = 3 },
    { name = "cut", tier = "kube", operation = "watch", clients = 2, cut_every = "100ms", measured = false },
]
"#;

/// Returns the scenario with this case instead of its own.
fn scenario_of(case: &str) -> String {
    let (head, _) = SCENARIO.split_once("[[case]]").expect("a case");
    format!("{head}{case}")
}

/// Runs the scenario, again if the run cannot tell (exit code 3), twice at most: memory in so few
/// rounds depends on what else the machine does.
fn decided(scenario: &str) -> (Option<i32>, Value, String) {
    for _ in 0..2 {
        let ran = small_run::run(scenario, &[]);
        if ran.0 != Some(3) {
            return ran;
        }
    }
    small_run::run(scenario, &[])
}

/// Returns the entry of a case for what a process held of this kind.
#[track_caller]
fn held<'a>(case: &'a Value, process: &str, kind: &str) -> &'a Value {
    let held = case["at_rest"]["held"].as_array().expect("what was held");
    let mut held = held.iter();
    let found = held.find(|held| held["process"] == process && held["kind"] == kind);
    found.expect("the server tells it")
}

/// Checks that each round made requests and cut connections.
#[track_caller]
fn assert_worked(case: &Value) {
    let rounds = case["at_rest"]["rounds"].as_array().expect("rounds");
    assert_eq!(rounds.len(), 5, "{case}");
    for round in rounds {
        assert!(count(&round["requests"]) > 0 && count(&round["events"]) > 0);
        assert!(count(&round["cuts"]) > 0, "{round}");
    }
}

#[test]
fn what_clients_made_is_gone_after_each_round() {
    let (code, report, log) = decided(SCENARIO);
    assert_eq!(code, Some(0), "{log}");
    let case = &report["cases"][0];
    assert_worked(case);
    for kind in [
        "connections",
        "watchers",
        "tasks",
        "threads",
        "sockets",
        "allocated",
    ] {
        let held = held(case, "etcd", kind);
        assert_eq!(held["verdict"], "returned", "{held}");
        assert_eq!(held["at_rest"].as_array().expect("six").len(), 6);
    }
    assert_eq!(held(case, "etcd", "keys")["at_rest"][5], 200);
    assert_eq!(held(case, "etcd", "leases")["at_rest"][5], 0);
}

#[test]
fn what_clients_of_the_kubernetes_tier_made_is_gone_after_each_round() {
    let (code, report, log) = decided(&scenario_of(KUBE_CASE));
    assert_eq!(code, Some(0), "{log}");
    let case = &report["cases"][0];
    assert_worked(case);
    for kind in ["connections", "watchers", "tasks", "threads", "allocated"] {
        for process in ["etcd", "kube"] {
            let held = held(case, process, kind);
            assert_eq!(held["verdict"], "returned", "{held}");
        }
    }
    let snapshots = held(case, "kube", "past_snapshots");
    assert_eq!(snapshots["verdict"], "returned", "{snapshots}");
    // Objects that loads created through the API are removed; the watches of the caches remain.
    assert_eq!(held(case, "etcd", "keys")["at_rest"][5], 200);
    assert_eq!(held(case, "kube", "watchers")["at_rest"][5], 0);
    assert_ne!(held(case, "etcd", "watchers")["at_rest"][5], 0);
}

#[test]
fn watchers_that_stay_and_memory_that_grows_are_found() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let url = format!("http://127.0.0.1:{}", free_port());
    let server = folder.path().join("server");
    at_this_url(&server, "--listen-client-urls", &url);
    let leak = |ended: &AtomicBool| leaking(&url, ended);
    let (code, report, log) = run_beside(leak, SCENARIO, &server);
    assert_eq!(code, Some(1), "{log}");
    let case = &report["cases"][0];
    for kind in ["watchers", "keys", "allocated"] {
        let held = held(case, "etcd", kind);
        assert_eq!(held["verdict"], "not_returned", "{held}");
    }
    let leases = held(case, "etcd", "leases");
    assert_eq!(leases["verdict"], "returned", "{leases}");
    let reason = case["outcome"]["reason"].as_str().expect("why");
    for part in ["etcd: watchers: ", "etcd: allocated rises by "] {
        assert!(reason.contains(part), "{reason}");
    }
}

#[test]
fn watches_of_the_kubernetes_tier_that_stay_and_memory_that_grows_are_found() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let url = format!("http://127.0.0.1:{}", free_port());
    let server = folder.path().join("server");
    at_this_url(&server, "--listen-kube-urls", &url);
    let leak = |ended: &AtomicBool| kube_leak::leaking(&url, ended);
    // Past snapshots are disabled, since they would be released late.
    let events = "\"--watch-cache-max-events=100\"";
    let without_snapshots = "\"--feature-gates=ListFromCacheSnapshot=false\"";
    let case = KUBE_CASE.replace(events, &format!("{events}, {without_snapshots}"));
    let (code, report, log) = run_beside(leak, &scenario_of(&case), &server);
    assert_eq!(code, Some(1), "{log}");
    let case = &report["cases"][0];
    for (process, kind) in [
        ("kube", "connections"),
        ("kube", "watchers"),
        ("kube", "allocated"),
        ("etcd", "keys"),
    ] {
        let held = held(case, process, kind);
        assert_eq!(held["verdict"], "not_returned", "{held}");
    }
    // The client does not leak these.
    let watchers = held(case, "etcd", "watchers");
    assert_eq!(watchers["verdict"], "returned", "{watchers}");
    let reason = case["outcome"]["reason"].as_str().expect("why");
    for part in ["kube: watchers: ", "kube: allocated rises by "] {
        assert!(reason.contains(part), "{reason}");
    }
}

#[test]
fn few_rounds_are_refused() {
    let (code, _, log) = small_run::run(&SCENARIO.replace("rounds = 5", "rounds = 4"), &[]);
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("fewer show no trend"), "{log}");
}

/// Runs a scenario on this server while `beside` runs, whose argument is set when the scenario has
/// ended.
fn run_beside(
    beside: impl FnOnce(&AtomicBool) + Send,
    scenario: &str,
    server: &Path,
) -> (Option<i32>, Value, String) {
    let ended = AtomicBool::new(false);
    let target = format!("bench:{}", server.display());
    // In its own network namespace, other clients could not reach the server.
    let flags = ["--target", &target, "--network-namespace", "no"];
    thread::scope(|scope| {
        let is_there = scope.spawn(|| beside(&ended));
        let came = small_run::run(scenario, &flags);
        ended.store(true, Ordering::Relaxed);
        is_there.join().expect("it is there until the end");
        came
    })
}

/// Writes a program that executes bench-server with this URL as the value of `flag`.
fn at_this_url(program: &Path, flag: &str, url: &str) {
    let loadgen = env!("CARGO_BIN_EXE_loadgen");
    let script = format!(
        "#!/bin/sh\nfor arg; do\n  shift\n  [ \"$flag\" = {flag} ] && arg={url}\n  flag=\"$arg\"\n  \
         set -- \"$@\" \"$arg\"\ndone\nexec {loadgen} \"$@\"\n"
    );
    std::fs::write(program, script).expect("a file");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(program, executable).expect("ours");
}

/// Opens a watcher and writes a key of 200 KB five times a second; keeps all of them.
fn leaking(url: &str, ended: &AtomicBool) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut held = Vec::new();
        let mut client = None;
        while !ended.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(200)).await;
            // The server runs for a part of the time only.
            if client.is_none() {
                let config = ClientConfig::new(url).expect("a URL");
                client = Client::connect(config).await.ok();
            }
            if let Some(client) = &client {
                held.push(one_more(client, held.len()).await);
            }
        }
    });
}

/// Adds a watcher and a key; returns the value that keeps the watcher open, or `None` if the server
/// has ended.
async fn one_more(client: &Client, nth: usize) -> Option<impl Sized + use<>> {
    let put = PutRequest {
        key: format!("/leak/{nth}").into(),
        value: vec![b'v'; 200_000].into(),
        ..PutRequest::default()
    };
    client.kv().put(put).await.ok()?;
    let (requests, receiver) = mpsc::unbounded_channel();
    let create = WatchCreateRequest {
        key: b"/nothing".to_vec().into(),
        ..WatchCreateRequest::default()
    };
    let request = WatchRequest {
        request_union: Some(RequestUnion::CreateRequest(create)),
    };
    requests.send(request).ok()?;
    let responses = client
        .watch()
        .watch(UnboundedReceiverStream::new(receiver))
        .await
        .ok()?;
    Some((requests, responses))
}
