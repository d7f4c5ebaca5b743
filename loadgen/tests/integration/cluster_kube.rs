//! The Kubernetes tier in front of three members of etcd, which are killed or cut off: a list is
//! complete or an error, acknowledged writes are kept, and a watch continues or ends with 410.
//!
//! The tier connects to the members through relays. Cutting them one after the other breaks the
//! tier's watch at any member. If all are cut while history is compacted, watches cannot resume.

mod clients;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use http::Method;
use measure::MetricsClient;
use parking_lot::Mutex;
use serde_json::json;
use test_support::proxy::Proxy;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use self::clients::{
    COLLECTION, LIST_EVERY, Shared, TIMEOUT, Watched, ask, list, until_acknowledged, version,
    watch, write,
};
use crate::support::compact_elsewhere::write_elsewhere_and_compact;
use crate::support::etcd_cluster::EtcdCluster;
use crate::support::served::Served;

const WATCHERS: usize = 3;
/// Number of acknowledged writes before the fault, and after it.
const WRITES: usize = 30;
/// Time for which a relay is cut: an etcd client reconnects within a second.
const CUT_FOR: Duration = Duration::from_millis(1_500);
/// The metric that counts how often the cache of ConfigMaps was filled.
const FILLS: &str = "apiserver_watch_cache_initializations_total";

/// Three members, a relay to each, and a tier that connects to them through the relays.
struct Harness {
    cluster: EtcdCluster,
    ways: Vec<Proxy>,
    tier: Served,
}

/// The outcome of the clients, once all writes were made and received.
struct Outcome {
    /// Number of broken streams of each watcher; `relisted` is its number of new lists.
    broken: Vec<u32>,
    relisted: Vec<u32>,
    /// Number of times that the tier's cache of ConfigMaps was filled.
    fills: f64,
}

impl Harness {
    /// Starts members, relays and a tier with these flags. Returns `None` if etcd is missing.
    /// Blocks.
    fn start(flags: &[&str]) -> Option<Self> {
        let cluster = EtcdCluster::start(3)?;
        let ways: Vec<Proxy> = cluster.urls().iter().map(|url| Proxy::start(url)).collect();
        let endpoints: Vec<String> = ways.iter().map(Proxy::url).collect();
        let tier = Served::kube_over(&endpoints.join(","), flags);
        let first = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "first"}});
        tier.post(COLLECTION, &first);
        // Waits until the cache is filled.
        assert_eq!(tier.names("configmaps"), ["first"]);
        Some(Self {
            cluster,
            ways,
            tier,
        })
    }

    /// Cuts each relay, one after the other. Blocks.
    fn cut_each(&self) {
        for way in &self.ways {
            assert!(way.cut() > 0, "the tier was connected");
            thread::sleep(CUT_FOR);
            way.restore();
            way.until_used();
        }
    }

    /// Cuts all relays, compacts all previous writes, and opens the relays again.
    async fn compact_while_cut(&self) {
        for way in &self.ways {
            way.cut();
        }
        write_elsewhere_and_compact(&self.cluster.urls()[0]).await;
        self.ways.iter().for_each(Proxy::restore);
    }

    /// Runs clients that write, list and watch. Causes `fault` after [`WRITES`] writes, and
    /// compares what the clients have after as many further writes.
    async fn run(self, fault: impl AsyncFnOnce(Self) -> Self) -> Outcome {
        let url = self.tier.url.clone();
        let (_, base) = ask(&url, Method::GET, COLLECTION, String::new())
            .await
            .expect("a list");
        let written: Shared = Arc::default();
        let (stop_writing, stop) = (CancellationToken::new(), CancellationToken::new());
        let writer = write(url.clone(), Arc::clone(&written), stop_writing.clone());
        let writer = tokio::spawn(writer);
        let lister = tokio::spawn(list(url.clone(), Arc::clone(&written), stop.clone()));
        let watched: Vec<Arc<Mutex<Watched>>> = (0..WATCHERS).map(|_| Arc::default()).collect();
        let watchers = watched.iter().map(|watched| {
            let watched = Arc::clone(watched);
            tokio::spawn(watch(url.clone(), version(&base), watched, stop.clone()))
        });
        let watchers: Vec<_> = watchers.collect();

        until_acknowledged(&written, WRITES).await;
        let harness = fault(self).await;
        let before = written.lock().acknowledged.len();
        until_acknowledged(&written, before + WRITES).await;
        stop_writing.cancel();
        writer.await.expect("no panic");
        until_all_have(&watched, &written).await;
        stop.cancel();
        let (whole, errors) = lister.await.expect("each list is whole or an error");
        assert!(whole > 0, "{whole} lists, {errors} errors");
        for watcher in watchers {
            watcher.await.expect("each event came once and in order");
        }
        assert_known(&watched, &written);
        let counted = |of: fn(&Watched) -> u32| watched.iter().map(|one| of(&one.lock())).collect();
        let outcome = Outcome {
            broken: counted(|watched| watched.broken),
            relisted: counted(|watched| watched.relisted),
            fills: fills(&harness.tier.url).await,
        };
        let (acknowledged, unknown) = {
            let written = written.lock();
            (written.acknowledged.len(), written.unknown.len())
        };
        println!(
            "{acknowledged} writes acknowledged, {unknown} unknown; {whole} lists whole, {errors} \
             errors; streams broken {:?}, listed again {:?}; cache filled {} times",
            outcome.broken, outcome.relisted, outcome.fills
        );
        // Dropping the harness kills its processes.
        tokio::task::spawn_blocking(move || drop(harness))
            .await
            .expect("no panic");
        outcome
    }
}

