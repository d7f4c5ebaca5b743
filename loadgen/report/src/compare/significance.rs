//! Whether two samples differ by more than chance: two tests that take ties, as histograms are full of them.

/// A sample as a histogram gives it: distinct values, ascending, each with its count.
pub(super) type Counted = [(f64, u64)];

/// Up to this many values in both samples together the permutation distribution is computed, above it is a normal one.
const EXACT_UP_TO: u64 = 60;

/// Number of values in a sample.
pub(super) fn size(sample: &Counted) -> u64 {
    sample.iter().map(|&(_, count)| count).sum()
}

/// The Mann–Whitney test: how likely ranks at least as lopsided as these are if both samples are of one population.
/// Two-sided, with midranks for ties; exact given the ties for small samples. `None` when a sample is empty.
///
/// It takes the values as independent. Lists that follow each other on one server are not quite, which makes it somewhat too
/// sure; that is one reason why a threshold has to be passed as well.
pub(super) fn mann_whitney(a: &Counted, b: &Counted) -> Option<f64> {
    let (n_a, n_b) = (size(a), size(b));
    if n_a == 0 || n_b == 0 {
        return None;
    }
    let ties = pooled(a, b);
    let rank_sum_a = ties
        .iter()
        .map(|tie| tie.in_a as f64 * tie.midrank)
        .sum::<f64>();
    let expected = n_a as f64 * (n_a + n_b + 1) as f64 / 2.0;
    let distance = (rank_sum_a - expected).abs();
    Some(if n_a + n_b <= EXACT_UP_TO {
        exact(&ties, n_a, expected, distance)
    } else {
        normal(&ties, n_a, n_b, distance)
    })
}

/// Values that are equal in both samples together.
struct Tie {
    in_a: u64,
    in_both: u64,
    midrank: f64,
}

fn pooled(a: &Counted, b: &Counted) -> Vec<Tie> {
    let mut values: Vec<(f64, u64, u64)> = a
        .iter()
        .map(|&(value, n)| (value, n, n))
        .chain(b.iter().map(|&(value, n)| (value, 0, n)))
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

/// The share of all ways to choose `n_a` of the pooled values whose rank sum is at least as far from the expected one.
fn exact(ties: &[Tie], n_a: u64, expected: f64, distance: f64) -> f64 {
    // Twice a midrank is whole. `ways[k][s]`: subsets of k values whose doubled ranks sum to s.
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
    // Half a rank for the step from whole ranks to a continuous distribution.
    let z = (distance - 0.5).max(0.0) / variance.sqrt();
    (2.0 * upper_tail(z)).min(1.0)
}

/// How much of the normal distribution lies above `z` ≥ 0 (Abramowitz and Stegun 26.2.17; the error is below 1e-7).
fn upper_tail(z: f64) -> f64 {
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

/// Between which values of the sample the population's quantile `q` lies with 95 % confidence, whatever its distribution:
/// order statistics around the binomial's mean. `None` when the sample is too small for the normal approximation of it.
pub(super) fn quantile_interval(sample: &Counted, q: f64) -> Option<(f64, f64)> {
    const Z_95: f64 = 1.96;
    let n = size(sample) as f64;
    if n * q.min(1.0 - q) < 9.999 {
        return None;
    }
    let half = Z_95 * (n * q * (1.0 - q)).sqrt();
    let low = (n * q - half).floor().max(1.0) as u64;
    let high = ((n * q + half).ceil() + 1.0).min(n) as u64;
    Some((at_rank(sample, low), at_rank(sample, high)))
}

/// The value of that rank, from 1.
fn at_rank(sample: &Counted, rank: u64) -> f64 {
    let mut below = 0;
    for &(value, count) in sample {
        below += count;
        if below >= rank {
            return value;
        }
    }
    sample.last().map_or(f64::NAN, |&(value, _)| value)
}

#[cfg(test)]
mod tests;
