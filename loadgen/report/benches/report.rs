//! The time that it takes to draw a saved result, which must not be noticeable at the end of a run.

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use report::draw;

#[path = "../tests/support/synthetic.rs"]
mod synthetic;

fn drawing(c: &mut Criterion) {
    let result = synthetic::result(1.0);
    let mut group = c.benchmark_group("report");
    group.sample_size(10);
    for chart in report::charts::charts(&result) {
        group.bench_function(format!("svg/{}", chart.name), |b| {
            b.iter(|| chart.svg().expect("a chart").len())
        });
    }
    group.bench_function("whole", |b| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        b.iter(|| draw::draw(&result, folder.path()).len());
    });
    group.bench_function("table", |b| {
        b.iter(|| report::terminal::text(&result.report, None).len())
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = {
        plot_font::register();
        Criterion::default().nresamples(10_000).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2))
    };
    targets = drawing
}
criterion_main!(benches);
