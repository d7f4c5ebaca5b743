//! Compares the validator with prost on the same bytes in any chunking, and on malformed bytes.

use proptest::prelude::*;
use prost::Message;

use super::*;
use crate::proto::etcdserverpb::{RangeResponse, RangeStreamResponse, ResponseHeader};
use crate::proto::mvccpb::KeyValue;

type Seen = Vec<(Vec<u8>, Vec<u8>, i64)>;

fn kv(i: usize, value_len: usize) -> KeyValue {
    KeyValue {
        key: format!("/registry/pods/ns/{i:06}").into(),
        create_revision: 1 + i as i64,
        mod_revision: 2 + i as i64 * 300,
        version: 1,
        value: vec![i as u8; value_len].into(),
        lease: if i.is_multiple_of(3) { 7 } else { 0 },
    }
}

fn header() -> ResponseHeader {
    ResponseHeader {
        cluster_id: u64::MAX,
        member_id: 2,
        revision: 1_234_567,
        raft_term: 2,
    }
}

fn frame(message: &impl Message) -> Vec<u8> {
    let body = message.encode_to_vec();
    let mut framed = vec![0];
    framed.extend((body.len() as u32).to_be_bytes());
    framed.extend(body);
    framed
}

/// Returns a stream of chunks in etcd's layout: header, more and count only in the last one.
fn stream(value_lens: &[usize], chunk: usize) -> Vec<u8> {
    let kvs: Vec<_> = value_lens
        .iter()
        .enumerate()
        .map(|(i, &len)| kv(i, len))
        .collect();
    let mut chunks: Vec<_> = kvs.chunks(chunk).map(<[_]>::to_vec).collect();
    let last = chunks.pop().unwrap_or_default();
    let mut bytes = Vec::new();
    for kvs in chunks {
        bytes.extend(frame(&RangeStreamResponse {
            range_response: Some(RangeResponse {
                kvs,
                ..Default::default()
            }),
        }));
    }
    bytes.extend(frame(&RangeStreamResponse {
        range_response: Some(RangeResponse {
            header: Some(header()),
            kvs: last,
            more: true,
            count: value_lens.len() as i64 + 5,
        }),
    }));
    bytes
}

fn unary(value_lens: &[usize]) -> Vec<u8> {
    frame(&RangeResponse {
        header: Some(header()),
        kvs: value_lens
            .iter()
            .enumerate()
            .map(|(i, &len)| kv(i, len))
            .collect(),
        more: false,
        count: value_lens.len() as i64,
    })
}

fn validate(
    rpc: ListRpc,
    bytes: &[u8],
    cuts: &[usize],
) -> Result<(ListSummary, Seen), ValidationError> {
    let mut validator = ListValidator::new(rpc);
    let mut seen = Seen::new();
    let mut visitor = |o: Object<'_>| seen.push((o.key.to_vec(), o.value.to_vec(), o.mod_revision));
    let mut start = 0;
    for &cut in cuts.iter().chain([&bytes.len()]) {
        let cut = cut.clamp(start, bytes.len());
        validator.feed(&bytes[start..cut], &mut visitor)?;
        start = cut;
    }
    Ok((validator.finish()?, seen))
}

#[test]
fn a_stream_is_read_as_prost_reads_it() {
    let lens = [0, 1, 127, 128, 5000, 3];
    let bytes = stream(&lens, 2);
    let (summary, seen) = validate(ListRpc::RangeStream, &bytes, &[]).expect("valid stream");
    let expected = ListSummary {
        revision: 1_234_567,
        count: 11,
        more: true,
        objects: 6,
        messages: 3,
        bytes: bytes.len() as u64,
        empty_chunks: 0,
        header: Header {
            cluster_id: header().cluster_id,
            member_id: header().member_id,
            revision: 1_234_567,
            raft_term: header().raft_term,
        },
        header_message: 3,
        irregular: 0,
    };
    assert_eq!(summary, expected);
    for (i, (key, value, mod_revision)) in seen.iter().enumerate() {
        let kv = kv(i, lens[i]);
        assert_eq!((key, value), (&kv.key.to_vec(), &kv.value.to_vec()));
        assert_eq!(*mod_revision, kv.mod_revision);
    }
}

