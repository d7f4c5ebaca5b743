//! Checks that reading a shard from an index finds the same objects, in the same order, as testing
//! every object.

use std::collections::BTreeMap;

use etcd_api::keys::prefix_end;
use index::Item;
use kube_api::{ShardKey, ShardRange, envelope, from_json, schema};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::resource::RESOURCES;

fn object(namespace: &str, name: &str, uid: &str) -> Object {
    let pod = json!({"metadata": {"name": name, "namespace": namespace, "uid": uid}});
    let mut raw = Vec::new();
    from_json(&schema::POD, pod.as_object().expect("an object"), &mut raw).expect("a pod");
    let key = match namespace {
        "" => name.to_owned(),
        _ => format!("{namespace}/{name}"),
    };
    let value = envelope::seal("v1", "Pod", &raw);
    Object::decode(&RESOURCES[0], key.as_bytes(), &value, 1).expect("a pod")
}

/// Namespaces whose names sort before and after the slash, and an empty one.
const NAMESPACES: [&str; 6] = ["", "a", "a-b", "a.b", "a0", "b"];

/// Generates creations, deletions, and objects that take the name of another.
fn changes() -> impl Strategy<Value = Vec<(usize, u8, Option<u16>)>> {
    vec(
        (
            0..NAMESPACES.len(),
            0_u8..20,
            prop::option::of(any::<u16>()),
        ),
        0..120,
    )
}

fn selector() -> impl Strategy<Value = ShardSelector> {
    // Bounds are on the edges of buckets, beside them, or anywhere.
    let bound = prop_oneof![
        (0_u128..=256, -1_i128..=1).prop_map(|(bucket, beside)| {
            (((bucket as i128) << 56) + beside).clamp(0, 1 << 64) as u128
        }),
        (0_u128..=1 << 64),
    ];
    let range = (bound.clone(), bound).prop_filter_map("an empty range", |(one, other)| {
        ShardRange::new(u64::try_from(one.min(other)).ok()?, one.max(other))
    });
    let key = prop::sample::select(ShardKey::ALL.to_vec());
    (key, range.clone(), vec(range, 0..3)).prop_map(|(key, first, more)| {
        more.into_iter()
            .fold(ShardSelector::new(key, first), ShardSelector::or)
    })
}

fn is_in(selector: &ShardSelector, object: &Object) -> bool {
    selector.selects(selector.key().hash(object.uid(), object.namespace()))
}

fn keys(iter: ObjectIter) -> Vec<Vec<u8>> {
    iter.map(|object| object.key().to_vec()).collect()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(future)
}

proptest! {
    #[test]
    fn an_index_finds_what_looking_at_all_finds(
        before in changes(),
        after in changes(),
        selector in selector(),
        below in prop::sample::select(vec!["", "a/", "a-b/", "none/"]),
        start in prop::option::of((0..NAMESPACES.len(), 0_u8..20)),
    ) {
        let mut objects = Tree::default();
        let mut model = BTreeMap::new();
        let mut uids = None;
        // The index is built between the two series of changes, and then kept current.
        for (number, (namespace, name, uid)) in before.iter().chain(&after).enumerate() {
            if number == before.len() {
                uids = Some(UidIndex::build(&objects));
            }
            let (namespace, name) = (NAMESPACES[*namespace], format!("pod-{name:02}"));
            let made = object(namespace, &name, &format!("uid-{}", uid.unwrap_or_default()));
            let key = made.key().to_vec();
            let (old, new) = match uid {
                Some(_) => {
                    model.insert(key, made.clone());
                    (objects.insert(made.clone()), Some(made))
                }
                None => {
                    model.remove(&key);
                    (objects.remove(&key), None)
                }
            };
            if let Some(uids) = &mut uids {
                uids.change(old.as_ref(), new.as_ref());
            }
        }
        let uids = uids.unwrap_or_else(|| UidIndex::build(&objects));
        let end = prefix_end(below.as_bytes());
        let from = match start {
            Some((namespace, name)) if below.is_empty() => format!("{}/pod-{name:02}\0", NAMESPACES[namespace]),
            Some((_, name)) => format!("{below}pod-{name:02}\0"),
            None => below.to_owned(),
        };
        let range = KeyRange::new(from.as_bytes(), &end);
        let selector = Arc::new(selector);
        let ways = match selector.key() {
            ShardKey::Uid => vec![
                ObjectSet::ByUid(uids, selector.clone()),
                ObjectSet::FilteredScan(objects, selector.clone()),
            ],
            ShardKey::Namespace => vec![ObjectSet::ByNamespace(objects, selector.clone())],
        };
        let expected: Vec<_> = model
            .values()
            .filter(|object| range.contains(object.key()) && is_in(&selector, object))
            .collect();
        for found in ways {
            let mut iter = found.iter(range);
            prop_assert_eq!(iter.is_exhausted(), expected.is_empty());
            let wanted: Vec<_> = expected.iter().map(|object| object.key().to_vec()).collect();
            prop_assert_eq!(&keys(iter), &wanted);
            let measured = block_on(found.measured(range));
            let (totals, others) = (measured.totals, measured.others);
            prop_assert_eq!(keys(measured.iter), wanted);
            let weight: u64 = expected.iter().map(|object| object.weight()).sum();
            prop_assert_eq!((totals.count, totals.weight), (expected.len() as u64, weight));
            prop_assert!(totals.count + others <= model.len() as u64);
        }
    }
}

/// Objects of other shards are read in at most two of 256 buckets, and never in other namespaces.
#[test]
fn a_shard_costs_what_it_returns() {
    let mut objects = Tree::default();
    for i in 0..10_000_u64 {
        let uid = format!("{:016x}", i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        objects.insert(object(&format!("ns-{}", i % 50), &format!("pod-{i}"), &uid));
    }
    let uids = UidIndex::build(&objects);
    let everything = KeyRange::From(b"");
    for shards in [1, 2, 3, 4, 7, 16, 100] {
        let shards = std::num::NonZeroU32::new(shards).expect("some");
        let mut all = 0;
        for key in ShardKey::ALL {
            for selector in ShardSelector::equal_shards(key, shards) {
                let selector = Arc::new(selector);
                let found = match key {
                    ShardKey::Uid => ObjectSet::ByUid(uids.clone(), selector),
                    ShardKey::Namespace => ObjectSet::ByNamespace(objects.clone(), selector),
                };
                let mut iter = found.iter(everything);
                let mut count = 0;
                while iter.next_ref().is_some() {
                    count += 1;
                }
                all += count;
                let others = iter.evaluated() - count;
                let edges = match key {
                    ShardKey::Uid if !shards.is_power_of_two() || shards.get() > 256 => {
                        2 * 10_000 / 100
                    }
                    _ => 0,
                };
                assert!(
                    others <= edges,
                    "{shards} shards: {others} others for {count}"
                );
                assert_eq!(block_on(found.measured(everything)).totals.count, count);
            }
        }
        assert_eq!(all, 2 * 10_000, "each object is in one shard of each field");
    }
}
