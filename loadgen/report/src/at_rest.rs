//! Judges whether what servers hold at rest returns to its earlier level, round after round of the
//! same loads.
//!
//! There are two rules. What exists only because of clients and their requests (connections,
//! watchers, leases, keys, the earlier snapshots of a watch cache) must equal, after each round,
//! its value before the first: a single one more is a leak. What a program keeps in pools that fill
//! with use (memory, threads, descriptors, tasks) may exceed that of a fresh program, but must not
//! grow from round to round. It grows if its rise over the rounds exceeds what is allowed and is
//! significant by the Mann-Kendall test of a trend at 1 %. The verdict is *cannot tell* if the rise
//! exceeds what is allowed but may be chance, and also if the values scatter more than what is
//! allowed, since a leak would not show.

use crate::quantity::Quantity;
use crate::result::{AtRest, Held, HeldKind, Verdict, median};

/// The significance level: a trend counts as certain if the probability of one as steady by chance
/// alone is at most this.
const SURE: f64 = 0.01;
/// The number of rounds below which a trend cannot be judged.
const MIN_ROUNDS: usize = 5;
/// The permitted growth of allocated bytes: a hundredth of what is held, plus 1 MiB. Revisions take
/// more digits as they grow, tables double in size, and the metrics page that reports the value is
/// itself allocated.
const ALLOCATED_PART: f64 = 0.01;
const ALLOCATED_BYTES: f64 = (1 << 20) as f64;
/// The permitted growth of private memory. Pages that hold only a few allocations stay resident.
const PRIVATE_PART: f64 = 0.05;
const PRIVATE_BYTES: f64 = (8 << 20) as f64;
/// The permitted growth of threads, descriptors and tasks over all rounds, since some come and go
/// by themselves.
const MAX_COUNT_GROWTH: f64 = 2.0;

impl Held {
    /// Judges the amounts before the first round and after each.
    #[must_use]
    pub fn judged(process: &str, kind: HeldKind, at_rest: Vec<u64>) -> Self {
        let (before, after) = at_rest.split_first().unwrap_or((&0, &[]));
        let growth = median_slope(after) * after.len().saturating_sub(1) as f64;
        let (allowed, chance, verdict) = match kind.must_equal() {
            true => {
                let is_equal = !after.is_empty() && after.iter().all(|held| held == before);
                (0.0, None, is_equal.into())
            }
            false => {
                let allowed = kind.allowed(after.first().copied().unwrap_or(0));
                let chance = chance_of_trend(after);
                let verdict = match after.len() {
                    0..MIN_ROUNDS => Verdict::CannotTell,
                    _ if growth > allowed && chance <= SURE => Verdict::NotReturned,
                    _ if growth > allowed || scatter(after) > allowed => Verdict::CannotTell,
                    _ => Verdict::Returned,
                };
                (allowed, Some(chance), verdict)
            }
        };
        Self {
            process: process.to_owned(),
            kind,
            at_rest,
            growth,
            allowed,
            chance,
            verdict,
        }
    }

    /// Returns the kind, its amounts and the permitted growth as text.
    #[must_use]
    pub fn text(&self) -> String {
        let (first, last) = (self.at_rest.first(), self.at_rest.last());
        let (first, last) = (first.copied().unwrap_or(0), last.copied().unwrap_or(0));
        let [first, last] = [first, last].map(|held| self.kind.quantity(held as f64));
        let (process, kind) = (&self.process, self.kind);
        if kind.must_equal() {
            return format!("{process}: {kind}: {first} before, {last} after the last round");
        }
        let [growth, allowed] = [self.growth, self.allowed].map(|held| kind.quantity(held));
        let chance = match self.chance {
            Some(chance) if self.verdict == Verdict::CannotTell => format!(
                ", and its values lie apart: they rise as steadily by chance with a probability of {chance:.2}"
            ),
            _ => String::new(),
        };
        format!("{process}: {kind} rises by {growth} over the rounds, {allowed} allowed{chance}")
    }
}

impl From<bool> for Verdict {
    fn from(returned: bool) -> Self {
        match returned {
            true => Self::Returned,
            false => Self::NotReturned,
        }
    }
}

