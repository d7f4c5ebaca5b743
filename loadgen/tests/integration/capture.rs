//! `loadgen capture`: writes a scenario that resembles the data of a server without any of its
//! names.

use std::fs;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::proto::etcdserverpb::{PutRequest, RangeRequest};
use workloads::{Kind, Scenario};

use crate::support::etcd_cluster::EtcdCluster;
use crate::support::program;
use crate::support::served::Served;

/// Names in the data that must not be captured.
const SECRETS: [&str; 5] = ["acme", "payroll", "hannibal", "widgets", "token-of"];
/// Capture without counting requests, which takes time.
const WITHOUT_OBSERVING: [&str; 2] = ["--observe", "0s"];

fn loadgen(folder: &Path, args: &[&str]) -> Output {
    let output = program::loadgen(folder).args(args).output();
    output.expect("it runs")
}

async fn client(url: &str) -> Client {
    let config = ClientConfig::new(url).expect("a URL");
    Client::connect(config).await.expect("it is there")
}

async fn put(client: &Client, key: String, size: usize) {
    let request = PutRequest {
        key: key.into(),
        value: vec![b'v'; size].into(),
        ..PutRequest::default()
    };
    client.kv().put(request).await.expect("it takes a write");
}

async fn revision(client: &Client) -> i64 {
    let request = RangeRequest {
        key: b"/x"[..].into(),
        ..RangeRequest::default()
    };
    let response = client.kv().range(request).await.expect("it responds");
    response.into_inner().header.expect("a header").revision
}

