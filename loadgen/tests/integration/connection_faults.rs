//! Lists of both tiers over connections that are slow, late or end half-way: each list is whole or
//! an error, and none takes a short response for a whole one. A member of a cluster that is down
//! receives no requests, even if something else accepts its connections.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::proto::etcdserverpb::RangeRequest;
use kube_api::client::Options;
use load::clients::go_clients::GoClients;
use load::driver::closed::{Clients, Job};
use load::endpoint::TargetEndpoint;
use load::operation::list::{ListCase, ListError, ListParameters};
use load::verify::Verifier;
use loadgen::seed::kube::resource_of;
use test_support::proxy::{End, Link, Proxy};
use tokio::time::timeout;
use workloads::scenario::Media;
use workloads::{Strategy, Tier};

use crate::support::seeded_pods::{ROOT, SeededPods};
use crate::support::served::Served;

/// Two megabytes.
const PODS: u64 = 200;
/// Where connections end: before the response, in its head, and in its objects.
const ENDS: [u64; 5] = [0, 10, 1_000, 100_000, 1_000_000];
/// A list that takes longer hangs.
const HANGS: Duration = Duration::from_secs(30);

/// A server with pods, whose connections go through a proxy.
struct Behind {
    proxy: Proxy,
    endpoint: TargetEndpoint,
    case: ListCase,
    verifier: Verifier,
}

impl Behind {
    fn new(seeded: &SeededPods, tier: Tier, strategy: Strategy, media: Media) -> Self {
        let mut endpoint = TargetEndpoint::from(&seeded.running);
        let proxy = match (tier, &mut endpoint) {
            (Tier::Etcd, TargetEndpoint { etcd, .. }) => {
                let etcd = etcd.as_mut().expect("it has an etcd tier");
                let address = etcd.endpoints[0].authority().expect("an address");
                let proxy = Proxy::start(&format!("http://{address}"));
                let through = ClientConfig::new(&proxy.url()).expect("a URL");
                etcd.endpoints = through.endpoints;
                proxy
            }
            (Tier::Kube, TargetEndpoint { kube_url, .. }) => {
                let url = kube_url.as_mut().expect("it has a Kubernetes tier");
                let proxy = Proxy::start(url);
                *url = proxy.url();
                proxy
            }
        };
        Self {
            proxy,
            endpoint,
            case: ListCase {
                tier,
                strategy,
                prefix: format!("{ROOT}{}", seeded.data.prefix()),
                resource: resource_of(&seeded.data),
                parameters: ListParameters::new(media, Options::default()),
                go_clients: GoClients::default(),
            },
            verifier: Verifier {
                root: ROOT.to_owned(),
                expected: Some(seeded.expected.clone()),
                by_node: HashMap::new(),
                latest: Arc::default(),
            },
        }
    }

    /// Lists over connections with this link, and verifies every object.
    async fn list(&self, link: Link) -> Result<(), ListError> {
        self.proxy.set(link);
        let list = async {
            let clients = Clients::connect(1, &self.case, &self.endpoint, self.verifier.clone());
            let done = clients.await?.round(Job::List).await.remove(0);
            let (listed, _) = done.result?.expect("it lists");
            assert!(listed.wire_bytes > PODS * 1_000, "{listed:?}");
            Ok(())
        };
        let name = (self.case.tier, self.case.strategy, link);
        match timeout(HANGS, list).await {
            Ok(ended) => ended,
            Err(_) => panic!("{name:?} hangs"),
        }
    }
}

async fn survive(seeded: &SeededPods, tier: Tier, strategy: &str, media: Media) {
    let strategy: Strategy = strategy.parse().expect("a strategy");
    let behind = Behind::new(seeded, tier, strategy, media);
    let name = format!("{tier}/{strategy} {media:?}");
    for end in [End::Cut, End::HalfClose] {
        let mut failed = 0;
        for after in ENDS {
            let link = Link {
                end: Some((after, end)),
                ..Link::default()
            };
            failed += usize::from(behind.list(link).await.is_err());
        }
        // Pages may go on over a new connection, and are verified then.
        let least = match strategy {
            Strategy::Paged(_) => 3,
            _ => ENDS.len(),
        };
        assert!(failed >= least, "{name}, {end:?}: {failed} failed");
    }
    let slow = Link {
        delay: Duration::from_millis(3),
        bytes_per_s: Some(20_000_000),
        end: None,
    };
    let whole = behind.list(slow).await;
    assert!(whole.is_ok(), "{name}, {slow:?}: {whole:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_from_etcd_are_whole_or_errors() {
    let strategy = "stream".parse().expect("a strategy");
    let seeded = SeededPods::start(strategy, PODS).await;
    for strategy in ["unary-incremental", "stream", "paged:20"] {
        survive(&seeded, Tier::Etcd, strategy, Media::Protobuf).await;
    }
    seeded.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_from_the_kubernetes_tier_are_whole_or_errors() {
    let strategy = "consistent".parse().expect("a strategy");
    let mut seeded = SeededPods::start(strategy, PODS).await;
    let started = seeded.running.start_kube(&[]).await;
    started.expect("the Kubernetes tier starts");
    for media in [Media::Protobuf, Media::Json] {
        for strategy in ["consistent", "watch-list", "paged:20"] {
            survive(&seeded, Tier::Kube, strategy, media).await;
        }
    }
    seeded.running.stop().await;
}

/// Returns how many of this number of requests failed, sent one after the other.
async fn failures(client: &Client, requests: u32) -> u32 {
    let mut failed = 0;
    for _ in 0..requests {
        let request = RangeRequest {
            key: "a".into(),
            ..RangeRequest::default()
        };
        let response = timeout(HANGS, client.kv().range(request)).await;
        failed += u32::from(response.expect("in time").is_err());
    }
    failed
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_whose_connections_are_accepted_and_not_answered_gets_no_requests() {
    let (dies, stays) = (Served::etcd(), Served::etcd());
    let proxy = Proxy::start(&dies.url);
    let endpoints = format!("{},{}", proxy.url(), stays.url);
    let config = ClientConfig::new(&endpoints).expect("URLs");
    let client = Client::connect(config.clone()).await.expect("they run");
    proxy.until_used();
    assert_eq!(failures(&client, 20).await, 0);
    drop(dies);
    let failed = failures(&client, 40).await;
    assert!(
        failed <= 1,
        "{failed} requests went to a member that is down"
    );
    let later = Client::connect(config).await.expect("one of them runs");
    assert_eq!(failures(&later, 20).await, 0, "it was down from the start");
}
