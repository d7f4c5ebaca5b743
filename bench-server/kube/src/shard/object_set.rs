//! The objects from which a list is selected, regardless of their source, and an iterator over them
//! in key order.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use etcd_api::keys::KeyRange;
use index::{Cursor, Totals, Tree};
use kube_api::ShardSelector;

use super::filtered_scan::FilteredScan;
use super::merge::MergeIter;
use super::namespaces::NamespaceIter;
use super::uid_index::UidIndex;
use crate::resource::object::Object;

/// The number of objects whose labels are prefetched together, a few cache lines each: about as
/// much as a processor requests from memory at once.
const PREFETCHED_TOGETHER: usize = 16;

/// An iterator over objects in key order.
#[derive(Debug, Clone)]
pub struct ObjectIter(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Tree(Cursor<Object>),
    FilteredScan(Box<FilteredScan>),
    Merge(Box<MergeIter>),
    Namespaces(Box<NamespaceIter>),
}

impl ObjectIter {
    /// Returns the next object, borrowed from the tree or from the iterator.
    pub fn next_ref(&mut self) -> Option<&Object> {
        match &mut self.0 {
            Kind::Tree(cursor) => cursor.next_ref(),
            Kind::FilteredScan(scan) => scan.next_ref(),
            Kind::Merge(merge) => merge.next_ref(),
            Kind::Namespaces(namespaces) => namespaces.next_ref(),
        }
    }

    /// Prefetches the labels of some of the next objects into the processor's cache, all at once:
    /// the labels are scattered in memory, and reading them one by one would wait for each. Returns
    /// the number of these objects; 0 if the next ones are not known.
    pub(crate) fn prefetch_labels(&mut self) -> usize {
        let Kind::Tree(cursor) = &mut self.0 else {
            return 0;
        };
        let next = cursor.upcoming();
        let next = &next[..next.len().min(PREFETCHED_TOGETHER)];
        next.iter().for_each(Object::prefetch_labels);
        next.len()
    }

    /// Returns whether no object is left.
    pub fn is_exhausted(&mut self) -> bool {
        match &mut self.0 {
            Kind::Tree(cursor) => cursor.remaining() == 0,
            Kind::FilteredScan(scan) => scan.is_exhausted(),
            Kind::Merge(merge) => merge.is_exhausted(),
            Kind::Namespaces(namespaces) => namespaces.is_exhausted(),
        }
    }

    /// Returns how many objects are left, if that is known without reading them.
    pub fn remaining(&self) -> Option<u64> {
        match &self.0 {
            Kind::Tree(cursor) => Some(cursor.remaining()),
            Kind::FilteredScan(_) | Kind::Merge(_) | Kind::Namespaces(_) => None,
        }
    }

    /// Returns how many objects were read: those of the shard, and others in order to find them. 0
    /// for a whole tree.
    pub(crate) fn evaluated(&self) -> u64 {
        match &self.0 {
            Kind::Tree(_) => 0,
            Kind::FilteredScan(scan) => scan.evaluated(),
            Kind::Merge(merge) => merge.evaluated(),
            Kind::Namespaces(namespaces) => namespaces.evaluated(),
        }
    }
}

impl From<Cursor<Object>> for ObjectIter {
    fn from(cursor: Cursor<Object>) -> Self {
        Self(Kind::Tree(cursor))
    }
}

impl Iterator for ObjectIter {
    type Item = Object;

    fn next(&mut self) -> Option<Object> {
        self.next_ref().cloned()
    }
}

/// An iterator with the number of its objects and the sum of their lengths.
#[derive(Debug)]
pub(crate) struct MeasuredIter {
    pub(crate) iter: ObjectIter,
    pub(crate) totals: Totals,
    /// The number of objects of other shards that were read to determine the totals.
    pub(crate) others: u64,
}

/// The objects from which a list is selected. Cloning takes constant time.
#[derive(Debug, Clone)]
pub(crate) enum ObjectSet {
    /// All objects of a tree.
    All(Tree<Object>),
    /// A shard, found by testing the hash of every object.
    FilteredScan(Tree<Object>, Arc<ShardSelector>),
    /// A shard, found by the index on uids.
    ByUid(UidIndex, Arc<ShardSelector>),
    /// A shard, found by the hash of namespaces, in a tree of all objects.
    ByNamespace(Tree<Object>, Arc<ShardSelector>),
}

impl ObjectSet {
    /// Returns whether these are the objects of a shard.
    pub(crate) fn is_shard(&self) -> bool {
        !matches!(self, Self::All(_))
    }

    /// Returns an iterator over the objects within a range of keys.
    pub(crate) fn iter(&self, range: KeyRange<'_>) -> ObjectIter {
        ObjectIter(match self {
            Self::All(tree) => Kind::Tree(tree.cursor(range)),
            Self::FilteredScan(tree, selector) => {
                Kind::FilteredScan(FilteredScan::new(tree.cursor(range), selector).into())
            }
            Self::ByUid(index, selector) => Kind::Merge(index.iter(selector, range).into()),
            Self::ByNamespace(tree, selector) => {
                Kind::Namespaces(NamespaceIter::new(tree.clone(), selector.clone(), range).into())
            }
        })
    }

    /// Returns an iterator over the objects within a range of keys, their number, and the sum of
    /// their lengths.
    pub(crate) async fn measured(&self, range: KeyRange<'_>) -> MeasuredIter {
        let (totals, others) = match self {
            Self::All(tree) => (tree.totals(range), 0),
            Self::FilteredScan(tree, selector) => {
                let mut scan = FilteredScan::new(tree.cursor(range), selector);
                let totals = scan.totals().await;
                let iter = ObjectIter(Kind::FilteredScan(scan.into()));
                return MeasuredIter {
                    iter,
                    totals,
                    others: 0,
                };
            }
            Self::ByUid(index, selector) => index.totals(selector, range),
            Self::ByNamespace(tree, selector) => {
                let namespaces = NamespaceIter::new(tree.clone(), selector.clone(), range);
                (namespaces.totals().await, 0)
            }
        };
        MeasuredIter {
            iter: self.iter(range),
            totals,
            others,
        }
    }
}
