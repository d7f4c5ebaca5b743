//! The confidence interval of a median ratio. Its ends are order statistics, so it holds for any
//! distribution. A server that is twice as slow in one start of ten widens a mean's interval
//! permanently. Here that start is only one value at the end.

use super::significance::{coins_up_to, upper_tail};

/// The product of both sample sizes up to which the rank distribution is exact. Above it the normal
/// approximation is used.
const EXACT_UP_TO: usize = 10_000;

/// A confidence interval of a median.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub lower: f64,
    /// The upper end.
    pub upper: f64,
    /// The least probability that such an interval contains the true median: 0.95 or more.
    pub level: f64,
}

/// The intervals after different numbers of pairs have no value in common: the machine, or a
/// server, changed while they were measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("intervals after fewer and after more pairs have nothing in common")]
pub struct Drift;

impl Interval {
    /// Returns the interval of 1 / x.
    #[must_use]
    pub fn reciprocal(self) -> Self {
        Self {
            lower: 1.0 / self.upper,
            upper: 1.0 / self.lower,
            level: self.level,
        }
    }

    /// Returns the interval of the median of paired ratios whose number was fixed in advance: from
    /// the `k`-th smallest to the `k`-th largest. `None` if there are too few; at 95 % it takes
    /// six.
    #[must_use]
    pub fn paired(ratios: &[f64], alpha: f64) -> Option<Self> {
        let k = paired_rank(ratios.len(), alpha)?;
        let level = 1.0 - 2.0 * coins_up_to(ratios.len(), k - 1);
        Some(Self::between(sorted(ratios), k, level))
    }

    /// Returns the interval of the median of paired ratios that may be inspected after every pair:
    /// the intersection of the intervals at every inspection. Ratios are in the order of time.
    ///
    /// An inspection excludes a ratio when the bet on its sign has multiplied its stake by 1 /
    /// `alpha`. The mixture of all coins by Beta(½, ½) is a martingale for the fair one (Robbins
    /// 1970), so by Ville's inequality the bet ever reaches that with probability `alpha` at most.
    /// `None` before the seventh pair at 95 %.
    ///
    /// # Errors
    /// When the intersection is empty.
    pub fn paired_any_time(ratios: &[f64], alpha: f64) -> Result<Option<Self>, Drift> {
        let mut found: Option<Self> = None;
        for n in 1..=ratios.len() {
            let Some(k) = any_time_rank(n, alpha) else {
                continue;
            };
            let look = Self::between(sorted(&ratios[..n]), k, 1.0 - alpha);
            let both = found.map_or(look, |before| Self {
                lower: before.lower.max(look.lower),
                upper: before.upper.min(look.upper),
                level: look.level,
            });
            if both.lower > both.upper {
                return Err(Drift);
            }
            found = Some(both);
        }
        Ok(found)
    }

    /// Returns the interval of the median ratio of two independent samples: from the `k`-th
    /// smallest to the `k`-th largest of all ratios of a new value to a base value (Hodges and
    /// Lehmann, on logarithms). `None` if there are too few; at 95 % it takes four and four.
    #[must_use]
    pub fn unpaired(base: &[f64], new: &[f64], alpha: f64) -> Option<Self> {
        let (k, level) = unpaired_rank(base.len(), new.len(), alpha)?;
        Some(Self::between(all_ratios(base, new), k, level))
    }

    fn between(sorted: Vec<f64>, k: usize, level: f64) -> Self {
        Self {
            lower: sorted[k - 1],
            upper: sorted[sorted.len() - k],
            level,
        }
    }
}

/// Returns all ratios of a new value to a base value, ascending.
pub(super) fn all_ratios(base: &[f64], new: &[f64]) -> Vec<f64> {
    let ratios = new
        .iter()
        .flat_map(|new| base.iter().map(move |base| new / base));
    sorted(&ratios.collect::<Vec<f64>>())
}

/// Returns the median of positive values; for an even number, the geometric mean of the middle two,
/// so that the median of reciprocals is the reciprocal of the median. `None` without values.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let last = sorted.len().checked_sub(1)?;
    let (lower, upper) = (sorted[last / 2], sorted[sorted.len() / 2]);
    Some(if lower == upper {
        lower
    } else {
        (lower * upper).sqrt()
    })
}

