//! Compaction during a list, on bench-server: the list starts again at a new revision, and is
//! complete.

use std::thread;

use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::proto::etcdserverpb::{CompactionRequest, PutRequest};
use kube_api::ApiResource;
use kube_api::client::Options;
use load::clients::go_clients::GoClients;
use load::endpoint::TargetEndpoint;
use load::operation::list::attempts::{Restarts, Tries, until_whole};
use load::operation::list::{ListCase, ListError, ListParameters, MAX_RESTARTS};
use load::verify::{Check, Expected};
use workloads::scenario::Media;
use workloads::{Strategy, Tier};

use crate::support::seeded_pods::{ROOT, SeededPods};

const OBJECTS: u64 = 60;

/// Writes another key, and compacts everything before it.
async fn compact(etcd: &ClientConfig) {
    let client = Client::connect(etcd.clone()).await.expect("it is there");
    let put = PutRequest {
        key: b"/elsewhere"[..].into(),
        ..PutRequest::default()
    };
    let put = client.kv().put(put).await.expect("it takes a write");
    let revision = put.into_inner().header.expect("a header").revision;
    let compaction = CompactionRequest {
        revision,
        physical: true,
    };
    let compacted = client.kv().compact(compaction).await;
    compacted.expect("it compacts");
}

/// Compacts while a client is in the middle of a list, which waits for it.
fn compact_now(etcd: &ClientConfig) {
    let compacting = || {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(compact(etcd));
    };
    thread::scope(|scope| scope.spawn(compacting).join()).expect("it does not panic");
}

/// Lists in pages. In the first `compactions` attempts, everything is compacted after the first
/// objects.
async fn listed(
    row: &ListCase,
    endpoint: &TargetEndpoint,
    expected: &Expected,
    compactions: u32,
) -> (Result<u64, ListError>, Restarts) {
    let mut list_client = row.connect(endpoint).await.expect("it is there");
    let etcd = endpoint.etcd.as_ref().expect("an etcd");
    let mut tries = 0;
    let mut all = Tries::begin();
    let list = until_whole(list_client.as_mut(), &mut all, async |list_client, _| {
        tries += 1;
        let mut is_compacted = tries > compactions;
        let mut on_objects = || {
            if !is_compacted {
                compact_now(etcd);
                is_compacted = true;
            }
        };
        let mut check = Check::new(ROOT);
        let listed = list_client.list(&mut check, &mut on_objects).await?;
        let found = check.finish(&listed, Some(expected))?;
        Ok(found.fingerprint.objects)
    });
    (list.await, all.restarts())
}

#[tokio::test]
async fn a_list_that_is_compacted_under_its_reader_begins_again() {
    let strategy: Strategy = "paged:7".parse().expect("a strategy");
    let SeededPods {
        mut running,
        data,
        expected,
    } = SeededPods::start(strategy, OBJECTS).await;
    // Pages from the watch cache are not affected by compaction.
    let uncached = ["--watch-cache=false".to_owned()];
    let kube = running.start_kube(&uncached).await;
    kube.expect("it takes lists");
    let endpoint = TargetEndpoint::from(&running);

    for (tier, media) in [
        (Tier::Etcd, Media::Protobuf),
        (Tier::Kube, Media::Protobuf),
        (Tier::Kube, Media::Json),
    ] {
        let row = ListCase {
            tier,
            strategy,
            prefix: format!("{ROOT}pods/"),
            resource: ApiResource::core("pods", "Pod"),
            parameters: ListParameters::new(media, Options::default()),
            go_clients: GoClients::default(),
        };
        for compactions in 0..=MAX_RESTARTS {
            let (objects, restarts) = listed(&row, &endpoint, &expected, compactions).await;
            assert_eq!(objects.ok(), Some(data.len()), "{tier} {media:?}");
            assert_eq!(restarts.count, compactions, "{tier} {media:?}");
            assert_eq!(restarts.time.is_zero(), compactions == 0);
        }
        let (never, restarts) = listed(&row, &endpoint, &expected, u32::MAX).await;
        let error = never.expect_err("each try is cut off").to_string();
        assert!(error.contains("longer than history is kept"), "{error}");
        assert_eq!(restarts.count, MAX_RESTARTS);
    }
    running.stop().await;
}
