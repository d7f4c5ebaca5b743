use super::*;

const OPERATIONS: u64 = 200_000;

/// Returns how often each of `objects` objects is picked.
fn counts(keys: Distribution, objects: u64) -> Vec<u64> {
    let picker = keys.over(3, objects);
    let mut counts = vec![0; objects as usize];
    for n in 0..OPERATIONS {
        counts[picker.object_of(n) as usize] += 1;
    }
    counts
}

fn sorted(keys: Distribution, objects: u64) -> Vec<f64> {
    let mut counts = counts(keys, objects);
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let share = |count: &u64| *count as f64 / OPERATIONS as f64;
    counts.iter().map(share).collect()
}

/// Returns the probability of `rank` among `n`, by the definition.
fn zipf(rank: u64, n: u64, exponent: f64) -> f64 {
    let weight = |k: u64| (k as f64).powf(-exponent);
    weight(rank) / (1..=n).map(weight).sum::<f64>()
}

#[test]
fn ranks_have_zipfs_probabilities_at_any_exponent() {
    for exponent in [0.5, 0.99, 1.0, 1.5, 3.0] {
        let found = sorted(Distribution::Zipf(exponent), 1_000);
        for rank in 1..=3 {
            let expected = zipf(rank, 1_000, exponent);
            let deviation = (expected * (1.0 - expected) / OPERATIONS as f64).sqrt();
            let is = found[rank as usize - 1];
            // With a small exponent the most frequent of several similar ranks is a matter of
            // chance.
            assert!(
                (is - expected).abs() < 6.0 * deviation,
                "rank {rank} at {exponent}: {is}, expected {expected}"
            );
        }
    }
}

#[test]
fn the_hottest_key_is_zipfs_and_not_ycsbs() {
    let hottest = sorted(Distribution::Zipf(0.99), 10_000)[0];
    assert!((hottest - 0.098).abs() < 0.004, "{hottest}");
}

#[test]
fn first_and_last_rank_can_be_picked() {
    let counts = counts(Distribution::Latest(0.5), 3);
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    assert!(counts[2] > counts[1] && counts[1] > counts[0], "{counts:?}");
    assert_eq!(Distribution::Zipf(1.0).over(1, 1).object_of(0), 0);
}

#[test]
fn a_hotspot_gets_its_part() {
    let keys = Distribution::Hotspot {
        objects: 0.1,
        operations: 0.9,
    };
    let found = sorted(keys, 100);
    let hot: f64 = found[..10].iter().sum();
    assert!((hot - 0.9).abs() < 0.01, "{hot}");
}

#[test]
fn uniform_and_sequential_reach_everything_alike() {
    let found = sorted(Distribution::Uniform, 50);
    assert!(found[0] < 0.022 && found[49] > 0.018, "{found:?}");
    let counts = counts(Distribution::Sequential, 50);
    assert!(counts.iter().all(|count| *count == OPERATIONS / 50));
}

#[test]
fn a_permutation_hits_each_once() {
    for n in [1, 2, 3, 10, 1_000, 4_097] {
        let order = Permutation::new(9, n);
        let mut seen = vec![false; n as usize];
        for rank in 0..n {
            let at = order.of(rank) as usize;
            assert!(!seen[at], "{n}: {rank} meets another at {at}");
            seen[at] = true;
        }
    }
    let (one, other) = (Permutation::new(1, 1_000), Permutation::new(2, 1_000));
    assert!((0..10).any(|rank| one.of(rank) != other.of(rank)));
}

#[test]
fn picks_are_the_same_everywhere() {
    let of = |keys: Distribution| {
        let picker = keys.over(7, 150_000);
        (0..4).map(|n| picker.object_of(n)).collect::<Vec<_>>()
    };
    // Golden values of this code; other values are another sequence.
    assert_eq!(of(Distribution::Uniform), UNIFORM);
    assert_eq!(of(Distribution::Zipf(0.99)), ZIPF);
}

const UNIFORM: [u64; 4] = [5_359, 4_358, 4_427, 146_749];
const ZIPF: [u64; 4] = [91_601, 131_155, 88_353, 5_436];

#[test]
fn what_picks_nothing_is_refused_with_its_field() {
    let refused = |keys: Distribution| keys.check().expect_err("refused").to_string();
    assert_eq!(
        refused(Distribution::Zipf(0.0)),
        "keys: zipf = 0 must be a number above 0"
    );
    assert!(refused(Distribution::Latest(f64::NAN)).contains("NaN"));
    let hotspot = |objects, operations| Distribution::Hotspot {
        objects,
        operations,
    };
    assert!(refused(hotspot(0.0, 0.5)).contains("hotspot.objects = 0"));
    assert!(refused(hotspot(0.5, 1.5)).contains("hotspot.operations = 1.5"));
    assert_eq!(hotspot(1.0, 1.0).check(), Ok(()));
}
