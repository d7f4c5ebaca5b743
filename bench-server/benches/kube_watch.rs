//! One event to all who watch: the time from the write until 1,000 or 10,000 watchers hold its frame, and the
//! whole of a watch-list beside it.
//!
//! Storage, cache and watchers are on one thread and no socket is between them, so the figure is what the
//! server computes: applying, filtering, handing out, encoding.

use std::pin::Pin;
use std::sync::Arc;

use bench_server::embedded::EmbeddedEtcd;
use bench_server::flags::{CommonFlags, Flags};
use bench_server::kube::form::{Form, Include};
use bench_server::kube::list::Lister;
use bench_server::kube::media::{Encoding, Media, PLAIN};
use bench_server::kube::tier::KubeTier;
use bench_server::kube::watch::body::WatchBody;
use bench_server::store::{Config, Store};
use bytes::Buf;
use clap::Parser;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use etcd_api::proto::etcdserverpb::PutRequest;
use http_body::Body;
use kube_api::ListOptions;
use tokio::runtime::Runtime;
use workloads::{DataSet, Scenario};

const OBJECTS: u64 = 1_000;

struct Served {
    store: Store,
    data: DataSet,
    tier: KubeTier,
}

impl Served {
    fn put(&self, i: u64) {
        let put = PutRequest {
            key: [b"/registry/", &self.data.key(i)[..]].concat().into(),
            value: self.data.value(i),
            ..PutRequest::default()
        };
        self.store.put(&put).expect("no quota is set");
    }

    fn pods(&self) -> &Lister {
        self.tier.service.lister("pods").expect("served")
    }

    async fn watch(&self, query: &str, encoding: Encoding) -> Pin<Box<WatchBody>> {
        let options = ListOptions::parse(query).expect("a query");
        let form = Form::new(Media { encoding, ..PLAIN }, Include::default());
        let body = self.pods().watch("", &options, form, false).await;
        Box::pin(body.expect("accepted"))
    }
}

fn serve(runtime: &Runtime) -> Served {
    let mut scenario = Scenario::named("pods-150k").expect("a built-in scenario");
    let mut spec = scenario.data_sets.remove(0);
    spec.objects = OBJECTS.try_into().expect("some objects");
    let store = Store::new(Config {
        quota_backend_bytes: -1,
        ..Config::default()
    });
    let flags = Flags::parse_from([
        "bench-server",
        "--listen-kube-urls",
        "http://127.0.0.1:0",
        "--backend",
        "embedded",
    ]);
    runtime.block_on(async {
        let backend = EmbeddedEtcd::start(store.clone(), std::time::Duration::from_secs(600));
        let common = CommonFlags {
            worker_threads: 1,
            ..flags.common
        };
        let tier = KubeTier::start_over(Arc::new(backend), &flags.kube, &common);
        let served = Served {
            tier: tier.await.expect("a loopback port is free"),
            data: DataSet::new(&spec),
            store,
        };
        let cache = served.pods().cache.clone().expect("on by default");
        while !cache.is_ready() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        for i in 0..OBJECTS {
            served.put(i);
        }
        served
    })
}

/// The next piece of a watch; its bytes.
async fn piece(watch: &mut Pin<Box<WatchBody>>) -> usize {
    let frame = std::future::poll_fn(|context| watch.as_mut().poll_frame(context)).await;
    let data = frame.expect("it goes on").expect("infallible").into_data();
    data.expect("no trailers").remaining()
}

/// Makes a watch wait for what comes.
async fn settle(watch: &mut Pin<Box<WatchBody>>) {
    let nothing = std::future::poll_fn(|context| {
        std::task::Poll::Ready(watch.as_mut().poll_frame(context).is_pending())
    });
    assert!(nothing.await, "there is nothing to send yet");
}

fn fan_out(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let served = serve(&runtime);
    let mut group = criterion.benchmark_group("kube-watch-fan-out");
    group.sample_size(20);
    for (watchers, encoding, name) in [
        (1_000, Encoding::Json, "json"),
        (10_000, Encoding::Json, "json"),
        (10_000, Encoding::Protobuf, "protobuf"),
    ] {
        let mut all = runtime.block_on(async {
            let from = served.store.revision();
            let cache = served.pods().cache.clone().expect("on by default");
            cache.reach(from).await.expect("storage is here");
            let query = format!("watch=1&resourceVersion={from}");
            let mut all = Vec::new();
            for _ in 0..watchers {
                let mut watch = served.watch(&query, encoding).await;
                settle(&mut watch).await;
                all.push(watch);
            }
            all
        });
        group.throughput(Throughput::Elements(watchers));
        let mut i = 0;
        group.bench_function(BenchmarkId::new(name, watchers), |bencher| {
            bencher.iter(|| {
                i += 1;
                served.put(i % OBJECTS);
                runtime.block_on(async {
                    for watch in &mut all {
                        piece(watch).await;
                    }
                });
            });
        });
    }
    group.finish();
}

fn watch_list(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let served = serve(&runtime);
    let mut group = criterion.benchmark_group("kube-watch-list-1k-pods");
    let query = "watch=1&timeoutSeconds=600&allowWatchBookmarks=1&sendInitialEvents=1&resourceVersionMatch=NotOlderThan";
    for (encoding, name) in [(Encoding::Json, "json"), (Encoding::Protobuf, "protobuf")] {
        group.throughput(Throughput::Elements(OBJECTS));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                runtime.block_on(async {
                    let mut watch = served.watch(query, encoding).await;
                    let mut bytes = 0;
                    // The last piece is the only one that is not filled up.
                    loop {
                        let next = piece(&mut watch).await;
                        bytes += next;
                        if next < bench_server::wire::frame::TARGET_BYTES {
                            break bytes;
                        }
                    }
                })
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = { plot_font::register(); Criterion::default() };
    targets = fan_out, watch_list
}
criterion_main!(benches);
