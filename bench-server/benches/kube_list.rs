//! Lists of 10,000 pods from the Kubernetes tier over a socket, by each kind of request, unchecked.
//!
//! Storage is in the same process, so the read of the revision for a consistent list uses no
//! socket. Server and client share the machine's cores, so compare these results with each other,
//! not with a run of two processes.

#[path = "shared/client.rs"]
mod client;
#[path = "shared/kube.rs"]
mod kube;
#[path = "shared/pods.rs"]
mod pods;

use std::time::Duration;

use bench_server::kube::server::{FeatureGates, KubeTier};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use kube_api::envelope;
use kube_api::protobuf::find_bytes;
use tokio::runtime::Runtime;

use self::client::{Client, ask, read_unchecked};

const OBJECTS: u64 = 10_000;
const PODS: &str = "/api/v1/pods";

/// Returns a tier with the pods in its cache, and a connection to it. The runtime must outlive
/// both.
fn tier(runtime: &Runtime) -> (KubeTier, Client) {
    let (store, data) = (kube::store(), pods::pods(OBJECTS));
    for i in 0..OBJECTS {
        pods::put(&store, &data, i);
    }
    runtime.block_on(async {
        let tier = kube::serve(store, &["pods"], FeatureGates::default()).await;
        let client = client::connect(&tier).await;
        (tier, client)
    })
}

/// Reads all pages of 500 objects; returns their size, bytes.
async fn pages(client: &Client) -> u64 {
    let (mut bytes, mut token) = (0, String::new());
    loop {
        let mut page = Vec::new();
        let path = format!("{PODS}?limit=500&continue={token}");
        ask(client, &path, envelope::MEDIA_TYPE, |data| {
            page.extend_from_slice(data)
        })
        .await;
        bytes += page.len() as u64;
        let list = envelope::open(&page).expect("a list");
        let meta = find_bytes(list, 1).expect("a list").expect("metadata");
        let next = find_bytes(meta, 3).expect("metadata").unwrap_or_default();
        token = String::from_utf8(next.to_vec()).expect("Base64");
        if token.is_empty() {
            return bytes;
        }
    }
}

fn lists(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let (_tier, client) = tier(&runtime);
    let json = "application/json";
    let mut group = criterion.benchmark_group("kube-list-10k-pods");
    group.sample_size(20);
    for (name, query, accept) in [
        (
            "cached/protobuf",
            "?resourceVersion=0",
            envelope::MEDIA_TYPE,
        ),
        ("consistent/protobuf", "", envelope::MEDIA_TYPE),
        ("cached/json", "?resourceVersion=0", json),
        (
            "consistent/selects-nothing",
            "?labelSelector=team%3Dnobody",
            json,
        ),
    ] {
        let path = format!("{PODS}{query}");
        let bytes = runtime.block_on(read_unchecked(&client, &path, accept));
        group.throughput(Throughput::Bytes(bytes));
        group.bench_function(BenchmarkId::new("unchecked", name), |bencher| {
            bencher
                .to_async(&runtime)
                .iter(|| read_unchecked(&client, &path, accept));
        });
    }
    group.throughput(Throughput::Bytes(runtime.block_on(pages(&client))));
    group.bench_function(BenchmarkId::new("pages", "paged:500/protobuf"), |bencher| {
        bencher.to_async(&runtime).iter(|| pages(&client));
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = {
        plot_font::register();
        Criterion::default().nresamples(10_000).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2))
    };
    targets = lists
}
criterion_main!(benches);
