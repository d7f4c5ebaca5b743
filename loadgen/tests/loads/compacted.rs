//! History that is compacted while watchers have lost their streams: they list again, and the
//! result says so.

use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::proto::etcdserverpb::{CompactionRequest, PutRequest};

use super::*;

/// Writes elsewhere, and compacts everything before that.
fn write_elsewhere_and_compact(url: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let config = ClientConfig::new(url).expect("a URL");
        let client = Client::connect(config).await.expect("it is there");
        let mut revision = 0;
        // Watchers go on behind the last event that they have, and one revision more is none.
        for _ in 0..2 {
            let put = PutRequest {
                key: b"/elsewhere"[..].into(),
                ..PutRequest::default()
            };
            let put = client.kv().put(put).await.expect("it takes a write");
            revision = put.into_inner().header.expect("a header").revision;
        }
        let compaction = CompactionRequest {
            revision,
            physical: true,
        };
        let compacted = client.kv().compact(compaction).await;
        compacted.expect("it compacts");
    });
}

#[test]
fn a_result_says_that_watchers_listed_again_after_a_compaction() {
    let server = Served::etcd();
    let way = Cuttable::to(&server.url);
    let cases = r#"
[[case]]
name = "cut"
duration = "3s"
load = [
    { name = "updates", operation = "put", arrivals = { constant = 100 }, connections = 2 },
    { name = "watchers", operation = "watch", clients = 4, connections = 2 },
]
"#;
    let (folder, mut run, _, log) = started(cases, "cut", &["--etcd", &way.url()]);
    thread::sleep(Duration::from_millis(500));
    way.close();
    write_elsewhere_and_compact(&server.url);
    way.open();
    let log: Vec<String> = log.collect();
    let ended = run.wait().expect("it ends");
    let report = saved(&folder.path().join("out"));
    let watchers = load(&report, "watchers");
    assert_eq!(watchers["relists"], 4, "{watchers} {log:?}");
    // Each watcher has a stream of its own, two on each connection.
    assert_eq!(watchers["lost_streams"], 4, "{watchers}");
    assert_eq!(watchers["cut_ms"]["n"], 4, "{watchers}");
    // Each write of which a response came, at each watcher or in its list.
    let (events, missed) = (&watchers["events"], count(&watchers["missed_events"]));
    let due = 4 * count(&watchers["requests"]);
    assert!(due > 0 && count(events) + missed == due, "{watchers}");
    // Puts that were under way have failed; without any, missed events make it invalid.
    let errors = count(&load(&report, "updates")["errors"]);
    let code = match (errors, missed) {
        (0, 0) => 0,
        (0, _) => 3,
        _ => 1,
    };
    assert!(
        matches!(ended.code(), Some(3)) || ended.code() == Some(code),
        "{log:?}"
    );
    let results = fs::read_dir(folder.path().join("out")).expect("a result");
    let result = results.flatten().next().expect("one").path();
    let readme = fs::read_to_string(result.join("README.md")).expect("a page");
    let says = "4 watchers listed again, since what they were to go on with was compacted";
    assert!(readme.contains(says), "{readme}");
}
