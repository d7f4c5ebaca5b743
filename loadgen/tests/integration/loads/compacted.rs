//! History is compacted while watchers have lost their streams: they list again, and the result
//! reports that.

use super::*;
use crate::support::compact_elsewhere::write_elsewhere_and_compact;

#[test]
fn a_result_says_that_watchers_listed_again_after_a_compaction() {
    let server = Served::etcd();
    let way = Proxy::start(&server.url);
    let cases = r#"
[[case]]
name = "cut"
duration = "3s"
load = [
    { name = "updates", operation = "put", arrivals = { constant = 100 }, connections = 2 },
    { name = "watchers", operation = "watch", clients = 4, connections = 2 },
]
"#;
    let (folder, mut run, said, log) = started(cases, "cut", &["--etcd", &way.url(), SERVED, "0"]);
    until_counted(&said, "updates");
    way.cut();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(write_elsewhere_and_compact(&server.url));
    way.restore();
    let log: Vec<String> = log.collect();
    let ended = run.wait().expect("it ends");
    let report = saved(&folder.path().join("out"));
    let watchers = load(&report, "watchers");
    assert_eq!(watchers["relists"], 4, "{watchers} {log:?}");
    // Each watcher has its own stream; there are two on each connection.
    assert_eq!(watchers["lost_streams"], 4, "{watchers}");
    assert_eq!(watchers["cut_ms"]["n"], 4, "{watchers}");
    // Each write with a response was received by each watcher, or was in its list.
    let (events, missed) = (&watchers["events"], count(&watchers["missed_events"]));
    let due = 4 * count(&watchers["requests"]);
    assert!(due > 0 && count(events) + missed == due, "{watchers}");
    // Puts that were in flight have failed. Without any, missed events make the result invalid.
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