#[test]
fn a_cut_at_any_byte_changes_nothing() {
    for (rpc, bytes) in [
        (ListRpc::RangeStream, stream(&[0, 200, 3], 2)),
        (ListRpc::Range, unary(&[0, 200, 3])),
    ] {
        let whole = validate(rpc, &bytes, &[]).expect("valid");
        for cut in 0..bytes.len() {
            assert_eq!(
                validate(rpc, &bytes, &[cut]).as_ref(),
                Ok(&whole),
                "cut at {cut}"
            );
        }
        let every_byte: Vec<_> = (0..bytes.len()).collect();
        assert_eq!(validate(rpc, &bytes, &every_byte), Ok(whole));
    }
}

#[test]
fn a_truncated_response_is_an_error() {
    for (rpc, bytes) in [
        (ListRpc::RangeStream, stream(&[0, 200, 3], 2)),
        (ListRpc::Range, unary(&[0, 200, 3])),
    ] {
        for len in 0..bytes.len() {
            let cut_short = validate(rpc, &bytes[..len], &[]);
            assert!(
                matches!(
                    cut_short,
                    Err(ValidationError::Truncated { .. } | ValidationError::NoHeader { .. })
                ),
                "{len} of {} bytes passed: {cut_short:?}",
                bytes.len()
            );
        }
    }
}

#[test]
fn swapped_and_repeated_objects_are_out_of_order() {
    for order in [[0, 2, 1], [0, 1, 1]] {
        let response = RangeResponse {
            header: Some(header()),
            kvs: order.iter().map(|&i| kv(i, 10)).collect(),
            ..Default::default()
        };
        let result = validate(ListRpc::Range, &frame(&response), &[]);
        assert!(
            matches!(result, Err(ValidationError::Order { index: 2, .. })),
            "{result:?}"
        );
    }
}

#[test]
fn order_is_checked_across_chunks() {
    let chunk = |i| {
        frame(&RangeStreamResponse {
            range_response: Some(RangeResponse {
                header: Some(header()),
                kvs: vec![kv(i, 10)],
                ..Default::default()
            }),
        })
    };
    let bytes = [chunk(1), chunk(0)].concat();
    let result = validate(ListRpc::RangeStream, &bytes, &[]);
    assert!(
        matches!(result, Err(ValidationError::Order { index: 1, .. })),
        "{result:?}"
    );
}

#[test]
fn irregular_fields_are_counted() {
    let regular =
        |rpc, bytes: &[u8]| validate(rpc, bytes, &[]).map(|(summary, _)| summary.irregular);
    let response = RangeResponse {
        header: Some(header()),
        kvs: vec![kv(0, 10)],
        count: 1,
        ..Default::default()
    };
    let message = response.encode_to_vec();
    let of = |message: &[u8]| {
        let mut bytes = vec![0];
        bytes.extend((message.len() as u32).to_be_bytes());
        bytes.extend(message);
        bytes
    };
    assert_eq!(regular(ListRpc::Range, &of(&message)), Ok(0));
    // Field 9; field 4 a second time; an object with field 7; an object with its version twice.
    let unknown = [&message[..], &[0x4a, 0]].concat();
    let twice = [&message[..], &[0x20, 1]].concat();
    let object = |more: &[u8]| {
        let record = [&kv(1, 10).encode_to_vec()[..], more].concat();
        let head = [0x12, u8::try_from(record.len()).expect("short")];
        [&message[..], &head, &record].concat()
    };
    for wrong in [unknown, twice, object(&[0x38, 1]), object(&[0x20, 1])] {
        assert_eq!(regular(ListRpc::Range, &of(&wrong)), Ok(1), "{wrong:?}");
    }
    let streamed = RangeStreamResponse {
        range_response: Some(response),
    };
    let streamed = streamed.encode_to_vec();
    assert_eq!(regular(ListRpc::RangeStream, &of(&streamed)), Ok(0));
    let twice = [&streamed[..], &[0x0a, 0]].concat();
    let unknown = [&streamed[..], &[0x12, 0]].concat();
    for wrong in [twice, unknown] {
        assert_eq!(regular(ListRpc::RangeStream, &of(&wrong)), Ok(1));
    }
}

#[test]
fn each_violation_has_its_error() {
    let no_header = frame(&RangeResponse::default());
    assert!(matches!(
        validate(ListRpc::Range, &no_header, &[]),
        Err(ValidationError::NoHeader { .. })
    ));
    assert!(matches!(
        validate(ListRpc::Range, &[unary(&[1]), unary(&[1])].concat(), &[]),
        Err(ValidationError::SecondMessage)
    ));
    let mut compressed = unary(&[1]);
    compressed[0] = 1;
    assert!(matches!(
        validate(ListRpc::Range, &compressed, &[]),
        Err(ValidationError::Compressed {
            message: 1,
            flag: 1
        })
    ));
    let keyless = RangeResponse {
        header: Some(header()),
        kvs: vec![KeyValue::default()],
        ..Default::default()
    };
    assert!(matches!(
        validate(ListRpc::Range, &frame(&keyless), &[]),
        Err(ValidationError::Object { index: 0 })
    ));
}

