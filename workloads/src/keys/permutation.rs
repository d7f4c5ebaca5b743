//! A permutation of 0..n from a seed, without a table. It scatters ranks over a data set without
//! the collisions of a hash modulo n.

use crate::random::{Stream, generator};
use rand_xoshiro::rand_core::Rng as _;

/// Rounds of the network; four make a pseudorandom permutation (M. Luby and C. Rackoff, 1988).
const ROUNDS: usize = 4;

/// A Feistel network over the smallest even number of bits that represents n, repeated until the
/// result is below n ("cycle walking", J. Black and P. Rogaway, CT-RSA 2002): less than four steps
/// on average.
#[derive(Debug, Clone)]
pub(super) struct Permutation {
    n: u64,
    /// Number of bits of each half of the network's state.
    half: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    pub(super) fn new(seed: u64, n: u64) -> Self {
        let bits = u64::BITS - n.saturating_sub(1).leading_zeros();
        let mut random = generator(seed, Stream::Keys, 0);
        Self {
            n,
            half: bits.div_ceil(2).max(1),
            keys: std::array::from_fn(|_| random.next_u64()),
        }
    }

    /// Returns the image of `rank`; both are below n.
    pub(super) fn of(&self, rank: u64) -> u64 {
        let mut at = rank;
        loop {
            at = self.step(at);
            if at < self.n {
                return at;
            }
        }
    }

    fn step(&self, at: u64) -> u64 {
        let mask = (1_u64 << self.half) - 1;
        let (mut left, mut right) = (at >> self.half, at & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        left << self.half | right
    }
}

/// SplitMix64's finalizer (S. Vigna): every bit of the input reaches every bit of the output.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
