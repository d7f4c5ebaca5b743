use proptest::prelude::*;
use prost::Message;

use super::*;

fn bytes(len: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    (any::<u8>(), len)
        .prop_map(|(first, len)| (0..len).map(|i| first.wrapping_add(i as u8)).collect())
}

proptest! {
    #[test]
    fn a_record_is_what_prost_encodes_and_parses_back(
        key in prop_oneof![bytes(1..200), bytes(1..12_000)],
        value in prop_oneof![bytes(0..400), bytes(4_000..40_000)],
        numbers in any::<[u32; 3]>(),
        lease in prop_oneof![Just(0), any::<i64>()],
    ) {
        let fields = Fields {
            key: &key,
            create_revision: numbers[0].into(),
            mod_revision: numbers[1].into(),
            version: numbers[2].into(),
            value: value[..].into(),
            lease,
        };
        let record = Record::new(fields);
        prop_assert_eq!(record.fields(), fields);
        prop_assert_eq!(record.key(), &key[..]);
        let kv = record.to_kv();
        prop_assert_eq!(record.to_bytes(), record.wire().concat());
        prop_assert_eq!(record.wire_len(), record.wire().concat().len());
        let response = etcd_api::proto::etcdserverpb::RangeResponse {
            kvs: vec![kv],
            ..Default::default()
        };
        prop_assert_eq!(record.wire().concat(), response.encode_to_vec());
        for shown in [Projection::Everything, Projection::KeysOnly { lease: true }, Projection::KeysOnly { lease: false }] {
            let response = etcd_api::proto::etcdserverpb::RangeResponse {
                kvs: vec![shown.kv(&record)],
                ..Default::default()
            };
            let mut wire = Vec::new();
            shown.put_wire(&record, &mut wire);
            prop_assert_eq!(&wire, &response.encode_to_vec());
            prop_assert_eq!(shown.wire_len(&record), wire.len());
        }
    }
}

proptest! {
    #[test]
    fn values_compare_as_bytes_wherever_they_are_cut(
        a in prop::collection::vec(0..3u8, 0..8),
        b in prop::collection::vec(0..3u8, 0..8),
        cuts in any::<[prop::sample::Index; 2]>(),
    ) {
        let cut = |bytes, at: prop::sample::Index| {
            let (first, second) = <[u8]>::split_at(bytes, at.index(bytes.len() + 1));
            Value::of([first, second])
        };
        let (cut_a, cut_b) = (cut(&a, cuts[0]), cut(&b, cuts[1]));
        prop_assert_eq!(cut_a.cmp(&cut_b), a.cmp(&b));
        prop_assert_eq!(cut_a == cut_b, a == b);
    }
}

#[test]
fn a_tombstone_is_the_kv_of_a_delete_event() {
    let tombstone = Record::tombstone(b"k", 7);
    assert!(tombstone.is_tombstone());
    let kv = KeyValue {
        key: Bytes::from_static(b"k"),
        mod_revision: 7,
        ..Default::default()
    };
    assert_eq!(tombstone.to_kv(), kv);
}
