//! Finds a shard of uids by testing every object's hash. The leaves of the tree contain the upper
//! halves of the hashes in an array, so objects of other shards are skipped without reading their
//! memory.

use std::sync::Arc;
use std::vec;

use index::{Cursor, Item, Totals};
use kube_api::ShardSelector;

use super::hash_filter::{BLOCK, HashFilter, bits};
use crate::resource::object::Object;

/// The number of objects that are tested before the task yields to others of its thread: 0.25 ms if
/// the leaves are scattered in memory.
const OBJECTS_PER_TURN: usize = 32_768;

/// An iterator over a shard of uids. Skipping an object of another shard takes about 7 ns, spent
/// waiting for leaves from memory, or a sixth of 1 ns if the leaves are in the processor's cache.
#[derive(Debug, Clone)]
pub(crate) struct FilteredScan {
    objects: Cursor<Object>,
    filter: Arc<HashFilter>,
    /// The number of objects left in the current block.
    block: usize,
    /// Which of the objects left are in the shard, one bit each.
    found: u64,
    /// The same for each of the following blocks, if all of them have been tested already.
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

    /// Returns how many objects the iterator will return, and the sum of their lengths. To be
    /// called before the first is returned. The results of the tests are kept, one bit per object,
    /// and not computed again.
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
            objects.advance(len);
            passed += len;
            if passed >= OBJECTS_PER_TURN {
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
        self.objects.advance(others as usize);
        self.evaluated += 1;
        self.objects.next_ref()
    }

    /// Advances to the next block with an object of the shard, unless the current one has more. At
    /// the end, `found` is 0.
    fn find(&mut self) {
        while self.found == 0 {
            self.objects.advance(std::mem::take(&mut self.block));
            // Some of these objects are read. Therefore the items, not only the hashes, of the next
            // leaf are prefetched.
            let upcoming = block(self.objects.upcoming());
            let (block, found) = match self.known.next() {
                Some(found) => (upcoming, found),
                None => filter_block(&mut self.objects, &self.filter),
            };
            if block.is_empty() {
                return;
            }
            (self.block, self.found) = (block.len(), found);
            // The memory that is read to send these objects is scattered. Without prefetching, each
            // read would have to wait.
            bits(found).for_each(|bit| block[bit].prefetch());
        }
    }
}

/// Returns the next block of objects, and which of them are in the shard.
fn filter_block<'o>(objects: &'o mut Cursor<Object>, filter: &HashFilter) -> (&'o [Object], u64) {
    let (halves, objects) = objects.upcoming_tagged();
    let (halves, objects) = (block(halves), block(objects));
    let found = filter.find(halves, |at| objects[at].uid_hash());
    (objects, found)
}

/// Returns the first [`BLOCK`] elements: as many as a filter tests at a time.
fn block<E>(upcoming: &[E]) -> &[E] {
    &upcoming[..upcoming.len().min(BLOCK)]
}
