//! Key distributions: the object of a data set that operation n uses, as a pure function of the
//! seed and n.
//!
//! No distribution depends on acknowledged writes, so that two machines, or one machine after an
//! abort, use the same objects in the same order.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::random::{Stream, below, generator, uniform};

mod permutation;
mod zipf;

use permutation::Permutation;
use zipf::Zipf;

/// A distribution of operations over objects.
///
/// In a scenario file: `"uniform"`, `"sequential"`, `{ zipf = 0.99 }`, `{ latest = 0.99 }`,
/// `{ hotspot = { objects = 0.1, operations = 0.9 } }`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Distribution {
    /// Each object with the same probability.
    #[default]
    Uniform,
    /// All objects in order, then again from the first.
    Sequential,
    /// The object of rank k with a probability proportional to k^−exponent; the seed scatters ranks
    /// over the data set. YCSB's "zipfian" is another distribution: its hottest key has 3.78 % of
    /// the operations for any number of keys; that of Zipf(0.99) over 10,000 keys has 9.8 %.
    Zipf(f64),
    /// As `zipf`, with ranks from the data set's last object backwards.
    Latest(f64),
    /// A fraction of the objects gets a fraction of the operations.
    Hotspot {
        /// Fraction of hot objects, in (0, 1].
        objects: f64,
        /// Fraction of operations on hot objects, from 0 to 1.
        operations: f64,
    },
}

/// An invalid distribution.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("keys: {field} = {value} must be a number {bound}")]
pub struct KeysError {
    field: &'static str,
    value: f64,
    bound: &'static str,
}

impl Distribution {
    /// Checks that the distribution is valid.
    ///
    /// # Errors
    /// [`KeysError`] with the field and the value.
    pub fn check(self) -> Result<(), KeysError> {
        let must = |fits: bool, field, value, bound| match fits {
            true => Ok(()),
            false => Err(KeysError {
                field,
                value,
                bound,
            }),
        };
        let positive = |value: f64| value.is_finite() && value > 0.0;
        match self {
            Self::Uniform | Self::Sequential => Ok(()),
            Self::Zipf(exponent) => must(positive(exponent), "zipf", exponent, "above 0"),
            Self::Latest(exponent) => must(positive(exponent), "latest", exponent, "above 0"),
            Self::Hotspot {
                objects,
                operations,
            } => {
                let fits = objects > 0.0 && objects <= 1.0;
                must(fits, "hotspot.objects", objects, "above 0 and at most 1")?;
                let fits = (0.0..=1.0).contains(&operations);
                must(fits, "hotspot.operations", operations, "from 0 to 1")
            }
        }
    }

    /// Returns a picker of `objects` objects.
    ///
    /// # Panics
    /// `objects` is 0.
    #[must_use]
    pub fn over(self, seed: u64, objects: u64) -> Picker {
        assert!(objects > 0, "keys are picked from one object and more");
        let rule = match self {
            Self::Uniform => Rule::Uniform,
            Self::Sequential => Rule::Sequential,
            Self::Zipf(exponent) => Rule::Zipf(
                Zipf::new(objects, exponent),
                Permutation::new(seed, objects),
            ),
            Self::Latest(exponent) => Rule::Latest(Zipf::new(objects, exponent)),
            Self::Hotspot {
                objects: part,
                operations,
            } => Rule::Hotspot {
                hot: ((objects as f64 * part).ceil() as u64).clamp(1, objects),
                operations,
                order: Permutation::new(seed, objects),
            },
        };
        Picker {
            seed,
            objects,
            rule,
        }
    }
}

/// Writes the distribution as part of a case's name, like `zipf-0.99`.
impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Sequential => f.write_str("sequential"),
            Self::Zipf(exponent) => write!(f, "zipf-{exponent}"),
            Self::Latest(exponent) => write!(f, "latest-{exponent}"),
            Self::Hotspot {
                objects,
                operations,
            } => write!(f, "hotspot-{objects}-of-objects-{operations}-of-operations"),
        }
    }
}

/// Picks the object of each operation.
#[derive(Debug, Clone)]
pub struct Picker {
    seed: u64,
    objects: u64,
    rule: Rule,
}

#[derive(Debug, Clone)]
enum Rule {
    Uniform,
    Sequential,
    Zipf(Zipf, Permutation),
    Latest(Zipf),
    Hotspot {
        hot: u64,
        operations: f64,
        order: Permutation,
    },
}

impl Picker {
    /// Returns the number of the object that operation `n` uses. O(1).
    #[must_use]
    pub fn object_of(&self, n: u64) -> u64 {
        if let Rule::Sequential = self.rule {
            return n % self.objects;
        }
        let mut random = generator(self.seed, Stream::Operations, n);
        match &self.rule {
            Rule::Uniform => below(&mut random, self.objects),
            Rule::Sequential => n % self.objects,
            Rule::Zipf(zipf, order) => order.of(zipf.sample(&mut random) - 1),
            Rule::Latest(zipf) => self.objects - zipf.sample(&mut random),
            Rule::Hotspot {
                hot,
                operations,
                order,
            } => {
                let is_hot = uniform(&mut random) <= *operations;
                let rank = match is_hot || *hot == self.objects {
                    true => below(&mut random, *hot),
                    false => hot + below(&mut random, self.objects - hot),
                };
                order.of(rank)
            }
        }
    }
}

#[cfg(test)]
mod tests;
