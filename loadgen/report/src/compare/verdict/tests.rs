//! Tests known results, symmetries, and error rates over many simulated comparisons.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

use super::*;

/// The number of comparisons that are simulated for a rate.
const SEEDS: u64 = 1_000;

fn of_pairs(ratios: &[f64]) -> Estimate {
    let pairs: Vec<_> = ratios.iter().map(|&ratio| (1.0, ratio)).collect();
    Estimate::paired(&pairs).expect("ratios")
}

fn of_two(base: &[f64], new: &[f64]) -> Estimate {
    Estimate::unpaired(base, new).expect("values")
}

fn at_5(estimate: &Estimate) -> Verdict {
    estimate.verdict(0.05, Better::Lower)
}

/// A generator of values of a server's starts: normally distributed on logarithms, as memory layout
/// and the machine's state cause it. One start of `doubled` takes twice as long.
struct Starts {
    random: Xoshiro256PlusPlus,
    deviation: f64,
    doubled: Option<u64>,
}

impl Starts {
    fn new(seed: u64, deviation: f64, doubled: Option<u64>) -> Self {
        Self {
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            deviation,
            doubled,
        }
    }

    /// Returns a number above 0 and up to 1.
    fn uniform(&mut self) -> f64 {
        ((self.random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Returns the value of one start of a server that takes `mean`.
    fn start(&mut self, mean: f64) -> f64 {
        // Box and Muller 1958.
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        let normal = radius * (2.0 * std::f64::consts::PI * self.uniform()).cos();
        let is_doubled = self
            .doubled
            .is_some_and(|of| self.random.next_u64().is_multiple_of(of));
        let factor = if is_doubled { 2.0 } else { 1.0 };
        mean * (self.deviation * normal).exp() * factor
    }

    fn starts(&mut self, n: usize, mean: f64) -> Vec<f64> {
        (0..n).map(|_| self.start(mean)).collect()
    }

    fn paired(&mut self, n: usize, ratio: f64) -> Estimate {
        let pairs: Vec<_> = (0..n)
            .map(|_| (self.start(1.0), self.start(ratio)))
            .collect();
        Estimate::paired(&pairs).expect("pairs")
    }

    fn unpaired(&mut self, n: usize, ratio: f64) -> Estimate {
        let (base, new) = (self.starts(n, 1.0), self.starts(n, ratio));
        Estimate::unpaired(&base, &new).expect("starts")
    }
}

/// Returns how many of the simulated comparisons satisfy the condition.
fn count(
    deviation: f64,
    doubled: Option<u64>,
    compared: impl Fn(&mut Starts) -> Estimate,
    is_so: impl Fn(Verdict) -> bool,
) -> usize {
    (0..SEEDS)
        .map(|seed| compared(&mut Starts::new(seed, deviation, doubled)))
        .filter(|estimate| is_so(at_5(estimate)))
        .count()
}

fn is_found(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Better | Verdict::Worse)
}

#[test]
fn a_tenth_slower_in_six_starts_is_worse() {
    let base = [10.1, 10.4, 9.8, 10.2, 10.0, 9.9];
    let new = [10.9, 11.3, 11.0, 11.5, 10.8, 11.1];
    let found = of_two(&base, &new);
    assert_eq!(at_5(&found), Verdict::Worse);
    assert_eq!(found.method, Method::Unpaired);
    let p_value = found.p_value.expect("of two samples");
    assert!((p_value - 0.002_164_5).abs() < 1e-7, "{p_value}");
    // The change may be less than 7 %, but is more than 0.
    assert_eq!(found.is_within(0.05, Better::Lower), Some(false));
    assert_eq!(found.is_within(0.12, Better::Lower), None);
    assert_eq!(found.is_within(0.15, Better::Lower), Some(true));
}

#[test]
fn a_tenth_slower_in_eight_pairs_is_worse() {
    let found = of_pairs(&[1.12, 1.08, 1.10, 1.11, 1.09, 1.13, 1.07, 1.10]);
    assert_eq!(at_5(&found), Verdict::Worse);
    let p_value = found.p_value.expect("eight pairs");
    assert!((p_value - 0.007_812_5).abs() < 1e-12, "{p_value}");
    let Verdict::CannotTell(near) = found.verdict(0.12, Better::Lower) else {
        panic!("{found:?}");
    };
    let text = near.to_string();
    assert!(
        text.starts_with("worse for sure, maybe by less than 12 %: about "),
        "{text}"
    );
    assert_eq!(found.verdict(0.15, Better::Lower), Verdict::NoDifference);
    assert_eq!(found.verdict(0.05, Better::Higher), Verdict::Better);
}

#[test]
fn ten_pairs_that_are_alike_are_no_difference_within_5_percent_and_open_within_1() {
    let ratios = [0.99, 1.02, 1.01, 0.98, 1.00, 1.03, 0.97, 1.01, 0.995, 1.005];
    let found = of_pairs(&ratios);
    assert_eq!(at_5(&found), Verdict::NoDifference);
    let within_1 = found.verdict(0.01, Better::Lower);
    assert!(matches!(within_1, Verdict::CannotTell(Reason::Wide { .. })));
}

#[test]
fn eight_pairs_in_all_directions_tell_nothing() {
    let found = of_pairs(&[1.3, 0.8, 1.1, 0.9, 1.25, 1.0, 1.2, 0.85]);
    let Verdict::CannotTell(reason) = at_5(&found) else {
        panic!("{found:?}");
    };
    let text = reason.to_string();
    assert!(text.starts_with("from 0.80 to 1.30: "), "{text}");
}

/// A mean of these ratios, and a signed rank test, could not tell.
#[test]
fn one_start_twice_as_slow_and_one_twice_as_fast_hide_no_equality() {
    let ratios = [1.00, 1.01, 0.99, 2.05, 1.00, 1.02, 0.98, 0.995, 1.005, 0.50];
    assert_eq!(at_5(&of_pairs(&ratios)), Verdict::NoDifference);
}

#[test]
fn too_few_starts_say_how_many_it_takes() {
    let reason = |estimate: Estimate| match at_5(&estimate) {
        Verdict::CannotTell(reason) => (reason.to_string(), reason.more_starts()),
        verdict => panic!("{verdict:?}"),
    };
    let (text, more) = reason(of_two(&[1.0], &[2.0]));
    assert_eq!(text, "one start per side, at least 4 are needed (3 more)");
    assert_eq!(more, Some(3));
    let (text, _) = reason(of_two(&[1.0; 3], &[2.0; 3]));
    assert_eq!(text, "3 starts per side, at least 4 are needed (1 more)");
    let (text, _) = reason(of_two(&[1.0; 2], &[2.0; 3]));
    assert_eq!(text, "2 and 3 starts, at least 4 are needed (2 more)");
    let (text, _) = reason(of_pairs(&[2.0]));
    assert_eq!(text, "one pair of starts, at least 6 are needed (5 more)");
    let (text, _) = reason(of_pairs(&[2.0; 5]));
    assert_eq!(text, "5 pairs of starts, at least 6 are needed (1 more)");
    assert_eq!(at_5(&of_two(&[1.0; 4], &[2.0; 4])), Verdict::Worse);
    assert_eq!(at_5(&of_pairs(&[2.0; 6])), Verdict::Worse);
}

#[test]
fn exact_values_need_one_start() {
    let exact = |base: &[f64], new: &[f64]| {
        let found = Estimate::exact(base, new).expect("values");
        found.verdict(0.01, Better::Lower)
    };
    assert_eq!(
        exact(&[1_552_346_112.0], &[1_552_346_113.0]),
        Verdict::NoDifference
    );
    assert_eq!(exact(&[100.0], &[102.0]), Verdict::Worse);
    assert_eq!(exact(&[102.0], &[100.0]), Verdict::Better);
    let differing = exact(&[100.0, 110.0], &[100.0]);
    assert_eq!(differing, Verdict::CannotTell(Reason::Inexact));
    let same = Estimate::exact(&[7.0], &[7.0]).expect("values");
    assert_eq!(same.verdict(0.0, Better::Lower), Verdict::NoDifference);
    assert_eq!(same.is_within(0.0, Better::Lower), Some(true));
}

#[test]
fn a_difference_at_the_margin_takes_more_starts_than_anybody_makes() {
    let ratios = [0.90, 0.95, 1.03, 1.05, 1.05, 1.06, 1.08, 1.30];
    let Verdict::CannotTell(reason) = at_5(&of_pairs(&ratios)) else {
        panic!("no verdict of these");
    };
    assert!(reason.to_string().contains("about "), "{reason}");
    let ratios = [0.90, 0.95, 1.03, 1.0499, 1.0499, 1.06, 1.08, 1.30];
    let Verdict::CannotTell(reason) = at_5(&of_pairs(&ratios)) else {
        panic!("no verdict of these");
    };
    assert!(
        reason.to_string().contains("at the margin: more than 200"),
        "{reason}"
    );
    assert_eq!(reason.more_starts(), None);
}

#[test]
fn base_and_new_changed_over_turn_the_verdict_round() {
    for seed in 0..200 {
        let mut starts = Starts::new(seed, 0.05, Some(10));
        let (base, new) = (starts.starts(7, 1.0), starts.starts(7, 1.08));
        let (there, back) = (of_two(&base, &new), of_two(&new, &base));
        assert!((there.ratio * back.ratio - 1.0).abs() < 1e-12);
        let (one, other) = (
            there.interval.expect("enough"),
            back.interval.expect("enough"),
        );
        assert!((one.lower * other.upper - 1.0).abs() < 1e-12);
        assert!((one.upper * other.lower - 1.0).abs() < 1e-12);
        let turned = match at_5(&back) {
            Verdict::Better => Verdict::Worse,
            Verdict::Worse => Verdict::Better,
            same => same,
        };
        assert_eq!(at_5(&there).name(), turned.name(), "seed {seed}");
        // For a rate, more is better.
        let rate = back.verdict(0.05, Better::Higher).name();
        assert_eq!(at_5(&there).name(), rate, "seed {seed}");
        let scaled = |values: &[f64]| values.iter().map(|v| v * 1e3).collect::<Vec<_>>();
        let scaled = of_two(&scaled(&base), &scaled(&new));
        assert_eq!(at_5(&scaled).name(), at_5(&there).name(), "seed {seed}");
    }
}

/// 73 of 1,000 is the 99.9 % quantile of a probability of 0.05.
#[test]
fn equal_servers_are_called_different_in_one_comparison_of_twenty_at_most() {
    for (deviation, doubled) in [(0.03, None), (0.05, Some(10)), (0.15, Some(10))] {
        for n in [6, 10, 20] {
            let wrong = count(deviation, doubled, |starts| starts.paired(n, 1.0), is_found);
            assert!(
                wrong <= 73,
                "{wrong} of {n} pairs, {deviation}, {doubled:?}"
            );
        }
        for n in [4, 6, 10] {
            let wrong = count(
                deviation,
                doubled,
                |starts| starts.unpaired(n, 1.0),
                is_found,
            );
            assert!(
                wrong <= 73,
                "{wrong} of {n} starts, {deviation}, {doubled:?}"
            );
        }
    }
}

/// 41 of 1,000 is the 99.9 % quantile of a probability of 0.025.
#[test]
fn servers_that_differ_by_the_margin_are_called_equal_in_one_comparison_of_forty_at_most() {
    let is_same = |verdict| verdict == Verdict::NoDifference;
    for n in [10, 20, 40] {
        let wrong = count(0.03, None, |starts| starts.paired(n, 1.05), is_same);
        assert!(wrong <= 41, "{wrong} of {n} pairs");
        let wrong = count(0.03, None, |starts| starts.unpaired(n, 1.05), is_same);
        assert!(wrong <= 41, "{wrong} of {n} starts");
    }
}

/// Inspects after each of sixty pairs. With intervals for a number of pairs that is fixed in
/// advance, 18 to 20 % of such comparisons find a difference at some inspection.
#[test]
fn equal_servers_stay_equal_however_often_one_looks() {
    let is_wrong = |seed: &u64| {
        let mut starts = Starts::new(*seed, 0.05, Some(10));
        let pairs = (0..60).map(|_| 1.0 / starts.start(1.0) * starts.start(1.0));
        let ratios: Vec<f64> = pairs.collect();
        let found = Interval::paired_any_time(&ratios, ALPHA);
        // An empty intersection counts too: both are errors of the method.
        found.map_or(true, |found| {
            found.is_some_and(|found| found.lower > 1.0 || found.upper < 1.0)
        })
    };
    let wrong = (0..SEEDS).filter(is_wrong).count();
    assert!(wrong <= 73, "{wrong} of {SEEDS}");
}

/// Uses as many pairs as find a tenth in nine of ten comparisons. With a few starts that take twice
/// as long, a comparison of means finds nothing.
#[test]
fn a_planted_tenth_is_found() {
    let is_worse = |verdict| verdict == Verdict::Worse;
    for (n, deviation, doubled) in [
        (6, 0.03, None),
        (12, 0.05, None),
        (28, 0.08, None),
        (16, 0.03, Some(10)),
        (24, 0.05, Some(10)),
    ] {
        let found = count(deviation, doubled, |starts| starts.paired(n, 1.1), is_worse);
        assert!(
            found >= 870,
            "{found} of 1,000 by {n} pairs, {deviation}, {doubled:?}"
        );
    }
    for (n, deviation) in [(5, 0.03), (8, 0.05)] {
        let found = count(deviation, None, |starts| starts.unpaired(n, 1.1), is_worse);
        assert!(found >= 870, "{found} of 1,000 by {n} starts, {deviation}");
    }
}

#[test]
fn equal_servers_are_found_equal() {
    let is_same = |verdict| verdict == Verdict::NoDifference;
    for (n, deviation, doubled) in [(20, 0.03, None), (48, 0.05, None), (40, 0.03, Some(10))] {
        let found = count(deviation, doubled, |starts| starts.paired(n, 1.0), is_same);
        assert!(
            found >= 870,
            "{found} of 1,000 by {n} pairs, {deviation}, {doubled:?}"
        );
    }
}
