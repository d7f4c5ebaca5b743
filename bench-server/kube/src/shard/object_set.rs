//! The objects of a list, one after the other in key order, wherever they are read from.
//!
//! - [`Objects`]: what a list is cut from: a tree, or a shard of one
//! - [`filtered_scan`]: a tree whose other objects are passed over, by the half of a hash
//!   ([`hash_filter`]); [`merge`]: several runs in key order as one; [`namespaces`]: some namespaces of
//!   a tree as one

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

/// Objects whose labels are fetched at a time, some lines each: about what a processor asks memory for at once.
const PREFETCHED_TOGETHER: usize = 16;

/// Objects in key order.
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
    /// The next object. It is borrowed from where it lies, or held until the next one is asked for.
    pub fn next_ref(&mut self) -> Option<&Object> {
        match &mut self.0 {
            Kind::Tree(cursor) => cursor.next_ref(),
            Kind::FilteredScan(scan) => scan.next_ref(),
            Kind::Merge(merge) => merge.next_ref(),
            Kind::Namespaces(namespaces) => namespaces.next_ref(),
        }
    }

    /// Has the processor fetch the labels of some of the next objects, all at once: they lie anywhere in memory, and looking at
    /// them one by one is waiting for each. Answers of how many; none where that is not known beforehand.
    pub(crate) fn prefetch_labels(&mut self) -> usize {
        let Kind::Tree(cursor) = &mut self.0 else {
            return 0;
        };
        let next = cursor.upcoming();
        let next = &next[..next.len().min(PREFETCHED_TOGETHER)];
        next.iter().for_each(Object::prefetch_labels);
        next.len()
    }

    /// Whether no object is left.
    pub fn is_exhausted(&mut self) -> bool {
        match &mut self.0 {
            Kind::Tree(cursor) => cursor.remaining() == 0,
            Kind::FilteredScan(scan) => scan.is_exhausted(),
            Kind::Merge(merge) => merge.is_exhausted(),
            Kind::Namespaces(namespaces) => namespaces.is_exhausted(),
        }
    }

    /// Objects that are left, where that is known without reading them.
    pub fn remaining(&self) -> Option<u64> {
        match &self.0 {
            Kind::Tree(cursor) => Some(cursor.remaining()),
            Kind::FilteredScan(_) | Kind::Merge(_) | Kind::Namespaces(_) => None,
        }
    }

    /// Objects of a shard that were read, and others that were read to find them. A tree's are not counted.
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

/// Objects to be read, of which it is known how many they are.
#[derive(Debug)]
pub(crate) struct MeasuredIter {
    pub(crate) iter: ObjectIter,
    pub(crate) totals: Totals,
    /// Others that were looked at for that.
    pub(crate) others: u64,
}

/// What a list is cut from. Cloned in constant time.
#[derive(Debug, Clone)]
pub(crate) enum ObjectSet {
    /// Everything in a tree.
    All(Tree<Object>),
    /// A shard, found by passing over the other objects of a tree.
    FilteredScan(Tree<Object>, Arc<ShardSelector>),
    /// A shard, found by the hash of uids.
    ByUid(UidIndex, Arc<ShardSelector>),
    /// A shard, found by the hash of namespaces. The tree is everything: a namespace is a range of its keys.
    ByNamespace(Tree<Object>, Arc<ShardSelector>),
}

impl ObjectSet {
    /// Whether these are a shard.
    pub(crate) fn is_shard(&self) -> bool {
        !matches!(self, Self::All(_))
    }

    /// Those within a range of keys.
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

    /// Those within a range of keys, how many they are and what they weigh.
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
