//! The index: a persistent B+tree that counts.
//!
//! Nodes are shared by reference count and copied on write, in place where nobody else holds them,
//! so that a snapshot is one more reference to the root. Every branch knows the number of items
//! and the sum of their weights below each child, so counting an interval, or adding up its bytes,
//! costs two descents and no walk. Items live in the leaves; separators own short keys of their
//! own, so a removed item is never kept alive by the shape of the tree.

mod build;
mod cursor;
mod entries;
mod leaf;
mod node;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use etcd_api::keys::KeyRange;

pub use build::Builder;
pub use cursor::Cursor;
use leaf::Leaf;
use node::Node;

/// What the tree holds. Cloning must be cheap: copying a leaf clones its items.
pub trait Item: Clone {
    /// What a walk may pass items over by. A leaf keeps the tags of its items side by side, so that looking at all of
    /// them fetches a few lines of memory and no item. `()` where nobody does that: it takes no memory.
    type Tag: Copy + fmt::Debug;

    /// Bytes that order it; unique in the tree and never changing.
    fn key(&self) -> &[u8];

    /// What [`Tree::totals`] adds up; never changing.
    fn weight(&self) -> u64;

    /// What [`Cursor::upcoming_tagged`] shows beside the item; never changing.
    fn tag(&self) -> Self::Tag;
}

/// How many items there are and what they weigh together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Items.
    pub count: u64,
    /// Sum of their weights.
    pub weight: u64,
}

impl Totals {
    fn of(item: &impl Item) -> Self {
        Self {
            count: 1,
            weight: item.weight(),
        }
    }
}

impl std::ops::AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.weight += other.weight;
    }
}

impl std::ops::SubAssign for Totals {
    fn sub_assign(&mut self, other: Self) {
        self.count -= other.count;
        self.weight -= other.weight;
    }
}

/// An ordered map with constant-time snapshots (`clone`) and counting in O(log n).
#[derive(Debug, Clone)]
pub struct Tree<T: Item> {
    root: Arc<Node<T>>,
    totals: Totals,
}

impl<T: Item> Default for Tree<T> {
    fn default() -> Self {
        Self {
            root: Arc::new(Node::Leaf(Leaf::default())),
            totals: Totals::default(),
        }
    }
}

impl<T: Item> Tree<T> {
    /// Items in the tree.
    pub fn len(&self) -> u64 {
        self.totals.count
    }

    /// Whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.totals.count == 0
    }

    /// Sum of all weights.
    pub fn weight(&self) -> u64 {
        self.totals.weight
    }

    /// The item with this key. O(log n), no allocation.
    pub fn get(&self, key: &[u8]) -> Option<&T> {
        let mut node = &*self.root;
        loop {
            match node {
                Node::Branch(children) => node = &children[node::child_of(children, key)].node,
                Node::Leaf(leaf) => {
                    return leaf.search(key).ok().map(|at| &leaf.items()[at]);
                }
            }
        }
    }

    /// Adds an item, or replaces the one with its key, which is returned. O(log n); nodes that a
    /// snapshot shares are copied, others are changed in place.
    pub fn insert(&mut self, item: T) -> Option<T> {
        self.totals += Totals::of(&item);
        let old = node::insert(&mut self.root, item);
        if let Some(old) = &old {
            self.totals -= Totals::of(old);
        }
        old
    }

    /// Removes and returns the item with this key. O(log n); copies nothing when there is none.
    pub fn remove(&mut self, key: &[u8]) -> Option<T> {
        self.get(key)?;
        let old = node::remove(&mut self.root, key)?;
        self.totals -= Totals::of(&old);
        Some(old)
    }

    /// Number and weight of the items in an interval. O(log n).
    pub fn totals(&self, range: KeyRange<'_>) -> Totals {
        let to = match range.end() {
            Bound::Unbounded => self.totals,
            Bound::Excluded(end) => self.before(end, false),
            Bound::Included(end) => self.before(end, true),
        };
        let from = self.before(range.start(), false);
        if to.count <= from.count {
            return Totals::default();
        }
        Totals {
            count: to.count - from.count,
            weight: to.weight - from.weight,
        }
    }

    /// The items of an interval, in key order. O(log n) now, amortised O(1) per item later.
    pub fn cursor(&self, range: KeyRange<'_>) -> Cursor<T> {
        Cursor::new(&self.root, range.start(), self.totals(range).count)
    }

    /// Totals of the items below `key`, or up to and with it when `inclusive`.
    fn before(&self, key: &[u8], inclusive: bool) -> Totals {
        let mut totals = Totals::default();
        let mut node = &*self.root;
        loop {
            match node {
                Node::Branch(children) => {
                    let at = node::child_of(children, key);
                    for child in &children[..at] {
                        totals += child.totals;
                    }
                    node = &children[at].node;
                }
                Node::Leaf(leaf) => {
                    let at = match leaf.search(key) {
                        Ok(at) if inclusive => at + 1,
                        Ok(at) | Err(at) => at,
                    };
                    for item in &leaf.items()[..at] {
                        totals += Totals::of(item);
                    }
                    return totals;
                }
            }
        }
    }
}
