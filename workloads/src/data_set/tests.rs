use super::*;
use crate::scenario::{Kind, Overrides, Scenario};
use kube_api::protobuf::find_bytes;
use kube_api::{envelope, schema, to_json};
use proptest::prelude::*;
use serde_json::Value;
use std::num::NonZeroU64;

fn data_set(scenario: &str, objects: u64, seed: u64) -> DataSet {
    let mut scenario = Scenario::named(scenario).expect("built in");
    let overrides = Overrides {
        objects: NonZeroU64::new(objects),
        seed: Some(seed),
        ..Overrides::default()
    };
    scenario.override_with(&overrides).expect("fits");
    DataSet::new(&scenario.data_sets[0])
}

fn json(value: &[u8]) -> (String, Value) {
    let raw = envelope::open(value).expect("an enveloped object");
    let (_, kind) = envelope::type_meta(value).expect("typed");
    let message = if kind == b"Pod" {
        &schema::POD
    } else {
        &schema::CONFIG_MAP
    };
    let mut out = Vec::new();
    let head = format!(
        r#""kind":"{}","apiVersion":"v1""#,
        String::from_utf8_lossy(kind)
    );
    to_json(message, raw, &head, &mut out).expect("an object");
    let text = String::from_utf8(out).expect("JSON is UTF-8");
    let value = serde_json::from_str(&text).expect("JSON");
    (text, value)
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_else(|| panic!("no text at {pointer}"))
}

#[test]
fn pods_have_the_size_of_real_ones() {
    let pods = data_set("pods-150k", 150_000, 1);
    let sizes: Vec<_> = (0..50)
        .map(|space| pods.value_len(space * 3000) as f64)
        .collect();
    let mean = sizes.iter().sum::<f64>() / sizes.len() as f64;
    assert!((mean / 10_131.0 - 1.0).abs() < 0.02, "mean of {mean} bytes");

    let (mut json_bytes, mut managed) = (0.0, 0.0);
    for space in 0..50 {
        let value = pods.value(space * 3000);
        assert_eq!(value.len(), pods.value_len(space * 3000));
        json_bytes += json(&value).0.len() as f64;
        let metadata = find_bytes(envelope::open(&value).expect("enveloped"), 1)
            .expect("a pod")
            .expect("metadata");
        managed += kube_api::protobuf::Fields::new(metadata)
            .filter_map(|field| {
                field
                    .ok()
                    .filter(|field| field.number == 17)
                    .and_then(|field| field.wire.bytes())
            })
            .map(|entry| entry.len() as f64 + 4.0)
            .sum::<f64>()
            / value.len() as f64;
    }
    let json_mean = json_bytes / 50.0;
    assert!(
        (json_mean / 14_474.0 - 1.0).abs() < 0.03,
        "mean of {json_mean} bytes of JSON"
    );
    assert!(
        (0.47..0.53).contains(&(managed / 50.0)),
        "managedFields are {managed} of 50"
    );
}

#[test]
fn a_pod_is_consistent_with_its_key() {
    let pods = data_set("pods-150k", 1_000, 1);
    for i in [0, 1, 499, 999] {
        let (_, pod) = json(&pods.value(i));
        let key = format!(
            "pods/{}/{}",
            text(&pod, "/metadata/namespace"),
            text(&pod, "/metadata/name")
        );
        assert_eq!(key.as_bytes(), pods.key(i));
        let owner = text(&pod, "/metadata/ownerReferences/0/name");
        assert!(text(&pod, "/metadata/name").starts_with(owner));
        assert_eq!(
            text(&pod, "/metadata/creationTimestamp"),
            text(&pod, "/status/startTime")
        );
        assert_eq!(
            text(&pod, "/status/podIP"),
            text(&pod, "/status/podIPs/0/ip")
        );
        let volume = text(&pod, "/spec/volumes/3/name");
        assert_eq!(volume, text(&pod, "/spec/containers/0/volumeMounts/2/name"));
        let fields = pod
            .pointer("/metadata/managedFields/0/fieldsV1/f:metadata/f:ownerReferences")
            .expect("owned");
        assert!(
            fields
                .get(format!(
                    "k:{{\"uid\":\"{}\"}}",
                    text(&pod, "/metadata/ownerReferences/0/uid")
                ))
                .is_some()
        );
    }
}

#[test]
fn json_and_protobuf_say_the_same() {
    for scenario in ["pods-150k", "list-large"] {
        let objects = data_set(scenario, 10, 3);
        let value = objects.value(4);
        let message = if scenario == "pods-150k" {
            &schema::POD
        } else {
            &schema::CONFIG_MAP
        };
        let (_, object) = json(&value);
        let mut again = Vec::new();
        kube_api::from_json(message, object.as_object().expect("an object"), &mut again)
            .expect("fits");
        assert!(
            again == envelope::open(&value).expect("enveloped"),
            "{scenario}: not the same bytes"
        );
    }
}

