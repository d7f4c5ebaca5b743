//! Against counting by hand, against brute force, and against tables.

use proptest::prelude::*;

use super::*;

fn counted(values: &[f64]) -> Vec<(f64, u64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut counted: Vec<(f64, u64)> = Vec::new();
    for value in sorted {
        match counted.last_mut() {
            Some(last) if last.0 == value => last.1 += 1,
            _ => counted.push((value, 1)),
        }
    }
    counted
}

fn p(a: &[f64], b: &[f64]) -> f64 {
    mann_whitney(&counted(a), &counted(b)).expect("neither is empty")
}

#[track_caller]
fn assert_near(found: f64, expected: f64, within: f64) {
    assert!(
        (found - expected).abs() <= within,
        "{found} is not {expected} ± {within}"
    );
}

#[test]
fn complete_separation_has_the_probability_of_two_in_all_arrangements() {
    assert_near(
        p(&[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0]),
        2.0 / 252.0,
        1e-12,
    );
    assert_near(p(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), 2.0 / 20.0, 1e-12);
}

#[test]
fn samples_that_are_alike_are_not_told_apart() {
    assert_near(p(&[1.0, 4.0, 5.0, 8.0], &[2.0, 3.0, 6.0, 7.0]), 1.0, 1e-12);
    assert_near(p(&[3.0; 5], &[3.0; 5]), 1.0, 1e-12);
    assert_near(p(&[3.0; 50], &[3.0; 50]), 1.0, 1e-12);
    assert_eq!(mann_whitney(&[], &[(1.0, 1)]), None);
}

/// All ways to deal the pooled values into a hand of a's size, by their midranks.
fn brute_force(a: &[f64], b: &[f64]) -> f64 {
    let pool: Vec<f64> = a.iter().chain(b).copied().collect();
    let midrank = |value: f64| {
        let (less, equal) = pool.iter().fold((0, 0), |(less, equal), &other| {
            (
                less + u32::from(other < value),
                equal + u32::from(other == value),
            )
        });
        f64::from(less) + f64::from(equal + 1) / 2.0
    };
    let ranks: Vec<f64> = pool.iter().map(|&value| midrank(value)).collect();
    let expected = a.len() as f64 * (pool.len() + 1) as f64 / 2.0;
    let distance = (ranks[..a.len()].iter().sum::<f64>() - expected).abs();
    let (mut all, mut as_far) = (0_u32, 0_u32);
    for hand in 0_u32..1 << pool.len() {
        if hand.count_ones() as usize == a.len() {
            let sum: f64 = (0..pool.len())
                .filter(|at| hand >> at & 1 == 1)
                .map(|at| ranks[at])
                .sum();
            all += 1;
            as_far += u32::from((sum - expected).abs() >= distance - 1e-9);
        }
    }
    f64::from(as_far) / f64::from(all)
}

proptest! {
    #[test]
    fn ties_or_not_it_is_what_brute_force_counts(
        a in prop::collection::vec(0_u8..6, 1..6),
        b in prop::collection::vec(0_u8..6, 1..6),
    ) {
        let (a, b): (Vec<f64>, Vec<f64>) = (a.into_iter().map(f64::from).collect(), b.into_iter().map(f64::from).collect());
        prop_assert!((p(&a, &b) - brute_force(&a, &b)).abs() < 1e-9);
    }
}

#[test]
fn the_two_ways_to_compute_it_meet() {
    let a: Vec<f64> = (0..30).map(|n| f64::from(n % 17)).collect();
    let b: Vec<f64> = (0..30).map(|n| f64::from(n % 17) + 2.5).collect();
    let ties = pooled(&counted(&a), &counted(&b));
    let rank_sum: f64 = ties.iter().map(|tie| tie.in_a as f64 * tie.midrank).sum();
    let expected = 30.0 * 61.0 / 2.0;
    let distance = (rank_sum - expected).abs();
    assert_near(
        exact(&ties, 30, expected, distance),
        normal(&ties, 30, 30, distance),
        0.002,
    );
}

#[test]
fn the_normal_tail_is_that_of_the_tables() {
    for (z, tail) in [
        (0.0, 0.5),
        (1.0, 0.158_655_3),
        (1.959_964, 0.025),
        (3.0, 0.001_349_9),
    ] {
        assert_near(upper_tail(z), tail, 2e-7);
    }
}

#[test]
fn a_quantile_lies_between_order_statistics() {
    let sample: Vec<(f64, u64)> = (1..=1_000).map(|value| (f64::from(value), 1)).collect();
    // 990 ± 1.96 · √(1000 · 0.99 · 0.01), and one more for the step to the next value.
    assert_eq!(quantile_interval(&sample, 0.99), Some((983.0, 998.0)));
    assert_eq!(
        quantile_interval(&sample[..999], 0.99),
        None,
        "ten values must lie beyond the quantile"
    );
}
