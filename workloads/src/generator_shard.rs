//! The shard of a load that one of several generators has.
//!
//! A load's connections and clients are numbered, and number k belongs to shard k mod n. A
//! connection has its own arrivals and its own operation numbers, whoever opens it, so that the
//! shards of a load make the operations of the whole load, at the same intended starts, each once.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One of n generators that make a load together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GeneratorShard {
    index: u32,
    count: NonZeroU32,
}

/// An invalid shard.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GeneratorShardError {
    /// Not two numbers with a slash.
    #[error(
        "`{0}` is not I/N, as 0/8: the number of this generator, from 0, and how many there are"
    )]
    Malformed(String),
    /// No generator at all.
    #[error("`{0}` is of 0 generators, and 1 is the least")]
    NoGenerator(String),
    /// A number that none of them has.
    #[error("generator {index} of {count}: their numbers are from 0 to {}", .count - 1)]
    OutOfRange {
        /// The number.
        index: u32,
        /// How many there are.
        count: u32,
    },
}

impl GeneratorShard {
    /// The only generator: it has the whole load.
    pub const WHOLE: Self = Self {
        index: 0,
        count: NonZeroU32::MIN,
    };

    /// Returns generator `index`, from 0, of `count`.
    ///
    /// # Errors
    /// [`GeneratorShardError::OutOfRange`] where there are not as many.
    pub fn new(index: u32, count: NonZeroU32) -> Result<Self, GeneratorShardError> {
        match index < count.get() {
            true => Ok(Self { index, count }),
            false => Err(GeneratorShardError::OutOfRange {
                index,
                count: count.get(),
            }),
        }
    }

    /// Returns its number, from 0.
    #[must_use]
    pub fn index(self) -> u32 {
        self.index
    }

    /// Returns how many generators there are.
    #[must_use]
    pub fn count(self) -> u32 {
        self.count.get()
    }

    /// Returns whether there is no other.
    #[must_use]
    pub fn is_whole(self) -> bool {
        self.count.get() == 1
    }

    /// Returns which of `total` numbers, from 0, are its own, ascending.
    pub fn numbers(self, total: u32) -> impl Iterator<Item = u32> {
        (self.index..total).step_by(self.count.get() as usize)
    }

    /// Returns its share of a sequence: the elements whose places are its own.
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

/// Writes it as it is read: `0/8`.
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
