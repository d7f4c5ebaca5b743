//! Lists over a socket: 10,000 pods from the etcd tier by each kind of request, with and without
//! checks.
//!
//! Server and client share this process and the machine's cores, so compare these results with each
//! other, not with a run of two processes.

#[path = "shared/pods.rs"]
mod pods;

use bench_server::etcd::server::EtcdTier;
use bench_server::flags::{Flags, RangeEncoding};
use clap::Parser;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use etcd_api::client::config::ClientConfig;
use etcd_api::client::list_validator::Object;
use etcd_api::client::raw_list::{ListRpc, RawConnection};
use etcd_api::keys::prefix_end;
use etcd_api::proto::etcdserverpb::RangeRequest;
use tokio::runtime::Runtime;

const OBJECTS: u64 = 10_000;
const PREFIX: &[u8] = b"/registry/pods/";

/// Returns a tier that contains the pods. The runtime on which it was started must outlive it.
fn tier(runtime: &Runtime, encoding: RangeEncoding) -> EtcdTier {
    let mut flags = Flags::parse_from([
        "bench-server",
        "--listen-client-urls",
        "http://127.0.0.1:0",
        "--quota-backend-bytes=-1",
    ]);
    flags.etcd.range_encoding = encoding;
    let tier = runtime
        .block_on(EtcdTier::start(&flags.etcd, &flags.common))
        .expect("a loopback port is free");
    let data = pods::pods(OBJECTS);
    for i in 0..OBJECTS {
        pods::put(&tier.node.store, &data, i);
    }
    tier
}

fn connect(runtime: &Runtime, tier: &EtcdTier) -> RawConnection {
    let config = ClientConfig::new(&tier.urls[0]).expect("the tier's own URL");
    runtime
        .block_on(RawConnection::connect(&config, None))
        .expect("the tier accepts")
}

fn whole() -> RangeRequest {
    RangeRequest {
        key: PREFIX.to_vec().into(),
        range_end: prefix_end(PREFIX).into(),
        ..RangeRequest::default()
    }
}

/// Reads all pages of `limit` objects; returns their size, bytes.
async fn pages(connection: &RawConnection, limit: i64) -> u64 {
    let mut request = RangeRequest { limit, ..whole() };
    let mut bytes = 0;
    let mut seen = 0;
    loop {
        let mut last = Vec::new();
        let mut note = |object: Object<'_>| {
            last.clear();
            last.extend_from_slice(object.key);
        };
        let summary = connection
            .validate(ListRpc::Range, &request, &mut note, || {})
            .await
            .expect("a page");
        bytes += summary.bytes;
        seen += summary.objects;
        if !summary.more {
            assert_eq!(seen, OBJECTS, "pages add up to the list");
            return bytes;
        }
        if request.revision == 0 {
            request.revision = summary.revision;
        }
        last.push(0);
        request.key = last.into();
    }
}

fn lists(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let incremental = tier(&runtime, RangeEncoding::Incremental);
    let buffered = tier(&runtime, RangeEncoding::Buffered);
    let streaming = connect(&runtime, &incremental);
    let gathering = connect(&runtime, &buffered);
    let bytes = runtime
        .block_on(streaming.read_unchecked(ListRpc::Range, &whole()))
        .expect("a list");

    let mut group = criterion.benchmark_group("list-10k-pods");
    group.throughput(Throughput::Bytes(bytes)).sample_size(20);
    for (name, connection, rpc) in [
        ("unary", &gathering, ListRpc::Range),
        ("unary-incremental", &streaming, ListRpc::Range),
        ("stream", &streaming, ListRpc::RangeStream),
    ] {
        group.bench_function(BenchmarkId::new("unchecked", name), |bencher| {
            bencher.to_async(&runtime).iter(|| async {
                connection
                    .read_unchecked(rpc, &whole())
                    .await
                    .expect("a list")
            });
        });
    }
    for limit in [500, 10_000] {
        group.bench_function(
            BenchmarkId::new("checked", format!("paged:{limit}")),
            |bencher| {
                bencher.to_async(&runtime).iter(|| pages(&streaming, limit));
            },
        );
    }
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
