//! Iterates over an interval of an immutable tree.

use std::sync::Arc;

use super::Item;
use super::node::{Node, child_of};

/// Number of leaves that are prefetched together. Leaves are scattered in memory, and processing an
/// item takes less time than loading the next leaf. A processor loads several leaves in the time of
/// one, but its out-of-order window is only some hundred instructions, so the loads must be issued
/// together.
const PREFETCHED_LEAVES: usize = 8;

/// The items of an interval of one snapshot, in key order.
///
/// Owns the nodes on its path, so it outlives its tree and can be sent to other threads. Cloning
/// costs one reference count per level. It counts the remaining items and therefore compares no
/// keys.
#[derive(Debug, Clone)]
pub struct Cursor<T: Item> {
    /// Branches from the root down, each with the index of the child on the path.
    branches: Vec<(Arc<Node<T>>, usize)>,
    leaf: Arc<Node<T>>,
    /// Index of the next item in the leaf.
    at: usize,
    remaining: u64,
}

impl<T: Item> Cursor<T> {
    /// Returns a cursor over the `remaining` items from `start` on, which must exist.
    pub(super) fn new(root: &Arc<Node<T>>, start: &[u8], remaining: u64) -> Self {
        let mut branches = Vec::new();
        let mut node = root.clone();
        loop {
            let next = match &*node {
                Node::Branch(children) => {
                    let at = child_of(children, start);
                    (children[at].node.clone(), at)
                }
                Node::Leaf(leaf) => {
                    let at = leaf.search(start).unwrap_or_else(|at| at);
                    return Self {
                        branches,
                        leaf: node,
                        at,
                        remaining,
                    };
                }
            };
            branches.push((std::mem::replace(&mut node, next.0), next.1));
        }
    }

    /// Returns the number of remaining items.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Returns the next item without advancing.
    #[inline]
    pub fn peek(&mut self) -> Option<&T> {
        if self.remaining == 0 {
            return None;
        }
        if self.at == self.leaf_len() {
            self.next_leaf(Node::prefetch);
        }
        match &*self.leaf {
            Node::Leaf(leaf) => leaf.items().get(self.at),
            Node::Branch(_) => None,
        }
    }

    /// Returns the next item, borrowed from the tree, without changing a reference count.
    #[inline]
    pub fn next_ref(&mut self) -> Option<&T> {
        self.peek()?;
        self.remaining -= 1;
        self.at += 1;
        match &*self.leaf {
            Node::Leaf(leaf) => leaf.items().get(self.at - 1),
            Node::Branch(_) => None,
        }
    }

    /// Returns the next items of the leaf without advancing; none at the end.
    pub fn upcoming(&mut self) -> &[T] {
        self.rest_of_leaf(Node::prefetch).1
    }

    /// Returns the next items of the leaf and their tags. Prefetches only the tags of following
    /// leaves.
    pub fn upcoming_tagged(&mut self) -> (&[T::Tag], &[T]) {
        self.rest_of_leaf(Node::prefetch_tags)
    }

    /// Returns the remaining tags and items of the leaf, or of the next one; `fetch` prefetches a
    /// leaf.
    fn rest_of_leaf(&mut self, fetch: impl Fn(&Node<T>)) -> (&[T::Tag], &[T]) {
        if self.remaining > 0 && self.at == self.leaf_len() {
            self.next_leaf(fetch);
        }
        let left = usize::try_from(self.remaining).unwrap_or(usize::MAX);
        match &*self.leaf {
            Node::Leaf(leaf) => {
                let end = leaf.items().len().min(self.at.saturating_add(left));
                (&leaf.tags()[self.at..end], &leaf.items()[self.at..end])
            }
            Node::Branch(_) => (&[], &[]),
        }
    }

    /// Skips this number of [`Self::upcoming`] items, or all of them.
    pub fn advance(&mut self, items: usize) {
        // Stays in this leaf: the next read decides what to prefetch with the next one.
        let here = (self.leaf_len() - self.at) as u64;
        let items = self.remaining.min(here).min(items as u64);
        self.remaining -= items;
        self.at += items as usize;
    }

    #[inline]
    fn leaf_len(&self) -> usize {
        match &*self.leaf {
            Node::Leaf(leaf) => leaf.items().len(),
            Node::Branch(_) => 0,
        }
    }

    /// Prefetches the next leaves, once the leaves prefetched before have been read.
    fn prefetch_next(&self, fetch: impl Fn(&Node<T>)) {
        if let Some((branch, at)) = self.branches.last()
            && let Node::Branch(children) = &**branch
            && at.is_multiple_of(PREFETCHED_LEAVES)
        {
            let next = children[*at..].iter().take(PREFETCHED_LEAVES);
            next.for_each(|child| fetch(&child.node));
        }
    }

    /// Moves to the next leaf: up to the nearest branch with a child to the right, then down its
    /// left edge.
    ///
    /// Runs once per leaf. Not inlined, so that the code that runs per item is small enough to be
    /// inlined into its callers. Inlined, it costs a stream of small objects 39 % more
    /// instructions.
    #[inline(never)]
    fn next_leaf(&mut self, fetch: impl Fn(&Node<T>)) {
        while let Some((branch, at)) = self.branches.pop() {
            let Node::Branch(children) = &*branch else {
                unreachable!("only branches are on the path");
            };
            let Some(child) = children.get(at + 1) else {
                continue;
            };
            let mut node = child.node.clone();
            self.branches.push((branch, at + 1));
            while let Node::Branch(children) = &*node {
                let first = children[0].node.clone();
                self.branches.push((std::mem::replace(&mut node, first), 0));
            }
            self.leaf = node;
            self.at = 0;
            self.prefetch_next(fetch);
            return;
        }
        unreachable!("the remaining count ends before the tree does")
    }
}

impl<T: Item> Iterator for Cursor<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.next_ref().cloned()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let remaining = usize::try_from(self.remaining).unwrap_or(usize::MAX);
        (remaining, Some(remaining))
    }
}
