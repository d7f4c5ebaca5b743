//! A shard for each worker. Equal ranges suit UIDs, which are random; the hashes of namespaces lie so close together that equal
//! ranges leave workers without any, so ranges are cut by what is in them.
//!
//! One range a worker is tried first: short selectors, and neighbours stay together. Where that leaves a worker with more than
//! [`GOOD_SKEW`] of the mean, hashes are dealt out one by one, the heaviest first to whoever has least, and a worker's selector
//! names several ranges.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;

use kube_api::shard_selector::{ShardKey, ShardRange, ShardSelector};

use super::Distribution;
use super::distribution::skew;

/// One above the largest hash.
const END: u128 = 1 << 64;

/// What is good enough for one range a worker: the largest load over the mean.
pub const GOOD_SKEW: f64 = 1.15;
/// Ranges of one worker, at most: a selector must fit into a URL.
const MOST_RANGES: usize = 32;
/// Exchanges between two workers that a dealt-out plan is improved by, at most.
const MOST_EXCHANGES: usize = 1_000;

/// Shards that together hold every hash once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    shards: Vec<ShardSelector>,
}

impl Plan {
    /// Equal ranges.
    #[must_use]
    pub fn equal(key: ShardKey, workers: NonZeroU32) -> Self {
        Self {
            shards: ShardSelector::equal_shards(key, workers),
        }
    }

    /// Shards of about equally many objects.
    ///
    /// No load is above the mean and the heaviest hash together; loads are within [`GOOD_SKEW`] where no hash has more than the
    /// difference. O(n log n) for one range a worker.
    #[must_use]
    pub fn weighted(distribution: &Distribution, workers: NonZeroU32) -> Self {
        if distribution.total() == 0 {
            return Self::equal(distribution.key(), workers);
        }
        let workers = workers.get() as usize;
        let contiguous = contiguous(distribution, workers);
        let plan = Self::of(&contiguous, distribution, workers);
        let plan_skew = skew(&plan.loads(distribution));
        if plan_skew <= GOOD_SKEW || distribution.entries().len() > workers * MOST_RANGES {
            return plan;
        }
        let dealt = dealt(distribution, workers);
        let dealt = Self::of(&dealt, distribution, workers);
        let better = skew(&dealt.loads(distribution)) < plan_skew;
        if better { dealt } else { plan }
    }

    /// The plan in which the n-th hash of the distribution belongs to worker `owners[n]`. Hashes that nobody has go with the
    /// one before them; a worker without any gets a piece of the widest stretch of those.
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

    /// A shard for each worker.
    #[must_use]
    pub fn shards(&self) -> &[ShardSelector] {
        &self.shards
    }

    /// The worker that has a hash.
    #[must_use]
    pub fn owner(&self, hash: u64) -> usize {
        let owner = self.shards.iter().position(|shard| shard.selects(hash));
        owner.expect("shards of a plan hold every hash")
    }

    /// Objects of each worker.
    #[must_use]
    pub fn loads(&self, distribution: &Distribution) -> Vec<u64> {
        let mut loads = vec![0; self.shards.len()];
        for &(hash, weight) in distribution.entries() {
            loads[self.owner(hash)] += weight;
        }
        loads
    }
}

/// The widest stretch of hashes that no object has: from, and up to without.
fn widest_gap(entries: &[(u64, u64)]) -> Option<(u128, u128)> {
    let hashes = entries.iter().map(|&(hash, _)| u128::from(hash));
    let afters = hashes.clone().map(|hash| hash + 1);
    let gaps = [0].into_iter().chain(afters).zip(hashes.chain([END]));
    gaps.max_by_key(|(from, to)| to - from)
}

/// Owners of consecutive hashes, such that the largest load is as small as one range a worker allows.
fn contiguous(distribution: &Distribution, workers: usize) -> Vec<usize> {
    let weights: Vec<u64> = distribution.entries().iter().map(|&(_, w)| w).collect();
    let total = distribution.total();
    let (mut low, mut high) = (distribution.heaviest(), total);
    while low < high {
        let cap = low + (high - low) / 2;
        if parts_under(&weights, cap) <= workers {
            high = cap;
        } else {
            low = cap + 1;
        }
    }
    even_parts(&weights, low, workers)
}

/// How many runs of at most `cap` these weights make; none is above it.
fn parts_under(weights: &[u64], cap: u64) -> usize {
    let (mut parts, mut load) = (1, 0);
    for &weight in weights {
        if load + weight > cap {
            parts += 1;
            load = 0;
        }
        load += weight;
    }
    parts
}

