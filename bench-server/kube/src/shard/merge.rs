//! Merges several runs of objects, each in key order, into one.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;

use index::Cursor;
use kube_api::ShardSelector;

use super::by_uid::ByUid;
use crate::resource::object::Object;

/// A run of objects in key order: those of a shard, or those of a shard and others.
#[derive(Debug, Clone)]
pub(crate) struct SortedRun {
    pub(crate) objects: Cursor<ByUid>,
    /// The shard, if the run also contains objects outside it.
    pub(crate) only: Option<Arc<ShardSelector>>,
}

impl SortedRun {
    /// Returns the next object of the shard. Adds the number of objects read to find it to `read`.
    fn next(&mut self, read: &mut u64) -> Option<Object> {
        loop {
            let ByUid(object) = self.objects.next_ref()?;
            *read += 1;
            match &self.only {
                Some(selector) if !selector.selects(object.uid_hash()) => {}
                _ => return Some(object.clone()),
            }
        }
    }
}

/// The next object of a run.
#[derive(Debug, Clone)]
struct Head {
    object: Object,
    run: usize,
}

impl Ord for Head {
    /// Compares in reverse: the heap returns its greatest element first, which has to be the lowest
    /// key.
    fn cmp(&self, other: &Self) -> Ordering {
        other.object.key().cmp(self.object.key())
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head {}

/// An iterator over the objects of all runs in key order. Takes O(log runs) per object.
#[derive(Debug, Clone)]
pub(crate) struct MergeIter {
    runs: Vec<SortedRun>,
    heads: BinaryHeap<Head>,
    /// The object that was returned last.
    current: Option<Object>,
    /// The number of objects that were read.
    read: u64,
}

impl MergeIter {
    pub(crate) fn new(runs: impl Iterator<Item = SortedRun>) -> Self {
        let (mut kept, mut heads, mut read) = (Vec::new(), Vec::new(), 0);
        for mut run in runs {
            if let Some(object) = run.next(&mut read) {
                let run_number = kept.len();
                heads.push(Head {
                    object,
                    run: run_number,
                });
                kept.push(run);
            }
        }
        Self {
            runs: kept,
            heads: heads.into(),
            current: None,
            read,
        }
    }

    pub(crate) fn evaluated(&self) -> u64 {
        self.read
    }

    pub(crate) fn is_exhausted(&self) -> bool {
        self.heads.is_empty()
    }

    pub(crate) fn next_ref(&mut self) -> Option<&Object> {
        let mut head = self.heads.peek_mut()?;
        self.current = Some(match self.runs[head.run].next(&mut self.read) {
            Some(next) => std::mem::replace(&mut head.object, next),
            None => PeekMut::pop(head).object,
        });
        self.current.as_ref()
    }
}