/// Waits until each watcher has each acknowledged write.
async fn until_all_have(watched: &[Arc<Mutex<Watched>>], written: &Shared) {
    let acknowledged = written.lock().acknowledged.clone();
    let has_all = |watched: &Arc<Mutex<Watched>>| {
        let watched = watched.lock();
        acknowledged
            .iter()
            .all(|(name, version)| watched.seen.get(name) == Some(version))
    };
    let begun = Instant::now();
    while !watched.iter().all(has_all) {
        assert!(
            begun.elapsed() < TIMEOUT,
            "a watch lacks acknowledged writes"
        );
        sleep(LIST_EVERY).await;
    }
}

/// Asserts that watchers have received only objects that were written.
#[track_caller]
fn assert_known(watched: &[Arc<Mutex<Watched>>], written: &Shared) {
    let written = written.lock();
    for watched in watched {
        let watched = watched.lock();
        let known = |name: &String| {
            written.acknowledged.contains_key(name) || written.unknown.contains(name)
        };
        let mut seen = watched.seen.keys();
        let strange = seen.find(|name| *name != "first" && !known(name));
        assert_eq!(strange, None, "nobody has written it");
    }
}

/// Returns the number of times that the tier's cache of ConfigMaps was filled.
async fn fills(url: &str) -> f64 {
    let mut client = MetricsClient::new(url).expect("a URL");
    let page = timeout(TIMEOUT, client.text(Method::GET, "/metrics")).await;
    let page = page.expect("in time").expect("a page");
    let of_config_maps =
        |line: &&str| line.starts_with(FILLS) && line.contains("resource=\"configmaps\"");
    let line = page.lines().find(of_config_maps);
    let count = line.and_then(|line| line.rsplit(' ').next());
    count.map_or(0.0, |count| count.parse().expect("a number"))
}

/// Starts a harness on another thread, since that blocks.
async fn harness(flags: &'static [&'static str]) -> Option<Harness> {
    let started = tokio::task::spawn_blocking(|| Harness::start(flags));
    started.await.expect("no panic")
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_whole_and_watches_go_on_when_the_leader_of_the_storage_dies() {
    let Some(harness) = harness(&[]).await else {
        return;
    };
    let outcome = harness.run(async |mut harness| {
        let leader = harness.cluster.leader().await;
        let killing = tokio::task::spawn_blocking(move || {
            harness.cluster.kill_hanging(leader, Duration::ZERO);
            harness
        });
        killing.await.expect("no panic")
    });
    let outcome = outcome.await;
    assert_eq!(outcome.relisted, [0; WATCHERS]);
    assert_eq!(outcome.fills, 1.0, "the cache went on, too");
}

/// Cuts each relay, one after the other, on another thread.
async fn cut_each(harness: Harness) -> Harness {
    let cutting = tokio::task::spawn_blocking(|| {
        harness.cut_each();
        harness
    });
    cutting.await.expect("no panic")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_cache_whose_watch_breaks_goes_on_at_another_member() {
    let Some(harness) = harness(&[]).await else {
        return;
    };
    let outcome = harness.run(cut_each).await;
    assert_eq!(outcome.fills, 1.0, "nothing was listed again");
    let untouched = [0; WATCHERS];
    assert_eq!(
        (&outcome.broken[..], &outcome.relisted[..]),
        (&untouched[..], &untouched[..])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_without_a_cache_break_and_go_on_at_another_member() {
    let Some(harness) = harness(&["--watch-cache=false"]).await else {
        return;
    };
    let outcome = harness.run(cut_each).await;
    assert!(
        outcome.broken.iter().all(|broken| *broken > 0),
        "{:?}",
        outcome.broken
    );
    assert_eq!(outcome.relisted, [0; WATCHERS]);
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_say_410_when_the_cache_behind_them_has_missed_a_compaction() {
    let Some(harness) = harness(&[]).await else {
        return;
    };
    let outcome = harness.run(async |harness| {
        harness.compact_while_cut().await;
        harness
    });
    let outcome = outcome.await;
    assert_eq!(outcome.fills, 2.0, "it was listed again");
    assert!(
        outcome.relisted.iter().all(|count| *count == 1),
        "{:?}",
        outcome.relisted
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_without_a_cache_say_410_after_a_compaction() {
    let Some(harness) = harness(&["--watch-cache=false"]).await else {
        return;
    };
    let outcome = harness.run(async |harness| {
        harness.compact_while_cut().await;
        harness
    });
    let outcome = outcome.await;
    assert!(
        outcome.broken.iter().all(|broken| *broken > 0),
        "{:?}",
        outcome.broken
    );
    assert!(
        outcome.relisted.iter().all(|count| *count == 1),
        "{:?}",
        outcome.relisted
    );
}