impl AtRest {
    /// Returns the kinds that do not return to their earlier level or, if there are none, those for
    /// which that cannot be told, as text; `None` where all return.
    #[must_use]
    pub fn wrong(&self) -> Option<(Verdict, String)> {
        [Verdict::NotReturned, Verdict::CannotTell]
            .into_iter()
            .find_map(|verdict| {
                let held = self.held.iter().filter(|held| held.verdict == verdict);
                let texts: Vec<String> = held.map(Held::text).collect();
                (!texts.is_empty()).then(|| (verdict, texts.join("; ")))
            })
    }
}

impl HeldKind {
    /// Returns whether each value must equal the one before the first round.
    #[must_use]
    pub fn must_equal(self) -> bool {
        matches!(
            self,
            Self::Connections | Self::Watchers | Self::PastSnapshots | Self::Leases | Self::Keys
        )
    }

    /// Returns the permitted growth, given the amount `held` after the first round.
    fn allowed(self, held: u64) -> f64 {
        let held = held as f64;
        match self {
            Self::Allocated => ALLOCATED_PART * held + ALLOCATED_BYTES,
            Self::PrivateMemory => PRIVATE_PART * held + PRIVATE_BYTES,
            _ => MAX_COUNT_GROWTH,
        }
    }

    /// Returns an amount with its unit.
    #[must_use]
    pub fn quantity(self, held: f64) -> Quantity {
        match self {
            Self::Allocated | Self::PrivateMemory => Quantity::Bytes(held.max(0.0)),
            _ => Quantity::Count(held.round().max(0.0) as u64),
        }
    }
}

impl std::fmt::Display for HeldKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Allocated => "allocated",
            Self::PrivateMemory => "private memory",
            Self::Files => "files",
            Self::Sockets => "sockets",
            Self::Threads => "threads",
            Self::Tasks => "tasks",
            Self::Connections => "connections",
            Self::Watchers => "watchers",
            Self::PastSnapshots => "past snapshots",
            Self::Leases => "leases",
            Self::Keys => "keys",
        })
    }
}

/// Returns the median of the slopes between any two values (Theil and Sen), per step from one value
/// to the next; 0 for fewer than two values. A few outliers do not affect it.
fn median_slope(values: &[u64]) -> f64 {
    let mut slopes = Vec::new();
    for (i, &from) in values.iter().enumerate() {
        for (j, &to) in values.iter().enumerate().skip(i + 1) {
            slopes.push((to as f64 - from as f64) / (j - i) as f64);
        }
    }
    median(slopes).unwrap_or(0.0)
}

/// Returns the median absolute deviation from the median; 0 without values.
fn scatter(values: &[u64]) -> f64 {
    let values = values.iter().map(|&value| value as f64);
    let middle = median(values.clone()).unwrap_or(0.0);
    median(values.map(|value| (value - middle).abs())).unwrap_or(0.0)
}

