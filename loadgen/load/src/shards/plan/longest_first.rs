//! Assigns hashes to workers one by one, wherever they are.

use std::collections::HashMap;

use crate::shards::distribution::Distribution;

/// The largest number of exchanges between two workers that improve the assignment.
const MAX_EXCHANGES: usize = 1_000;

/// Returns owners by longest-first assignment: the heaviest hash first, to the worker with the
/// least. Then exchanges hashes as long as that lowers the larger load of two workers.
pub(super) fn owners(distribution: &Distribution, workers: usize) -> Vec<usize> {
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
    for _ in 0..MAX_EXCHANGES {
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

/// The exchange of a hash of the worker with the largest load for one of another worker, or for
/// nothing.
struct Exchange {
    from: usize,
    to: usize,
    given: usize,
    taken: Option<usize>,
}

impl Exchange {
    /// Returns the exchange that lowers the larger load of the two the most.
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
