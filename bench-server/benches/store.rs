//! The store in process: its index beside the standard library's, and what requests cost on it.
//!
//! `cargo bench -p bench-server --bench store`. Rows of one group do the same work on the same
//! 500,000 keys of 37 bytes; times are per operation, scans per key.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bench_server::store::index::Tree;
use bench_server::store::watch_hub::{WatchSpec, WatchStream};
use bench_server::store::{Config, Fields, Record, Store};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use etcd_api::keys::KeyRange;
use etcd_api::kubernetes::{PutOptions, requests};
use etcd_api::proto::etcdserverpb::{PutRequest, RangeRequest};

/// The server's allocator.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const KEYS: u64 = 500_000;
/// Coprime with the number of keys: visits all of them in an order that no cache foresees.
const STRIDE: u64 = 271_828_183;

/// Key `i`: 37 bytes, in the order of `i`.
fn key(i: u64) -> Vec<u8> {
    format!("/registry/pods/namespace-{:03}/{:08}", i / 3000, i).into_bytes()
}

fn shuffled() -> impl Iterator<Item = u64> {
    (0..).map(|n: u64| n.wrapping_mul(STRIDE) % KEYS)
}

fn record(i: u64) -> Record {
    Record::new(Fields {
        key: &key(i),
        create_revision: 2,
        mod_revision: 2 + i as i64,
        version: 1,
        value: [7; 100][..].into(),
        lease: 0,
    })
}

/// The standard library's set of the same records, for comparison.
#[derive(Clone, PartialEq, Eq)]
struct ByKey(Record);

impl PartialOrd for ByKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.key().cmp(other.0.key())
    }
}

impl std::borrow::Borrow<[u8]> for ByKey {
    fn borrow(&self) -> &[u8] {
        self.0.key()
    }
}

fn index(criterion: &mut Criterion) {
    let records: Vec<Record> = (0..KEYS).map(record).collect();
    let mut tree = Tree::default();
    let mut set = BTreeSet::new();
    for record in &records {
        tree.insert(record.clone());
        set.insert(ByKey(record.clone()));
    }
    let mut group = criterion.benchmark_group("index");
    let mut order = shuffled();
    group.bench_function("get/tree", |bencher| {
        bencher.iter(|| {
            tree.get(records[order.next().unwrap_or(0) as usize].key())
                .is_some()
        });
    });
    group.bench_function("get/std", |bencher| {
        bencher.iter(|| set.contains(records[order.next().unwrap_or(0) as usize].key()));
    });
    group.bench_function("replace/tree", |bencher| {
        bencher.iter(|| tree.insert(records[order.next().unwrap_or(0) as usize].clone()));
    });
    group.bench_function("replace/std", |bencher| {
        bencher.iter(|| set.replace(ByKey(records[order.next().unwrap_or(0) as usize].clone())));
    });
    group.bench_function("replace under a new snapshot/tree", |bencher| {
        bencher.iter(|| {
            let snapshot = tree.clone();
            tree.insert(records[order.next().unwrap_or(0) as usize].clone());
            snapshot
        });
    });
    // Copying the standard set for each update is out of the question; the tree holds one snapshot
    // while every key changes once.
    group.bench_function("replace under one old snapshot/tree", |bencher| {
        bencher.iter_custom(|n| {
            let snapshot = tree.clone();
            let start = Instant::now();
            for i in shuffled().take(n as usize) {
                tree.insert(records[i as usize].clone());
            }
            let elapsed = start.elapsed();
            drop(snapshot);
            elapsed
        });
    });
    group.bench_function("count 250,000/tree", |bencher| {
        let (from, to) = (key(KEYS / 4), key(KEYS / 4 * 3));
        bencher.iter(|| tree.totals(KeyRange::Between(black_box(&from), &to)));
    });
    group.bench_function("seek/tree", |bencher| {
        bencher.iter(|| {
            let start = records[order.next().unwrap_or(0) as usize].key();
            tree.cursor(KeyRange::From(start)).remaining()
        });
    });
    group.throughput(Throughput::Elements(KEYS));
    group.bench_function("scan/tree", |bencher| {
        bencher.iter(|| {
            let mut cursor = tree.cursor(KeyRange::From(b""));
            let mut bytes = 0;
            while let Some(record) = cursor.next_ref() {
                bytes += record.wire_len();
            }
            bytes
        });
    });
    group.bench_function("scan with clones/tree", |bencher| {
        bencher.iter(|| {
            let cursor = tree.cursor(KeyRange::From(b""));
            cursor.map(|record| record.wire_len()).sum::<usize>()
        });
    });
    group.bench_function("scan/std", |bencher| {
        bencher.iter(|| set.iter().map(|record| record.0.wire_len()).sum::<usize>());
    });
    group.finish();
}

fn put(i: u64, value: &bytes::Bytes) -> PutRequest {
    PutRequest {
        key: key(i).into(),
        value: value.clone(),
        ..Default::default()
    }
}

