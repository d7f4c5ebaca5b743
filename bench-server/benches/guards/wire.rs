//! Requests from their bytes to the bytes of their answers, and a list's way back through the client.
//!
//! A body is read as HTTP/2 reads it: pulled frame by frame, each frame's pieces looked at once.

use std::hint::black_box;
use std::io::IoSlice;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bench_server::etcd::Node;
use bench_server::etcd::kv::{self, Method};
use bench_server::flags::Flags;
use bench_server::store::{Config, Store};
use bytes::{Buf, Bytes};
use clap::Parser;
use etcd_api::client::walk::{ListRpc, ListSummary, Object, Walker};
use etcd_api::keys::prefix_end;
use etcd_api::proto::etcdserverpb::{PutRequest, RangeRequest};
use futures::FutureExt;
use gungraun::{library_benchmark, library_benchmark_group};
use http_body::Body;
use http_body_util::Full;
use prost::Message;

use crate::at_most;

const PREFIX: &[u8] = b"/registry/pods/";

/// A node with `keys` keys of `value_bytes` each.
fn node(keys: u64, value_bytes: usize) -> Arc<Node> {
    let store = Store::new(Config::default());
    for i in 0..keys {
        store
            .put(&put(i, value_bytes))
            .expect("the quota is far away");
    }
    let flags = Flags::parse_from(["bench-server"]);
    Arc::new(Node::new(store, &flags.etcd, Vec::new()))
}

fn key(i: u64) -> Bytes {
    format!("/registry/pods/namespace-{:03}/{i:08}", i / 3000).into()
}

fn put(i: u64, value_bytes: usize) -> PutRequest {
    PutRequest {
        key: key(i),
        value: vec![7; value_bytes].into(),
        ..PutRequest::default()
    }
}

/// A message with its prefix.
fn framed(message: &impl Message) -> Bytes {
    let mut out = vec![0];
    out.extend((message.encoded_len() as u32).to_be_bytes());
    out.extend(message.encode_to_vec());
    out.into()
}

fn whole() -> Bytes {
    framed(&RangeRequest {
        key: PREFIX.into(),
        range_end: prefix_end(PREFIX).into(),
        ..RangeRequest::default()
    })
}

/// Answers a request and reads the answer; how many bytes it has.
fn answered(node: &Node, method: Method, request: Bytes) -> usize {
    let body = kv::serve(node, method, Full::new(request))
        .now_or_never()
        .expect("nothing to wait for")
        .into_body();
    let mut body = pin!(body);
    let mut context = Context::from_waker(Waker::noop());
    let mut bytes = 0;
    while let Poll::Ready(Some(frame)) = body.as_mut().poll_frame(&mut context) {
        let Ok(mut data) = frame.expect("no error").into_data() else {
            continue;
        };
        while data.has_remaining() {
            let mut slices = [IoSlice::new(&[]); 16];
            let filled = data.chunks_vectored(&mut slices);
            let seen = slices[..filled].iter().map(|s| black_box(s).len()).sum();
            bytes += seen;
            data.advance(seen);
        }
    }
    bytes
}

type Asked = (Arc<Node>, Bytes);

fn with_list(keys: u64, value_bytes: usize) -> Asked {
    (node(keys, value_bytes), whole())
}

fn with_get() -> Asked {
    let get = RangeRequest {
        key: key(500),
        ..RangeRequest::default()
    };
    (node(1_000, 1_024), framed(&get))
}

fn with_put() -> Asked {
    (node(1_000, 1_024), framed(&put(500, 1_024)))
}

/// What a client receives: a stream's bytes.
fn with_stream(keys: u64, value_bytes: usize) -> Vec<u8> {
    use etcd_api::proto::etcdserverpb::{RangeResponse, RangeStreamResponse, ResponseHeader};
    use etcd_api::proto::mvccpb::KeyValue;
    let kvs = (0..keys).map(|i| KeyValue {
        key: key(i),
        create_revision: 1,
        mod_revision: 1,
        version: 1,
        value: vec![7; value_bytes].into(),
        lease: 0,
    });
    let message = RangeStreamResponse {
        range_response: Some(RangeResponse {
            header: Some(ResponseHeader {
                revision: 5,
                ..ResponseHeader::default()
            }),
            kvs: kvs.collect(),
            more: false,
            count: keys as i64,
        }),
    };
    framed(&message).to_vec()
}

#[library_benchmark]
#[bench::small_records(setup = with_list, args = (10_000, 100), config = at_most(1))]
#[bench::large_records(setup = with_list, args = (1_000, 10_000), config = at_most(1))]
fn stream((node, request): Asked) -> (Arc<Node>, usize) {
    let bytes = answered(&node, Method::RangeStream, black_box(request));
    (node, bytes)
}

#[library_benchmark]
#[bench::small_records(setup = with_list, args = (10_000, 100), config = at_most(1))]
#[bench::large_records(setup = with_list, args = (1_000, 10_000), config = at_most(1))]
fn unary((node, request): Asked) -> (Arc<Node>, usize) {
    let bytes = answered(&node, Method::Range, black_box(request));
    (node, bytes)
}

#[library_benchmark(config = at_most(1))]
#[bench::of_1_kib(setup = with_get)]
fn range((node, request): Asked) -> (Arc<Node>, usize) {
    let bytes = answered(&node, Method::Range, black_box(request));
    (node, bytes)
}

#[library_benchmark(config = at_most(1))]
#[bench::of_1_kib(setup = with_put)]
fn write((node, request): Asked) -> (Arc<Node>, usize) {
    let bytes = answered(&node, Method::Put, black_box(request));
    (node, bytes)
}

#[library_benchmark(config = at_most(1))]
#[bench::small_records(setup = with_stream, args = (10_000, 100))]
fn walk(bytes: Vec<u8>) -> (Vec<u8>, ListSummary) {
    let mut walker = Walker::new(ListRpc::RangeStream);
    let mut seen = 0;
    let mut visitor = |object: Object<'_>| seen += object.value.len();
    for frame in black_box(&bytes).chunks(256 << 10) {
        walker.feed(frame, &mut visitor).expect("a valid stream");
    }
    black_box(seen);
    let summary = walker.finish().expect("it is whole");
    (bytes, summary)
}

library_benchmark_group!(name = answers, benchmarks = [stream, unary, range, write]);
library_benchmark_group!(name = checks, benchmarks = [walk]);
