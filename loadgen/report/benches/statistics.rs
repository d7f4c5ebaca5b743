//! The cost of a verdict, which `loadgen ab` computes for each metric after every pair of starts.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use report::compare::{Better, Estimate};

/// Returns `n` values around 1, without a pattern.
fn values(n: usize, seed: u64) -> Vec<f64> {
    let next = |state: &mut u64| {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        Some(1.0 + (*state >> 40) as f64 / f64::from(1_u32 << 28))
    };
    let mut state = seed;
    std::iter::from_fn(|| next(&mut state)).take(n).collect()
}

fn verdicts(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("verdict");
    for starts in [7, 30, 100] {
        let (base, new) = (values(starts, 1), values(starts, 2));
        let pairs: Vec<_> = base.iter().copied().zip(new.iter().copied()).collect();
        let judged = |estimate: Option<Estimate>| {
            estimate.map(|estimate| estimate.verdict(0.05, Better::Lower))
        };
        group.bench_function(format!("unpaired/{starts}"), |bencher| {
            bencher.iter(|| judged(Estimate::unpaired(black_box(&base), black_box(&new))));
        });
        group.bench_function(format!("sequential/{starts}"), |bencher| {
            bencher.iter(|| judged(Estimate::paired_any_time(black_box(&pairs))));
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = {
        plot_font::register();
        Criterion::default().nresamples(10_000).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2))
    };
    targets = verdicts
}
criterion_main!(benches);
