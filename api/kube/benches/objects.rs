//! What one pod costs on its way from storage to a client: version put in, shown as JSON, read back.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use kube_api::schema::POD;
use kube_api::{envelope, from_json, item_object, list_item, to_json};
use workloads::{DataSet, Scenario};

fn objects(criterion: &mut Criterion) {
    let scenario = Scenario::named("pods-150k").expect("built in");
    let value = DataSet::new(&scenario.data_sets[0]).value(0);
    let stored = envelope::open(&value).expect("an enveloped pod");
    let item = list_item(stored, "123456").expect("a pod");

    let mut group = criterion.benchmark_group("pod");
    group.throughput(Throughput::ElementsAndBytes {
        elements: 1,
        bytes: value.len() as u64,
    });
    group.bench_function("version put in", |bencher| {
        bencher.iter(|| list_item(black_box(stored), "123456"));
    });
    let mut json = Vec::new();
    group.bench_function("protobuf to JSON", |bencher| {
        bencher.iter(|| {
            json.clear();
            to_json(&POD, black_box(item_object(&item)), "", &mut json).expect("a pod");
        });
    });
    json.clear();
    to_json(&POD, item_object(&item), "", &mut json).expect("a pod");
    let object = serde_json::from_slice(&json).expect("JSON");
    let mut protobuf = Vec::new();
    group.bench_function("JSON to protobuf", |bencher| {
        bencher.iter(|| {
            protobuf.clear();
            from_json(&POD, black_box(&object), &mut protobuf).expect("a pod");
        });
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = {
        plot_font::register();
        Criterion::default().nresamples(10_000).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2))
    };
    targets = objects
}
criterion_main!(benches);