fn seeded(keys: u64, value_bytes: usize) -> Store {
    let store = Store::new(Config {
        quota_backend_bytes: -1,
        ..Config::default()
    });
    let value = vec![7; value_bytes].into();
    for i in 0..keys {
        store.put(&put(i, &value)).expect("no quota is set");
    }
    store
}

/// Forgets history, so that a long run of puts does not measure a growing log.
fn compact(store: &Store) {
    store.compact(store.revision()).ok();
}

fn requests_in_process(criterion: &mut Criterion) {
    let store = seeded(KEYS, 100);
    let mut group = criterion.benchmark_group("store");
    let mut order = shuffled();
    let keys: Vec<Vec<u8>> = (0..KEYS).map(key).collect();
    group.bench_function("get", |bencher| {
        bencher.iter(|| store.get_at(&keys[order.next().unwrap_or(0) as usize], 0));
    });
    group.bench_function("snapshot", |bencher| bencher.iter(|| store.snapshot()));
    group.bench_function("count_only 500,000", |bencher| {
        let request = RangeRequest {
            key: b"/".to_vec().into(),
            range_end: vec![0].into(),
            count_only: true,
            ..Default::default()
        };
        bencher.iter(|| store.snapshot().select(&request));
    });
    group.bench_function("page of 500", |bencher| {
        bencher.iter(|| {
            let start = &keys[order.next().unwrap_or(0) as usize];
            let request = RangeRequest {
                key: start.clone().into(),
                range_end: vec![0].into(),
                limit: 500,
                ..Default::default()
            };
            store.snapshot().select(&request)
        });
    });
    let value = bytes::Bytes::from(vec![7; 1024]);
    for (name, held) in [
        ("put 1 KiB", false),
        ("put 1 KiB under a new snapshot", true),
    ] {
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|n| {
                compact(&store);
                let mut elapsed = Duration::ZERO;
                for i in shuffled().take(n as usize) {
                    let request = put(i, &value);
                    let snapshot = held.then(|| store.snapshot());
                    let start = Instant::now();
                    store.put(&request).expect("no quota is set");
                    elapsed += start.elapsed();
                    drop(snapshot);
                }
                elapsed
            });
        });
    }
    group.bench_function("optimistic put 1 KiB", |bencher| {
        bencher.iter_custom(|n| {
            compact(&store);
            let mut elapsed = Duration::ZERO;
            for i in shuffled().take(n as usize) {
                let key = &keys[i as usize];
                let (found, _) = store.get_at(key, 0).expect("the latest is readable");
                let at = found.map_or(0, |record| record.mod_revision());
                let options = PutOptions::default();
                let request = requests::optimistic_put(key, value.clone(), at, options);
                let start = Instant::now();
                store.txn(&request).expect("no quota is set");
                elapsed += start.elapsed();
            }
            elapsed
        });
    });
    group.finish();
}

/// A stream with so many watchers of a prefix.
fn watchers(store: &Store, prefix: &[u8], n: usize) -> WatchStream {
    let stream = store.watch();
    for _ in 0..n {
        stream.create(WatchSpec {
            key: prefix.to_vec(),
            range_end: etcd_api::keys::prefix_end(prefix),
            ..Default::default()
        });
    }
    drain(&stream);
    stream
}

fn drain(stream: &WatchStream) {
    let mut context = Context::from_waker(Waker::noop());
    while let Poll::Ready(notice) = stream.poll_next(&mut context) {
        black_box(notice);
    }
}

fn watching(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("watch");
    let value = bytes::Bytes::from(vec![7; 1024]);
    let idle = seeded(1000, 100);
    let _idle: Vec<_> = (0..100_000)
        .map(|i| watchers(&idle, format!("/registry/other/{i}/").as_bytes(), 1))
        .collect();
    group.bench_function("put beside 100,000 watchers of other prefixes", |bencher| {
        bencher.iter(|| idle.put(&put(1, &value)));
        compact(&idle);
    });
    let busy = seeded(1000, 100);
    let streams: Vec<_> = (0..100)
        .map(|_| watchers(&busy, b"/registry/pods/", 100))
        .collect();
    group.sample_size(10);
    group.bench_function("put to 10,000 watchers on 100 streams", |bencher| {
        bencher.iter_custom(|n| {
            let mut elapsed = Duration::ZERO;
            for _ in 0..n {
                let start = Instant::now();
                busy.put(&put(1, &value)).expect("no quota is set");
                elapsed += start.elapsed();
                streams.iter().for_each(drain);
            }
            compact(&busy);
            elapsed
        });
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = {
        plot_font::register();
        Criterion::default()
            .sample_size(20)
            .warm_up_time(Duration::from_millis(500))
            .measurement_time(Duration::from_millis(1500))
    };
    targets = index, requests_in_process, watching
}
criterion_main!(benches);