/// Returns the least number of starts per side that yields an interval, if both sides have as many.
pub(super) fn least_starts(is_paired: bool, alpha: f64) -> usize {
    let is_enough = |n: &usize| match is_paired {
        true => paired_rank(*n, alpha).is_some(),
        false => unpaired_rank(*n, *n, alpha).is_some(),
    };
    (1..)
        .find(is_enough)
        .expect("more starts than any level needs exist")
}

/// Returns the least number of pairs that yields an interval which may be inspected after each.
pub(super) fn least_any_time(alpha: f64) -> usize {
    (1..)
        .find(|n| any_time_rank(*n, alpha).is_some())
        .expect("more pairs than any level needs exist")
}

/// Returns the largest k with 2 · P(Bin(n, ½) ≤ k − 1) ≤ alpha.
fn paired_rank(n: usize, alpha: f64) -> Option<usize> {
    (1..=n / 2)
        .take_while(|k| 2.0 * coins_up_to(n, k - 1) <= alpha)
        .last()
}

/// Returns the largest k such that a bet on n pairs, k − 1 of which fell on the losing side, has
/// multiplied its stake by 1 / alpha.
fn any_time_rank(n: usize, alpha: f64) -> Option<usize> {
    (1..=n / 2)
        .take_while(|k| ln_bet(n, k - 1) >= -alpha.ln())
        .last()
}

/// Returns ln(2^n · B(s + ½, n − s + ½) / B(½, ½)).
fn ln_bet(n: usize, s: usize) -> f64 {
    // Γ(x + ½) / Γ(½), as a product.
    let ln_half_gamma = |x: usize| (0..x).map(|i| (i as f64 + 0.5).ln()).sum::<f64>();
    let ln_factorial = (1..=n).map(|i| (i as f64).ln()).sum::<f64>();
    n as f64 * std::f64::consts::LN_2 + ln_half_gamma(s) + ln_half_gamma(n - s) - ln_factorial
}

/// Returns the largest k with 2 · P(U ≤ k − 1) ≤ alpha, where U is the Mann–Whitney statistic of
/// two samples of one population, and the resulting level.
fn unpaired_rank(n: usize, m: usize, alpha: f64) -> Option<(usize, f64)> {
    if n == 0 || m == 0 {
        return None;
    }
    if n.saturating_mul(m) > EXACT_UP_TO {
        return normal_rank(n as f64, m as f64, alpha);
    }
    let mut below = 0.0;
    let mut found = None;
    for (u, probability) in rank_distribution(n, m).into_iter().enumerate() {
        below += probability;
        if 2.0 * below > alpha {
            break;
        }
        found = Some((u + 1, 1.0 - 2.0 * below));
    }
    found
}

/// Returns P(U = u) for u up to the middle. The recursion conditions on the largest value: it
/// belongs to the first sample with probability n / (n + m), and is then above the whole second one
/// (Mann and Whitney 1947).
fn rank_distribution(n: usize, m: usize) -> Vec<f64> {
    let middle = n * m / 2;
    let certain = {
        let mut at_zero = vec![0.0; middle + 1];
        at_zero[0] = 1.0;
        at_zero
    };
    let mut fewer = vec![certain.clone(); m + 1];
    for i in 1..=n {
        let mut now: Vec<Vec<f64>> = vec![certain.clone()];
        for j in 1..=m {
            let of_first = i as f64 / (i + j) as f64;
            let without_second = &now[j - 1];
            let next = (0..=middle)
                .map(|u| {
                    let first = u.checked_sub(j).map_or(0.0, |u| fewer[j][u]);
                    of_first * first + (1.0 - of_first) * without_second[u]
                })
                .collect();
            now.push(next);
        }
        fewer = now;
    }
    fewer.swap_remove(m)
}

fn normal_rank(n: f64, m: f64, alpha: f64) -> Option<(usize, f64)> {
    let mean = n * m / 2.0;
    let deviation = (n * m * (n + m + 1.0) / 12.0).sqrt();
    // The half rank is the continuity correction.
    let below = |k: f64| 2.0 * upper_tail(((mean - (k - 1.0) - 0.5) / deviation).max(0.0));
    let (mut low, mut high) = (0.0, mean.floor());
    while high - low > 1.0 {
        let k = f64::midpoint(low, high).floor();
        match below(k) <= alpha {
            true => low = k,
            false => high = k,
        }
    }
    (low >= 1.0).then(|| (low as usize, 1.0 - below(low)))
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests;
