//! `shardSelector`: ranges of a hash, by which the objects of a resource are divided into shards
//! (KEP-5866).
//!
//! A selector names a field of objects, and ranges for the [hash](crate::hash) of that field:
//! `shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000') || …`. An apiserver
//! parses it with CEL's parser. [`lexer`] and [`syntax`] implement the part of CEL that is needed
//! to reject everything else with the same text; [`ranges`] extracts the ranges from the
//! expression.
//!
//! This module contains the selector, its canonical form (which `metadata.shardInfo` returns), and
//! the division into equal shards.

mod error;
mod lexer;
mod ranges;
mod syntax;
#[cfg(test)]
mod tests;

use std::fmt;
use std::num::NonZeroU32;

use crate::hash::fnv1a_64;

/// The highest hash plus one.
const END: u128 = 1 << 64;

/// The field that is hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ShardKey {
    /// `metadata.uid`: spreads objects evenly where uids are random.
    Uid,
    /// `metadata.namespace`: keeps the objects of a namespace in one shard. Names that differ only
    /// at their ends have similar hashes, so equal ranges give very unequal shards.
    Namespace,
}

impl ShardKey {
    /// Both keys.
    pub const ALL: [Self; 2] = [Self::Uid, Self::Namespace];

    /// Returns the path of the field in selectors.
    pub fn path(self) -> &'static str {
        match self {
            Self::Uid => "object.metadata.uid",
            Self::Namespace => "object.metadata.namespace",
        }
    }

    /// Returns the hash of an object with these fields: the 64-bit FNV-1a hash of the stored text.
    pub fn hash(self, uid: &[u8], namespace: &[u8]) -> u64 {
        fnv1a_64(match self {
            Self::Uid => uid,
            Self::Namespace => namespace,
        })
    }
}

/// A half-open range of hashes; never empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardRange {
    first: u64,
    last: u64,
}

impl ShardRange {
    /// Every hash.
    pub const WHOLE: Self = Self {
        first: 0,
        last: u64::MAX,
    };

    /// Returns the range `start <= hash < end`; `None` unless `start < end` and `end` is at most
    /// 2^64.
    pub fn new(start: u64, end: u128) -> Option<Self> {
        (u128::from(start) < end && end <= END).then(|| Self {
            first: start,
            last: (end - 1) as u64,
        })
    }

    /// Returns the first hash.
    pub fn first(self) -> u64 {
        self.first
    }

    /// Returns the last hash, which is the end minus one.
    pub fn last(self) -> u64 {
        self.last
    }

    /// Returns the end, which is excluded and at most 2^64.
    pub fn end(self) -> u128 {
        u128::from(self.last) + 1
    }

    /// Returns whether a hash is in the range.
    pub fn contains(self, hash: u64) -> bool {
        (self.first..=self.last).contains(&hash)
    }
}

/// Selects the objects whose hash lies in one of several ranges.
#[derive(Debug, Clone)]
pub struct ShardSelector {
    key: ShardKey,
    /// The ranges as given: they may overlap, be adjacent and have gaps.
    ranges: Vec<ShardRange>,
    /// The same hashes as ascending ranges with gaps between them.
    spans: Vec<ShardRange>,
}

impl ShardSelector {
    /// Returns a selector of one range of the hashes of a field.
    pub fn new(key: ShardKey, range: ShardRange) -> Self {
        Self {
            key,
            ranges: vec![range],
            spans: vec![range],
        }
    }

    /// Adds a range.
    #[must_use]
    pub fn or(mut self, range: ShardRange) -> Self {
        self.ranges.push(range);
        self.spans = merged(&self.ranges);
        self
    }

    fn from_ranges(key: ShardKey, ranges: Vec<ShardRange>) -> Self {
        let spans = merged(&ranges);
        Self { key, ranges, spans }
    }

    /// Divides the hashes into `shards` ranges, whose sizes differ by at most one hash, and returns
    /// a selector for each.
    pub fn equal_shards(key: ShardKey, shards: NonZeroU32) -> Vec<Self> {
        let count = u128::from(shards.get());
        let start = |shard: u128| shard * END / count;
        (0..count)
            .filter_map(|shard| ShardRange::new(start(shard) as u64, start(shard + 1)))
            .map(|range| Self::new(key, range))
            .collect()
    }

    /// Parses a selector. The empty text is an error: the caller handles absent and empty
    /// parameters, which select everything. Costs a pass over the text.
    ///
    /// # Errors
    /// Rejects what an apiserver rejects, with the same text, except that an apiserver's parser
    /// appends details to syntax errors.
    pub fn parse(text: &str) -> Result<Self, ShardSelectorError> {
        ranges::parse(text)
    }

    /// Returns the field that is hashed.
    pub fn key(&self) -> ShardKey {
        self.key
    }

    /// Returns the ranges as given.
    pub fn ranges(&self) -> &[ShardRange] {
        &self.ranges
    }

