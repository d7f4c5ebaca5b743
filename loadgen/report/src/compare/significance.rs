//! The probability that chance alone yields a difference as large as the observed one: the rank
//! test for two samples and the sign test for pairs. Both are shown next to a verdict, but verdicts
//! follow from intervals.

/// The number of values in both samples together up to which the exact permutation distribution is
/// computed. Above it the normal approximation is used.
const EXACT_UP_TO: usize = 60;

/// Returns the p-value of the two-sided Mann–Whitney test: the probability of ranks at least as
/// lopsided as these if both samples are of one population. Ties get midranks. Small samples are
/// computed exactly, ties included. `None` when a sample is empty.
///
/// The test assumes independent values. Starts of a server are independent, lists of one start are
/// not.
pub(super) fn mann_whitney(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let (n_a, n_b) = (a.len() as u64, b.len() as u64);
    let ties = pooled(a, b);
    let rank_sum_a = ties
        .iter()
        .map(|tie| tie.in_a as f64 * tie.midrank)
        .sum::<f64>();
    let expected = n_a as f64 * (n_a + n_b + 1) as f64 / 2.0;
    let distance = (rank_sum_a - expected).abs();
    Some(if a.len() + b.len() <= EXACT_UP_TO {
        exact(&ties, n_a, expected, distance)
    } else {
        normal(&ties, n_a, n_b, distance)
    })
}

/// Returns the p-value of the two-sided sign test of ratios: the probability that a fair coin falls
/// on one side at least as often. A ratio of exactly 1 counts for the losing side. `None` without
/// ratios.
pub(super) fn sign_test(ratios: &[f64]) -> Option<f64> {
    if ratios.is_empty() {
        return None;
    }
    let above = ratios.iter().filter(|&&ratio| ratio > 1.0).count();
    let below = ratios.iter().filter(|&&ratio| ratio < 1.0).count();
    let losing = ratios.len() - above.max(below);
    Some((2.0 * coins_up_to(ratios.len(), losing)).min(1.0))
}

/// Returns the probability that at most `k` of `n` fair coins fall on one side.
pub(super) fn coins_up_to(n: usize, k: usize) -> f64 {
    // The computation uses logarithms because 2^-n underflows 64 bits from n = 1,075 on.
    let mut ln_term = -(n as f64) * std::f64::consts::LN_2;
    let mut sum = 0.0;
    for i in 0..=k.min(n) {
        sum += ln_term.exp();
        ln_term += ((n - i) as f64 / (i + 1) as f64).ln();
    }
    sum.min(1.0)
}

/// A group of values that are equal, in both samples together.
struct Tie {
    in_a: u64,
    in_both: u64,
    midrank: f64,
}

fn pooled(a: &[f64], b: &[f64]) -> Vec<Tie> {
    let mut values: Vec<(f64, u64, u64)> = a
        .iter()
        .map(|&value| (value, 1, 1))
        .chain(b.iter().map(|&value| (value, 0, 1)))
        .collect();
    values.sort_by(|x, y| x.0.total_cmp(&y.0));
    values.dedup_by(|next, kept| {
        let equal = next.0 == kept.0;
        if equal {
            kept.1 += next.1;
            kept.2 += next.2;
        }
        equal
    });
    let mut below = 0;
    values
        .into_iter()
        .map(|(_, in_a, in_both)| {
            let midrank = below as f64 + (in_both + 1) as f64 / 2.0;
            below += in_both;
            Tie {
                in_a,
                in_both,
                midrank,
            }
        })
        .collect()
}

/// Returns the share of all ways to choose `n_a` of the pooled values whose rank sum deviates from
/// the expected one at least as far.
fn exact(ties: &[Tie], n_a: u64, expected: f64, distance: f64) -> f64 {
    // Doubled midranks are integers. `ways[k][s]`: subsets of k values whose doubled ranks sum to
    // s.
    let doubled = |rank: f64| (rank * 2.0).round() as usize;
    let highest: usize = ties
        .iter()
        .map(|tie| doubled(tie.midrank) * tie.in_both as usize)
        .sum();
    let n_a = n_a as usize;
    let mut ways = vec![vec![0.0_f64; highest + 1]; n_a + 1];
    ways[0][0] = 1.0;
    for tie in ties {
        let rank = doubled(tie.midrank);
        for _ in 0..tie.in_both {
            for k in (1..=n_a).rev() {
                for sum in (rank..=highest).rev() {
                    let without = ways[k - 1][sum - rank];
                    ways[k][sum] += without;
                }
            }
        }
    }
    let all: f64 = ways[n_a].iter().sum();
    let as_far: f64 = ways[n_a]
        .iter()
        .enumerate()
        .filter(|(sum, _)| (*sum as f64 / 2.0 - expected).abs() >= distance - 1e-9)
        .map(|(_, ways)| ways)
        .sum();
    as_far / all
}

fn normal(ties: &[Tie], n_a: u64, n_b: u64, distance: f64) -> f64 {
    let (n_a, n_b, n) = (n_a as f64, n_b as f64, (n_a + n_b) as f64);
    let tied: f64 = ties
        .iter()
        .map(|tie| tie.in_both as f64)
        .map(|t| t * (t * t - 1.0))
        .sum();
    let variance = n_a * n_b / 12.0 * ((n + 1.0) - tied / (n * (n - 1.0)));
    if variance <= 0.0 {
        // All values are equal.
        return 1.0;
    }
    // The half rank is the continuity correction.
    let z = (distance - 0.5).max(0.0) / variance.sqrt();
    (2.0 * upper_tail(z)).min(1.0)
}

/// Returns the part of the normal distribution above `z` ≥ 0 (Abramowitz and Stegun 26.2.17; the
/// error is below 1e-7).
pub(super) fn upper_tail(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    let series = [
        0.319_381_530,
        -0.356_563_782,
        1.781_477_937,
        -1.821_255_978,
        1.330_274_429,
    ];
    let polynomial = series
        .iter()
        .rev()
        .fold(0.0, |sum, coefficient| (sum + coefficient) * t);
    (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * polynomial
}

#[cfg(test)]
mod tests;
