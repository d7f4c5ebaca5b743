//! Watchers of loads that lose their streams. Their events are compared with the written revisions:
//! watchers resume after their last event, at another member if there is one, or list again if the
//! history was compacted, and count the events that they missed.

mod through_api;

use std::time::{Duration, Instant};

use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::proto::etcdserverpb::{CompactionRequest, PutRequest};
use load::driver::deliveries::{Delivered, DeliveryError, DeliveryWatchers, ExtraEvents, Watching};
use load::driver::run::AcknowledgedWrite;
use test_support::proxy::Proxy;

use crate::support::etcd_cluster::EtcdCluster;
use crate::support::served::Served;

const PREFIX: &str = "/watched/";
const WATCHERS: u32 = 6;
/// Number of writes before the fault; as many are made during and after it.
const WRITES: u64 = 10;
/// Time after which watchers have usually read all events, or noticed a cut.
const NOTICED: Duration = Duration::from_millis(100);

/// Watchers, and the writes since their creation.
struct Watched {
    watchers: DeliveryWatchers,
    writer: Client,
    begun: Instant,
    writes: Vec<AcknowledgedWrite>,
}

impl Watched {
    /// Starts watchers of `endpoints` on `connections` connections; writes use `direct`.
    async fn start(endpoints: &str, connections: u32, direct: &str) -> Self {
        let config = |urls: &str| ClientConfig::new(urls).expect("URLs");
        let begun = Instant::now();
        let watchers = DeliveryWatchers::create(Watching {
            config: config(endpoints),
            prefix: PREFIX.to_owned(),
            count: WATCHERS,
            connections,
            stall: None,
            cut_every: None,
            live: Default::default(),
        });
        Self {
            watchers: watchers.await.expect("they are confirmed"),
            writer: Client::connect(config(direct)).await.expect("it is there"),
            begun,
            writes: Vec::new(),
        }
    }

    /// Makes [`WRITES`] writes; returns the last revision.
    async fn write(&mut self) -> i64 {
        for i in 0..WRITES {
            let put = PutRequest {
                key: format!("{PREFIX}{i}").into(),
                ..PutRequest::default()
            };
            let intended = Instant::now();
            let put = self.writer.kv().put(put).await.expect("it takes a write");
            let revision = put.into_inner().header.expect("a header").revision;
            self.writes.push(AcknowledgedWrite { revision, intended });
        }
        self.writes.last().map_or(0, |write| write.revision)
    }

    async fn compact(&self, revision: i64) {
        let compaction = CompactionRequest {
            revision,
            physical: true,
        };
        let compacted = self.writer.kv().compact(compaction).await;
        compacted.expect("it compacts");
    }

    /// Ends the watchers and returns their result, if nothing else was written.
    async fn finish(self) -> Result<Delivered, DeliveryError> {
        let (writes, begun) = (self.writes, self.begun);
        self.watchers
            .finish(writes, begun, ExtraEvents::Nothing)
            .await
    }
}

/// Asserts that each watcher received every write, or counted it as missed.
#[track_caller]
fn assert_accounted(delivered: &Delivered, writes: u64, missed: u64) {
    assert_eq!(delivered.writes, writes);
    assert_eq!(delivered.missed, missed);
    assert_eq!(delivered.events, u64::from(WATCHERS) * writes - missed);
}

/// Runs a test on bench-server, and on etcd if it is installed.
async fn on_each_server(test: impl AsyncFn(&str)) {
    let server = Served::etcd();
    test(&server.url).await;
    if let Some(etcd) = EtcdCluster::start(1) {
        test(&etcd.urls()[0]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_whose_connections_are_cut_go_on_behind_what_they_have() {
    on_each_server(async |url| {
        let way = Proxy::start(url);
        let mut watched = Watched::start(&way.url(), 2, url).await;
        watched.write().await;
        assert_eq!(way.cut(), 2, "a connection for each stream");
        watched.write().await;
        tokio::time::sleep(NOTICED).await;
        way.restore();
        watched.write().await;
        let delivered = watched.finish().await.expect("nothing is lost");
        assert_accounted(&delivered, 3 * WRITES, 0);
        assert_eq!((delivered.lost, delivered.relists), (2, 0));
        assert_eq!(delivered.cuts.n(), 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_whose_next_events_are_compacted_list_again_and_count_what_they_missed() {
    on_each_server(async |url| {
        let way = Proxy::start(url);
        let mut watched = Watched::start(&way.url(), 2, url).await;
        let before = watched.write().await;
        // A watcher that has not yet read the earlier events would miss these, too.
        tokio::time::sleep(NOTICED).await;
        way.cut();
        let last = watched.write().await;
        watched.compact(last).await;
        way.restore();
        // The watchers have listed again before more is written.
        tokio::time::sleep(NOTICED * 10).await;
        watched.write().await;
        let delivered = watched.finish().await.expect("what is lost is known");
        assert!(last > before + 1);
        assert_accounted(&delivered, 3 * WRITES, u64::from(WATCHERS) * WRITES);
        assert_eq!(delivered.relists, u64::from(WATCHERS));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_of_a_member_that_dies_go_on_at_another() {
    let Some(mut cluster) = EtcdCluster::start(3) else {
        return;
    };
    let urls = cluster.urls();
    let leader = cluster.leader().await;
    // Writes use a member that stays, and the dying one is not the leader, so no election delays
    // them.
    let [dies, stays] = [1, 2].map(|next| (leader + next) % 3);
    let mut watched = Watched::start(&urls.join(","), 3, &urls[stays]).await;
    watched.write().await;
    let killing = tokio::task::spawn_blocking(move || {
        cluster.kill_hanging(dies, Duration::ZERO);
        cluster
    });
    watched.write().await;
    let _cluster = killing.await.expect("no panic");
    watched.write().await;
    let delivered = watched.finish().await.expect("nothing is lost");
    assert_accounted(&delivered, 3 * WRITES, 0);
    assert_eq!(delivered.lost, 1, "of the streams, one is at each member");
    assert_eq!(delivered.relists, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_is_behind_gives_nothing_twice_and_nothing_too_early() {
    let Some(cluster) = EtcdCluster::start(3) else {
        return;
    };
    let urls = cluster.urls();
    let ways: Vec<Proxy> = urls.iter().map(|url| Proxy::start(url)).collect();
    let through: Vec<String> = ways.iter().map(Proxy::url).collect();
    let mut watched = Watched::start(&through.join(","), 1, &urls[0]).await;
    // The stream moves from member to member between writes.
    for way in &ways {
        watched.write().await;
        tokio::task::block_in_place(|| way.until_used());
        assert!(way.cut() >= 1, "the stream was here");
        watched.write().await;
    }
    ways.iter().for_each(Proxy::restore);
    let delivered = watched.finish().await.expect("nothing is lost");
    assert_accounted(&delivered, 6 * WRITES, 0);
    // If a relay is cut before the stream has resumed there, this counts as part of the previous
    // loss.
    assert!(delivered.lost >= 1, "{}", delivered.lost);
}