#[test]
fn config_maps_have_exactly_their_size() {
    let mut scenario = Scenario::named("list-large").expect("built in");
    for size in [700, 1_000, 16_383, 16_500, 100_000, 1_000_000] {
        let overrides = Overrides {
            object_size: NonZeroU64::new(size),
            ..Overrides::default()
        };
        scenario.override_with(&overrides).expect("fits");
        let config_maps = DataSet::new(&scenario.data_sets[0]);
        for i in [0, 5_000, 9_999] {
            assert_eq!(config_maps.value(i).len() as u64, size);
            assert_eq!(config_maps.value_len(i) as u64, size);
        }
    }
    let (_, object) = json(&data_set("objects-1mb", 10, 1).value(3));
    assert!(text(&object, "/data/payload").len() > 999_000);
}

#[test]
fn objects_have_one_of_the_sizes_as_often_as_the_weights_say() {
    for kind in [Kind::ConfigMaps, Kind::Raw] {
        let mut spec = Scenario::named("mixed-sizes").expect("built in").data_sets[0].clone();
        if kind == Kind::Raw {
            (spec.kind, spec.namespaces) = (kind, None);
        }
        let objects = DataSet::new(&spec);
        let mut counts = std::collections::BTreeMap::<usize, u64>::new();
        for i in 0..objects.len() {
            *counts.entry(objects.value_len(i)).or_default() += 1;
        }
        let sizes: Vec<_> = counts.keys().copied().collect();
        assert_eq!(sizes, [2_000, 20_000, 1_000_000], "{kind:?}");
        // Within five standard deviations of binomial counts.
        assert!(counts[&2_000].abs_diff(18_000) < 212, "{counts:?}");
        assert!(counts[&20_000].abs_diff(1_800) < 202, "{counts:?}");
        assert!(counts[&1_000_000].abs_diff(200) < 70, "{counts:?}");
        for i in 0..300 {
            assert_eq!(objects.value(i).len(), objects.value_len(i));
            let mut changed = Vec::new();
            let version = Version {
                incarnation: 1,
                change: 2,
            };
            objects.write_version(i, version, &mut changed);
            assert_eq!(
                changed.len(),
                objects.value_len(i),
                "a change keeps the length"
            );
        }
    }
}

#[test]
fn pods_are_spread_evenly_over_nodes_with_addresses_of_their_own() {
    let mut scenario = Scenario::named("pods-150k").expect("built in");
    let spec = &mut scenario.data_sets[0];
    spec.objects = NonZeroU64::new(600).expect("not 0");
    spec.nodes = std::num::NonZeroU32::new(20);
    let pods = DataSet::new(spec);
    let mut per_node = std::collections::HashMap::<String, u32>::new();
    let mut addresses = std::collections::HashSet::new();
    for i in 0..600 {
        let (_, pod) = json(&pods.value(i));
        *per_node
            .entry(text(&pod, "/spec/nodeName").to_owned())
            .or_default() += 1;
        assert!(
            addresses.insert(text(&pod, "/status/podIP").to_owned()),
            "pod {i} shares its address"
        );
    }
    assert_eq!(per_node.len(), 20);
    assert!(per_node.values().all(|&count| count == 30), "{per_node:?}");
}

#[test]
fn keys_ascend_and_bytes_are_pinned() {
    let golden = [
        ("pods-150k", 3_000, "xxh3:70c8901e150de75a/3000"),
        ("list-large", 30, "xxh3:3171f7e31c1d841b/30"),
        ("objects-1mb", 8, "xxh3:0cf7c463704982aa/8"),
        ("stream-shapes", 1_000, "xxh3:f8032209c1e99359/1000"),
        ("mixed-sizes", 300, "xxh3:c9fad6dc0efc333e/300"),
    ];
    for (scenario, objects, expected) in golden {
        let objects = data_set(scenario, objects, 1);
        let keys: Vec<_> = (0..objects.len()).map(|i| objects.key(i)).collect();
        assert!(
            keys.is_sorted_by(|a, b| a < b),
            "{scenario}: keys must ascend"
        );
        assert!(
            keys.iter()
                .all(|key| key.starts_with(objects.prefix().as_bytes()))
        );
        let whole = objects.fingerprint(0..objects.len());
        assert_eq!(whole.to_string(), expected, "{scenario}");
    }
}

#[test]
fn keys_of_the_whole_default_ascend() {
    let pods = data_set("pods-150k", 150_000, 1);
    let mut last = Vec::new();
    for i in 0..pods.len() {
        let key = pods.key(i);
        assert!(last < key, "key {i}");
        last = key;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn objects_are_pure_functions(seed: u64, objects in 1u64..5_000, at: proptest::sample::Index) {
        let (one, other) = (data_set("pods-150k", objects, seed), data_set("pods-150k", objects, seed));
        let i = at.index(objects as usize) as u64;
        // Another object in between must not matter.
        let _ = one.value(objects - 1);
        prop_assert_eq!(one.key(i), other.key(i));
        prop_assert_eq!(one.value(i), other.value(i));
        if objects > 1 {
            let neighbour = (i + 1) % objects;
            prop_assert_ne!(one.value(i), one.value(neighbour));
        }
        prop_assert_ne!(one.value(i), data_set("pods-150k", objects, seed.wrapping_add(1)).value(i));
    }
}
