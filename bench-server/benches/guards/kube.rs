//! Lists and watches of the Kubernetes tier, over a cache of 500 pods of 10 KB in this process,
//! without a socket. A limit divided by the number of objects is the limit of one object.

use std::hint::black_box;
use std::pin::Pin;

use bench_server::kube::http::body::ResponseBody;
use bench_server::kube::metrics::Undecodable;
use bench_server::kube::resource::representation::{IncludeObject, Representation};

use bench_server::kube::list::body::ListBody;
use bench_server::kube::resource::media_type::{DEFAULT_MEDIA_TYPE, Encoding, MediaType};
use bench_server::kube::server::{FeatureGates, KubeTier};
use bench_server::kube::watch::body::WatchBody;
use bench_server::store::Store;
use bytes::Buf;
use etcd_api::proto::etcdserverpb::PutRequest;
use gungraun::{library_benchmark, library_benchmark_group};
use http_body::Body;
use kube_api::{ListOptions, envelope, schema, to_json};
use tokio::runtime::Runtime;

use crate::tier::{serve, store};
use crate::{at_most, pods};

const PODS: u64 = 500;

type Watched = (Served, PutRequest, Vec<Pin<Box<WatchBody>>>);

/// A tier over a store, and its runtime.
struct Served {
    runtime: Runtime,
    tier: KubeTier,
    store: Store,
}

impl Served {
    fn new(gates: FeatureGates) -> Self {
        let (store, data) = (store(), pods::pods(PODS));
        for i in 0..PODS {
            pods::put(&store, &data, i);
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let tier = runtime.block_on(serve(store.clone(), &["pods"], gates));
        Self {
            runtime,
            tier,
            store,
        }
    }

    /// Returns the size of a list, bytes.
    fn list(&self, query: &str, encoding: Encoding) -> usize {
        let options = ListOptions::parse(query).expect("a query");
        let handler = self.tier.service.handler("pods").expect("served");
        self.runtime.block_on(async {
            let listing = handler.list("", &options).await.expect("a list");
            let undecodable = Undecodable::default();
            let body = ListBody::new(handler.resource, form(encoding), listing, undecodable).await;
            // Long lists, too, are encoded on this thread, so that all work is counted.
            let mut body = Box::pin(ResponseBody::List(Box::new(body)));
            let mut bytes = 0;
            while let Some(frame) = next(&mut body).await {
                bytes += frame;
            }
            bytes
        })
    }
}

fn form(encoding: Encoding) -> Representation {
    Representation::new(
        MediaType {
            encoding,
            ..DEFAULT_MEDIA_TYPE
        },
        IncludeObject::default(),
    )
}

/// Returns the size of the next frame, bytes.
async fn next<B: Body<Data: Buf, Error: std::fmt::Debug>>(body: &mut Pin<Box<B>>) -> Option<usize> {
    let frame = std::future::poll_fn(|context| body.as_mut().poll_frame(context)).await?;
    let data = frame.expect("it goes on").into_data().ok();
    Some(data.expect("no trailers").remaining())
}

fn cached() -> Served {
    Served::new(FeatureGates::default())
}

/// Returns a tier without indexes, which checks every object.
fn without_index() -> Served {
    Served::new("CacheIndex=false".parse().expect("a gate"))
}

/// Returns a hundred watches that have caught up, and a change that they have not received.
fn watched() -> Watched {
    let served = cached();
    let data = pods::pods(PODS);
    let change = PutRequest {
        key: [b"/registry/", &data.key(7)[..]].concat().into(),
        value: data.value(8),
        ..PutRequest::default()
    };
    let handler = served.tier.service.handler("pods").expect("served");
    let options = format!("watch=1&resourceVersion={}", served.store.revision());
    let options = ListOptions::parse(&options).expect("a query");
    let watches = served.runtime.block_on(async {
        let mut watches = Vec::new();
        for _ in 0..100 {
            let watch = handler.watch("", &options, form(Encoding::Json), false);
            let mut watch = Box::pin(watch.await.expect("accepted"));
            let nothing = std::future::poll_fn(|context| {
                std::task::Poll::Ready(watch.as_mut().poll_frame(context).is_pending())
            });
            assert!(nothing.await, "there is nothing to send yet");
            watches.push(watch);
        }
        watches
    });
    (served, change, watches)
}

/// Returns a pod without its envelope, and an empty buffer for its JSON.
fn pod() -> (Vec<u8>, Vec<u8>) {
    let value = pods::pods(PODS).value(7);
    let pod = envelope::open(&value).expect("a pod").to_vec();
    (pod, Vec::with_capacity(32 * 1024))
}

#[library_benchmark(config = at_most(176_000))]
#[bench::of_a_pod(setup = pod)]
fn json((pod, mut out): (Vec<u8>, Vec<u8>)) -> (Vec<u8>, Vec<u8>) {
    to_json(&schema::POD, black_box(&pod), "", &mut out).expect("a pod");
    (pod, out)
}

#[library_benchmark(config = at_most(150_700))]
#[bench::in_protobuf(setup = cached)]
fn list(served: Served) -> (Served, usize) {
    let bytes = served.list(black_box("resourceVersion=0"), Encoding::Protobuf);
    (served, bytes)
}

// The pods belong to five workloads.
#[library_benchmark(config = at_most(35_100_000))]
#[bench::of_500_pods(setup = cached)]
fn list_json(served: Served) -> (Served, usize) {
    let bytes = served.list(black_box("resourceVersion=0"), Encoding::Json);
    (served, bytes)
}

#[library_benchmark(config = at_most(865_000))]
#[bench::of_a_label_that_nothing_has(setup = without_index)]
fn select(served: Served) -> (Served, usize) {
    let query = "resourceVersion=0&labelSelector=team%3Dnobody";
    let bytes = served.list(black_box(query), Encoding::Protobuf);
    (served, bytes)
}

/// Returns the size of the next frame of all watches, bytes; the object is encoded for the first of
/// them only. This is a separate function because counting stops at a function whose name contains
/// the guard's name, like that of a block inside the guard that is not inlined.
async fn received(watches: &mut [Pin<Box<WatchBody>>]) -> usize {
    let mut bytes = 0;
    for watch in watches {
        bytes += next(watch).await.expect("it goes on");
    }
    bytes
}

// Counts from the write until every watch has its frame. The allocator scans its bins from time to
// time, which adds up to 4 %. The count includes the accounting of the bytes that a client has not
// read.
#[library_benchmark(config = at_most(447_000))]
#[bench::to_100_watches(setup = watched)]
fn fan_out((served, change, mut watches): Watched) -> (Watched, usize) {
    let written = served.store.put(black_box(&change));
    written.expect("no quota is set");
    let bytes = served.runtime.block_on(received(&mut watches));
    ((served, change, watches), bytes)
}

library_benchmark_group!(
    name = served,
    benchmarks = [json, list, list_json, select, fan_out]
);
