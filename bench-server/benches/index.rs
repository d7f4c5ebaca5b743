//! The store's index compared with other ordered sets, on 1,000,000 records with keys of 37 bytes.
//!
//! `cargo bench -p bench-server --bench index`. Every set does the same work in the same order.
//! Times of scans are per key, all others per operation. The memory of each set is printed first.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::ops::Bound;
use std::time::{Duration, Instant};

use bench_server::index::Tree;
use bench_server::store::{Fields, Record};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use etcd_api::keys::KeyRange;
use tikv_jemalloc_ctl::{epoch, stats};

/// The server's allocator.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const KEYS: u64 = 1_000_000;
/// Step from one key to the next. It is coprime to the number of keys, so all keys are visited, in
/// an order that caches cannot predict.
const STRIDE: u64 = 271_828_183;

/// An ordered set of records that is compared.
trait Contender: Clone + Default {
    const NAME: &'static str;
    /// Whether a copy is cheap enough to be made for each update.
    const SNAPSHOTS: bool;
    /// Adds a record or replaces the one with its key.
    fn replace(&mut self, record: Record);
    fn holds(&self, key: &[u8]) -> bool;
    fn count(&self, from: &[u8], to: &[u8]) -> u64;
    /// Returns the sum of the records' sizes.
    fn scan(&self) -> usize;
}

impl Contender for Tree<Record> {
    const NAME: &'static str = "tree";
    const SNAPSHOTS: bool = true;

    fn replace(&mut self, record: Record) {
        self.insert(record);
    }

    fn holds(&self, key: &[u8]) -> bool {
        self.get(key).is_some()
    }

    fn count(&self, from: &[u8], to: &[u8]) -> u64 {
        self.totals(KeyRange::Between(from, to)).count
    }

    fn scan(&self) -> usize {
        let mut cursor = self.cursor(KeyRange::From(b""));
        let mut bytes = 0;
        while let Some(record) = cursor.next_ref() {
            bytes += record.wire_len();
        }
        bytes
    }
}

/// A record that is ordered by its key.
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

type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

impl Contender for BTreeSet<ByKey> {
    const NAME: &'static str = "std";
    const SNAPSHOTS: bool = false;

    fn replace(&mut self, record: Record) {
        BTreeSet::replace(self, ByKey(record));
    }

    fn holds(&self, key: &[u8]) -> bool {
        self.contains(key)
    }

    fn count(&self, from: &[u8], to: &[u8]) -> u64 {
        let bounds: Bounds<'_> = (Bound::Included(from), Bound::Excluded(to));
        self.range::<[u8], _>(bounds).count() as u64
    }

    fn scan(&self) -> usize {
        self.iter().map(|record| record.0.wire_len()).sum()
    }
}

impl Contender for imbl::OrdSet<ByKey> {
    const NAME: &'static str = "imbl";
    const SNAPSHOTS: bool = true;

    fn replace(&mut self, record: Record) {
        self.insert(ByKey(record));
    }

    fn holds(&self, key: &[u8]) -> bool {
        self.contains(key)
    }

    fn count(&self, from: &[u8], to: &[u8]) -> u64 {
        let bounds: Bounds<'_> = (Bound::Included(from), Bound::Excluded(to));
        self.range::<_, [u8]>(bounds).count() as u64
    }

    fn scan(&self) -> usize {
        self.iter().map(|record| record.0.wire_len()).sum()
    }
}

/// Returns key `i`, of 37 bytes; keys ascend with `i`.
fn key(i: u64) -> Vec<u8> {
    format!("/registry/pods/namespace-{:03}/{:08}", i / 3000, i).into_bytes()
}

fn shuffled() -> impl Iterator<Item = usize> {
    (0..).map(|n: u64| (n.wrapping_mul(STRIDE) % KEYS) as usize)
}

fn allocated() -> u64 {
    epoch::advance().expect("jemalloc is this program's allocator");
    stats::allocated::read().expect("jemalloc is built with statistics") as u64
}

fn drive<C: Contender>(group: &mut BenchmarkGroup<'_, WallTime>, records: &[Record]) {
    let row = |work: &str| format!("{work}/{}", C::NAME);
    let before = allocated();
    let mut set = C::default();
    for record in records {
        set.replace(record.clone());
    }
    let per_key = (allocated() - before) as f64 / KEYS as f64;
    println!("memory/{}: {per_key:.1} B per key", C::NAME);

    let mut order = shuffled();
    let mut any = || &records[order.next().unwrap_or(0)];
    group.bench_function(row("get"), |bencher| {
        bencher.iter(|| set.holds(black_box(any().key())));
    });
    group.bench_function(row("replace"), |bencher| {
        bencher.iter(|| set.replace(any().clone()));
    });
    if C::SNAPSHOTS {
        group.bench_function(row("replace under a new snapshot"), |bencher| {
            bencher.iter(|| {
                let snapshot = set.clone();
                set.replace(any().clone());
                snapshot
            });
        });
        group.bench_function(row("replace under one old snapshot"), |bencher| {
            bencher.iter_custom(|n| {
                let snapshot = set.clone();
                let start = Instant::now();
                (0..n).for_each(|_| set.replace(any().clone()));
                let elapsed = start.elapsed();
                drop(snapshot);
                elapsed
            });
        });
    }
    let (from, to) = (key(KEYS / 4), key(KEYS / 4 * 3));
    group.bench_function(row("count half"), |bencher| {
        bencher.iter(|| set.count(black_box(&from), &to));
    });
    group.throughput(Throughput::Elements(KEYS));
    group.bench_function(row("scan"), |bencher| bencher.iter(|| set.scan()));
}

fn index(criterion: &mut Criterion) {
    let record = |i| {
        Record::new(Fields {
            key: &key(i),
            create_revision: 2,
            mod_revision: 2 + i as i64,
            version: 1,
            value: [7; 100][..].into(),
            lease: 0,
        })
    };
    let records: Vec<Record> = (0..KEYS).map(record).collect();
    let mut contenders = [drive::<Tree<Record>>, drive::<BTreeSet<ByKey>>].to_vec();
    contenders.push(drive::<imbl::OrdSet<ByKey>>);
    for contender in contenders {
        let mut group = criterion.benchmark_group("index");
        contender(&mut group, &records);
        group.finish();
    }
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
    targets = index
}
criterion_main!(benches);
