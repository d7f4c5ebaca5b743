//! Requests on a store of 20,000 keys of 37 bytes with values of 100 bytes.

use std::hint::black_box;
use std::task::{Context, Waker};

use bench_server::store::range::Selection;
use bench_server::store::watch_hub::{WatchSpec, WatchStream};
use bench_server::store::{Record, Store};
use etcd_api::error::Refusal;
use etcd_api::keys::{KeyRange, prefix_end};
use etcd_api::proto::etcdserverpb::{PutRequest, PutResponse, RangeRequest};
use gungraun::{library_benchmark, library_benchmark_group};

use crate::{at_most, key, put_of, store_of};

const KEYS: u64 = 20_000;
/// The number of the middle key: as many keys are before it as after it.
const MIDDLE: u64 = KEYS / 2;

fn seeded() -> Store {
    store_of(KEYS, 100)
}

fn with_key() -> (Store, Vec<u8>) {
    (seeded(), key(MIDDLE))
}

/// Returns a store and a change of one key.
fn with_put() -> (Store, PutRequest) {
    let (store, request) = (seeded(), put_of(MIDDLE, 1024));
    free_what_a_put_takes();
    (store, request)
}

/// Returns the same with a reader that holds the index, so that nodes are copied.
fn with_put_and_reader() -> (Store, PutRequest) {
    let (store, request) = with_put();
    store.hold(&store.snapshot());
    free_what_a_put_takes();
    (store, request)
}

/// Leaves free memory of every size that a put allocates. Otherwise, the counted put might be one
/// that exhausts the free blocks of a size, and pays for many new ones.
fn free_what_a_put_takes() {
    let spent = store_of(KEYS / 10, 100);
    for i in 0..10 {
        spent.hold(&spent.snapshot());
        let put = spent.put(&put_of(KEYS / 20 + i, 1024));
        put.expect("the quota is far away");
    }
}

/// Returns a store and a range from the middle key to the end.
fn with_range(limit: i64, count_only: bool) -> (Store, RangeRequest) {
    let request = RangeRequest {
        key: key(MIDDLE).into(),
        range_end: vec![0].into(),
        limit,
        count_only,
        ..Default::default()
    };
    (seeded(), request)
}

/// Returns a store, a change, and ten streams of a hundred watchers of all keys, which are not
/// read.
fn with_watchers() -> (Store, PutRequest, Vec<WatchStream>) {
    let (store, request) = with_put();
    let stream = |_| {
        let stream = store.watch();
        for _ in 0..100 {
            stream.create(WatchSpec {
                key: b"/registry/".to_vec(),
                range_end: prefix_end(b"/registry/"),
                ..Default::default()
            });
        }
        let mut context = Context::from_waker(Waker::noop());
        while stream.poll_next(&mut context).is_ready() {}
        stream
    };
    let streams = (0..10).map(stream).collect();
    (store, request, streams)
}

#[library_benchmark(config = at_most(1_170))]
#[bench::one_key(setup = with_key)]
fn get((store, key): (Store, Vec<u8>)) -> (Store, Option<Record>) {
    let found = store.get_at(black_box(&key), 0);
    (store, found.ok().and_then(|(record, _)| record))
}

#[library_benchmark(config = at_most(1_570))]
#[bench::half(setup = with_range, args = (0, true))]
fn count((store, request): (Store, RangeRequest)) -> (Store, Result<Selection, Refusal>) {
    let counted = store.snapshot().select(black_box(&request));
    (store, counted)
}

#[library_benchmark(config = at_most(49_800))]
#[bench::of_500(setup = with_range, args = (500, false))]
fn page((store, request): (Store, RangeRequest)) -> (Store, Result<Selection, Refusal>) {
    let page = store.snapshot().select(black_box(&request));
    (store, page)
}

#[library_benchmark(config = at_most(674_000))]
#[bench::all(setup = seeded)]
fn scan(store: Store) -> (Store, usize) {
    let mut cursor = store.snapshot().cursor(KeyRange::From(black_box(b"")));
    let mut bytes = 0;
    while let Some(record) = cursor.next_ref() {
        bytes += record.wire_len();
    }
    (store, bytes)
}

#[library_benchmark]
#[bench::alone(setup = with_put, config = at_most(5_400))]
#[bench::under_a_reader(setup = with_put_and_reader, config = at_most(8_100))]
fn put((store, request): (Store, PutRequest)) -> (Store, Result<PutResponse, Refusal>) {
    let answer = store.put(black_box(&request));
    (store, answer)
}

type Watched = (Store, PutRequest, Vec<WatchStream>);

// Maps and the watchers' tree have a random seed in each run, so that clients cannot choose their
// shape: one build took 200,900 to 212,400. Builds that inlined differently took 161,000 to
// 226,100. Therefore the server's own calls are linked into this program (`wire.rs`), so that
// inlining is the same as in the server.
#[library_benchmark(config = at_most(230_000))]
#[bench::to_1000_watchers(setup = with_watchers)]
fn publish((store, request, streams): Watched) -> (Store, Vec<WatchStream>) {
    store
        .put(black_box(&request))
        .expect("the quota is far away");
    (store, streams)
}

library_benchmark_group!(name = reads, benchmarks = [get, count, page, scan]);
library_benchmark_group!(name = writes, benchmarks = [put, publish]);
