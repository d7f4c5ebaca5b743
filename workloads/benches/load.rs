//! The cost of planning one operation of a load: when it is due, what it is, and on which object.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use workloads::keys::Distribution;
use workloads::{Arrivals, Mix, Profile};

const OBJECTS: u64 = 150_000;

fn arrivals(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("arrivals");
    let ramp = Profile::Ramp {
        from: 1_000.0,
        to: 50_000.0,
        within: Duration::from_secs(3_600),
    };
    for (name, profile) in [
        ("constant", Profile::Constant(20_000.0)),
        ("poisson", Profile::Poisson(20_000.0)),
        ("ramp", ramp),
    ] {
        group.bench_function(name, |bencher| {
            let mut arrivals = Arrivals::new(&profile, 1, 0, 0, 10);
            bencher.iter(|| black_box(arrivals.next()));
        });
    }
    group.finish();
}

fn keys(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("keys");
    let hotspot = Distribution::Hotspot {
        objects: 0.1,
        operations: 0.9,
    };
    for (name, keys) in [
        ("uniform", Distribution::Uniform),
        ("sequential", Distribution::Sequential),
        ("zipf-0.99", Distribution::Zipf(0.99)),
        ("latest-0.99", Distribution::Latest(0.99)),
        ("hotspot", hotspot),
    ] {
        let picker = keys.over(1, OBJECTS);
        group.bench_function(name, |bencher| {
            let mut n = 0;
            bencher.iter(|| {
                n += 1;
                black_box(picker.object_of(n))
            });
        });
    }
    group.finish();
}

fn mix(criterion: &mut Criterion) {
    let weights = [
        ("get", 60.0),
        ("update", 30.0),
        ("create", 5.0),
        ("delete", 5.0),
    ];
    let weights: BTreeMap<String, f64> = weights
        .map(|(name, weight)| (name.to_owned(), weight))
        .into();
    let mix = Mix::new(&weights).expect("weights");
    criterion.bench_function("mix", |bencher| {
        let mut n = 0;
        bencher.iter(|| {
            n += 1;
            black_box(mix.request_of(1, n))
        });
    });
}

criterion_group! {
    name = benches;
    config = {
        plot_font::register();
        Criterion::default().nresamples(10_000).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2))
    };
    targets = arrivals, keys, mix
}
criterion_main!(benches);
