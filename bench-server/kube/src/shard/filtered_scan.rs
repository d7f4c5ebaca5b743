//! The objects of a shard in a tree of all: the others are passed over by the halves of their hashes, which lie side
//! by side in the leaves, so that their own memory is not touched.

use std::sync::Arc;
use std::vec;

use index::{Cursor, Item, Totals};
use kube_api::ShardSelector;

use super::hash_filter::{BLOCK, HashFilter, bits};
use crate::resource::object::Object;

/// Objects that are passed before others on the same thread get their turn: a quarter of a millisecond where leaves lie anywhere in memory.
const TURN: usize = 32_768;

/// Reads a shard of uids. Some seven nanoseconds for each object of others, which is waiting for leaves; a sixth of one where they are at hand.
#[derive(Debug, Clone)]
pub(crate) struct FilteredScan {
    objects: Cursor<Object>,
    filter: Arc<HashFilter>,
    /// What is left of the present block.
    block: usize,
    /// Which objects of that are in the shard, one bit each.
    found: u64,
    /// The same of the blocks behind them, where all were sieved before.
    known: vec::IntoIter<u64>,
    evaluated: u64,
}

impl FilteredScan {
    pub(crate) fn new(objects: Cursor<Object>, selector: &ShardSelector) -> Self {
        Self {
            objects,
            filter: Arc::new(HashFilter::new(selector)),
            block: 0,
            found: 0,
            known: Vec::new().into_iter(),
            evaluated: 0,
        }
    }

    /// How many objects there are to read, and what they weigh, before the first is read. What was found for that is not
    /// sieved again, at the price of a bit an object.
    pub(crate) async fn totals(&mut self) -> Totals {
        let mut objects = self.objects.clone();
        let (mut totals, mut known, mut passed) = (Totals::default(), Vec::new(), 0);
        loop {
            let (block, found) = filter_block(&mut objects, &self.filter);
            if block.is_empty() {
                break;
            }
            totals.count += u64::from(found.count_ones());
            totals.weight += bits(found).map(|bit| block[bit].weight()).sum::<u64>();
            known.push(found);
            let len = block.len();
            objects.pass(len);
            passed += len;
            if passed >= TURN {
                passed = 0;
                tokio::task::yield_now().await;
            }
        }
        self.known = known.into_iter();
        totals
    }

    pub(crate) fn evaluated(&self) -> u64 {
        self.evaluated
    }

    pub(crate) fn is_exhausted(&mut self) -> bool {
        self.find();
        self.found == 0
    }

    pub(crate) fn next_ref(&mut self) -> Option<&Object> {
        self.find();
        if self.found == 0 {
            return None;
        }
        let others = self.found.trailing_zeros();
        self.found = self.found >> others >> 1;
        self.block -= others as usize + 1;
        self.objects.pass(others as usize);
        self.evaluated += 1;
        self.objects.next_ref()
    }

    /// Goes on until an object of the shard is found, or none is left.
    fn find(&mut self) {
        while self.found == 0 {
            self.objects.pass(std::mem::take(&mut self.block));
            // Some of these are read, so that it is the items that are fetched with the next leaf.
            let upcoming = block(self.objects.upcoming());
            let (block, found) = match self.known.next() {
                Some(found) => (upcoming, found),
                None => filter_block(&mut self.objects, &self.filter),
            };
            if block.is_empty() {
                return;
            }
            (self.block, self.found) = (block.len(), found);
            // What will be read of them lies anywhere in memory: fetched one by one, each is waited for.
            bits(found).for_each(|bit| block[bit].prefetch());
        }
    }
}

/// The next block of objects, and which of them are in the shard.
fn filter_block<'o>(objects: &'o mut Cursor<Object>, filter: &HashFilter) -> (&'o [Object], u64) {
    let (halves, objects) = objects.upcoming_tagged();
    let (halves, objects) = (block(halves), block(objects));
    let found = filter.find(halves, |at| objects[at].uid_hash());
    (objects, found)
}

/// The first [`BLOCK`] of them: a sieve tests that many at a time.
fn block<E>(upcoming: &[E]) -> &[E] {
    &upcoming[..upcoming.len().min(BLOCK)]
}
