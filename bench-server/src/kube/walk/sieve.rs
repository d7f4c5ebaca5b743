//! Whether an object is in a shard of uids, told by the higher half of its hash wherever that is enough.

use kube_api::ShardSelector;

use crate::kube::object::Object;

/// A shard as halves of hashes.
#[derive(Debug)]
pub(super) struct Sieve {
    /// Halves that are in the shard whatever the other half is: first and last, ascending.
    inside: Vec<(u32, u32)>,
    /// Halves at which a range begins or ends, ascending: the whole hash decides.
    edges: Vec<u32>,
    selector: ShardSelector,
}

impl Sieve {
    pub(super) fn new(selector: &ShardSelector) -> Self {
        let (mut inside, mut edges) = (Vec::new(), Vec::new());
        for span in selector.spans() {
            let (first, last) = (span.first(), span.last());
            let (mut from, mut to) = (first >> 32, last >> 32);
            if first as u32 != 0 {
                edges.push(from as u32);
                from += 1;
            }
            if last as u32 != u32::MAX {
                edges.push(to as u32);
                // Below zero nothing is inside.
                match to.checked_sub(1) {
                    Some(before) => to = before,
                    None => continue,
                }
            }
            if from <= to {
                inside.push((from as u32, to as u32));
            }
        }
        Self {
            inside,
            edges,
            selector: selector.clone(),
        }
    }

    /// Which of up to 64 objects are in the shard, one bit each.
    pub(super) fn find(&self, objects: &[Object]) -> u64 {
        let bits = objects.iter().enumerate();
        let bits = bits.map(|(bit, object)| u64::from(self.selects(object)) << bit);
        bits.fold(0, |found, bit| found | bit)
    }

    /// Whether an object is in the shard. Its buffer is looked at only on an edge: one object in 2^31 for each range.
    fn selects(&self, object: &Object) -> bool {
        self.selects_hash(object.hash_high(), || object.uid_hash())
    }

    fn selects_hash(&self, half: u32, whole: impl FnOnce() -> u64) -> bool {
        let at = self.inside.partition_point(|&(_, last)| last < half);
        if self.inside.get(at).is_some_and(|&(first, _)| first <= half) {
            return true;
        }
        self.edges.binary_search(&half).is_ok() && self.selector.selects(whole())
    }
}

#[cfg(test)]
mod tests {
    use kube_api::{ShardKey, ShardRange};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// A bound: on the edge of a half or beside it, close to the ends, anywhere.
    fn bound() -> impl Strategy<Value = u128> {
        prop_oneof![
            (0_u128..=4, -1_i128..=1).prop_map(|(half, beside)| {
                (((half as i128) << 32) + beside).clamp(0, 1 << 64) as u128
            }),
            (0_u128..=1 << 33).prop_map(|below| (1 << 64) - below),
            (0_u128..=1 << 64),
        ]
    }

    fn range() -> impl Strategy<Value = ShardRange> {
        (bound(), bound()).prop_filter_map("an empty range", |(one, other)| {
            ShardRange::new(u64::try_from(one.min(other)).ok()?, one.max(other))
        })
    }

    proptest! {
        #[test]
        fn a_sieve_tells_what_the_selector_does(ranges in vec(range(), 1..5), hashes in vec(any::<u64>(), 8)) {
            let first = ShardSelector::new(ShardKey::Uid, ranges[0]);
            let selector = ranges[1..].iter().copied().fold(first, ShardSelector::or);
            let sieve = Sieve::new(&selector);
            let around = ranges.iter().flat_map(|range| [range.first(), range.last()]);
            let around = around.flat_map(|hash| [hash, hash.wrapping_sub(1), hash.wrapping_add(1), hash ^ 0xffff_ffff]);
            for hash in around.chain(hashes) {
                let told = sieve.selects_hash((hash >> 32) as u32, || hash);
                prop_assert_eq!(told, selector.selects(hash), "{:#x}", hash);
            }
        }
    }
}
