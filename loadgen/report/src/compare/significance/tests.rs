//! Compares p-values with counts by hand, with brute force, and with tables.

use proptest::prelude::*;

use super::*;

fn p(a: &[f64], b: &[f64]) -> f64 {
    mann_whitney(a, b).expect("neither is empty")
}

#[track_caller]
fn assert_near(found: f64, expected: f64, within: f64) {
    assert!(
        (found - expected).abs() <= within,
        "{found} is not {expected} ± {within}"
    );
}

/// The expected values are from golang/perf, `internal/stats/utest_test.go` (`uTestMinP`).
#[test]
fn complete_separation_has_the_probability_of_two_in_all_arrangements() {
    for (n, expected) in [
        (3, 0.1),
        (4, 0.028_571_4),
        (5, 0.007_936_51),
        (6, 0.002_164_5),
        (7, 0.000_582_751),
        (8, 0.000_155_4),
        (10, 0.000_010_825_1),
    ] {
        let base: Vec<f64> = (0..n).map(f64::from).collect();
        let new: Vec<f64> = (n..2 * n).map(f64::from).collect();
        assert_near(p(&base, &new), expected, expected * 1e-4);
    }
}

/// The expected values are from golang/perf, `benchmath/assumption_test.go`. A normal approximation
/// yields 0.0131 for the first.
#[test]
fn ties_are_counted_exactly() {
    assert_near(p(&[-1.0; 4], &[1.0; 4]), 0.028_571_4, 1e-7);
    let (a, b) = ([1.0, -1.0, -1.0, -1.0], [-1.0, 1.0, 1.0, 1.0]);
    assert_near(p(&a, &b), 0.485_714, 1e-6);
    assert_near(p(&[1.0; 4], &[1.0; 4]), 1.0, 1e-12);
}

#[test]
fn the_sign_test_counts_coins() {
    let above = [1.12, 1.08, 1.10, 1.11, 1.09, 1.13, 1.07, 1.10];
    let sure = sign_test(&above).expect("ratios");
    assert_near(sure, 0.007_812_5, 1e-12);
    let below = above.map(|ratio| 1.0 / ratio);
    assert_near(sign_test(&below).expect("ratios"), sure, 1e-12);
    let tied = [1.0, 1.1, 1.1, 1.1, 1.1, 1.1];
    assert_near(sign_test(&tied).expect("ratios"), 2.0 * 7.0 / 64.0, 1e-12);
    assert_near(sign_test(&[1.0; 8]).expect("ratios"), 1.0, 1e-12);
    assert_eq!(sign_test(&[]), None);
    assert_near(coins_up_to(2_000, 1_000), 0.508_918, 1e-5);
}

#[test]
fn samples_that_are_alike_are_not_told_apart() {
    assert_near(p(&[1.0, 4.0, 5.0, 8.0], &[2.0, 3.0, 6.0, 7.0]), 1.0, 1e-12);
    assert_near(p(&[3.0; 5], &[3.0; 5]), 1.0, 1e-12);
    assert_near(p(&[3.0; 50], &[3.0; 50]), 1.0, 1e-12);
    assert_eq!(mann_whitney(&[], &[1.0]), None);
}

/// Counts all ways to choose as many of the pooled values as `a` has, by their midranks.
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
    let ties = pooled(&a, &b);
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
