//! The cost of recording latencies during a load, and of merging and saving them after it.

use std::hint::black_box;
use std::time::{Duration, SystemTime};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use load::record::LatencyHistogram;
use loadgen::to_result;
use report::result::histogram_log::{TaggedHistogram, write_log};

const VALUES: u64 = 10_000;

/// Returns latencies from 20 µs to about 80 ms, in an order that the branch predictor cannot
/// predict.
fn latencies() -> Vec<Duration> {
    (0..VALUES)
        .map(|n| Duration::from_nanos(20_000 + n.wrapping_mul(2_654_435_761) % 80_000_000))
        .collect()
}

fn filled() -> LatencyHistogram {
    let mut histogram = LatencyHistogram::default();
    for latency in latencies() {
        histogram.record(latency);
    }
    histogram
}

fn record(c: &mut Criterion) {
    let latencies = latencies();
    let mut group = c.benchmark_group("record");
    group.throughput(Throughput::Elements(VALUES));
    group.bench_function("latency", |b| {
        let mut histogram = filled();
        b.iter(|| {
            for &latency in &latencies {
                histogram.record(black_box(latency));
            }
        });
    });
    group.finish();
    c.bench_function("merge_64_workers", |b| {
        let workers = vec![filled(); 64];
        b.iter(|| {
            let mut merged = LatencyHistogram::default();
            for worker in &workers {
                merged.add(worker);
            }
            to_result::quantiles_ms(&merged)
        });
    });
    c.bench_function("write_log", |b| {
        let entry = TaggedHistogram {
            measure: "latency".into(),
            case: "bench/stream".into(),
            start: Duration::ZERO,
            duration: Duration::from_secs(1),
            histogram: to_result::latencies(&filled()),
        };
        let mut log = Vec::new();
        b.iter(|| {
            log.clear();
            write_log(
                &mut log,
                SystemTime::UNIX_EPOCH,
                std::slice::from_ref(&entry),
            )
            .expect("a vector takes everything");
            log.len()
        });
    });
}

criterion_group! {
    name = benches;
    config = {
        plot_font::register();
        Criterion::default().nresamples(10_000).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2))
    };
    targets = record
}
criterion_main!(benches);
