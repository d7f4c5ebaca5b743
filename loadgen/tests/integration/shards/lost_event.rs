//! Checks that a single lost event is detected at any worker: the proof that shards are complete
//! depends on this.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use kube_api::ApiResource;
use kube_api::shard_selector::{ShardKey, ShardSelector};
use load::clients::go_clients::GoClients;
use load::driver::watch_workers::WatchWorkers;
use load::driver::writers::Writing;
use load::endpoint::TargetEndpoint;
use load::operation::list::{ListCase, ListError, ListParameters, ShardRequest};
use load::operation::watch_worker::reshard_handover::Change;
use load::shards::event_ledger::{self, EventMismatch};
use load::shards::{Inventory, Plan};
use tokio_util::sync::CancellationToken;
use workloads::scenario::Writes;
use workloads::{Strategy, Tier};

use crate::shards::losing_proxy::{self, Loss};
use crate::support::seeded_pods::{ROOT, SeededPods};

/// The time at which an event is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lost {
    Never,
    WhileTwoWatch,
    AfterAThirdHasJoined,
}

/// Maximum duration of the writes. They are ended as soon as the test's steps are done, which takes
/// less time.
const MAX_DURATION: Duration = Duration::from_secs(30);

/// Waits for about a hundred writes, and for the loss of the event.
async fn writes_go_on(loss: &Loss) {
    tokio::time::sleep(Duration::from_millis(300)).await;
    while !loss.is_over() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Runs two workers that watch through a proxy, which loses at most one event, while objects are
/// written. Halfway, a third worker joins them.
async fn watched_through(lost: Lost) -> Result<(), EventMismatch> {
    let strategy: Strategy = "watch-sharded:2".parse().expect("a strategy");
    let SeededPods {
        mut running,
        data,
        expected: seeded,
    } = SeededPods::start(strategy, 200).await;
    let etcd = running.etcd.clone().expect("it has an etcd tier");
    running.start_kube(&[]).await.expect("the cache is filled");

    let url = running.kube_url.clone().expect("it was just started");
    let upstream = url
        .trim_start_matches("http://")
        .parse()
        .expect("host and port");
    let loss = Loss::default();
    let proxy = losing_proxy::start(upstream, &loss).await;
    let mut endpoint = TargetEndpoint::from(&running);
    endpoint.kube_url = Some(format!("http://{proxy}"));
    let plan = Plan::equal(ShardKey::Uid, strategy.workers().expect("two"));
    let part = |shard: &ShardSelector| ShardRequest {
        shard: shard.clone(),
        by_server: true,
    };
    let rows = plan.shards().iter().map(|shard| {
        let mut parameters = ListParameters::default();
        parameters.part = Some(part(shard));
        ListCase {
            tier: Tier::Kube,
            strategy,
            prefix: format!("{ROOT}pods/"),
            resource: ApiResource::core("pods", "Pod"),
            parameters,
            go_clients: GoClients::default(),
        }
    });
    let rows: Vec<ListCase> = rows.collect();
    let mut workers = WatchWorkers::connect(&rows, &endpoint)
        .await
        .expect("it listens");
    let synced = workers.sync().await.expect("the state");
    let held = synced.iter().map(|worker| &worker.held);
    event_ledger::union(held, &seeded.fingerprint)?;

    let writing = Writing {
        etcd,
        data: Arc::clone(&data),
        root: ROOT.to_owned(),
        key: ShardKey::Uid,
        writes: Writes::Changes,
        per_second: 400.0,
        api: None,
    };
    let inventory = Inventory::new(&data, ShardKey::Uid).expect("pods");
    let next = Plan::equal(ShardKey::Uid, NonZeroU32::new(3).expect("three"));
    let stop = CancellationToken::new();
    let meanwhile = async {
        if lost == Lost::WhileTwoWatch {
            loss.lose(20);
        }
        writes_go_on(&loss).await;
        workers.join(&rows[0], &endpoint).await?;
        let revision = workers.pause().await?.into_iter().max();
        let revision = revision.expect("two workers");
        let changes = next.shards().iter().zip(plan.gains(&next)).enumerate();
        let changes = changes.map(|(worker, (shard, gains))| Change {
            revision,
            waits: worker < 2,
            part: part(shard),
            gains: gains.as_ref().map(part),
        });
        let taken = workers.take_over(changes.collect()).await?;
        if lost == Lost::AfterAThirdHasJoined {
            loss.lose(20);
        }
        writes_go_on(&loss).await;
        stop.cancel();
        Ok::<_, ListError>((revision, taken))
    };
    let written = writing.run(MAX_DURATION, &stop);
    let (ledger, taken) = tokio::join!(written, meanwhile);
    let mut ledger = ledger.expect("it takes what is written");
    let (revision, taken) = taken.expect("the shards are taken over");
    let last = writing.write_markers(&mut ledger, &inventory, &next).await;
    let finished = workers.finish(&last.expect("and the last of it")).await;
    let finished = finished.expect("the watches go on");
    let seen: Vec<_> = finished
        .iter()
        .map(|worker| worker.log.seen.clone())
        .collect();
    running.stop().await;
    let expected = ledger.expected(|at, hash| match at > revision {
        true => next.owner(hash),
        false => plan.owner(hash),
    });
    let behind = expected.iter().filter(|write| write.revision > revision);
    assert!(behind.count() > 20, "writes go on with three workers");
    let (counts, _, proven) = event_ledger::events(&expected, &seen);
    assert_eq!(
        counts.delivered + counts.dropped,
        ledger.writes.len() as u64
    );
    if lost != Lost::WhileTwoWatch {
        let held = taken.iter().map(|taken| &taken.held);
        event_ledger::union(held, &ledger.result_at(&inventory, revision))?;
    }
    let moved = plan.moved(&next, &inventory.distribution());
    let listed: u64 = taken.iter().map(|taken| taken.objects).sum();
    assert_eq!(
        listed,
        (moved * inventory.entries().len() as f64).round() as u64,
        "only what changed hands is listed again"
    );
    proven
}

#[tokio::test]
async fn a_lost_event_breaks_the_proof() {
    assert_eq!(watched_through(Lost::Never).await, Ok(()));
    for when in [Lost::WhileTwoWatch, Lost::AfterAThirdHasJoined] {
        let lost = watched_through(when).await;
        assert!(
            matches!(lost, Err(EventMismatch::Dropped { dropped: 1, .. })),
            "{when:?}: {lost:?}"
        );
    }
}
