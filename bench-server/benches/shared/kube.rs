//! The Kubernetes tier over a store in the same process.

use std::sync::Arc;
use std::time::Duration;

use bench_server::embedded::EmbeddedEtcd;
use bench_server::flags::{CommonFlags, Flags};
use bench_server::kube::server::{FeatureGates, KubeTier};
use bench_server::store::{Config, Store};
use clap::Parser;

/// Returns an empty store without a quota.
pub(crate) fn store() -> Store {
    Store::new(Config {
        quota_backend_bytes: -1,
        ..Config::default()
    })
}

/// Returns a tier whose caches of `resources` are filled. The runtime on which it was started must
/// outlive it.
pub(crate) async fn serve(store: Store, resources: &[&str], gates: FeatureGates) -> KubeTier {
    let mut flags = Flags::parse_from([
        "bench-server",
        "--listen-kube-urls",
        "http://127.0.0.1:0",
        "--backend",
        "embedded",
    ]);
    flags.kube.feature_gates = gates;
    let backend = EmbeddedEtcd::new(store, Duration::from_secs(600));
    let common = CommonFlags {
        worker_threads: 1,
        ..flags.common
    };
    let tier = KubeTier::start_over(Arc::new(backend), &flags.kube, &common)
        .await
        .expect("a loopback port is free");
    for resource in resources {
        let handler = tier.service.handler(resource).expect("served");
        let cache = handler.cache.clone().expect("on by default");
        while !cache.is_ready() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    tier
}
