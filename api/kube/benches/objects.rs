//! Cost of processing pods between storage and client: inserting the version, and transcoding to
//! JSON and back. Also the cost of writing many pods as JSON, by the number of pods per workload.

use std::hint::black_box;
use std::time::Duration;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use kube_api::schema::POD;
use kube_api::{JsonDeltaWriter, envelope, from_json, item_object, list_item, to_json};
use serde_json::Value;
use workloads::{DataSet, Scenario};

/// Number of pods in a list.
const PODS: usize = 200;

/// Returns pods of `pods-150k`, as stored.
fn stored(pods: std::ops::Range<u64>) -> Vec<Bytes> {
    let scenario = Scenario::named("pods-150k").expect("built in");
    let data = DataSet::new(&scenario.data_sets[0]);
    pods.map(|i| data.value(i)).collect()
}

fn one(criterion: &mut Criterion) {
    let value = stored(0..1).remove(0);
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

/// Returns pods of several workloads that have no values in common, `replicas` pods of each.
fn workloads_of(replicas: usize) -> Vec<Vec<u8>> {
    let pods = stored(0..PODS as u64);
    let pods = pods.iter().enumerate().map(|(i, pod)| {
        let mut json = Vec::new();
        let pod = envelope::open(pod).expect("an enveloped pod");
        to_json(&POD, pod, "", &mut json).expect("a pod");
        let mut value = serde_json::from_slice(&json).expect("JSON");
        rotate(&mut value, i / replicas);
        let mut out = Vec::new();
        let fields = value.as_object().expect("an object");
        from_json(&POD, fields, &mut out).expect("a pod");
        let item = list_item(&out, "123456").expect("a pod");
        item_object(&item).to_vec()
    });
    pods.collect()
}

/// Rotates letters and digits in all values of an object, except in quantities and times, whose
/// format matters.
fn rotate(value: &mut Value, by: usize) {
    match value {
        Value::String(text) if !text.starts_with(|first: char| first.is_ascii_digit()) => {
            let turned = text.bytes().map(|byte| match byte {
                b'a'..=b'z' => (b'a' + (byte - b'a' + (by % 26) as u8) % 26) as char,
                _ => byte as char,
            });
            *text = turned.collect();
        }
        Value::Number(number) => *number = (number.as_u64().unwrap_or(0) + by as u64).into(),
        Value::Array(values) => values.iter_mut().for_each(|value| rotate(value, by)),
        Value::Object(fields) => fields.values_mut().for_each(|value| rotate(value, by)),
        _ => {}
    }
}

fn many(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("200 pods to JSON");
    group.throughput(Throughput::Elements(PODS as u64));
    let mut json = Vec::with_capacity(PODS * 16 * 1024);
    for replicas in [100, 5, 2, 1] {
        let pods = workloads_of(replicas);
        group.bench_function(
            format!("each by itself, {replicas} of a workload"),
            |bencher| {
                bencher.iter(|| {
                    json.clear();
                    for pod in black_box(&pods) {
                        to_json(&POD, pod, "", &mut json).expect("a pod");
                    }
                });
            },
        );
        group.bench_function(
            format!("as a series, {replicas} of a workload"),
            |bencher| {
                bencher.iter(|| {
                    json.clear();
                    let mut series = JsonDeltaWriter::new(&POD, "");
                    for pod in black_box(&pods) {
                        series.put(pod, &mut json).expect("a pod");
                    }
                });
            },
        );
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = {
        plot_font::register();
        Criterion::default().nresamples(10_000).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2))
    };
    targets = one, many
}
criterion_main!(benches);