#[tokio::test]
async fn a_cluster_becomes_a_scenario_without_its_names() {
    let server = Served::etcd();
    let client = client(&server.url).await;
    for i in 0..600 {
        let key = format!("/registry/pods/payroll-{:02}/hannibal-{i:04}", i % 12);
        put(&client, key, 9_500 + i % 1_000).await;
    }
    for i in 0..300 {
        let key = format!("/registry/acme.io/widgets/payroll-{:02}/w-{i}", i % 3);
        put(&client, key, 2_000).await;
    }
    for i in 0..40 {
        put(&client, format!("/registry/minions/hannibal-{i}"), 100).await;
        put(
            &client,
            format!("/registry/secrets/payroll-01/token-of-{i}"),
            800,
        )
        .await;
    }
    put(&client, "/elsewhere/acme".to_owned(), 1_000_000).await;
    let before = revision(&client).await;

    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = loadgen(folder.path(), &["capture", &server.url, "--observe", "1s"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text} {log}");
    assert_eq!(revision(&client).await, before, "nothing was written");

    let file = fs::read_to_string(folder.path().join("captured.toml")).expect("a scenario");
    for secret in SECRETS {
        assert!(!file.contains(secret), "`{secret}`: {file}");
        assert!(!text.contains(secret), "`{secret}`: {text}");
        assert!(!log.contains(secret), "`{secret}`: {log}");
    }
    let scenario = Scenario::parse(&file, "captured").expect("a scenario");
    let [pods, custom, _] = &scenario.data_sets[..] else {
        panic!("three data sets: {file}");
    };
    assert_eq!((pods.name.as_str(), pods.kind), ("pods", Kind::Pods));
    assert_eq!(pods.objects.get(), 600);
    assert_eq!(pods.namespaces.map(u32::from), Some(12));
    assert_eq!(pods.nodes.map(u32::from), Some(40));
    assert_eq!(custom.name, "custom-1");
    assert_eq!(custom.objects.get(), 300);
    let size = custom.object_size.map_or(0, u64::from);
    assert!((1_990..2_010).contains(&size), "{size} bytes");
    for says in [
        "its metrics have no grpc_server_started_total",
        "pods: 600 objects in 12 namespaces",
        "RangeStream: a client that lists by Range takes up to",
        "pages of 500: 2 requests",
        "each of 4 workers receives",
        "loadgen run captured.toml",
    ] {
        assert!(text.contains(says), "`{says}`: {text}");
    }

    // The captured scenario runs on bench-server.
    let run = [
        "run",
        "captured.toml",
        "--strategies",
        "stream",
        "--repeats",
        "1",
    ];
    let output = loadgen(folder.path(), &run);
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{log}");

    // An existing file is not overwritten.
    let again = [&["capture", &server.url][..], &WITHOUT_OBSERVING].concat();
    let output = loadgen(folder.path(), &again);
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{log}");
    assert!(log.contains("cannot write captured.toml"), "{log}");
}

#[tokio::test]
async fn where_nothing_is_there_is_nothing_to_capture() {
    let server = Served::etcd();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let nothing = [&["capture", &server.url][..], &WITHOUT_OBSERVING].concat();
    let output = loadgen(folder.path(), &nothing);
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{log}");
    assert!(log.contains("no key below `/registry/`"), "{log}");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
    let output = loadgen(folder.path(), &["capture", "bench"]);
    assert_eq!(output.status.code(), Some(2));
}

/// Updates and reads of pods, in turn, until it is dropped.
fn traffic(client: Client) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        for i in 0.. {
            let key = format!("/registry/pods/payroll-{:02}/hannibal-{:04}", i % 2, i % 50);
            put(&client, key.clone(), 1_000).await;
            for _ in 0..2 {
                let request = RangeRequest {
                    key: key.clone().into(),
                    ..RangeRequest::default()
                };
                client.kv().range(request).await.expect("it responds");
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
}

/// Returns event `nth` of an audit log with 40 a second.
fn audit_event(nth: u32, verb: &str, query: &str) -> String {
    let object = match verb {
        "list" => r#"{"resource":"pods","apiVersion":"v1"}"#,
        _ => {
            r#"{"resource":"pods","namespace":"payroll-01","name":"hannibal-1","apiVersion":"v1"}"#
        }
    };
    let time = format!("2026-11-28T10:00:{:02}.{:03}000Z", nth / 40, nth % 40 * 25);
    format!(
        r#"{{"auditID":"{nth}","stage":"ResponseComplete","requestURI":"/api/v1/pods{query}","verb":"{verb}","user":{{"username":"hannibal"}},"objectRef":{object},"responseStatus":{{"code":200}},"requestReceivedTimestamp":"{time}","stageTimestamp":"{time}"}}"#
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_become_cases() {
    let Some(cluster) = EtcdCluster::start(3) else {
        return;
    };
    let client = client(&cluster.urls()[0]).await;
    for i in 0..100 {
        let key = format!("/registry/pods/payroll-{:02}/hannibal-{:04}", i % 2, i / 2);
        put(&client, key, 1_000).await;
    }
    let traffic = traffic(client);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let numbers = 0..401;
    let events: Vec<_> = numbers
        .map(|nth| match nth % 4 {
            0 => audit_event(nth, "list", "?resourceVersion=0"),
            1 => audit_event(nth, "get", ""),
            _ => audit_event(nth, "patch", ""),
        })
        .collect();
    fs::write(folder.path().join("audit.log"), events.join("\n")).expect("a log");
    let endpoints = cluster.urls().join(",");
    let at = folder.path().to_owned();
    let captured = tokio::task::spawn_blocking(move || {
        let log = ["--audit-log", "audit.log", "--observe", "2s"];
        loadgen(&at, &[&["capture", &endpoints][..], &log].concat())
    });
    let output = captured.await.expect("no panic");
    traffic.abort();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text} {log}");

    let file = fs::read_to_string(folder.path().join("captured.toml")).expect("a scenario");
    for secret in SECRETS {
        assert!(!file.contains(secret), "`{secret}`: {file}");
        assert!(!text.contains(secret), "`{secret}`: {text}");
    }
    let scenario = Scenario::parse(&file, "captured").expect("a scenario");
    let case = |name: &str| {
        let mut cases = scenario.loads.iter();
        cases.find(|case| case.name == name).expect("a case")
    };
    let rate = |case: &str, load: &str| {
        let mut lines = file
            .lines()
            .skip_while(|line| !line.ends_with(&format!("\"{case}\"")));
        let load = format!("name = \"{load}\"");
        let line = lines.find(|line| line.contains(&load)).expect("a load");
        let (_, rate) = line.split_once("poisson = ").expect("a rate");
        let rate = rate.split(' ').next().expect("a number");
        rate.parse::<f64>().expect("a number")
    };
    // Each turn is one write and two reads.
    let (reads, writes) = (
        rate("etcd-requests", "gets"),
        rate("etcd-requests", "writes"),
    );
    assert!(writes > 1.0, "{file}");
    assert!(
        (1.5..2.5).contains(&(reads / writes)),
        "{reads} of {writes}"
    );
    assert_eq!(case("etcd-requests-beside-stream").load.len(), 3, "{file}");
    assert_eq!(case("pods-requests").load.len(), 3, "{file}");
    let patches = rate("pods-requests", "writes");
    assert!((19.5..20.5).contains(&patches), "{patches}");

    // The cases run on bench-server, here without those of lists alone.
    let is_of_lists = |line: &str| line.starts_with("etcd = [") || line.starts_with("kube = [");
    let lines: Vec<_> = file.lines().filter(|line| !is_of_lists(line)).collect();
    fs::write(folder.path().join("requests.toml"), lines.join("\n")).expect("a scenario");
    let at = folder.path().to_owned();
    let ran = tokio::task::spawn_blocking(move || {
        let short = ["--duration", "1s", "--repeats", "1"];
        loadgen(&at, &[&["run", "requests.toml"][..], &short].concat())
    });
    let output = ran.await.expect("no panic");
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{log}");
    for case in ["etcd-requests-beside-unary", "pods-requests"] {
        assert!(log.contains(case), "`{case}`: {log}");
    }
}

#[test]
fn a_file_that_is_no_audit_log_is_refused_before_anything_is_sent() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("audit.log"), "{}\n{}\n").expect("a file");
    for (file, says) in [
        (
            "audit.log",
            "audit log audit.log, line 1: no event of audit.k8s.io/v1",
        ),
        ("missing.log", "audit log missing.log: No such file"),
    ] {
        let arguments = ["capture", "http://127.0.0.1:1", "--audit-log", file];
        let output = loadgen(folder.path(), &arguments);
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{log}");
        assert!(log.contains(says), "`{says}`: {log}");
        assert!(!folder.path().join("captured.toml").exists());
    }
}
