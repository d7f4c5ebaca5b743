//! The shard of a load that one of several generators runs.
//!
//! A load's connections and clients are numbered, and number k belongs to shard k mod n. The
//! arrivals and operation numbers of a connection do not depend on the generator that opens it.
//! Together, the shards of a load therefore run each operation of the whole load exactly once, at
//! the same intended start.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The shard of one of n generators that run a load together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GeneratorShard {
    index: u32,
    count: NonZeroU32,
}

/// An invalid shard.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GeneratorShardError {
    /// The text is not two numbers separated by a slash.
    #[error(
        "`{0}` is not I/N, as 0/8: the number of this generator, from 0, and how many there are"
    )]
    Malformed(String),
    /// The number of generators is 0.
    #[error("`{0}` is of 0 generators, and 1 is the least")]
    NoGenerator(String),
    /// The generator's number is not below the number of generators.
    #[error("generator {index} of {count}: their numbers are from 0 to {}", .count - 1)]
    OutOfRange {
        /// The generator's number.
        index: u32,
        /// The number of generators.
        count: u32,
    },
}

impl GeneratorShard {
    /// The shard of the only generator: the whole load.
    pub const WHOLE: Self = Self {
        index: 0,
        count: NonZeroU32::MIN,
    };

    /// Returns the shard of generator `index`, from 0, of `count`.
    ///
    /// # Errors
    /// [`GeneratorShardError::OutOfRange`] if `index` is not below `count`.
    pub fn new(index: u32, count: NonZeroU32) -> Result<Self, GeneratorShardError> {
        match index < count.get() {
            true => Ok(Self { index, count }),
            false => Err(GeneratorShardError::OutOfRange {
                index,
                count: count.get(),
            }),
        }
    }

    /// Returns the generator's number, from 0.
    #[must_use]
    pub fn index(self) -> u32 {
        self.index
    }

    /// Returns the number of generators.
    #[must_use]
    pub fn count(self) -> u32 {
        self.count.get()
    }

    /// Returns whether this is the only generator.
    #[must_use]
    pub fn is_whole(self) -> bool {
        self.count.get() == 1
    }

    /// Returns the numbers below `total` that belong to this shard, ascending.
    pub fn numbers(self, total: u32) -> impl Iterator<Item = u32> {
        (self.index..total).step_by(self.count.get() as usize)
    }

    /// Returns the elements of a sequence whose positions belong to this shard.
    pub fn of<I: Iterator>(self, all: I) -> impl Iterator<Item = I::Item> + use<I> {
        all.skip(self.index as usize)
            .step_by(self.count.get() as usize)
    }
}

impl FromStr for GeneratorShard {
    type Err = GeneratorShardError;

    fn from_str(text: &str) -> Result<Self, GeneratorShardError> {
        let malformed = || GeneratorShardError::Malformed(text.to_owned());
        let (index, count) = text.split_once('/').ok_or_else(malformed)?;
        let number = |part: &str| match part.bytes().all(|byte| byte.is_ascii_digit()) {
            true => part.parse::<u32>().map_err(|_| malformed()),
            false => Err(malformed()),
        };
        let (index, count) = (number(index)?, number(count)?);
        let count = NonZeroU32::new(count)
            .ok_or_else(|| GeneratorShardError::NoGenerator(text.to_owned()))?;
        Self::new(index, count)
    }
}

/// Writes the shard in the form that [`FromStr`] reads: `0/8`.
impl fmt::Display for GeneratorShard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl TryFrom<String> for GeneratorShard {
    type Error = GeneratorShardError;

    fn try_from(text: String) -> Result<Self, GeneratorShardError> {
        text.parse()
    }
}

impl From<GeneratorShard> for String {
    fn from(shard: GeneratorShard) -> Self {
        shard.to_string()
    }
}

#[cfg(test)]
mod tests;
