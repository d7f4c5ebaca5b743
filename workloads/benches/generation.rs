//! The cost of generating an object, per byte, and that of its fingerprint.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::time::Duration;
use workloads::{DataSet, Fingerprint, Scenario};

fn generation(criterion: &mut Criterion) {
    for name in ["pods-150k", "list-large", "objects-1mb", "stream-shapes"] {
        let scenario = Scenario::named(name).expect("built in");
        let objects = DataSet::new(&scenario.data_sets[0]);
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::ElementsAndBytes {
            elements: 1,
            bytes: objects.value_len(0) as u64,
        });
        let mut value = Vec::new();
        let mut i = 0;
        group.bench_function("generate", |bencher| {
            bencher.iter(|| {
                value.clear();
                objects.write_value(i, &mut value);
                i = (i + 1) % objects.len();
                black_box(&value);
            });
        });
        let (key, value) = (objects.key(0), objects.value(0));
        group.bench_function("fingerprint", |bencher| {
            let mut fingerprint = Fingerprint::default();
            bencher.iter(|| fingerprint.add(black_box(&key), black_box(&value)));
        });
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = {
        plot_font::register();
        Criterion::default().nresamples(10_000).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2))
    };
    targets = generation
}
criterion_main!(benches);
