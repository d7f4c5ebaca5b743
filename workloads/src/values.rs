//! The values of created keys: their sizes and entropy, as a pure function of the seed and the
//! operation's number.
//!
//! Values of zeros, or one value for all keys, make disks and compression look better than they
//! are. So does a single size where real sizes differ.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::random::{Stream, below, generator, put_bytes, uniform};
use crate::sizes::{WeightedSize, WeightsError, check_weights, draw};

/// Size of the largest value, bytes: etcd accepts requests of up to 1.5 MiB.
const MAX_BYTES: u32 = 1 << 20;
/// Size of the buffer whose slices are the values, bytes. A slice may begin anywhere.
const BUFFER_BYTES: usize = 2 << 20;
/// Size of a block, bytes. The same fraction of each block is random.
const BLOCK_BYTES: usize = 64;
/// The byte that fills the part of a block that is not random.
const FILL: u8 = b'.';

/// Sizes and entropy of values.
///
/// In a scenario file: `{ bytes = 1000 }`,
/// `{ lognormal = { median = 1000, sigma = 0.8, most = 100000 } }`,
/// `{ table = [{ bytes = 300, weight = 9 }, { bytes = 20000, weight = 1 }], entropy = 0.5 }`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Values {
    /// The size of all values, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes: Option<u32>,
    /// Sizes whose logarithm is normally distributed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lognormal: Option<Lognormal>,
    /// A table of sizes and their weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    table: Option<Vec<WeightedSize>>,
    /// The fraction of each 64 bytes that is random, from 0 to 1.
    #[serde(default = "all")]
    entropy: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lognormal {
    /// The median size, bytes.
    median: u32,
    /// Standard deviation of the natural logarithm.
    sigma: f64,
    /// The maximum size, bytes; larger values are truncated to it.
    most: u32,
}

fn all() -> f64 {
    1.0
}

/// An invalid specification of values.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ValuesError {
    /// No size is given, or several.
    #[error("value: one of `bytes`, `lognormal` and `table` says its size, and here {0} do")]
    Sizes(usize),
    /// A size out of range.
    #[error("value: {field} = {bytes} must be from 1 to {MAX_BYTES} bytes")]
    Bytes {
        /// The field's name in the scenario file.
        field: &'static str,
        /// The value in the file.
        bytes: u32,
    },
    /// A number out of range.
    #[error("value: {field} = {value} must be a number {bound}")]
    Number {
        /// The field's name in the scenario file.
        field: &'static str,
        /// The value in the file.
        value: f64,
        /// The allowed values.
        bound: &'static str,
    },
    /// A table from which nothing can be drawn.
    #[error("value: {0}")]
    Weights(#[from] WeightsError),
}

impl Values {
    /// Checks that the specification is valid.
    ///
    /// # Errors
    /// [`ValuesError`], with the field and the value.
    pub fn check(&self) -> Result<(), ValuesError> {
        let given = [
            self.bytes.is_some(),
            self.lognormal.is_some(),
            self.table.is_some(),
        ];
        let given = given.into_iter().filter(|is_given| *is_given).count();
        if given != 1 {
            return Err(ValuesError::Sizes(given));
        }
        let size = |field, bytes: u32| match (1..=MAX_BYTES).contains(&bytes) {
            true => Ok(()),
            false => Err(ValuesError::Bytes { field, bytes }),
        };
        let number = |field, value: f64, is_right: bool, bound| match is_right {
            true => Ok(()),
            false => Err(ValuesError::Number {
                field,
                value,
                bound,
            }),
        };
        let is_part = (0.0..=1.0).contains(&self.entropy);
        number("entropy", self.entropy, is_part, "from 0 to 1")?;
        if let Some(bytes) = self.bytes {
            size("bytes", bytes)?;
        }
        if let Some(Lognormal {
            median,
            sigma,
            most,
        }) = self.lognormal
        {
            size("median", median)?;
            size("most", most)?;
            let is_right = sigma.is_finite() && sigma >= 0.0;
            number("sigma", sigma, is_right, "of 0 or more")?;
        }
        if let Some(table) = &self.table {
            table
                .iter()
                .try_for_each(|entry| size("bytes", entry.bytes))?;
            check_weights(table)?;
        }
        Ok(())
    }

    /// Creates the buffer of 2 MiB whose slices are the values.
    #[must_use]
    pub fn over(&self, seed: u64) -> ValueSource {
        let mut buffer = Vec::with_capacity(BUFFER_BYTES);
        let mut random = generator(seed, Stream::Values, u64::MAX);
        let part = (self.entropy * BLOCK_BYTES as f64).round() as usize;
        while buffer.len() < BUFFER_BYTES {
            put_bytes(&mut buffer, &mut random, part);
            buffer.resize(buffer.len() + BLOCK_BYTES - part, FILL);
        }
        ValueSource {
            values: self.clone(),
            seed,
            buffer: buffer.into(),
        }
    }

