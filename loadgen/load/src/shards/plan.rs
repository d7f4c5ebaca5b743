//! A shard for each worker. Equal ranges suit UIDs, which are random. The hashes of namespaces are
//! so close together that equal ranges leave workers without any, so ranges are divided by the
//! number of objects in them.
//!
//! One range per worker is tried first: selectors are short, and neighbours stay together. If that
//! leaves a worker with more than [`GOOD_SKEW`] times the mean, hashes are assigned one by one, the
//! heaviest first to the worker with the least, and a worker's selector has several ranges.
//!
//! - [`contiguous`]: one range per worker; [`longest_first`]: as many ranges as necessary

mod contiguous;
mod longest_first;

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use kube_api::shard_selector::{ShardKey, ShardRange, ShardSelector};

use super::distribution::{Distribution, skew};

/// One above the largest hash.
const END: u128 = 1 << 64;

/// The ratio of the largest load to the mean that is good enough for one range per worker.
pub const GOOD_SKEW: f64 = 1.15;
/// The largest average number of ranges per worker. A selector must fit into a URL.
const MAX_RANGES: usize = 32;

/// Shards that together contain every hash once.
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

    /// Returns a plan of shards with about equally many objects.
    ///
    /// No load is above the sum of the mean and the heaviest hash. Loads are within [`GOOD_SKEW`]
    /// if no hash has more objects than that allows above the mean. O(n log n) for one range per
    /// worker.
    #[must_use]
    pub fn weighted(distribution: &Distribution, workers: NonZeroU32) -> Self {
        if distribution.total() == 0 {
            return Self::equal(distribution.key(), workers);
        }
        let workers = workers.get() as usize;
        let owners = contiguous::owners(distribution, workers);
        let plan = Self::of(&owners, distribution, workers);
        let plan_skew = skew(&plan.loads(distribution));
        if plan_skew <= GOOD_SKEW || distribution.entries().len() > workers * MAX_RANGES {
            return plan;
        }
        let owners = longest_first::owners(distribution, workers);
        let dealt = Self::of(&owners, distribution, workers);
        let better = skew(&dealt.loads(distribution)) < plan_skew;
        if better { dealt } else { plan }
    }

    /// Returns the plan in which the n-th hash of the distribution belongs to worker `owners[n]`.
    /// Hashes without objects go with the one before them. A worker without any hash gets a piece
    /// of the widest gap between hashes.
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

    /// Returns the worker that owns a hash.
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

/// Returns the widest gap between hashes: its first hash, and the end (exclusive).
fn widest_gap(entries: &[(u64, u64)]) -> Option<(u128, u128)> {
    let hashes = entries.iter().map(|&(hash, _)| u128::from(hash));
    let afters = hashes.clone().map(|hash| hash + 1);
    let gaps = [0].into_iter().chain(afters).zip(hashes.chain([END]));
    gaps.max_by_key(|(from, to)| to - from)
}

#[cfg(test)]
mod tests;
