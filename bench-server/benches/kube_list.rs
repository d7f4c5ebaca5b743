//! Lists of 10,000 pods from the Kubernetes tier over a socket, by each way to ask, drained.
//!
//! Storage is in the same process, so a consistent list's revision read crosses no socket, and server and
//! client share the machine's cores: compare rows with each other, not with a run of two processes.

#[path = "shared/kube.rs"]
mod kube;
#[path = "shared/pods.rs"]
mod pods;

use std::time::Duration;

use bench_server::kube::tier::KubeTier;
use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use kube_api::envelope;
use kube_api::protobuf::find_bytes;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

const OBJECTS: u64 = 10_000;
const PODS: &str = "/api/v1/pods";

type Client = tokio::sync::Mutex<SendRequest<Empty<Bytes>>>;

/// A tier with the pods in its cache, and a connection to it. The runtime must live as long.
fn tier(runtime: &Runtime) -> (KubeTier, Client) {
    let (store, data) = (kube::store(), pods::pods(OBJECTS));
    for i in 0..OBJECTS {
        pods::put(&store, &data, i);
    }
    runtime.block_on(async {
        let tier = kube::serve(store, &["pods"]).await;
        let address = tier.urls[0].strip_prefix("http://").expect("an http URL");
        let socket = TcpStream::connect(address).await.expect("the tier accepts");
        let (sender, connection) = handshake(TokioIo::new(socket)).await.expect("HTTP/1.1");
        tokio::spawn(async move { connection.await.unwrap_or_default() });
        (tier, Client::new(sender))
    })
}

/// Asks for a list and hands each piece of its body to `on_data`.
async fn ask(client: &Client, path: &str, accept: &str, mut on_data: impl FnMut(&Bytes)) {
    let request = Request::get(path)
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
async fn drain(client: &Client, path: &str, accept: &str) -> u64 {
    let mut bytes = 0;
    ask(client, path, accept, |data| bytes += data.len() as u64).await;
    bytes
}

/// Bytes of all pages of 500 objects.
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
    config = {
        plot_font::register();
        Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2))
    };
    targets = lists
}
criterion_main!(benches);
