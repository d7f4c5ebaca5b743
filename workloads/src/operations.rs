//! Small requests by number: operation n is a pure function of the data set, the seed and n.
//!
//! A put writes an object as it is already stored. So writers may run on the data of a list that is being checked: revisions
//! move, and what a reader must find stays the same.

use std::time::Duration;

use rand_xoshiro::rand_core::Rng as _;

use crate::random::{Stream, below, generator};

/// Which object operation `n` is about, of a data set of `objects`: any with the same probability.
#[must_use]
pub fn object_of(seed: u64, n: u64, objects: u64) -> u64 {
    below(&mut generator(seed, Stream::Operations, n), objects)
}

/// Intended starts of requests that come by chance, `per_second` on average: a Poisson process, as many independent users
/// make together. It is computed without looking at any answer, and two generators of the same seed and lane compute the same.
#[derive(Debug, Clone)]
pub struct Arrivals {
    random: rand_xoshiro::Xoshiro256PlusPlus,
    mean_gap_ns: f64,
    at_ns: f64,
}

impl Arrivals {
    /// The arrivals of one lane; lanes of one seed are independent, and together as frequent as the sum of their rates.
    #[must_use]
    pub fn new(seed: u64, lane: u64, per_second: f64) -> Self {
        Self {
            random: generator(seed, Stream::Arrivals, lane),
            mean_gap_ns: 1e9 / per_second,
            at_ns: 0.0,
        }
    }
}

impl Iterator for Arrivals {
    type Item = Duration;

    /// The next intended start, from the beginning of the run. Never ends.
    fn next(&mut self) -> Option<Duration> {
        // 53 random bits as a number in (0, 1]: its logarithm is finite.
        let uniform = ((self.random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        self.at_ns -= uniform.ln() * self.mean_gap_ns;
        Some(Duration::from_nanos(self.at_ns as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_the_same_everywhere_and_reach_every_object() {
        let objects: Vec<u64> = (0..200).map(|n| object_of(7, n, 10)).collect();
        assert_eq!(
            objects,
            (0..200).map(|n| object_of(7, n, 10)).collect::<Vec<_>>()
        );
        assert_ne!(
            objects,
            (0..200).map(|n| object_of(8, n, 10)).collect::<Vec<_>>()
        );
        assert!((0..10).all(|object| objects.contains(&object)));
    }

    #[test]
    fn arrivals_keep_their_rate_and_scatter_as_chance_does() {
        let until = Duration::from_secs(100);
        let of = |lane| Arrivals::new(1, lane, 100.0).take_while(move |at| *at < until);
        let gaps: Vec<f64> = of(0)
            .zip(of(0).skip(1))
            .map(|(a, b)| (b - a).as_secs_f64())
            .collect();
        let n = gaps.len() as f64;
        assert!(
            (n - 10_000.0).abs() < 400.0,
            "four standard deviations: {n}"
        );
        let mean = gaps.iter().sum::<f64>() / n;
        let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n).sqrt();
        assert!(
            (deviation / mean - 1.0).abs() < 0.05,
            "{deviation} of {mean}"
        );
        assert_ne!(of(0).next(), of(1).next(), "lanes are independent");
    }
}
