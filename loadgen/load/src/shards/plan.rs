//! A shard for each worker. Equal ranges suit UIDs, which are random; the hashes of namespaces lie
//! so close together that equal ranges leave workers without any, so ranges are cut by what is in
//! them.
//!
//! One range a worker is tried first: short selectors, and neighbours stay together. Where that
//! leaves a worker with more than [`GOOD_SKEW`] of the mean, hashes are distributed one by one, the
//! heaviest first to the worker with the least, and a worker's selector names several ranges.
//!
//! - [`contiguous`]: one range a worker; [`longest_first`]: as many as it takes

mod contiguous;
mod longest_first;

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use kube_api::shard_selector::{ShardKey, ShardRange, ShardSelector};

use super::distribution::{Distribution, skew};

/// One above the largest hash.
const END: u128 = 1 << 64;

/// What is good enough for one range a worker: the largest load over the mean.
pub const GOOD_SKEW: f64 = 1.15;
/// Ranges of one worker, on average at most: a selector must fit into a URL.
const MOST_RANGES: usize = 32;

/// Shards that together hold every hash once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    shards: Vec<ShardSelector>,
}

impl Plan {
    /// Returns a plan of equal ranges.
    #[must_use]
    pub fn equal(key: ShardKey, workers: NonZeroU32) -> Self {
        Self {
            shards: ShardSelector::equal_shards(key, workers),
        }
    }

    /// Returns a plan of shards of about equally many objects.
    ///
    /// No load is above the mean and the heaviest hash together; loads are within [`GOOD_SKEW`]
    /// where no hash has more than the difference. O(n log n) for one range a worker.
    #[must_use]
    pub fn weighted(distribution: &Distribution, workers: NonZeroU32) -> Self {
        if distribution.total() == 0 {
            return Self::equal(distribution.key(), workers);
        }
        let workers = workers.get() as usize;
        let owners = contiguous::owners(distribution, workers);
        let plan = Self::of(&owners, distribution, workers);
        let plan_skew = skew(&plan.loads(distribution));
        if plan_skew <= GOOD_SKEW || distribution.entries().len() > workers * MOST_RANGES {
            return plan;
        }
        let owners = longest_first::owners(distribution, workers);
        let dealt = Self::of(&owners, distribution, workers);
        let better = skew(&dealt.loads(distribution)) < plan_skew;
        if better { dealt } else { plan }
    }

    /// Returns the plan in which the n-th hash of the distribution belongs to worker `owners[n]`.
    /// Hashes that nobody has go with the one before them; a worker without any gets a piece of the
    /// widest stretch of those.
    pub(super) fn of(owners: &[usize], distribution: &Distribution, workers: usize) -> Self {
        let entries = distribution.entries();
        let first = owners.first().copied().unwrap_or(0);
        let mut starts = BTreeMap::from([(0_u128, first)]);
        for (&owner, &(hash, _)) in owners.iter().zip(entries).skip(1) {
            starts.insert(u128::from(hash), owner);
        }
        let idle: Vec<usize> = (0..workers).filter(|n| !owners.contains(n)).collect();
        if let Some(widest) = widest_gap(entries).filter(|_| !idle.is_empty()) {
            let owner = starts.range(..=widest.0).next_back();
            let owner = owner.map_or(0, |(_, &owner)| owner);
            if widest.1 < END {
                starts.entry(widest.1).or_insert(owner);
            }
            let step = (widest.1 - widest.0) / (idle.len() as u128 + 1);
            for (n, &worker) in idle.iter().enumerate() {
                starts.insert(widest.0 + step * (n as u128 + 1), worker);
            }
        }
        let mut ranges = vec![Vec::<(u128, u128)>::new(); workers];
        let ends = starts.keys().skip(1).copied().chain([END]);
        for ((&start, &owner), end) in starts.iter().zip(ends) {
            match ranges[owner].last_mut() {
                Some((_, before)) if *before == start => *before = end,
                _ => ranges[owner].push((start, end)),
            }
        }
        let key = distribution.key();
        let shards = ranges.iter().filter_map(|ranges| {
            let ranges = ranges.iter();
            let mut ranges = ranges.filter_map(|&(start, end)| ShardRange::new(start as u64, end));
            let first = ShardSelector::new(key, ranges.next()?);
            Some(ranges.fold(first, ShardSelector::or))
        });
        Self {
            shards: shards.collect(),
        }
    }

    /// Returns a shard for each worker.
    #[must_use]
    pub fn shards(&self) -> &[ShardSelector] {
        &self.shards
    }

    /// Returns the worker that has a hash.
    #[must_use]
    pub fn owner(&self, hash: u64) -> usize {
        let owner = self.shards.iter().position(|shard| shard.selects(hash));
        owner.expect("shards of a plan hold every hash")
    }

    /// Returns the number of objects of each worker.
    #[must_use]
    pub fn loads(&self, distribution: &Distribution) -> Vec<u64> {
        let mut loads = vec![0; self.shards.len()];
        for &(hash, weight) in distribution.entries() {
            loads[self.owner(hash)] += weight;
        }
        loads
    }
}

/// Returns the widest stretch of hashes that no object has: from, and up to without.
fn widest_gap(entries: &[(u64, u64)]) -> Option<(u128, u128)> {
    let hashes = entries.iter().map(|&(hash, _)| u128::from(hash));
    let afters = hashes.clone().map(|hash| hash + 1);
    let gaps = [0].into_iter().chain(afters).zip(hashes.chain([END]));
    gaps.max_by_key(|(from, to)| to - from)
}

#[cfg(test)]
mod tests;
