//! The delivery of events to many watchers, from the put to the last client.
//!
//! `cargo bench -p bench-server --bench watch`. Server and clients share this process and the
//! machine's cores. A quantile needs ten samples above it, so p99 is printed only for 1,000 puts or
//! more.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bench_server::etcd::server::EtcdTier;
use bench_server::flags::Flags;
use bench_server::store::watch_hub::{WatchSpec, WatchStream};
use bench_server::store::{Config, Store};
use bytes::Bytes;
use clap::Parser;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::keys::prefix_end;
use etcd_api::proto::etcdserverpb::watch_request::RequestUnion;
use etcd_api::proto::etcdserverpb::{PutRequest, WatchCreateRequest, WatchRequest};
use futures::StreamExt;
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::task::LocalSet;

/// The server's allocator.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const CONNECTIONS: usize = 100;
const WATCHERS_PER_STREAM: usize = 100;
const WATCHERS: usize = CONNECTIONS * WATCHERS_PER_STREAM;
const PREFIX: &[u8] = b"/registry/pods/";
/// Number of puts of 1 KiB after which history is compacted, far below the quota of 2 GiB.
const PUTS_BETWEEN_COMPACTIONS: u64 = 100_000;
/// Minimum number of samples for a p99.
const MIN_SAMPLES: usize = 1_000;

/// The number of events that all clients together still wait for.
#[derive(Default)]
struct Awaited {
    notices: Cell<usize>,
    last: Notify,
}

impl Awaited {
    fn came(&self, notices: usize) {
        self.notices.set(self.notices.get() - notices);
        if self.notices.get() == 0 {
            self.last.notify_one();
        }
    }
}

fn put() -> PutRequest {
    PutRequest {
        key: b"/registry/pods/default/one".to_vec().into(),
        value: vec![7; 1024].into(),
        ..Default::default()
    }
}

/// Creates [`WATCHERS_PER_STREAM`] watchers of [`PREFIX`] on one stream of a new connection, and
/// counts their events forever.
async fn watch(config: ClientConfig, awaited: Rc<Awaited>) {
    let client = Client::connect(config).await.expect("the tier accepts");
    let create = || WatchRequest {
        request_union: Some(RequestUnion::CreateRequest(WatchCreateRequest {
            key: PREFIX.to_vec().into(),
            range_end: prefix_end(PREFIX).into(),
            ..Default::default()
        })),
    };
    let creates = futures::stream::iter((0..WATCHERS_PER_STREAM).map(move |_| create()));
    let requests = creates.chain(futures::stream::pending());
    let answer = client.watch().watch(requests).await.expect("a stream");
    let mut notices = answer.into_inner();
    while let Ok(Some(notice)) = notices.message().await {
        let expected = usize::from(notice.created) + notice.events.len();
        assert_eq!(expected, 1, "one answer for each creation and each event");
        awaited.came(1);
    }
}

fn fan_out(criterion: &mut Criterion) {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let flags = Flags::parse_from(["bench-server", "--listen-client-urls=http://127.0.0.1:0"]);
    let tier = runtime
        .block_on(EtcdTier::start(&flags.etcd, &flags.common))
        .expect("a loopback port is free");
    let config = ClientConfig::new(&tier.urls[0]).expect("the tier's own URL");
    let awaited = Rc::new(Awaited::default());
    let clients = LocalSet::new();
    awaited.notices.set(WATCHERS);
    for _ in 0..CONNECTIONS {
        clients.spawn_local(watch(config.clone(), awaited.clone()));
    }
    let in_clients = |work: &dyn Fn() -> Work| clients.block_on(&runtime, work());
    let writer = in_clients(&|| {
        let (config, awaited) = (config.clone(), awaited.clone());
        Box::pin(async move {
            awaited.last.notified().await;
            Some(Client::connect(config).await.expect("the tier accepts"))
        })
    });
    let writer = writer.expect("a client was made");

    let latencies = RefCell::new(Vec::new());
    let mut group = criterion.benchmark_group("watch");
    group
        .sample_size(20)
        .measurement_time(Duration::from_secs(20))
        .throughput(Throughput::Elements(WATCHERS as u64));
    group.bench_function("put to the last of 10,000 watchers", |bencher| {
        bencher.iter_custom(|n| {
            let mut elapsed = Duration::ZERO;
            for _ in 0..n {
                let start = Instant::now();
                in_clients(&|| {
                    let (mut kv, awaited) = (writer.kv(), awaited.clone());
                    Box::pin(async move {
                        awaited.notices.set(WATCHERS);
                        kv.put(put()).await.expect("a put");
                        awaited.last.notified().await;
                        None
                    })
                });
                latencies.borrow_mut().push(start.elapsed());
                elapsed += start.elapsed();
            }
            elapsed
        });
    });
    group.finish();
    let mut latencies = latencies.into_inner();
    latencies.sort();
    if latencies.len() >= MIN_SAMPLES {
        let at = |share: usize| latencies[latencies.len() * share / 100];
        let (p50, p99, n) = (at(50), at(99), latencies.len());
        println!("put to the last of 10,000 watchers: p50 {p50:.2?}, p99 {p99:.2?}, n {n}");
    }
}

type Work = std::pin::Pin<Box<dyn Future<Output = Option<Client>>>>;

/// Returns a stream with one watcher of each of these prefixes.
fn idle_stream(store: &Store, prefixes: std::ops::Range<usize>) -> WatchStream {
    let stream = store.watch();
    for i in prefixes {
        let prefix = format!("/registry/other/{i}/").into_bytes();
        stream.create(WatchSpec {
            range_end: prefix_end(&prefix),
            key: prefix,
            ..Default::default()
        });
    }
    let mut context = Context::from_waker(Waker::noop());
    while let Poll::Ready(_created) = stream.poll_next(&mut context) {}
    stream
}

/// Measures the cost that watchers of other keys add to a put.
fn unrelated(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("unrelated put, idle watchers");
    for idle in [0, 1_000, 100_000] {
        let store = Store::new(Config::default());
        let streams = (0..idle).step_by(1000);
        let _streams: Vec<_> = streams
            .map(|at| idle_stream(&store, at..at + 1000))
            .collect();
        let request = PutRequest {
            value: Bytes::from_static(&[7; 1024]),
            ..put()
        };
        group.bench_function(BenchmarkId::from_parameter(idle), |bencher| {
            bencher.iter_custom(|n| {
                let mut elapsed = Duration::ZERO;
                let mut left = n;
                while left > 0 {
                    let puts = left.min(PUTS_BETWEEN_COMPACTIONS);
                    let start = Instant::now();
                    for _ in 0..puts {
                        store.put(&request).expect("the quota is far away");
                    }
                    elapsed += start.elapsed();
                    store
                        .compact(store.revision())
                        .expect("a revision that is there");
                    left -= puts;
                }
                elapsed
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
    targets = unrelated, fan_out
}
criterion_main!(benches);
