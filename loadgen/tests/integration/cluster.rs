//! Several endpoints of one cluster: requests go to all members, and the metrics of each member are
//! saved.

use kube_api::client::KubeAccess;
use measure::RemotePage;
use serde_json::Value;

use crate::support::etcd_cluster::EtcdCluster;
use crate::support::program::{ended_with_json, loadgen};

/// Runs `loadgen run` on these endpoints; returns exit code, `report.json` and standard error.
fn run(endpoints: &str, args: &[&str]) -> (Option<i32>, Value, String) {
    let out = tempfile::tempdir().expect("a temporary folder");
    let output = loadgen(out.path())
        .args(["run", "--etcd", endpoints, "--format", "json"])
        .args(args)
        .output()
        .expect("it runs");
    ended_with_json(&output)
}

/// Returns the number of streams that a member has started to send.
async fn streams(url: &str) -> f64 {
    let mut page = RemotePage::new(url, KubeAccess::default()).expect("a URL");
    let page = page.read().await.expect("it tells its metrics");
    let streams = page.counters.iter().filter(|(name, _)| {
        name.starts_with("grpc_server_started_total") && name.contains("\"RangeStream\"")
    });
    streams.map(|(_, count)| count).sum()
}

#[tokio::test]
async fn three_members_share_the_lists_and_each_has_its_figures() {
    let Some(cluster) = EtcdCluster::start(3) else {
        return;
    };
    let endpoints = cluster.urls().join(",");
    let small = ["pods-150k", "--objects", "200", "--repeats", "2"];
    let lists = ["--strategies", "stream", "--clients", "3", "--keep-data"];
    let (code, report, log) = run(&endpoints, &[&small[..], &lists].concat());
    assert_eq!(code, Some(0), "{log}");
    let case = &report["cases"][0];
    assert_eq!(case["outcome"]["state"], "measured", "{log}");
    assert_eq!(case["verified"]["objects"], 200, "{case}");
    let members = case["server"]["members"].as_array().expect("members");
    assert_eq!(members.len(), 3, "{case}");
    let leaders = members.iter().filter(|member| member["is_leader"] == true);
    assert_eq!(leaders.count(), 1, "{members:?}");
    let sum: u64 = members.iter().filter_map(|m| m["rss_idle"].as_u64()).sum();
    assert_eq!(
        case["server"]["rss_idle"].as_u64(),
        Some(sum),
        "{members:?}"
    );
    for (member, url) in members.iter().zip(cluster.urls()) {
        let endpoint = member["endpoint"].as_str().expect("a URL");
        assert!(endpoint.starts_with(&url), "{endpoint}");
        assert!(member["rss_peak"].as_u64() > Some(0), "{member}");
        assert!(streams(&url).await > 0.0, "{url} has sent no list");
    }

    // The kept data counts as a user's existing data, so all members are watched.
    let prefix = ["--prefix", "/loadgen/", "--pause", "0s"];
    let (code, report, log) = run(&endpoints, &prefix);
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("etcd 3.7.3, 3 members, leader m"), "{log}");
    assert!(!log.contains("cannot be watched"), "{log}");
    assert_eq!(report["cases"][0]["verified"]["objects"], 200, "{log}");
}
