//! Tests which objects of a block are in a shard of uids. In nearly all cases the upper halves of
//! their hashes suffice.

use kube_api::ShardSelector;

/// The number of objects that are tested at a time: the bits of the result.
pub(super) const BLOCK: usize = u64::BITS as usize;

/// Up to this number of ranges and edges, the block is tested against each, which takes about 100
/// instructions. With more, each half is searched for among them: a few dozen instructions, with
/// branches that no processor predicts.
const MAX_TESTED_RANGES: usize = 8;

/// A filter for a shard, expressed in upper halves of hashes.
#[derive(Debug)]
pub(super) struct HashFilter {
    /// The ranges (first and last) of halves that are in the shard regardless of the lower half, in
    /// ascending order.
    inside: Vec<(u32, u32)>,
    /// The halves in which a range begins or ends, in ascending order. For these, the lower half
    /// decides.
    edges: Vec<u32>,
    selector: ShardSelector,
}

impl HashFilter {
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
                // There is no half below 0.
                match to.checked_sub(1) {
                    Some(before) => to = before,
                    None => continue,
                }
            }
            if from <= to {
                inside.push((from as u32, to as u32));
            }
        }
        // A range may begin where another ends.
        edges.dedup();
        Self {
            inside,
            edges,
            selector: selector.clone(),
        }
    }

    /// Returns which objects of a block are in the shard, one bit each, by the upper halves of
    /// their hashes. `whole` returns an object's whole hash. It is called for edges only: per
    /// range, for one object in 2^31.
    pub(super) fn find(&self, halves: &[u32], whole: impl Fn(usize) -> u64) -> u64 {
        debug_assert!(halves.len() <= BLOCK, "a bit for each");
        let (inside, on_edge) = if self.inside.len() + self.edges.len() <= MAX_TESTED_RANGES {
            let each = self.inside.iter();
            let inside = each.map(|&(first, last)| {
                let others = last - first;
                which(halves, |half| half.wrapping_sub(first) <= others)
            });
            let each = self.edges.iter();
            let on_edge = each.map(|&edge| which(halves, |half| half == edge));
            (union(inside), union(on_edge))
        } else {
            let on_edge = which(halves, |half| self.edges.binary_search(&half).is_ok());
            (which(halves, |half| self.is_inside(half)), on_edge)
        };
        let chosen = bits(on_edge).filter(|&at| self.selector.selects(whole(at)));
        union(chosen.map(|at| 1 << at)) | inside
    }

    fn is_inside(&self, half: u32) -> bool {
        let at = self.inside.partition_point(|&(_, last)| last < half);
        self.inside.get(at).is_some_and(|&(first, _)| first <= half)
    }
}

/// Returns an iterator over the positions of the bits that are set, from the lowest.
pub(super) fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = set.trailing_zeros() as usize;
        set &= set.checked_sub(1)?;
        Some(lowest)
    })
}

fn union(sets: impl Iterator<Item = u64>) -> u64 {
    sets.fold(0, |all, set| all | set)
}

/// The single bits of a word, in a table beside the halves: most processors can shift the lanes of
/// a vector only by the same distance.
const WORD: [u32; 32] = {
    let mut word = [0; 32];
    let mut at = 0;
    while at < word.len() {
        word[at] = 1 << at;
        at += 1;
    }
    word
};

/// Returns which halves of a block pass a test, one bit each. A test without branches is compiled
/// to vector instructions, which test several halves at once.
#[inline]
fn which(halves: &[u32], test: impl Fn(u32) -> bool) -> u64 {
    let words = halves
        .chunks(WORD.len())
        .take(BLOCK / WORD.len())
        .enumerate();
    union(words.map(|(at, halves)| {
        let bits = halves.iter().zip(&WORD);
        let word = bits.fold(0, |word, (half, bit)| {
            word | if test(*half) { *bit } else { 0 }
        });
        u64::from(word) << (at * WORD.len())
    }))
}

#[cfg(test)]
mod tests {
    use kube_api::{ShardKey, ShardRange};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Generates a bound: on the edge of a half or beside it, close to the ends, or anywhere.
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

    /// Generates a range of at most four halves.
    fn narrow() -> impl Strategy<Value = ShardRange> {
        (any::<u64>(), 1_u128..=1 << 34)
            .prop_filter_map("a range beyond the end", |(first, len)| {
                ShardRange::new(first, u128::from(first) + len)
            })
    }

    /// Generates few ranges, or so many that halves are searched for among them.
    fn ranges() -> impl Strategy<Value = Vec<ShardRange>> {
        prop_oneof![vec(range(), 1..5), vec(narrow(), MAX_TESTED_RANGES + 1..40)]
    }

    proptest! {
        #[test]
        fn a_sieve_finds_what_the_selector_selects(ranges in ranges(), hashes in vec(any::<u64>(), 8), block in 1..=BLOCK) {
            let first = ShardSelector::new(ShardKey::Uid, ranges[0]);
            let selector = ranges[1..].iter().copied().fold(first, ShardSelector::or);
            let filter = HashFilter::new(&selector);
            let within = |range: &ShardRange| range.first().midpoint(range.last());
            let around = ranges.iter().flat_map(|range| [range.first(), within(range), range.last()]);
            let around = around.flat_map(|hash| [hash, hash.wrapping_sub(1), hash.wrapping_add(1), hash ^ 0xffff_ffff]);
            let hashes: Vec<_> = around.chain(hashes).collect();
            for hashes in hashes.chunks(block) {
                let halves: Vec<_> = hashes.iter().map(|hash| (hash >> 32) as u32).collect();
                let found = filter.find(&halves, |at| hashes[at]);
                let selected = (0..hashes.len()).filter(|&at| selector.selects(hashes[at]));
                prop_assert_eq!(bits(found).collect::<Vec<_>>(), selected.collect::<Vec<_>>(), "{:x?}", hashes);
            }
        }
    }
}
