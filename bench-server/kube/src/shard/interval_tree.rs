//! An interval tree: finds the ranges of hashes that contain a given hash.

use kube_api::ShardRange;

/// A balanced tree of ranges, each with a value. The ranges are a sorted list. The middle element
/// of a part of the list is the root of that part, and stores the highest hash in the part. A
/// search takes O(log n + ranges found), regardless of how ranges overlap.
#[derive(Debug)]
pub(crate) struct IntervalTree<T> {
    /// The ranges in ascending order.
    ranges: Vec<(ShardRange, T)>,
    /// For each range, the highest hash in the part of the list whose middle it is.
    reach: Vec<u64>,
}

impl<T> IntervalTree<T> {
    /// Builds the tree. Takes O(n log n).
    pub(crate) fn new(mut ranges: Vec<(ShardRange, T)>) -> Self {
        ranges.sort_unstable_by_key(|(range, _)| *range);
        let mut reach = vec![0; ranges.len()];
        measure(&ranges, &mut reach);
        Self { ranges, reach }
    }

    /// Calls `see` with the value of every range that contains `hash`.
    pub(crate) fn find(&self, hash: u64, mut see: impl FnMut(&T)) {
        search(&self.ranges, &self.reach, hash, &mut see);
    }
}

fn measure<T>(ranges: &[(ShardRange, T)], reach: &mut [u64]) -> u64 {
    let Some((left, (range, _), right)) = halves(ranges) else {
        return 0;
    };
    let (reach_left, rest) = reach.split_at_mut(left.len());
    let farthest = measure(left, reach_left).max(measure(right, &mut rest[1..]));
    rest[0] = farthest.max(range.last());
    rest[0]
}

fn search<T>(ranges: &[(ShardRange, T)], reach: &[u64], hash: u64, see: &mut impl FnMut(&T)) {
    let Some((left, (range, value), right)) = halves(ranges) else {
        return;
    };
    if reach[left.len()] < hash {
        return;
    }
    search(left, &reach[..left.len()], hash, see);
    if range.first() > hash {
        return;
    }
    if range.contains(hash) {
        see(value);
    }
    search(right, &reach[left.len() + 1..], hash, see);
}

/// Returns the elements before the middle, the middle, and the elements after it.
fn halves<E>(entries: &[E]) -> Option<(&[E], &E, &[E])> {
    let (left, rest) = entries.split_at(entries.len() / 2);
    let (middle, right) = rest.split_first()?;
    Some((left, middle, right))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_found_is_what_holds_the_hash(
            bounds in vec((0_u64..50, 1_u128..50), 0..40),
            hashes in vec(0_u64..110, 20),
        ) {
            let range = |(start, width): (u64, u128)| ShardRange::new(start, u128::from(start) + width);
            let ranges = bounds.into_iter().filter_map(range).enumerate();
            let ranges: Vec<_> = ranges.map(|(i, range)| (range, i)).collect();
            let intervals = IntervalTree::new(ranges.clone());
            for hash in hashes {
                let mut found = Vec::new();
                intervals.find(hash, |i| found.push(*i));
                found.sort_unstable();
                let holds = ranges.iter().filter(|(range, _)| range.contains(hash));
                let expected: Vec<_> = holds.map(|(_, i)| *i).collect();
                prop_assert_eq!(found, expected, "{}", hash);
            }
        }
    }

    #[test]
    fn the_highest_hash_is_found() {
        let intervals = IntervalTree::new(vec![(ShardRange::WHOLE, ())]);
        for hash in [0, 1 << 63, u64::MAX] {
            let mut found = 0;
            intervals.find(hash, |()| found += 1);
            assert_eq!(found, 1);
        }
    }
}
