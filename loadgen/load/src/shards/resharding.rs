//! From N workers to N + 1: how many objects move, and a plan that moves as few as possible.

use kube_api::shard_selector::{ShardRange, ShardSelector};

use super::distribution::Distribution;
use super::plan::Plan;

impl Plan {
    /// Returns the fraction of the objects that another worker owns in `next`, from 0 to 1. Workers
    /// keep their numbers.
    #[must_use]
    pub fn moved(&self, next: &Self, distribution: &Distribution) -> f64 {
        let entries = distribution.entries().iter();
        let moved: u64 = entries
            .filter(|(hash, _)| self.owner(*hash) != next.owner(*hash))
            .map(|(_, weight)| weight)
            .sum();
        moved as f64 / distribution.total().max(1) as f64
    }

    /// Returns what each worker of `next` owns there and not in this plan; `None` if that is
    /// nothing. A worker that is not in this plan owned nothing.
    #[must_use]
    pub fn gains(&self, next: &Self) -> Vec<Option<ShardSelector>> {
        let shards = next.shards().iter().enumerate();
        let gains = shards.map(|(worker, shard)| without(shard, self.shards().get(worker)));
        gains.collect()
    }

    /// Returns a plan for one more worker, in which objects only move to the new worker: each of
    /// the others gives up what it has above the new mean. About one in N + 1 objects moves, and
    /// the new worker's selector has up to N ranges.
    #[must_use]
    pub fn grown(&self, distribution: &Distribution) -> Self {
        let workers = self.shards().len();
        let mean = distribution.total() as f64 / (workers + 1) as f64;
        let mut loads = self.loads(distribution);
        let entries = distribution.entries();
        let mut owners: Vec<usize> = entries.iter().map(|&(hash, _)| self.owner(hash)).collect();
        // From the upper end, so that what is given up consists of as few ranges as possible.
        for (owner, &(_, weight)) in owners.iter_mut().zip(entries).rev() {
            let load = &mut loads[*owner];
            if *load as f64 - weight as f64 / 2.0 >= mean {
                *load -= weight;
                *owner = workers;
            }
        }
        Self::of(&owners, distribution, workers + 1)
    }
}

/// Returns the hashes of one shard that another one does not contain.
fn without(shard: &ShardSelector, other: Option<&ShardSelector>) -> Option<ShardSelector> {
    let others = other.map_or(&[][..], ShardSelector::spans);
    let mut left: Option<ShardSelector> = None;
    let mut keep = |start: u128, end: u128| {
        let range = u64::try_from(start).ok();
        if let Some(range) = range.and_then(|start| ShardRange::new(start, end)) {
            left = Some(match left.take() {
                None => ShardSelector::new(shard.key(), range),
                Some(left) => left.or(range),
            });
        }
    };
    for span in shard.spans() {
        let mut start = u128::from(span.first());
        for other in others {
            let (first, end) = (u128::from(other.first()), other.end());
            if end <= start || first >= span.end() {
                continue;
            }
            keep(start, first.max(start));
            start = end;
        }
        keep(start, span.end());
    }
    left
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use kube_api::hash::fnv1a_64;
    use kube_api::shard_selector::ShardKey;

    use super::*;
    use crate::shards::distribution::skew;

    fn uids() -> Distribution {
        let number = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        let hashes = (0..20_000).map(|n| fnv1a_64(&number(n)));
        Distribution::new(ShardKey::Uid, hashes)
    }

    fn equal(workers: u32) -> Plan {
        Plan::equal(ShardKey::Uid, NonZeroU32::new(workers).expect("some"))
    }

    #[test]
    fn equal_ranges_move_half_of_everything() {
        let distribution = uids();
        for workers in [1, 2, 4, 16] {
            let moved = equal(workers).moved(&equal(workers + 1), &distribution);
            assert!((moved - 0.5).abs() < 0.02, "{workers}: {moved}");
        }
        assert_eq!(equal(4).moved(&equal(4), &distribution), 0.0);
    }

    #[test]
    fn what_a_worker_gains_is_what_it_did_not_have() {
        let distribution = uids();
        for workers in [1, 2, 5, 16] {
            let plan = equal(workers);
            for next in [equal(workers + 1), plan.grown(&distribution), plan.clone()] {
                let gains = plan.gains(&next);
                for &(hash, _) in distribution.entries() {
                    let owner = next.owner(hash);
                    let is_new = owner != plan.owner(hash);
                    for (worker, gains) in gains.iter().enumerate() {
                        let gained = gains.as_ref().is_some_and(|gains| gains.selects(hash));
                        assert_eq!(gained, is_new && worker == owner, "{hash:x} at {worker}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_grown_plan_moves_no_more_than_the_new_worker_gets() {
        let distribution = uids();
        let mut plan = Plan::weighted(&distribution, NonZeroU32::MIN);
        for workers in 1..12 {
            let grown = plan.grown(&distribution);
            let loads = grown.loads(&distribution);
            assert_eq!(loads.iter().sum::<u64>(), distribution.total());
            let moved = plan.moved(&grown, &distribution);
            let least = 1.0 / f64::from(workers + 1);
            assert!((moved - least).abs() < 0.01, "{workers}: {moved}");
            assert!(skew(&loads) < 1.02, "{workers}: {loads:?}");
            plan = grown;
        }
    }
}
