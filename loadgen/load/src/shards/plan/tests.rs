use kube_api::hash::fnv1a_64;
use proptest::prelude::*;

use super::*;

fn n(workers: u32) -> NonZeroU32 {
    NonZeroU32::new(workers).expect("some workers")
}

/// Returns namespaces with these names, each with equally many objects.
fn namespaces(names: impl IntoIterator<Item = String>) -> Distribution {
    let hashes = names.into_iter().map(|name| fnv1a_64(name.as_bytes()));
    Distribution::new(ShardKey::Namespace, hashes.flat_map(|hash| [hash; 10]))
}

/// Returns a distribution of hashes with these numbers of objects.
fn weighing(entries: &[(u64, u64)]) -> Distribution {
    let objects = entries.iter();
    let hashes = objects.flat_map(|&(hash, weight)| (0..weight).map(move |_| hash));
    Distribution::new(ShardKey::Namespace, hashes)
}

/// Asserts that every hash is in exactly one shard: ranges sorted by their starts touch and reach
/// from 0 to 2⁶⁴.
fn assert_whole(plan: &Plan, workers: u32) {
    assert_eq!(plan.shards().len(), workers as usize);
    let shards = plan.shards().iter();
    let mut ranges: Vec<_> = shards.flat_map(|shard| shard.ranges()).collect();
    ranges.sort();
    let mut at = 0;
    for range in ranges {
        assert_eq!(u128::from(range.first()), at, "a gap or an overlap");
        at = range.end();
    }
    assert_eq!(at, END);
    for shard in plan.shards() {
        assert_eq!(shard.ranges(), shard.spans(), "two ranges that are one");
    }
}

/// Measured with kube-apiserver's own hash: equal ranges of such names are useless as shards.
#[test]
fn equal_ranges_leave_workers_without_namespaces_and_weighted_ones_do_not() {
    let tables = [
        (
            namespaces((1..=80).map(|n| format!("test-ns-{n}"))),
            [710, 90],
        ),
        (namespaces((0..100).map(|n| format!("ns-{n}"))), [1_000, 0]),
        (
            namespaces((0..1_000).map(|n| format!("ns-{n:04}"))),
            [10_000, 0],
        ),
    ];
    for (distribution, halves) in tables {
        assert_eq!(
            Plan::equal(ShardKey::Namespace, n(2)).loads(&distribution),
            halves
        );
        for workers in [2, 4, 8] {
            let plan = Plan::weighted(&distribution, n(workers));
            assert_whole(&plan, workers);
            let skew = skew(&plan.loads(&distribution));
            assert!(skew <= GOOD_SKEW, "{workers} workers: {skew}");
        }
    }
}

#[test]
fn more_workers_than_namespaces_leave_some_idle_but_none_without_a_range() {
    let distribution = namespaces(["a", "b", "c"].map(str::to_owned));
    let plan = Plan::weighted(&distribution, n(8));
    assert_whole(&plan, 8);
    let mut loads = plan.loads(&distribution);
    loads.sort_unstable();
    assert_eq!(loads, [0, 0, 0, 0, 0, 10, 10, 10]);
    let nothing = Distribution::new(ShardKey::Uid, []);
    assert_whole(&Plan::weighted(&nothing, n(3)), 3);
}

#[test]
fn what_one_range_a_worker_cannot_balance_is_dealt_out() {
    // In the order of hashes, the best cut is 80 : 120. The first and the third together make it
    // 100 : 100.
    let entries = [(10, 50), (20, 30), (30, 50), (40, 70)];
    let distribution = weighing(&entries);
    let plan = Plan::weighted(&distribution, n(2));
    assert_whole(&plan, 2);
    assert_eq!(plan.loads(&distribution), [100, 100]);
    assert!(plan.shards().iter().any(|shard| shard.ranges().len() > 1));
}

#[test]
fn uids_need_one_range_a_worker() {
    let number = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    let hashes = (0..50_000).map(|n| fnv1a_64(&number(n)));
    let distribution = Distribution::new(ShardKey::Uid, hashes);
    for workers in [1, 2, 7, 16] {
        let plan = Plan::weighted(&distribution, n(workers));
        assert_whole(&plan, workers);
        assert!(plan.shards().iter().all(|shard| shard.ranges().len() == 1));
        assert!(skew(&plan.loads(&distribution)) < 1.001);
    }
}

proptest! {
    #[test]
    fn weighted_plans_are_whole_and_within_their_bound(
        entries in prop::collection::vec((any::<u64>(), 1..60_u64), 1..80),
        workers in 1..20_u32,
    ) {
        let distribution = weighing(&entries);
        let plan = Plan::weighted(&distribution, n(workers));
        assert_whole(&plan, workers);
        let loads = plan.loads(&distribution);
        prop_assert_eq!(loads.iter().sum::<u64>(), distribution.total());
        let mean = distribution.total() as f64 / f64::from(workers);
        let largest = loads.iter().max().copied().unwrap_or(0) as f64;
        let heaviest = distribution.heaviest() as f64;
        prop_assert!(largest <= mean + heaviest, "{loads:?}");
        // The guarantee, if no namespace is larger than what a worker may have above the mean.
        if heaviest <= mean * (GOOD_SKEW - 1.0) {
            prop_assert!(largest <= mean * GOOD_SKEW, "{loads:?}");
        }
    }

    /// Neighbouring hashes, and both ends of the hash space.
    #[test]
    fn crowded_hashes_are_cut_too(offsets in prop::collection::vec(0..6_u64, 1..6), workers in 1..6_u32, at_end: bool) {
        let hash = |offset| if at_end { u64::MAX - offset } else { offset };
        let distribution = Distribution::new(ShardKey::Uid, offsets.into_iter().map(hash));
        assert_whole(&Plan::weighted(&distribution, n(workers)), workers);
    }

    /// Tests small cases that can be packed within the bound at all, and in which no namespace
    /// alone exceeds it.
    #[test]
    fn what_can_be_packed_nearly_always_is(
        weights in prop::collection::vec(1..40_u64, 4..10), spread: u64,
    ) {
        let entries: Vec<_> = weights.iter().zip(0_u64..).map(|(&w, n)| (fnv1a_64(&(n ^ spread).to_le_bytes()), w)).collect();
        let distribution = weighing(&entries);
        let total = distribution.total();
        let best = (0_u32..1 << weights.len()).map(|set| {
            let load: u64 = (0..weights.len()).filter(|n| set >> n & 1 == 1).map(|n| weights[n]).sum();
            load.max(total - load)
        }).min().unwrap_or(total);
        let loads = Plan::weighted(&distribution, n(2)).loads(&distribution);
        let largest = loads.iter().max().copied().unwrap_or(0) as f64;
        let good = total as f64 / 2.0 * GOOD_SKEW;
        prop_assert!(largest <= good.max(best as f64 * 7.0 / 6.0), "{loads:?}, best {best}");
    }
}
