//! That one lost event is found, whoever loses it: the proof that shards are complete is worth as much.

use std::sync::Arc;
use std::time::Duration;

use etcd_api::client::config::ClientConfig;
use kube_api::shard_selector::ShardKey;
use loadgen::pace::followers::Followers;
use loadgen::pace::writers::Writing;
use loadgen::progress::{Counted, Progress};
use loadgen::seed::{Written, seed};
use loadgen::shards::proof::{self, Unproven};
use loadgen::shards::{Inventory, Plan};
use loadgen::target::kube::KubeAccess;
use loadgen::target::list::{Asks, Part, Reach, Row};
use loadgen::target::{Launcher, TargetSpec};
use tokio_util::sync::CancellationToken;
use workloads::scenario::Writes;
use workloads::{DataSet, DataSetSpec, Kind, Strategy, Tier};

use crate::losing_proxy;

const ROOT: &str = "/registry/";

/// Two workers watch through a proxy that loses one event, or none, while objects are written.
async fn watched_through(lost: u64) -> Result<(), Unproven> {
    let strategy: Strategy = "watch-sharded:2".parse().expect("a strategy");
    let launcher = Launcher {
        own_program: env!("CARGO_BIN_EXE_loadgen").into(),
        connect: ClientConfig::new("http://127.0.0.1:1").expect("a URL"),
        kube_access: KubeAccess::default(),
    };
    let started = launcher.start(&TargetSpec::Bench, strategy).await;
    let mut running = started.expect("our server starts");
    let data = Arc::new(DataSet::new(&DataSetSpec {
        name: "pods".to_owned(),
        kind: Kind::Pods,
        objects: 200.try_into().expect("some"),
        object_size: None,
        namespaces: 4.try_into().ok(),
        nodes: 2.try_into().ok(),
        seed: 1,
    }));
    let etcd = running.etcd.clone().expect("it has an etcd tier");
    let phase = Progress::silent().phase("seeding", 200, Counted::Objects);
    let seeded = seed(&etcd, &data, ROOT, &Arc::new(Written::default()), &phase).await;
    let seeded = seeded.expect("it takes what is written");
    running.start_kube(&[]).await.expect("the cache is filled");

    let url = running.kube_url.clone().expect("it was just started");
    let upstream = url
        .trim_start_matches("http://")
        .parse()
        .expect("host and port");
    let proxy = losing_proxy::start(upstream, lost).await;
    let mut reach = Reach::from(&running);
    reach.kube_url = Some(format!("http://{proxy}"));
    let plan = Plan::equal(ShardKey::Uid, strategy.workers().expect("two"));
    let rows = plan.shards().iter().map(|shard| {
        let mut asks = Asks::default();
        asks.part = Some(Part {
            shard: shard.clone(),
            by_server: true,
        });
        Row {
            tier: Tier::Kube,
            strategy,
            prefix: format!("{ROOT}pods/"),
            resource: "pods".to_owned(),
            asks,
        }
    });
    let rows: Vec<Row> = rows.collect();
    let followers = Followers::connect(&rows, &reach).await.expect("it listens");
    let synced = followers.sync().await.expect("the state");
    let held = synced.iter().map(|worker| &worker.held);
    proof::union(held, &seeded.fingerprint)?;

    let writing = Writing {
        etcd,
        data: Arc::clone(&data),
        root: ROOT.to_owned(),
        key: ShardKey::Uid,
        writes: Writes::Changes,
        per_second: 400.0,
    };
    let inventory = Inventory::new(&data, ShardKey::Uid).expect("pods");
    let never = CancellationToken::new();
    let written = writing.run(Duration::from_millis(500), &never);
    let mut ledger = written.await.expect("it takes what is written");
    let last = writing.last_words(&mut ledger, &inventory, &plan).await;
    let followed = followers.finish(&last.expect("and the last of it")).await;
    let followed = followed.expect("the watches go on");
    let seen: Vec<_> = followed
        .iter()
        .map(|worker| worker.log.seen.clone())
        .collect();
    running.stop().await;
    let (counts, _, proven) = proof::events(&ledger.expected(&plan), &seen);
    assert_eq!(
        counts.delivered + counts.dropped,
        ledger.writes.len() as u64
    );
    proven
}

#[tokio::test]
async fn a_lost_event_breaks_the_proof() {
    assert_eq!(watched_through(0).await, Ok(()), "nothing was lost");
    let lost = watched_through(20).await;
    assert!(
        matches!(lost, Err(Unproven::Dropped { dropped: 1, .. })),
        "{lost:?}"
    );
}