    /// Draws the size of a value, bytes.
    fn size(&self, random: &mut rand_xoshiro::Xoshiro256PlusPlus) -> u32 {
        if let Some(Lognormal {
            median,
            sigma,
            most,
        }) = self.lognormal
        {
            // The Box–Muller transform, with libm's functions, which give the same result on every
            // machine.
            let radius = libm::sqrt(-2.0 * libm::log(uniform(random)));
            let normal = radius * libm::cos(std::f64::consts::TAU * uniform(random));
            let bytes = f64::from(median) * libm::exp(sigma * normal);
            return bytes.round().clamp(1.0, f64::from(most)) as u32;
        }
        match &self.table {
            Some(table) => table[draw(table, random)].bytes,
            None => self.bytes.unwrap_or(1),
        }
    }
}

/// Generates values. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ValueSource {
    values: Values,
    seed: u64,
    buffer: Bytes,
}

impl ValueSource {
    /// Returns value `n`, a slice of the shared buffer: nothing is copied. Costs about 20 ns.
    #[must_use]
    pub fn value(&self, n: u64) -> Bytes {
        let mut random = generator(self.seed, Stream::Values, n);
        let bytes = self.values.size(&mut random) as usize;
        let places = (self.buffer.len() - bytes) as u64 + 1;
        let begin = below(&mut random, places) as usize;
        self.buffer.slice(begin..begin + bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Values {
        toml::from_str(text).expect("values")
    }

    fn refused(text: &str) -> String {
        values(text).check().expect_err("no values").to_string()
    }

    #[test]
    fn sizes_are_fixed_or_come_as_often_as_the_distribution_says() {
        let sizes = |text: &str| -> Vec<usize> {
            let values = values(text);
            values.check().expect("they can be made");
            let source = values.over(7);
            (0..10_000).map(|n| source.value(n).len()).collect()
        };
        assert!(sizes("bytes = 300").iter().all(|size| *size == 300));
        let table = "table = [{ bytes = 10, weight = 9 }, { bytes = 500, weight = 1 }, { bytes = 1, weight = 0 }]";
        let large = sizes(table).iter().filter(|size| **size == 500).count();
        // Within five standard deviations of a binomial count.
        assert!(large.abs_diff(1_000) < 150, "{large}");
        let mut drawn = sizes("lognormal = { median = 1000, sigma = 1.0, most = 5000 }");
        drawn.sort_unstable();
        assert!(drawn[5_000].abs_diff(1_000) < 80, "{}", drawn[5_000]);
        // 15.9 % of the values lie more than one standard deviation of the logarithm above the
        // median.
        assert!(drawn[8_413].abs_diff(2_718) < 250, "{}", drawn[8_413]);
        assert_eq!(drawn[9_999], 5_000, "capped");
    }

    #[test]
    fn the_part_that_is_random_is_that_of_each_block() {
        let filled = |entropy: &str| {
            let source = values(&format!("bytes = 64000\nentropy = {entropy}")).over(1);
            let value = source.value(3);
            let filled = value.iter().filter(|byte| **byte == FILL).count();
            filled as f64 / value.len() as f64
        };
        assert!((filled("0") - 1.0).abs() < 1e-9);
        assert!((filled("0.5") - 0.5).abs() < 0.01, "{}", filled("0.5"));
        assert!(filled("1") < 0.01);
    }

    #[test]
    fn a_value_follows_from_the_seed_and_its_number() {
        let source =
            |seed| values("lognormal = { median = 99, sigma = 0.5, most = 999 }").over(seed);
        let (one, again, other) = (source(1), source(1), source(2));
        assert_eq!(one.value(5), again.value(5));
        assert_ne!(one.value(5), one.value(6));
        assert_ne!(one.value(5), other.value(5));
    }

    #[test]
    fn what_cannot_be_made_is_refused_with_the_field() {
        assert!(refused("entropy = 1").contains("here 0 do"));
        assert!(refused("bytes = 0").contains("bytes = 0"));
        assert!(refused("bytes = 2000000").contains("1048576"));
        assert!(refused("bytes = 1\nentropy = 1.5").contains("entropy = 1.5"));
        assert!(refused("lognormal = { median = 1, sigma = -1, most = 9 }").contains("sigma"));
        assert!(refused("table = [{ bytes = 1, weight = 0 }]").contains("sum to 0"));
        assert!(refused("bytes = 1\ntable = []").contains("here 2 do"));
    }
}
