//! One suite for every implementation of the Kubernetes-etcd interface: the embedded store,
//! bench-server's etcd tier over a socket, and etcd itself, which validates the suite.
//!
//! A new case goes into `suite.rs` and into the list at that file's end.

#[allow(dead_code, reason = "the conformance table uses more of it")]
#[path = "../conformance/peer.rs"]
mod peer;
mod suite;

use std::sync::Arc;
use std::time::Duration;

use bench_server::embedded::EmbeddedEtcd;
use bench_server::store::{Config, Store};
use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::client::kubernetes::KubernetesClient;
use etcd_api::kubernetes::KubernetesEtcd;
use peer::{Peer, Server};

/// Time limit of a case.
const CASE_LIMIT: Duration = Duration::from_secs(20);

/// Interval of progress notifications: longer than any case, since the suite requests progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(600);

/// The program that serves the etcd tier.
const SERVER: &str = env!("CARGO_BIN_EXE_bench-server");

async fn run_all<F>(fresh: impl Fn() -> F)
where
    F: Future<Output = (Arc<dyn KubernetesEtcd>, Option<Server>)>,
{
    for (name, case) in suite::CASES {
        let (storage, _server) = fresh().await;
        let outcome = tokio::time::timeout(CASE_LIMIT, case(storage)).await;
        assert!(outcome.is_ok(), "{name} took more than {CASE_LIMIT:?}");
        println!("{name}: ok");
    }
}

async fn over(peer: Peer) -> (Arc<dyn KubernetesEtcd>, Option<Server>) {
    let server = Server::start(peer, &[]).expect("the peer starts");
    let config = ClientConfig::new(&server.url).expect("a peer's URL");
    let client = Client::connect(config).await.expect("the peer answers");
    (Arc::new(KubernetesClient::new(client)), Some(server))
}

#[tokio::test]
async fn the_embedded_store() {
    run_all(|| async {
        let store = Store::new(Config::default());
        let storage: Arc<dyn KubernetesEtcd> =
            Arc::new(EmbeddedEtcd::new(store, PROGRESS_INTERVAL));
        (storage, None)
    })
    .await;
}

#[tokio::test]
async fn our_etcd_tier() {
    run_all(|| over(Peer::Bench)).await;
}

#[tokio::test]
async fn etcd() {
    if let Some(reason) = Peer::Etcd.missing() {
        assert!(!test_support::in_ci(), "etcd is missing in CI: {reason}");
        eprintln!("skipped: {reason}");
        return;
    }
    run_all(|| over(Peer::Etcd)).await;
}

/// A member that does not respond does not affect the features of the cluster.
#[tokio::test]
async fn features_of_a_cluster_with_a_member_down() {
    let server = Server::start(Peer::Bench, &[]).expect("our server starts");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let down = closed.local_addr().expect("its address");
    // This listener accepts nothing: connections stay in its queue, like those to a member that
    // hangs.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let hanging = silent.local_addr().expect("its address");
    drop(closed);
    let mut config = ClientConfig::new(&server.url).expect("a URL");
    for member in [down, hanging] {
        let member = ClientConfig::new(&format!("http://{member}")).expect("a URL");
        config.endpoints.extend(member.endpoints);
    }
    let client = Client::connect(config).await.expect("one member answers");
    let storage = KubernetesClient::new(client);
    let features = storage.features().await.expect("one member answers");
    assert!(features.version.starts_with("3.7."), "{}", features.version);
    assert!(features.request_progress);
    drop(server);
    assert!(storage.features().await.is_err(), "nobody answers");
}