#[test]
fn a_chunk_without_objects_before_another_is_counted() {
    let empty = frame(&RangeStreamResponse {
        range_response: Some(RangeResponse {
            header: Some(header()),
            ..Default::default()
        }),
    });
    let bytes = [empty, stream(&[1], 1)].concat();
    let (summary, _) = validate(ListRpc::RangeStream, &bytes, &[]).expect("merging it is correct");
    assert_eq!((summary.empty_chunks, summary.messages), (1, 2));
}

#[test]
fn unknown_fields_are_skipped() {
    let mut body = RangeResponse {
        header: Some(header()),
        kvs: vec![kv(0, 5)],
        ..Default::default()
    }
    .encode_to_vec();
    // Field 9 as a varint, 10 as bytes, 11 as fixed64, 12 as fixed32.
    body.extend([0x48, 0x96, 0x01]);
    body.extend([0x52, 0x03, 1, 2, 3]);
    body.extend([0x59, 1, 2, 3, 4, 5, 6, 7, 8]);
    body.extend([0x65, 1, 2, 3, 4]);
    let mut bytes = vec![0];
    bytes.extend((body.len() as u32).to_be_bytes());
    bytes.extend(body);
    let (summary, _) = validate(ListRpc::Range, &bytes, &[]).expect("unknown fields are legal");
    assert_eq!(summary.objects, 1);
}

#[test]
fn records_are_iterated_in_place() {
    let bytes = unary(&[3, 400]);
    let mut records = Vec::new();
    struct Keep<'a>(&'a mut Vec<u8>);
    impl Visitor for Keep<'_> {
        fn on_object(&mut self, _: Object<'_>, record: &[u8], _: Option<usize>) {
            self.0.extend_from_slice(record);
        }
    }
    let mut validator = ListValidator::new(ListRpc::Range);
    validator
        .feed(&bytes, &mut Keep(&mut records))
        .expect("valid answer");
    let keys: Vec<_> = crate::kubernetes::raw_objects(&records)
        .map(|o| o.expect("whole records").key.to_vec())
        .collect();
    assert_eq!(keys, [kv(0, 0).key.to_vec(), kv(1, 0).key.to_vec()]);
    let broken: Vec<_> = crate::kubernetes::raw_objects(&records[..records.len() - 1]).collect();
    assert!(
        broken.len() == 2 && broken[1].is_err(),
        "a cut record is an error"
    );
}

proptest! {
    #[test]
    fn any_chunking_changes_nothing(
        lens in prop::collection::vec(0usize..700, 0..40),
        chunk in 1usize..9,
        mut cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
    ) {
        let bytes = stream(&lens, chunk);
        let whole = validate(ListRpc::RangeStream, &bytes, &[]).expect("valid stream");
        let mut at: Vec<_> = cuts.drain(..).map(|i| i.index(bytes.len())).collect();
        at.sort_unstable();
        prop_assert_eq!(validate(ListRpc::RangeStream, &bytes, &at), Ok(whole));
    }

    #[test]
    fn mutated_bytes_never_panic_and_never_depend_on_chunking(
        lens in prop::collection::vec(0usize..300, 1..10),
        chunk in 1usize..5,
        position in any::<prop::sample::Index>(),
        flip in 1u8..=255,
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = stream(&lens, chunk);
        let at = position.index(bytes.len());
        bytes[at] ^= flip;
        let whole = validate(ListRpc::RangeStream, &bytes, &[]);
        let cut = validate(ListRpc::RangeStream, &bytes, &[cut.index(bytes.len())]);
        // A flip inside a value gives another valid list. In all cases the result must be the same
        // wherever the frames are cut.
        prop_assert_eq!(whole.is_ok(), cut.is_ok());
        if let (Ok(whole), Ok(cut)) = (whole, cut) {
            prop_assert_eq!(whole, cut);
        }
    }

    #[test]
    fn noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..400), cut in 0usize..400) {
        for rpc in [ListRpc::Range, ListRpc::RangeStream] {
            let whole = validate(rpc, &noise, &[]).is_ok();
            prop_assert_eq!(whole, validate(rpc, &noise, &[cut]).is_ok());
        }
    }
}
