//! The index: a persistent B+tree with counts.
//!
//! Nodes are reference-counted and copied on write, or changed in place if not shared, so a
//! snapshot is one more reference to the root. Every branch has the number of items and the sum of
//! their weights below each child, so counting an interval, or summing its bytes, costs two
//! descents and no iteration. Items are in the leaves. Separators own short copies of keys, so the
//! tree never keeps a removed item alive.

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

/// An item of the tree. Cloning must be cheap: copying a leaf clones its items.
pub trait Item: Clone {
    /// A value by which a scan can skip items. A leaf has the tags of its items in one array, so
    /// reading all of them loads a few cache lines and no item. `()` needs no memory.
    type Tag: Copy + fmt::Debug;

    /// Returns the sort key; unique in the tree and constant.
    fn key(&self) -> &[u8];

    /// Returns the weight, which [`Tree::totals`] sums; constant.
    fn weight(&self) -> u64;

    /// Returns the tag, which [`Cursor::upcoming_tagged`] returns with the item; constant.
    fn tag(&self) -> Self::Tag;
}

/// The number of items and the sum of their weights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of items.
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
    /// Returns the number of items.
    pub fn len(&self) -> u64 {
        self.totals.count
    }

    /// Returns whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.totals.count == 0
    }

    /// Returns the sum of all weights.
    pub fn weight(&self) -> u64 {
        self.totals.weight
    }

    /// Returns the item with this key. O(log n), no allocation.
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

    /// Inserts an item; returns the old one with the same key. O(log n); copies nodes that a
    /// snapshot shares, changes others in place.
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

    /// Returns number and weight of the items in an interval. O(log n).
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

    /// Returns a cursor over the items of an interval, in key order. O(log n), then amortised O(1)
    /// per item.
    pub fn cursor(&self, range: KeyRange<'_>) -> Cursor<T> {
        Cursor::new(&self.root, range.start(), self.totals(range).count)
    }

    /// Returns the totals of the items below `key`, including it if `inclusive`.
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
