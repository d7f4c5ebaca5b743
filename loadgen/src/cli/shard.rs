//! Which of several generators this is, as it is typed: `0/8`, or `auto/8` in an Indexed Job.

use std::num::NonZeroU32;
use std::str::FromStr;

use workloads::{GeneratorShard, GeneratorShardError};

/// The environment variable that Kubernetes gives the pods of an Indexed Job: each its number, from
/// 0.
pub const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";

/// What stands for a number that the environment has.
const AUTO: &str = "auto";

/// `--shard`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardArg {
    /// By its number.
    Given(GeneratorShard),
    /// The number is in [`INDEX_VARIABLE`].
    FromJob {
        /// How many generators there are.
        count: NonZeroU32,
    },
}

/// Why the number of this generator is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShardArgError {
    /// Nothing set it.
    #[error(
        "--shard auto/{0}: {INDEX_VARIABLE} is not set, which Kubernetes sets in pods of an Indexed Job"
    )]
    NoIndex(NonZeroU32),
    /// It is no number.
    #[error("--shard auto/{count}: {INDEX_VARIABLE}=`{text}` is no number from 0")]
    NoNumber {
        /// How many generators there are.
        count: NonZeroU32,
        /// What is in the variable.
        text: String,
    },
    /// There are not as many generators.
    #[error("--shard auto/{count}, {INDEX_VARIABLE}={index}: {source}")]
    OutOfRange {
        /// How many generators there are.
        count: NonZeroU32,
        /// What is in the variable.
        index: u32,
        /// What is wrong with it.
        source: GeneratorShardError,
    },
}

impl ShardArg {
    /// Returns which generator this is; `index` is what [`INDEX_VARIABLE`] says.
    ///
    /// # Errors
    /// [`ShardArgError`] where the number is asked of the variable and not in it.
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
        // As a shard that every count has, for the same errors.
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
