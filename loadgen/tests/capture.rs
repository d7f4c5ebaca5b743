//! `loadgen capture`: writes a scenario that resembles the data of a server without any of its
//! names.

#[allow(dead_code, reason = "the other tests start Kubernetes tiers")]
#[path = "support/served.rs"]
mod served;

use std::fs;
use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::proto::etcdserverpb::{PutRequest, RangeRequest};
use served::Served;
use workloads::{Kind, Scenario};

/// Names in the data that must not be captured.
const SECRETS: [&str; 5] = ["acme", "payroll", "hannibal", "widgets", "token-of"];

fn loadgen(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::cargo_bin("loadgen").expect("it is built for its tests");
    command
        .current_dir(folder)
        .args(args)
        .output()
        .expect("it runs")
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
    let output = loadgen(folder.path(), &["capture", &server.url]);
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
    let output = loadgen(folder.path(), &["capture", &server.url]);
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{log}");
    assert!(log.contains("cannot write captured.toml"), "{log}");
}

#[tokio::test]
async fn where_nothing_is_there_is_nothing_to_capture() {
    let server = Served::etcd();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = loadgen(folder.path(), &["capture", &server.url]);
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{log}");
    assert!(log.contains("no key below `/registry/`"), "{log}");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
    let output = loadgen(folder.path(), &["capture", "bench"]);
    assert_eq!(output.status.code(), Some(2));
}