    /// Returns the selected hashes as ascending ranges with gaps between them.
    pub fn spans(&self) -> &[ShardRange] {
        &self.spans
    }

    /// Returns the selected fraction of all hashes, from 0 to 1.
    pub fn share(&self) -> f64 {
        let widths = self
            .spans
            .iter()
            .map(|span| span.end() - u128::from(span.first));
        widths.sum::<u128>() as f64 / END as f64
    }

    /// Returns whether objects with this hash are selected. O(log ranges).
    pub fn selects(&self, hash: u64) -> bool {
        let at = self.spans.partition_point(|span| span.last < hash);
        self.spans.get(at).is_some_and(|span| span.contains(hash))
    }
}

/// Selectors are equal if their canonical texts are equal; different ones may select the same
/// hashes.
impl PartialEq for ShardSelector {
    fn eq(&self, other: &Self) -> bool {
        (self.key, &self.ranges) == (other.key, &other.ranges)
    }
}

impl Eq for ShardSelector {}

/// Writes the canonical form: the ranges in the given order, with 16 digits per bound (17 for
/// 2^64).
impl fmt::Display for ShardSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, range) in self.ranges.iter().enumerate() {
            let or = if i == 0 { "" } else { " || " };
            let (path, first, end) = (self.key.path(), range.first(), range.end());
            write!(f, "{or}shardRange({path}, '{first:#018x}', '{end:#018x}')")?;
        }
        Ok(())
    }
}

fn merged(ranges: &[ShardRange]) -> Vec<ShardRange> {
    let mut ascending = ranges.to_vec();
    ascending.sort_unstable();
    let mut spans: Vec<ShardRange> = Vec::with_capacity(ascending.len());
    for range in ascending {
        match spans.last_mut() {
            Some(span) if u128::from(range.first) <= span.end() => {
                span.last = span.last.max(range.last);
            }
            _ => spans.push(range),
        }
    }
    spans
}

/// The error for an invalid selector. The texts are an apiserver's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShardSelectorError {
    /// The text is empty or white space.
    #[error("empty shard selector is not allowed; omit the parameter for unfiltered lists")]
    Empty,
    /// Not a CEL expression.
    #[error("CEL parse error: {0}")]
    Syntax(String),
    /// A function or operator other than `shardRange()` and `||`.
    #[error("unsupported function {0:?}; only shardRange() and || are allowed")]
    Function(String),
    /// Neither a function call nor an operator. Contains CEL's number for the kind of the
    /// expression.
    #[error("unexpected expression kind {0}; expected shardRange() call or || operator")]
    Kind(u8),
    /// A number of arguments other than three.
    #[error("shardRange() requires exactly 3 arguments, got {0}")]
    Arguments(usize),
    /// The first argument is not a path.
    #[error(
        "shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind {0}"
    )]
    NoPath(u8),
    /// A path other than those of [`ShardKey`].
    #[error(
        "unsupported field path {0:?}; supported: object.metadata.uid, object.metadata.namespace"
    )]
    Path(String),
    /// Ranges of different fields in one selector.
    #[error("all shard ranges must use the same field, got {:?} and {:?}", .0.path(), .1.path())]
    Fields(ShardKey, ShardKey),
    /// An empty range.
    #[error("shard range start {start} must be less than end {end}")]
    Order {
        /// The range's start, as written.
        start: String,
        /// The range's end, as written.
        end: String,
    },
    /// An invalid bound.
    #[error("{bound}{why}")]
    Bound {
        /// The argument: `hexStart` or `hexEnd`.
        bound: &'static str,
        /// The reason why it is invalid.
        why: BoundError,
    },
}

/// The reason why a bound is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BoundError {
    /// Not a literal. Contains CEL's number for the kind of the expression.
    #[error(" must be a string literal (e.g. '0xff'), got expression kind {0}")]
    NoLiteral(u8),
    /// A literal of another type.
    #[error(" must be a string literal, got {0}")]
    NoText(&'static str),
    /// Digits without `0x`.
    #[error(" must have '0x' prefix, got {0:?}")]
    Prefix(String),
    /// `0x` without digits.
    #[error(": hex value is required after '0x'")]
    NoDigits,
    /// More than 17 digits.
    #[error(": hex value too long ({} chars, max 17): {digits:?}", .digits.len())]
    TooLong {
        /// The digits after `0x`.
        digits: String,
    },
    /// An invalid digit; upper-case digits are invalid.
    #[error(": invalid hex character {:?} in {text:?}", .digit.to_string())]
    Digit {
        /// The character.
        digit: char,
        /// The bound.
        text: String,
    },
    /// 17 digits that are not 2^64.
    #[error(": 17-digit hex value must be '0x10000000000000000' (2^64), got {0:?}")]
    TooLarge(String),
    /// Fewer than 16 digits.
    #[error(" must be a 0x-prefixed 16-digit hex value, got {0:?} (did you mean {1:?}?)")]
    TooShort(String, String),
}
