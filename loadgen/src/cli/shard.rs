//! The argument of `--shard`, the number of this generator among several: `0/8`, or `auto/8` in an
//! Indexed Job.

use std::num::NonZeroU32;
use std::str::FromStr;

use workloads::{GeneratorShard, GeneratorShardError};

/// The environment variable in which Kubernetes gives each pod of an Indexed Job its number, from
/// 0.
pub const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";

/// The placeholder for a number that is read from the environment.
const AUTO: &str = "auto";

/// The value of `--shard`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardArg {
    /// The number is given.
    Given(GeneratorShard),
    /// The number is read from [`INDEX_VARIABLE`].
    FromJob {
        /// The number of generators.
        count: NonZeroU32,
    },
}

/// An error while reading the number of this generator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShardArgError {
    /// The variable is not set.
    #[error(
        "--shard auto/{0}: {INDEX_VARIABLE} is not set, which Kubernetes sets in pods of an Indexed Job"
    )]
    NoIndex(NonZeroU32),
    /// The variable is not a number.
    #[error("--shard auto/{count}: {INDEX_VARIABLE}=`{text}` is no number from 0")]
    NoNumber {
        /// The number of generators.
        count: NonZeroU32,
        /// The value of the variable.
        text: String,
    },
    /// The number is not less than the number of generators.
    #[error("--shard auto/{count}, {INDEX_VARIABLE}={index}: {source}")]
    OutOfRange {
        /// The number of generators.
        count: NonZeroU32,
        /// The value of the variable.
        index: u32,
        /// The cause.
        source: GeneratorShardError,
    },
}

impl ShardArg {
    /// Returns the number of this generator; `index` is the value of [`INDEX_VARIABLE`].
    ///
    /// # Errors
    /// [`ShardArgError`] if the number must be read from the variable, and the variable has no
    /// valid one.
    pub fn resolved(self, index: Option<&str>) -> Result<GeneratorShard, ShardArgError> {
        let count = match self {
            Self::Given(shard) => return Ok(shard),
            Self::FromJob { count } => count,
        };
        let text = index.ok_or(ShardArgError::NoIndex(count))?;
        let index = text.parse().map_err(|_| ShardArgError::NoNumber {
            count,
            text: text.to_owned(),
        })?;
        GeneratorShard::new(index, count).map_err(|source| ShardArgError::OutOfRange {
            count,
            index,
            source,
        })
    }
}

impl FromStr for ShardArg {
    type Err = GeneratorShardError;

    fn from_str(text: &str) -> Result<Self, GeneratorShardError> {
        let Some(count) = text.strip_prefix(AUTO).and_then(|t| t.strip_prefix('/')) else {
            return text.parse().map(Self::Given);
        };
        // Parsed as shard 0, which every count has, to return the same errors.
        let first: GeneratorShard = format!("0/{count}").parse().map_err(|error| match error {
            GeneratorShardError::NoGenerator(_) => {
                GeneratorShardError::NoGenerator(text.to_owned())
            }
            _ => GeneratorShardError::Malformed(text.to_owned()),
        })?;
        let count = NonZeroU32::new(first.count()).expect("a shard is one of some");
        Ok(Self::FromJob { count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(text: &str, index: Option<&str>) -> Result<String, String> {
        let shard: ShardArg = text
            .parse()
            .map_err(|error: GeneratorShardError| error.to_string())?;
        let shard = shard.resolved(index).map_err(|error| error.to_string())?;
        Ok(shard.to_string())
    }

    #[test]
    fn the_number_is_typed_or_kubernetes_has_it() {
        assert_eq!(resolved("2/8", Some("5")).as_deref(), Ok("2/8"));
        assert_eq!(resolved("auto/8", Some("5")).as_deref(), Ok("5/8"));
    }

    #[test]
    fn a_number_that_nobody_has_is_refused() {
        let refused = |text, index| resolved(text, index).expect_err(text);
        assert!(refused("auto/8", None).contains("JOB_COMPLETION_INDEX is not set"));
        assert!(refused("auto/8", Some("")).contains("is no number"));
        assert!(refused("auto/8", Some("-1")).contains("is no number"));
        assert!(refused("auto/8", Some("8")).contains("from 0 to 7"));
        assert!(refused("auto/0", Some("0")).contains("`auto/0` is of 0"));
        for text in ["auto", "auto/", "auto/x", "automatic/8"] {
            assert!(refused(text, Some("0")).contains("is not I/N"), "{text}");
        }
    }
}
