//! Assigns one range to each worker, with the largest load as small as possible.

use crate::shards::distribution::Distribution;

/// Returns the owners of consecutive hashes. The largest load is as small as one range per worker
/// allows.
pub(super) fn owners(distribution: &Distribution, workers: usize) -> Vec<usize> {
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

/// Returns how many runs of at most `cap` these weights need. No weight is above `cap`.
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

/// Returns owners such that no load is above `cap`, and each is as close as possible to an equal
/// share of what remains.
fn even_parts(weights: &[u64], cap: u64, workers: usize) -> Vec<usize> {
    // The number of runs of at most `cap` that each suffix needs. The run that starts at n ends no
    // later than the one that starts at n + 1.
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
