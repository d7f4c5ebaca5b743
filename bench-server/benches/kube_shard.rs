//! Shards of 10,000 pods from the Kubernetes tier over a socket, unchecked: by index, and by
//! hashing every pod as an apiserver does. A shard of 1/N should cost 1/N of the whole list, which
//! is the first result.
//!
//! Storage is in the same process, and server and client share the machine's cores, so compare
//! these results only with each other.

#[path = "shared/client.rs"]
mod client;
#[path = "shared/kube.rs"]
mod kube;
#[path = "shared/pods.rs"]
mod pods;

use std::num::NonZeroU32;
use std::time::Duration;

use bench_server::kube::server::{FeatureGates, KubeTier};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use kube_api::{ShardKey, ShardSelector, envelope};
use tokio::runtime::Runtime;

use self::client::{Client, ask, read_unchecked};

const OBJECTS: u64 = 10_000;
const PODS: &str = "/api/v1/pods?resourceVersion=0";

/// Returns a tier with the pods in its cache, and a connection to it. The runtime must outlive
/// both.
fn tier(runtime: &Runtime, gates: FeatureGates) -> (KubeTier, Client) {
    let (store, data) = (kube::store(), pods::pods(OBJECTS));
    for i in 0..OBJECTS {
        pods::put(&store, &data, i);
    }
    runtime.block_on(async {
        let tier = kube::serve(store, &["pods"], gates).await;
        let client = client::connect(&tier).await;
        (tier, client)
    })
}

/// Returns the path of shard `which` of `shards` equal ones.
fn shard(key: ShardKey, shards: u32, which: usize) -> String {
    let shards = NonZeroU32::new(shards).expect("some");
    let selector = ShardSelector::equal_shards(key, shards)[which].to_string();
    let selector: String = form_urlencoded::byte_serialize(selector.as_bytes()).collect();
    format!("{PODS}&shardSelector={selector}")
}

/// Waits for the index, whose creation the first request for a shard triggers.
async fn indexed(client: &Client) {
    for _ in 0..1_000 {
        read_unchecked(client, &shard(ShardKey::Uid, 256, 0), envelope::MEDIA_TYPE).await;
        let mut metrics = Vec::new();
        ask(client, "/metrics", "", |data| {
            metrics.extend_from_slice(data)
        })
        .await;
        if String::from_utf8_lossy(&metrics).contains("index=\"h:metadata.uid\"") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("no index is built");
}

fn shards(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let (_indexed, by_index) = tier(&runtime, FeatureGates::default());
    runtime.block_on(indexed(&by_index));
    let gates = FeatureGates {
        shard_index: false,
        ..FeatureGates::default()
    };
    let (_scanned, by_hashing) = tier(&runtime, gates);
    let mut group = criterion.benchmark_group("kube-shard-10k-pods");
    group.sample_size(20);
    let of_uids = |shards| shard(ShardKey::Uid, shards, 0);
    for (name, client, path) in [
        ("whole", &by_index, PODS.to_owned()),
        ("uid-1-of-2", &by_index, of_uids(2)),
        ("uid-1-of-3", &by_index, of_uids(3)),
        ("uid-1-of-16", &by_index, of_uids(16)),
        ("uid-1-of-256", &by_index, of_uids(256)),
        ("uid-1-of-2/by-hashing", &by_hashing, of_uids(2)),
        ("uid-1-of-16/by-hashing", &by_hashing, of_uids(16)),
        ("uid-1-of-256/by-hashing", &by_hashing, of_uids(256)),
        // The names of namespaces differ only at their ends, so one shard has all of them, and this
        // shard is empty.
        (
            "namespace-empty",
            &by_index,
            shard(ShardKey::Namespace, 16, 0),
        ),
        (
            "namespace-empty/by-hashing",
            &by_hashing,
            shard(ShardKey::Namespace, 16, 0),
        ),
    ] {
        let bytes = runtime.block_on(read_unchecked(client, &path, envelope::MEDIA_TYPE));
        group.throughput(Throughput::Bytes(bytes));
        group.bench_function(BenchmarkId::new("unchecked", name), |bencher| {
            bencher
                .to_async(&runtime)
                .iter(|| read_unchecked(client, &path, envelope::MEDIA_TYPE));
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = {
        plot_font::register();
        Criterion::default().nresamples(10_000).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2))
    };
    targets = shards
}
criterion_main!(benches);