/// Owners such that no load is above `cap`, each as near as that allows to an equal share of what is left.
fn even_parts(weights: &[u64], cap: u64, workers: usize) -> Vec<usize> {
    // How many runs of at most `cap` each suffix needs: where the run that starts at n must end is where n's successor's does,
    // or later.
    let mut needed = vec![0; weights.len() + 1];
    let (mut end, mut load) = (weights.len(), 0);
    for start in (0..weights.len()).rev() {
        load += weights[start];
        while load > cap {
            end -= 1;
            load -= weights[end];
        }
        needed[start] = 1 + needed[end];
    }
    let mut owners = Vec::with_capacity(weights.len());
    let mut left: u64 = weights.iter().sum();
    for worker in 0..workers {
        let after = workers - worker - 1;
        let share = left as f64 / (after + 1) as f64;
        let mut load = 0;
        while let Some(&weight) = weights.get(owners.len()) {
            let rest_fits = needed[owners.len()] <= after;
            let nearer = load == 0 || load as f64 + weight as f64 / 2.0 <= share;
            if load + weight > cap || (rest_fits && !nearer) {
                break;
            }
            load += weight;
            owners.push(worker);
        }
        left -= load;
    }
    owners
}

/// Owners by dealing: the heaviest hash first, to whoever has least; then exchanges as long as they lower the larger load of two.
fn dealt(distribution: &Distribution, workers: usize) -> Vec<usize> {
    let entries = distribution.entries();
    let mut heaviest: Vec<usize> = (0..entries.len()).collect();
    heaviest.sort_by_key(|&n| (std::cmp::Reverse(entries[n].1), n));
    let mut loads = vec![0_u64; workers];
    let mut owners = vec![0; entries.len()];
    for n in heaviest {
        let least = (0..workers)
            .min_by_key(|&worker| loads[worker])
            .unwrap_or(0);
        owners[n] = least;
        loads[least] += entries[n].1;
    }
    let mut held: HashMap<usize, Vec<usize>> = HashMap::new();
    for (n, &owner) in owners.iter().enumerate() {
        held.entry(owner).or_default().push(n);
    }
    for _ in 0..MOST_EXCHANGES {
        let Some(exchange) = Exchange::best(entries, &loads, &held) else {
            break;
        };
        exchange.apply(entries, &mut loads, &mut held);
    }
    for (owner, held) in held {
        for n in held {
            owners[n] = owner;
        }
    }
    owners
}

/// A hash of the worker with most against one of another worker, or against nothing.
struct Exchange {
    from: usize,
    to: usize,
    given: usize,
    taken: Option<usize>,
}

impl Exchange {
    /// The exchange that lowers the larger load of the two most.
    fn best(
        entries: &[(u64, u64)],
        loads: &[u64],
        held: &HashMap<usize, Vec<usize>>,
    ) -> Option<Self> {
        let from = (0..loads.len()).max_by_key(|&worker| loads[worker])?;
        let none = Vec::new();
        let mut best: Option<(u64, Self)> = None;
        for to in (0..loads.len()).filter(|&to| to != from) {
            for &given in held.get(&from).unwrap_or(&none) {
                let others = held.get(&to).unwrap_or(&none).iter().copied();
                for taken in others.map(Some).chain([None]) {
                    let (out, back) = (entries[given].1, taken.map_or(0, |n| entries[n].1));
                    if out <= back {
                        continue;
                    }
                    let larger = (loads[from] - out + back).max(loads[to] + out - back);
                    let bound = best.as_ref().map_or(loads[from], |(bound, _)| *bound);
                    if larger < bound {
                        let exchange = Self {
                            from,
                            to,
                            given,
                            taken,
                        };
                        best = Some((larger, exchange));
                    }
                }
            }
        }
        best.map(|(_, exchange)| exchange)
    }

    fn apply(
        &self,
        entries: &[(u64, u64)],
        loads: &mut [u64],
        held: &mut HashMap<usize, Vec<usize>>,
    ) {
        let mut hand_over = |n: usize, from: usize, to: usize| {
            held.entry(from).or_default().retain(|&other| other != n);
            held.entry(to).or_default().push(n);
            loads[from] -= entries[n].1;
            loads[to] += entries[n].1;
        };
        hand_over(self.given, self.from, self.to);
        if let Some(taken) = self.taken {
            hand_over(taken, self.to, self.from);
        }
    }
}

#[cfg(test)]
mod tests;
