//! Speed of validating a list response: bytes per second on one core, in frames of 256 KiB and 16
//! KiB.
//!
//! `hashed` does what the verifier does: it counts the objects, checks their order, and hashes
//! every key and value. `decoded` does what an ordinary client does: it collects each message, then
//! decodes it into prost's structs.

use std::hint::black_box;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use etcd_api::client::list_validator::{ListValidator, Object};
use etcd_api::client::raw_list::ListRpc;
use etcd_api::proto::etcdserverpb::{RangeResponse, RangeStreamResponse, ResponseHeader};
use etcd_api::proto::mvccpb::KeyValue;
use prost::Message;
use workloads::Fingerprint;

/// Returns a stream of `objects` objects with values of `value_bytes` bytes, in chunks of about 1
/// MiB.
fn stream(objects: usize, value_bytes: usize) -> Vec<u8> {
    let per_chunk = ((1 << 20) / value_bytes).max(1);
    let mut bytes = Vec::new();
    let indexes: Vec<_> = (0..objects).collect();
    for (chunk, indexes) in indexes.chunks(per_chunk).enumerate() {
        let kvs = indexes.iter().map(|i| KeyValue {
            key: format!("/registry/pods/namespace/pod-{i:010}").into(),
            create_revision: 1000,
            mod_revision: 1000,
            version: 1,
            value: vec![b'x'; value_bytes].into(),
            lease: 0,
        });
        let last = (chunk + 1) * per_chunk >= objects;
        let message = RangeStreamResponse {
            range_response: Some(RangeResponse {
                header: last.then(|| ResponseHeader {
                    revision: 5,
                    ..Default::default()
                }),
                kvs: kvs.collect(),
                more: false,
                count: if last { objects as i64 } else { 0 },
            }),
        };
        bytes.push(0);
        bytes.extend((message.encoded_len() as u32).to_be_bytes());
        bytes.extend(message.encode_to_vec());
    }
    bytes
}

/// Removes and returns the first message, if it has arrived completely.
fn next_message(received: &mut BytesMut) -> Option<Bytes> {
    let len = u32::from_be_bytes(*received.get(1..)?.first_chunk()?) as usize;
    if received.len() < 5 + len {
        return None;
    }
    received.advance(5);
    Some(received.split_to(len).freeze())
}

fn validate(c: &mut Criterion) {
    let mut group = c.benchmark_group("validate");
    group.sample_size(20);
    for (objects, value_bytes) in [
        (200_000, 100),
        (20_000, 1_000),
        (5_000, 10_000),
        (500, 100_000),
    ] {
        let bytes = stream(objects, value_bytes);
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        for frame in [256 << 10, 16 << 10] {
            let id = BenchmarkId::new(
                format!("hashed/{objects}x{value_bytes}B"),
                format!("{}KiB-frames", frame >> 10),
            );
            group.bench_function(id, |b| {
                b.iter(|| {
                    let mut validator = ListValidator::new(ListRpc::RangeStream);
                    let mut seen = Fingerprint::default();
                    let mut visitor = |o: Object<'_>| {
                        seen.add(o.key, o.value);
                    };
                    for frame in bytes.chunks(frame) {
                        validator.feed(frame, &mut visitor).expect("valid stream");
                    }
                    let summary = validator.finish().expect("complete stream");
                    assert_eq!(summary.objects, objects as u64);
                    black_box(seen)
                });
            });
        }
        let id = BenchmarkId::new(format!("decoded/{objects}x{value_bytes}B"), "256KiB-frames");
        group.bench_function(id, |b| {
            b.iter(|| {
                let mut received = BytesMut::new();
                let mut seen = 0;
                for frame in bytes.chunks(256 << 10) {
                    received.extend_from_slice(frame);
                    while let Some(message) = next_message(&mut received) {
                        let decoded = RangeStreamResponse::decode(message).expect("valid");
                        seen += decoded.range_response.map_or(0, |r| r.kvs.len());
                    }
                }
                assert_eq!(seen, objects);
            });
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
    targets = validate
}
criterion_main!(benches);
