//! One event to all watchers: the time from the write until 1,000 or 10,000 watchers have its
//! frame. Also a whole watch-list.
//!
//! Storage, cache and watchers are on one thread without sockets, so the time is that of the
//! server's work: applying, filtering, dispatching, encoding.

#[path = "shared/kube.rs"]
mod kube;
#[path = "shared/pods.rs"]
mod pods;

use std::pin::Pin;
use std::time::Duration;

use bench_server::kube::resource::media_type::{DEFAULT_MEDIA_TYPE, Encoding, MediaType};
use bench_server::kube::resource::representation::{IncludeObject, Representation};
use bench_server::kube::resource_handler::ResourceHandler;
use bench_server::kube::server::{FeatureGates, KubeTier};
use bench_server::kube::watch::body::WatchBody;
use bench_server::store::Store;
use bytes::Buf;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use http_body::Body;
use kube_api::ListOptions;
use tokio::runtime::Runtime;
use workloads::DataSet;

const OBJECTS: u64 = 1_000;

struct Served {
    store: Store,
    data: DataSet,
    tier: KubeTier,
}

impl Served {
    fn put(&self, i: u64) {
        pods::put(&self.store, &self.data, i);
    }

    fn pods(&self) -> &ResourceHandler {
        self.tier.service.handler("pods").expect("served")
    }

    async fn watch(&self, query: &str, encoding: Encoding) -> Pin<Box<WatchBody>> {
        let options = ListOptions::parse(query).expect("a query");
        let form = Representation::new(
            MediaType {
                encoding,
                ..DEFAULT_MEDIA_TYPE
            },
            IncludeObject::default(),
        );
        let body = self.pods().watch("", &options, form, false).await;
        Box::pin(body.expect("accepted"))
    }
}

fn serve(runtime: &Runtime) -> Served {
    let store = kube::store();
    let served = Served {
        tier: runtime.block_on(kube::serve(
            store.clone(),
            &["pods"],
            FeatureGates::default(),
        )),
        data: pods::pods(OBJECTS),
        store,
    };
    for i in 0..OBJECTS {
        served.put(i);
    }
    served
}

/// Reads the next chunk of a watch; returns its size, bytes.
async fn piece(watch: &mut Pin<Box<WatchBody>>) -> usize {
    let frame = std::future::poll_fn(|context| watch.as_mut().poll_frame(context)).await;
    let data = frame.expect("it goes on").expect("infallible").into_data();
    data.expect("no trailers").remaining()
}

/// Polls a watch, which must have nothing to send, so that it waits for the next event.
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
            cache.wait_until_fresh(from).await.expect("storage is here");
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
                    // Only the last chunk is smaller than the target size.
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
    config = {
        plot_font::register();
        Criterion::default().nresamples(10_000).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2))
    };
    targets = fan_out, watch_list
}
criterion_main!(benches);