/// Returns the probability that values in random order have at least as large a difference between
/// rising and falling pairs (Mann and Kendall, one-sided, exact). Equal pairs count as neither,
/// which increases the result.
fn chance_of_trend(values: &[u64]) -> f64 {
    let n = values.len();
    let pairs = n * n.saturating_sub(1) / 2;
    let (mut rise, mut fall) = (0, 0);
    for (i, from) in values.iter().enumerate() {
        for to in &values[i + 1..] {
            rise += usize::from(to > from);
            fall += usize::from(to < from);
        }
    }
    // For a random order without equal pairs, the difference is `pairs` minus twice the falling
    // pairs.
    let most_falls = (pairs + fall - rise).div_ceil(2);
    // `orders[f]` is the part of the k! orders that have f falling pairs. The k-th value is
    // inserted at one of k places, with 0 to k − 1 additional falling pairs.
    let mut orders = vec![1.0];
    for k in 2..=n {
        let mut next = vec![0.0; orders.len() + k - 1];
        for (falls, part) in orders.iter().enumerate() {
            for more in 0..k {
                next[falls + more] += part / k as f64;
            }
        }
        orders = next;
    }
    orders.iter().take(most_falls + 1).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn verdict(kind: HeldKind, at_rest: &[u64]) -> Verdict {
        Held::judged("etcd", kind, at_rest.to_vec()).verdict
    }

    #[test]
    fn one_watcher_too_many_or_a_key_too_few_has_not_returned() {
        for kind in [
            HeldKind::Connections,
            HeldKind::Watchers,
            HeldKind::Leases,
            HeldKind::Keys,
        ] {
            assert_eq!(verdict(kind, &[3, 3, 3, 3, 3, 3]), Verdict::Returned);
            assert_eq!(verdict(kind, &[3, 3, 3, 4, 3, 3]), Verdict::NotReturned);
            assert_eq!(verdict(kind, &[3, 3, 3, 3, 3, 2]), Verdict::NotReturned);
            assert_eq!(verdict(kind, &[3]), Verdict::NotReturned, "nothing ran");
        }
    }

    #[test]
    fn memory_that_rises_each_round_has_not_returned_and_a_pool_that_fills_has() {
        let leak: Vec<u64> = (0..7).map(|round| (40 + 2 * round) * MIB).collect();
        assert_eq!(verdict(HeldKind::Allocated, &leak), Verdict::NotReturned);
        // The pool takes twice what a fresh server has, and does not grow further.
        let pool = [40, 80, 81, 80, 80, 81, 80].map(|mib| mib * MIB);
        assert_eq!(verdict(HeldKind::Allocated, &pool), Verdict::Returned);
        // The values rise steadily, but by less than what is allowed.
        let digits: Vec<u64> = (0..7).map(|round| 40 * MIB + round * 10_000).collect();
        assert_eq!(verdict(HeldKind::Allocated, &digits), Verdict::Returned);
    }

    #[test]
    fn memory_that_jumps_about_is_no_answer_and_neither_are_few_rounds() {
        let noise = [40, 40, 90, 50, 45, 95, 70].map(|mib| mib * MIB);
        assert_eq!(verdict(HeldKind::Allocated, &noise), Verdict::CannotTell);
        // The values of a Go program, whose garbage collections come at any time.
        let garbage = [9, 811, 135, 509, 131, 156, 260].map(|mib| mib * MIB);
        assert_eq!(verdict(HeldKind::Allocated, &garbage), Verdict::CannotTell);
        let few = [40, 40, 40, 40].map(|mib| mib * MIB);
        assert_eq!(verdict(HeldKind::Allocated, &few), Verdict::CannotTell);
    }

    #[test]
    fn a_thread_of_each_round_is_found_and_one_that_comes_and_goes_is_not() {
        let kind = HeldKind::Threads;
        assert_eq!(
            verdict(kind, &[5, 6, 7, 8, 9, 10, 11]),
            Verdict::NotReturned
        );
        assert_eq!(verdict(kind, &[5, 9, 10, 9, 9, 10, 9]), Verdict::Returned);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_figures() {
        let held = |kind, at_rest: &[u64]| Held::judged("etcd", kind, at_rest.to_vec());
        let mut at_rest = AtRest {
            rounds: Vec::new(),
            held: vec![
                held(HeldKind::Keys, &[9, 9]),
                held(HeldKind::Files, &[9, 9]),
            ],
        };
        let (verdict, text) = at_rest.wrong().expect("one round is few");
        assert_eq!(verdict, Verdict::CannotTell);
        assert!(text.starts_with("etcd: files rises by 0"), "{text}");
        at_rest.held.push(held(HeldKind::Watchers, &[0, 12]));
        let wrong = at_rest.wrong().expect("12 watchers");
        let text = "etcd: watchers: 0 before, 12 after the last round".to_owned();
        assert_eq!(wrong, (Verdict::NotReturned, text), "it is the worse one");
        at_rest.held.truncate(1);
        assert_eq!(at_rest.wrong(), None);
    }

    #[test]
    fn the_chance_of_a_trend_is_that_of_all_orders() {
        let rising = [1, 2, 3, 4, 5];
        assert!((chance_of_trend(&rising) - 1.0 / 120.0).abs() < 1e-12);
        let one_swapped = [1, 3, 2, 4, 5];
        assert!((chance_of_trend(&one_swapped) - 5.0 / 120.0).abs() < 1e-12);
        let falling = [5, 4, 3, 2, 1];
        assert!((chance_of_trend(&falling) - 1.0).abs() < 1e-12);
        // Without any trend the probability is above a half, since equal pairs count as neither.
        assert!(chance_of_trend(&[7; 6]) > 0.5);
        assert!((chance_of_trend(&[]) - 1.0).abs() < 1e-12);
    }
}
