//! Key intervals, as etcd's `RangeRequest` defines them by `key` and `range_end`.

use std::ops::Bound;

/// Returns the `range_end` that selects every key with `prefix`: the prefix without trailing `0xff`
/// bytes, with its last byte incremented. If nothing remains or the prefix is empty, returns `\0`
/// ("to the end").
pub fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    match prefix.iter().rposition(|&b| b != 0xff) {
        Some(last) => {
            let mut end = prefix[..=last].to_vec();
            end[last] += 1;
            end
        }
        None => vec![0],
    }
}

/// The keys that a `(key, range_end)` pair of a request selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyRange<'a> {
    /// `range_end` was empty: one key.
    One(&'a [u8]),
    /// Half-open bytewise interval `[start, end)`; selects nothing if `end <= start`.
    Between(&'a [u8], &'a [u8]),
    /// `range_end` was `\0`: every key from this one on.
    From(&'a [u8]),
}

impl<'a> KeyRange<'a> {
    /// Returns the interval that `key` and `range_end` define.
    pub fn new(key: &'a [u8], range_end: &'a [u8]) -> Self {
        match range_end {
            [] => Self::One(key),
            [0] => Self::From(key),
            end => Self::Between(key, end),
        }
    }

    /// Returns the first key of the interval.
    pub fn start(&self) -> &'a [u8] {
        match self {
            Self::One(k) | Self::Between(k, _) | Self::From(k) => k,
        }
    }

    /// Returns the end of the interval.
    pub fn end(&self) -> Bound<&'a [u8]> {
        match self {
            Self::One(k) => Bound::Included(k),
            Self::Between(_, e) => Bound::Excluded(e),
            Self::From(_) => Bound::Unbounded,
        }
    }

    /// Returns whether `key` is selected.
    pub fn contains(&self, key: &[u8]) -> bool {
        match self {
            Self::One(k) => key == *k,
            Self::Between(s, e) => *s <= key && key < *e,
            Self::From(s) => *s <= key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_end_drops_trailing_ff_and_adds_one() {
        assert_eq!(prefix_end(b"/registry/pods/"), b"/registry/pods0");
        assert_eq!(prefix_end(b"a\xff\xff"), b"b");
        assert_eq!(prefix_end(b"\xff\xff"), b"\0");
        assert_eq!(prefix_end(b""), b"\0");
    }

    #[test]
    fn an_interval_contains_what_etcd_selects() {
        assert!(KeyRange::new(b"a", b"").contains(b"a"));
        assert!(!KeyRange::new(b"a", b"").contains(b"a\0"));
        assert!(!KeyRange::new(b"b", b"a").contains(b"b"));
        assert!(KeyRange::new(b"b", b"\0").contains(b"zzz"));
        assert!(!KeyRange::new(b"b", b"\0").contains(b"a"));
    }
}
