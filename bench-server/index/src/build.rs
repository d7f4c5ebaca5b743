//! Builds a tree from sorted items: fills one leaf after the other, without searches or splits.

use std::sync::Arc;

use super::entries::FANOUT;
use super::leaf::Leaf;
use super::node::{Child, Node, separator, totals_of};
use super::{Item, Totals, Tree};

/// Number of entries in a finished node. The rest is room for later inserts, as in a tree that grew
/// at its end.
const BUILD_FILL: usize = FANOUT - FANOUT / 8;

/// Builds a [`Tree`] from items in ascending order. O(1) per item, amortised.
#[derive(Debug)]
pub struct Builder<T: Item> {
    /// The leaf being filled, and the separator from the one before.
    leaf: Vec<T>,
    low: Arc<[u8]>,
    /// The branches being filled, lowest first.
    branches: Vec<Vec<Child<T>>>,
    totals: Totals,
}

impl<T: Item> Default for Builder<T> {
    fn default() -> Self {
        Self {
            leaf: Vec::new(),
            low: Arc::default(),
            branches: Vec::new(),
            totals: Totals::default(),
        }
    }
}

impl<T: Item> Builder<T> {
    /// Appends an item.
    ///
    /// # Errors
    /// The item itself, if its key is not above all earlier keys. The builder is then unchanged.
    pub fn push(&mut self, item: T) -> Result<(), T> {
        // A full leaf is closed only when the next item arrives, so the leaf is empty only for the
        // first item.
        if let Some(last) = self.leaf.last() {
            if last.key() >= item.key() {
                return Err(item);
            }
            if self.leaf.len() == BUILD_FILL {
                let low = separator(last.key(), item.key());
                self.close_leaf(low);
            }
        }
        if self.leaf.capacity() == 0 {
            self.leaf.reserve_exact(BUILD_FILL);
        }
        self.totals += Totals::of(&item);
        self.leaf.push(item);
        Ok(())
    }

    /// Returns the number of items so far.
    pub fn len(&self) -> u64 {
        self.totals.count
    }

    /// Returns whether there is no item yet.
    pub fn is_empty(&self) -> bool {
        self.totals.count == 0
    }

    /// Returns the tree of all items.
    pub fn finish(mut self) -> Tree<T> {
        if self.branches.is_empty() {
            return Tree {
                root: Arc::new(Node::Leaf(Leaf::new(self.leaf))),
                totals: self.totals,
            };
        }
        self.close_leaf(Arc::default());
        let mut level = 0;
        // Closes every level except the highest into the one above.
        while level + 1 < self.branches.len() {
            self.close_branch(level);
            level += 1;
        }
        let mut top = self.branches.pop().unwrap_or_default();
        let root = match (top.len(), top.pop()) {
            (1, Some(only)) => only.node,
            (_, last) => {
                top.extend(last);
                Arc::new(Node::Branch(top))
            }
        };
        Tree {
            root,
            totals: self.totals,
        }
    }

    /// Moves the leaf into the branch above it; `next` is the separator to the next leaf.
    fn close_leaf(&mut self, next: Arc<[u8]>) {
        let node = Node::Leaf(Leaf::new(std::mem::take(&mut self.leaf)));
        let low = std::mem::replace(&mut self.low, next);
        self.add(0, low, node);
    }

    fn close_branch(&mut self, level: usize) {
        let children = std::mem::take(&mut self.branches[level]);
        if let Some(first) = children.first() {
            let low = first.low.clone();
            self.add(level + 1, low, Node::Branch(children));
        }
    }

    fn add(&mut self, level: usize, low: Arc<[u8]>, node: Node<T>) {
        if level == self.branches.len() {
            self.branches.push(Vec::new());
        }
        if self.branches[level].len() == BUILD_FILL {
            self.close_branch(level);
        }
        let branch = &mut self.branches[level];
        if branch.capacity() == 0 {
            branch.reserve_exact(BUILD_FILL);
        }
        branch.push(Child {
            low,
            totals: totals_of(&node),
            node: Arc::new(node),
        });
    }
}
