//! client-go's informers, which nearly every controller uses, against the tier: both media types,
//! each with a list and with a watch with initial events.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use etcd_api::kubernetes::KubernetesEtcd;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::harness::{ALL, APART, TestCluster, cases, program};

pub(crate) const INFORMER: (&str, &str) = ("INFORMER_BIN", "informer");

cases! {
    it_syncs_and_follows on ALL, needs INFORMER;
    it_recovers_from_a_restart_and_a_compaction on APART, needs INFORMER;
}

/// Time allowed for a change, including client-go's backoff after a server was unreachable.
const LIMIT: Duration = Duration::from_secs(60);

/// A running informer; killed when dropped.
pub(crate) struct Informer {
    lines: Lines<BufReader<ChildStdout>>,
    what: String,
    _child: Child,
}

impl Informer {
    /// Starts an informer of the server at `url`; `files` are a CA, or a CA, a certificate and its
    /// key.
    pub(crate) fn start(url: &str, media: &str, by_watch: bool, files: &[&Path]) -> Self {
        let mut child = Command::new(program(INFORMER.0, INFORMER.1))
            .args([url, media, "ns"])
            .args(files)
            .env("KUBE_FEATURE_WatchListClient", by_watch.to_string())
            .kill_on_drop(true)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the informer starts");
        let output = child.stdout.take().expect("a pipe");
        Self {
            lines: BufReader::new(output).lines(),
            what: format!("{media}, by a watch: {by_watch}"),
            _child: child,
        }
    }

    /// Waits for a line.
    pub(crate) async fn says(&mut self, expected: &str) {
        let line = tokio::time::timeout(LIMIT, self.lines.next_line()).await;
        let line = line.unwrap_or_else(|_| panic!("{}: no {expected:?}", self.what));
        let line = line.expect("a pipe").expect("the informer goes on");
        assert_eq!(line, expected, "{}", self.what);
    }
}

/// Starts one informer of each kind.
fn all(cluster: &TestCluster) -> Vec<Informer> {
    let kinds = [
        ("json", false),
        ("json", true),
        ("protobuf", false),
        ("protobuf", true),
    ];
    let start = |(media, by_watch)| Informer::start(&cluster.url, media, by_watch, &[]);
    kinds.map(start).into()
}

async fn all_say(informers: &mut [Informer], expected: &str) {
    for informer in informers {
        informer.says(expected).await;
    }
}

const PATH: &str = "/api/v1/namespaces/ns/configmaps";

async fn it_syncs_and_follows(cluster: TestCluster) {
    for name in ["b", "a"] {
        cluster.config_map("ns", name).await;
    }
    cluster.config_map("other", "elsewhere").await;
    // An informer that lists accepts any state, so the cache is brought up to date first.
    cluster.get(PATH).await.ok();
    let mut informers = all(&cluster);
    all_say(&mut informers, "synced a b").await;
    cluster.config_map("ns", "c").await;
    all_say(&mut informers, "add c").await;
    let patch = json!({"data": {"k": "2"}});
    cluster.patch(&format!("{PATH}/a"), &patch).await.ok();
    all_say(&mut informers, "update a").await;
    cluster.delete(&format!("{PATH}/b")).await.ok();
    all_say(&mut informers, "delete b").await;
}

async fn it_recovers_from_a_restart_and_a_compaction(mut cluster: TestCluster) {
    for name in ["a", "b"] {
        cluster.config_map("ns", name).await;
    }
    cluster.get(PATH).await.ok();
    let mut informers = all(&cluster);
    all_say(&mut informers, "synced a b").await;
    cluster.restart().await;
    cluster.config_map("ns", "c").await;
    all_say(&mut informers, "add c").await;
    // While the tier is down, an object is deleted and the history compacted, so that only a new
    // list shows the deletion.
    let storage = cluster.storage().await;
    cluster.stop_tier();
    let key = b"/registry/configmaps/ns/a";
    let stored = storage.get(key, Default::default()).await.expect("read");
    let revision = stored.kv.expect("stored").mod_revision;
    let deleted = storage.optimistic_delete(key, revision, Default::default());
    assert!(deleted.await.expect("answered").succeeded);
    let now = storage.current_revision(key).await.expect("read");
    storage.compact(now).await.expect("compacts");
    cluster.start_tier().await;
    all_say(&mut informers, "delete a").await;
    cluster.config_map("ns", "d").await;
    all_say(&mut informers, "add d").await;
}
