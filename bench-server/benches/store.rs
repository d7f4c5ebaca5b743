//! The cost of requests to a store of 1,000,000 keys of 37 bytes in this process, without a
//! transport.
//!
//! `cargo bench -p bench-server --bench store`. `--bench index` measures the index alone.

use std::time::{Duration, Instant};

use bench_server::store::{Config, Store};
use criterion::{Criterion, criterion_group, criterion_main};
use etcd_api::kubernetes::{PutOptions, requests};
use etcd_api::proto::etcdserverpb::{PutRequest, RangeRequest};

/// The server's allocator.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const KEYS: u64 = 1_000_000;
/// Step from one key to the next. It is coprime to the number of keys, so all keys are visited, in
/// an order that caches cannot predict.
const STRIDE: u64 = 271_828_183;

/// Returns key `i`, of 37 bytes; keys ascend with `i`.
fn key(i: u64) -> Vec<u8> {
    format!("/registry/pods/namespace-{:03}/{:08}", i / 3000, i).into_bytes()
}

fn shuffled() -> impl Iterator<Item = u64> {
    (0..).map(|n: u64| n.wrapping_mul(STRIDE) % KEYS)
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

/// Compacts the history, so that a long run of puts does not measure a growing log.
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
    group.bench_function("count_only 1,000,000", |bencher| {
        let request = RangeRequest {
            key: b"/".to_vec().into(),
            range_end: vec![0].into(),
            count_only: true,
            ..Default::default()
        };
        bencher.iter(|| store.snapshot().select(&request));
    });
    // The response has the number of remaining keys, which must not require visiting each key.
    for remain in [KEYS, KEYS / 2, 500] {
        let request = RangeRequest {
            key: keys[(KEYS - remain) as usize].clone().into(),
            range_end: vec![0].into(),
            limit: 500,
            ..Default::default()
        };
        group.bench_function(format!("page of 500, {remain} remain"), |bencher| {
            bencher.iter(|| store.snapshot().select(&request));
        });
    }
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

criterion_group! {
    name = benches;
    config = {
        plot_font::register();
        Criterion::default()
            .nresamples(10_000)
            .sample_size(20)
            .warm_up_time(Duration::from_millis(500))
            .measurement_time(Duration::from_millis(1500))
    };
    targets = requests_in_process
}
criterion_main!(benches);
