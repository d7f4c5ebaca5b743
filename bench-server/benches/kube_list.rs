//! Lists of 10,000 pods from the Kubernetes tier over a socket, by each way to ask, drained.
//!
//! Storage is in the same process, so a consistent list's revision read crosses no socket, and server and
//! client share the machine's cores: compare rows with each other, not with a run of two processes.

use std::sync::Arc;

use bench_server::embedded::EmbeddedEtcd;
use bench_server::flags::{CommonFlags, Flags};
use bench_server::kube::tier::KubeTier;
use bench_server::store::{Config, Store};
use bytes::Bytes;
use clap::Parser;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use etcd_api::proto::etcdserverpb::PutRequest;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use kube_api::envelope;
use kube_api::protobuf::find_bytes;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use workloads::{DataSet, Scenario};

const OBJECTS: u64 = 10_000;

type Client = tokio::sync::Mutex<SendRequest<Empty<Bytes>>>;

/// A store with the pods in it.
fn store() -> Store {
    let store = Store::new(Config {
        quota_backend_bytes: -1,
        ..Config::default()
    });
    let mut scenario = Scenario::named("pods-150k").expect("a built-in scenario");
    let mut spec = scenario.data_sets.remove(0);
    spec.objects = OBJECTS.try_into().expect("some objects");
    let data = DataSet::new(&spec);
    for i in 0..OBJECTS {
        let put = PutRequest {
            key: [b"/registry/", &data.key(i)[..]].concat().into(),
            value: data.value(i),
            ..PutRequest::default()
        };
        store.put(&put).expect("no quota is set");
    }
    store
}

/// A tier whose caches are filled, and a connection to it. The runtime must live as long.
fn tier(runtime: &Runtime) -> (KubeTier, Client) {
    let flags = Flags::parse_from([
        "bench-server",
        "--listen-kube-urls",
        "http://127.0.0.1:0",
        "--backend",
        "embedded",
    ]);
    runtime.block_on(async {
        let backend = EmbeddedEtcd::start(store(), std::time::Duration::from_secs(600));
        let common = CommonFlags {
            worker_threads: 1,
            ..flags.common
        };
        let tier = KubeTier::start_over(Arc::new(backend), &flags.kube, &common)
            .await
            .expect("a loopback port is free");
        let caches = ["pods", "configmaps"].map(|resource| {
            let lister = tier.service.lister(resource).expect("served");
            lister.cache.clone().expect("on by default")
        });
        while !caches.iter().all(|cache| cache.is_ready()) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        let address = tier.urls[0].strip_prefix("http://").expect("an http URL");
        let socket = TcpStream::connect(address).await.expect("the tier accepts");
        let (sender, connection) = handshake(TokioIo::new(socket)).await.expect("HTTP/1.1");
        tokio::spawn(async move { connection.await.unwrap_or_default() });
        (tier, Client::new(sender))
    })
}

/// Asks for a list and hands each piece of its body to `on_data`.
async fn ask(client: &Client, query: &str, accept: &str, mut on_data: impl FnMut(&Bytes)) {
    let request = Request::get(format!("/api/v1/pods{query}"))
        .header(header::HOST, "bench")
        .header(header::ACCEPT, accept)
        .body(Empty::new())
        .expect("a request");
    let mut client = client.lock().await;
    client.ready().await.expect("connected");
    let response = client.send_request(request).await.expect("an answer");
    assert_eq!(response.status(), StatusCode::OK);
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        if let Some(data) = frame.expect("a whole body").data_ref() {
            on_data(data);
        }
    }
}

/// Bytes of a list.
async fn drain(client: &Client, query: &str, accept: &str) -> u64 {
    let mut bytes = 0;
    ask(client, query, accept, |data| bytes += data.len() as u64).await;
    bytes
}

/// Bytes of all pages of 500 objects.
async fn pages(client: &Client) -> u64 {
    let (mut bytes, mut token) = (0, String::new());
    loop {
        let mut page = Vec::new();
        let query = format!("?limit=500&continue={token}");
        ask(client, &query, envelope::MEDIA_TYPE, |data| {
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
        let bytes = runtime.block_on(drain(&client, query, accept));
        group.throughput(Throughput::Bytes(bytes));
        group.bench_function(BenchmarkId::new("drain", name), |bencher| {
            bencher
                .to_async(&runtime)
                .iter(|| drain(&client, query, accept));
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
    config = { plot_font::register(); Criterion::default() };
    targets = lists
}
criterion_main!(benches);
