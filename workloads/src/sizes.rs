//! Tables of sizes that are drawn by weight, and the sizes of a data set's objects.

use rand_xoshiro::rand_core::Rng;
use serde::{Deserialize, Serialize};

use crate::random::{Stream, generator, uniform};

/// A size, and how often it is drawn relative to the other sizes of its table.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WeightedSize {
    /// The size, bytes.
    pub bytes: u32,
    /// The weight: a number of 0 or more. Weights may have any sum.
    pub weight: f64,
}

/// A table from which nothing can be drawn.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum WeightsError {
    /// A weight out of range.
    #[error("weight = {0} must be a number of 0 or more")]
    OutOfRange(f64),
    /// There are no sizes.
    #[error("the table is empty")]
    Empty,
    /// The sum of the weights is 0, or too large for a number.
    #[error("the weights of the table sum to {0}, so sizes cannot be drawn")]
    Sum(f64),
}

/// Checks that sizes can be drawn from a table.
///
/// # Errors
/// [`WeightsError`], with the weight.
pub(crate) fn check_weights(table: &[WeightedSize]) -> Result<(), WeightsError> {
    for WeightedSize { weight, .. } in table {
        if !weight.is_finite() || *weight < 0.0 {
            return Err(WeightsError::OutOfRange(*weight));
        }
    }
    let sum: f64 = table.iter().map(|entry| entry.weight).sum();
    match table {
        [] => Err(WeightsError::Empty),
        _ if sum > 0.0 && sum.is_finite() => Ok(()),
        _ => Err(WeightsError::Sum(sum)),
    }
}

/// Draws an entry of a table, and returns its index.
pub(crate) fn draw(table: &[WeightedSize], random: &mut impl Rng) -> usize {
    let sum: f64 = table.iter().map(|entry| entry.weight).sum();
    let mut left = uniform(random) * sum;
    let drawn = table.iter().position(|entry| {
        left -= entry.weight;
        entry.weight > 0.0 && left <= 0.0
    });
    // Rounding may leave a remainder after the last entry.
    let last = || table.iter().rposition(|entry| entry.weight > 0.0);
    drawn.or_else(last).unwrap_or(0)
}

/// The sizes of a data set's objects. The size of object `i` depends only on the seed and `i`.
#[derive(Debug)]
pub(crate) struct ObjectSizes {
    seed: u64,
    table: Vec<WeightedSize>,
}

impl ObjectSizes {
    /// An empty table is for kinds that do not ask for sizes.
    pub(crate) fn new(seed: u64, table: Vec<WeightedSize>) -> Self {
        Self { seed, table }
    }

    /// Returns the sizes of the table, bytes.
    pub(crate) fn all(&self) -> impl Iterator<Item = usize> {
        self.table.iter().map(|entry| entry.bytes as usize)
    }

    /// Returns the index in [`Self::all`] of object `i`'s size. Costs O(sizes).
    pub(crate) fn index_of(&self, i: u64) -> usize {
        match self.table.len() {
            1 => 0,
            _ => draw(&self.table, &mut generator(self.seed, Stream::Sizes, i)),
        }
    }

    /// Returns the size of object `i`, bytes.
    pub(crate) fn of(&self, i: u64) -> usize {
        self.table[self.index_of(i)].bytes as usize
    }
}
