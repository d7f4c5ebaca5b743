//! The same tests through bench-server's Kubernetes tier.

use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue, Method, header};
use kube_api::ApiResource;
use kube_api::client::{Connection, KubeAccess, Options, read_whole};
use load::clients::go_clients::GoClients;
use load::driver::deliveries::{ApiWatching, Delivered, DeliveryWatchers, ExtraEvents};
use load::driver::run::AcknowledgedWrite;
use load::endpoint::TargetEndpoint;
use load::operation::list::{ListCase, ListParameters};
use serde_json::{Value, json};
use test_support::proxy::Proxy;
use workloads::Tier;
use workloads::scenario::Media;

use super::NOTICED;
use crate::support::served::Served;

const WATCHERS: u32 = 4;
/// Number of events that the tier keeps.
const KEPT: u64 = 100;
const MAX_BODY: usize = 1 << 20;

/// Creates objects with these numbers, one after the other.
async fn create(url: &str, numbers: std::ops::Range<u64>) -> Vec<AcknowledgedWrite> {
    let connection = Connection::new(url, KubeAccess::default(), Options::default());
    let mut connection = connection.expect("a URL");
    let mut writes = Vec::new();
    for number in numbers {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("made-{number}")}});
        let mut headers = HeaderMap::new();
        let media = HeaderValue::from_static("application/json");
        headers.insert(header::CONTENT_TYPE, media);
        let path = "/api/v1/namespaces/ns/configmaps";
        let intended = Instant::now();
        let sent = connection.send(Method::POST, path, headers, object.to_string().into());
        let response = sent.await.expect("a response");
        assert_eq!(response.status(), 201);
        let body = read_whole(response.into_body(), MAX_BODY).await;
        let object: Value = serde_json::from_slice(&body.expect("a body")).expect("JSON");
        let version = object["metadata"]["resourceVersion"].as_str();
        let revision = version.and_then(|version| version.parse().ok());
        let revision = revision.expect("a resourceVersion");
        writes.push(AcknowledgedWrite { revision, intended });
    }
    writes
}

/// Runs watchers behind a relay that is closed while `objects` objects are created; returns their
/// result and the total number of objects.
async fn cut_for(objects: u64, cut_every: Option<Duration>) -> (Delivered, u64) {
    let kept = format!("--watch-cache-max-events={KEPT}");
    let tier = tokio::task::spawn_blocking(move || {
        let tier = Served::kube_with(&[&kept]);
        // Waits until the cache is filled.
        tier.names("configmaps");
        tier
    });
    let tier = tier.await.expect("no panic");
    let way = Proxy::start(&tier.url);
    let case = ListCase {
        tier: Tier::Kube,
        strategy: "consistent".parse().expect("a strategy"),
        prefix: "/registry/configmaps/".to_owned(),
        resource: ApiResource::core("configmaps", "ConfigMap"),
        parameters: ListParameters::new(Media::Protobuf, Options::default()),
        go_clients: GoClients::default(),
    };
    let begun = Instant::now();
    let watchers = DeliveryWatchers::create_through_api(ApiWatching {
        case,
        endpoint: TargetEndpoint {
            etcd: None,
            kube_url: Some(way.url()),
            kube_access: KubeAccess::default(),
        },
        count: WATCHERS,
        made: "made-".to_owned(),
        cut_every,
        live: Default::default(),
    });
    let watchers = watchers.await.expect("they are accepted");
    let mut writes = create(&tier.url, 0..10).await;
    // A watcher that has not yet read the earlier events would miss these, too.
    tokio::time::sleep(NOTICED).await;
    way.cut();
    writes.extend(create(&tier.url, 10..10 + objects).await);
    way.restore();
    // The watchers have resumed before more is written.
    tokio::time::sleep(NOTICED * 10).await;
    writes.extend(create(&tier.url, 10 + objects..20 + objects).await);
    let count = writes.len() as u64;
    let delivered = watchers.finish(writes, begun, ExtraEvents::Nothing).await;
    (delivered.expect("what is lost is known"), count)
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_through_an_api_go_on_behind_what_they_have() {
    let (delivered, objects) = cut_for(KEPT / 2, None).await;
    let all = u64::from(WATCHERS) * objects;
    assert_eq!((delivered.events, delivered.missed), (all, 0));
    assert_eq!(delivered.relists, 0);
    assert!(delivered.lost >= u64::from(WATCHERS), "{}", delivered.lost);
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_that_are_told_410_list_again_and_count_what_they_missed() {
    let (delivered, objects) = cut_for(2 * KEPT, None).await;
    let all = u64::from(WATCHERS) * objects;
    let missed = u64::from(WATCHERS) * 2 * KEPT;
    assert_eq!((delivered.events, delivered.missed), (all - missed, missed));
    assert_eq!(delivered.relists, u64::from(WATCHERS));
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_that_cut_their_own_connections_lose_nothing() {
    let (delivered, objects) = cut_for(KEPT / 2, Some(Duration::from_millis(30))).await;
    let all = u64::from(WATCHERS) * objects;
    assert_eq!((delivered.events, delivered.missed), (all, 0));
    assert!(delivered.cuts.n() > 5 * u64::from(WATCHERS));
}
