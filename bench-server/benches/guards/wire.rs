//! Calls of the KV service from the bytes of a request to the last byte of its response, without a
//! socket: the body is read in the slices in which HTTP/2 would write it. Also the client's
//! validator on such a response.

use std::hint::black_box;
use std::io::IoSlice;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bench_server::etcd::Node;
use bench_server::etcd::frames::ResponseBody;
use bench_server::etcd::kv::{self, Method};
use bench_server::flags::Flags;
use bench_server::wire::grpc::{Encoding, PREFIX_BYTES};
use bytes::{Buf, BufMut, Bytes};
use clap::Parser;
use etcd_api::client::list_validator::{ListRpc, ListSummary, ListValidator, Object};
use etcd_api::proto::etcdserverpb::RangeRequest;
use futures::FutureExt;
use gungraun::{library_benchmark, library_benchmark_group};
use http_body::Body;
use http_body_util::Full;
use prost::Message;

use crate::{at_most, key, put_of, store_of};

/// The size of DATA frames that the client requests.
const FRAME_BYTES: usize = 256 * 1024;
/// Maximum number of slices that h2 passes to one vectored write.
const SLICES: usize = 16;

/// Returns a node with `keys` keys.
fn node(keys: u64, value_bytes: usize) -> Node {
    let flags = Flags::parse_from(["bench-server"]);
    let store = store_of(keys, value_bytes);
    Node::new(store, &flags.etcd, &flags.common, Vec::new())
}

/// Returns the body of a request, as a client sends it.
fn body(request: &impl Message) -> Full<Bytes> {
    let mut framed = Vec::with_capacity(PREFIX_BYTES + request.encoded_len());
    framed.put_u8(0);
    framed.put_u32(request.encoded_len() as u32);
    request.encode(&mut framed).expect("a Vec grows");
    Full::new(framed.into())
}

/// A node, and the method and the body of a call to it.
type Call = (Node, Method, Full<Bytes>);

/// Returns a Range of the middle key of 20,000.
fn with_get() -> Call {
    let get = RangeRequest {
        key: key(10_000).into(),
        ..Default::default()
    };
    (node(20_000, 100), Method::Range, body(&get))
}

/// Returns a Put of the middle key of 20,000.
fn with_put() -> Call {
    let put = put_of(10_000, 1024);
    (node(20_000, 100), Method::Put, body(&put))
}

fn with_list(method: Method, keys: u64, value_bytes: usize) -> Call {
    let every_key = RangeRequest {
        key: b"/".to_vec().into(),
        range_end: vec![0].into(),
        ..Default::default()
    };
    (node(keys, value_bytes), method, body(&every_key))
}

/// Returns the body of a call's response, which is ready immediately.
fn answer(node: &Node, method: Method, body: Full<Bytes>) -> ResponseBody {
    let answered = kv::serve(node, method, Encoding::Identity, None, body).now_or_never();
    answered.expect("nothing to wait for").into_body()
}

/// Calls `write` with the slices of each vectored write, up to [`SLICES`], as if the socket
/// accepted all of them.
fn drain(mut body: ResponseBody, mut write: impl FnMut(&[IoSlice<'_>])) {
    let mut context = Context::from_waker(Waker::noop());
    while let Poll::Ready(Some(frame)) = Pin::new(&mut body).poll_frame(&mut context) {
        let Ok(mut data) = frame.expect("the answer goes on").into_data() else {
            continue;
        };
        while data.has_remaining() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let shown = data.chunks_vectored(&mut slices);
            write(&slices[..shown]);
            let taken = slices[..shown].iter().map(|slice| slice.len()).sum();
            data.advance(taken);
        }
    }
}

/// Returns the frames of a streamed list, as a client receives them.
fn received(keys: u64, value_bytes: usize) -> Vec<Vec<u8>> {
    let (node, method, body) = with_list(Method::RangeStream, keys, value_bytes);
    let mut bytes = Vec::new();
    drain(answer(&node, method, body), |slices| {
        for slice in slices {
            bytes.extend_from_slice(slice);
        }
    });
    bytes.chunks(FRAME_BYTES).map(<[u8]>::to_vec).collect()
}

// The count of one key was 11,461 and 11,525 with the same source.
#[library_benchmark]
#[bench::range_one_key(setup = with_get, config = at_most(7_940))]
#[bench::put_1_kib(setup = with_put, config = at_most(11_230))]
#[bench::unary_incremental(setup = with_list, args = (Method::Range, 1_000, 10_000), config = at_most(328_000))]
#[bench::range_stream(setup = with_list, args = (Method::RangeStream, 1_000, 10_000), config = at_most(395_000))]
#[bench::range_stream_small(setup = with_list, args = (Method::RangeStream, 10_000, 100), config = at_most(2_060_000))]
fn call((node, method, body): Call) -> (Node, usize) {
    let mut written = 0;
    drain(answer(&node, method, black_box(body)), |slices| {
        written += slices.iter().map(|slice| slice.len()).sum::<usize>();
    });
    (node, written)
}

// With the same source, including the check of versions, leases and unknown fields, large values
// took 0.99 to 1.08 million, and small ones 8.1 and 8.5 million, depending on how much of the
// validator the compiler inlined.
#[library_benchmark]
#[bench::large(setup = received, args = (1_000, 10_000), config = at_most(1_040_000))]
#[bench::small(setup = received, args = (10_000, 100), config = at_most(8_440_000))]
fn walk(frames: Vec<Vec<u8>>) -> (Vec<Vec<u8>>, ListSummary, usize) {
    let mut walker = ListValidator::new(ListRpc::RangeStream);
    let mut bytes = 0;
    let mut visitor = |object: Object<'_>| bytes += object.value.len();
    for frame in black_box(&frames) {
        walker.feed(frame, &mut visitor).expect("a valid list");
    }
    let summary = walker.finish().expect("a whole list");
    (frames, summary, bytes)
}

library_benchmark_group!(name = calls, benchmarks = [call]);
library_benchmark_group!(name = walks, benchmarks = [walk]);
