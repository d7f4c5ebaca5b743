//! Compares intervals with the tables of the sign test and of the rank test, and with worked
//! examples.

use super::*;

#[track_caller]
fn assert_near(found: f64, expected: f64, within: f64) {
    assert!(
        (found - expected).abs() <= within,
        "{found} is not {expected} ± {within}"
    );
}

#[track_caller]
fn assert_between(found: Option<Interval>, lower: f64, upper: f64) {
    let found = found.expect("enough values");
    assert_near(found.lower, lower, 1e-6);
    assert_near(found.upper, upper, 1e-6);
    assert!(found.level >= 0.95, "{found:?}");
}

const SIZES: [usize; 17] = [
    5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 20, 24, 30, 40, 60,
];

#[test]
fn ranks_of_pairs_are_those_of_the_sign_test() {
    let at_95 = [0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 6, 7, 10, 14, 22];
    let at_99 = [0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 6, 8, 12, 20];
    for (at, n) in SIZES.into_iter().enumerate() {
        assert_eq!(paired_rank(n, 0.05).unwrap_or(0), at_95[at], "of {n}");
        assert_eq!(paired_rank(n, 0.01).unwrap_or(0), at_99[at], "of {n}");
    }
}

#[test]
fn ranks_that_hold_after_every_pair_are_lower() {
    let at_95 = [0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 4, 5, 7, 11, 18];
    let at_99 = [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 3, 4, 6, 9, 16];
    for (at, n) in SIZES.into_iter().enumerate() {
        assert_eq!(any_time_rank(n, 0.05).unwrap_or(0), at_95[at], "of {n}");
        assert_eq!(any_time_rank(n, 0.01).unwrap_or(0), at_99[at], "of {n}");
    }
}

#[test]
fn ranks_of_two_samples_are_those_of_the_rank_test() {
    let rank = |n, m| unpaired_rank(n, m, 0.05).map_or(0, |(k, _)| k);
    let expected = [
        (4, 1),
        (5, 3),
        (6, 6),
        (7, 9),
        (8, 14),
        (9, 18),
        (10, 24),
        (11, 31),
        (12, 38),
        (15, 65),
        (20, 128),
    ];
    for (n, k) in expected {
        assert_eq!(rank(n, n), k, "of {n} and {n}");
    }
    assert_eq!(rank(3, 3), 0, "three and three prove nothing");
    assert_eq!(rank(3, 5), 1);
    assert_eq!(rank(5, 3), 1);
    assert_eq!((rank(0, 9), rank(1, 9)), (0, 0));
}

#[test]
fn the_normal_rank_is_near_the_exact_one() {
    let (exact, _) = unpaired_rank(30, 30, 0.05).expect("enough");
    let (normal, level) = normal_rank(30.0, 30.0, 0.05).expect("enough");
    assert!(exact.abs_diff(normal) <= 1, "{exact} and {normal}");
    assert!(level >= 0.95, "{level}");
    assert!(unpaired_rank(2_000, 2_000, 0.05).is_some());
}

#[test]
fn the_least_numbers_of_starts_are_six_pairs_and_four_and_four() {
    assert_eq!(least_starts(true, 0.05), 6);
    assert_eq!(least_starts(false, 0.05), 4);
    assert_eq!(least_starts(true, 0.01), 8);
    assert_eq!(least_starts(false, 0.01), 5);
}

#[test]
fn two_samples_of_six() {
    let base = [10.1, 10.4, 9.8, 10.2, 10.0, 9.9];
    let new = [10.9, 11.3, 11.0, 11.5, 10.8, 11.1];
    let ratio = median(&all_ratios(&base, &new)).expect("ratios");
    assert_near(ratio, 1.101_525, 1e-5);
    assert_between(Interval::unpaired(&base, &new, 0.05), 1.068_627, 1.138_614);
}

#[test]
fn eight_pairs_that_are_a_tenth_slower() {
    let ratios = [1.12, 1.08, 1.10, 1.11, 1.09, 1.13, 1.07, 1.10];
    assert_near(median(&ratios).expect("ratios"), 1.10, 1e-12);
    assert_between(Interval::paired(&ratios, 0.05), 1.07, 1.13);
    let any_time = Interval::paired_any_time(&ratios, 0.05).expect("no drift");
    assert_between(any_time, 1.07, 1.13);
}

#[test]
fn ten_pairs_that_are_alike() {
    let ratios = [0.99, 1.02, 1.01, 0.98, 1.00, 1.03, 0.97, 1.01, 0.995, 1.005];
    assert_near(median(&ratios).expect("ratios"), 1.0025, 1e-5);
    assert_between(Interval::paired(&ratios, 0.05), 0.98, 1.02);
    // k = 1 for seven pairs as well as for ten, and what seven pairs excluded stays excluded.
    let any_time = Interval::paired_any_time(&ratios, 0.05).expect("no drift");
    assert_between(any_time, 0.97, 1.03);
}

/// The confidence interval of the mean would be from 0.79 to 1.27.
#[test]
fn one_start_that_is_twice_as_slow_does_not_hide_the_rest() {
    let ratios = [1.00, 1.01, 0.99, 2.05, 1.00, 1.02, 0.98, 0.995, 1.005, 0.50];
    assert_between(Interval::paired(&ratios, 0.05), 0.98, 1.02);
}

/// The expected values are from golang/perf, `benchmath/sample_test.go`.
#[test]
fn the_interval_of_six_is_their_range() {
    let level = Interval::paired(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 0.05).map(|found| found.level);
    assert_eq!(level, Some(0.96875));
    assert_eq!(
        Interval::paired(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 0.01),
        None
    );
    assert_eq!(Interval::paired(&[1.0], 0.05), None);
    assert_eq!(Interval::paired(&[], 0.05), None);
}

#[test]
fn a_machine_that_changes_half_way_is_noticed() {
    let mut ratios = vec![1.0; 20];
    ratios.extend([2.0; 200]);
    assert_eq!(Interval::paired_any_time(&ratios, 0.05), Err(Drift));
}

#[test]
fn the_median_of_reciprocals_is_the_reciprocal() {
    let ratios = [1.3, 0.8, 1.1, 0.9, 1.25, 1.0, 1.2, 0.85];
    let found = median(&ratios).expect("ratios");
    let turned = median(&ratios.map(|ratio| 1.0 / ratio)).expect("ratios");
    assert_near(found * turned, 1.0, 1e-12);
    assert_near(found, 1.05, 0.002);
    assert_eq!(median(&[]), None);
}
