//! Walks an interval of a tree that nobody can change any more.

use std::sync::Arc;

use super::Item;
use super::node::{Node, child_of};

/// Leaves that are fetched at a time. They lie anywhere in memory, and what is done with an item in passing is over long before
/// the next leaf has come; a processor waits for several at once in the time of one, but does not look further ahead than some
/// hundred instructions, so that it must be asked for them together.
const FETCHED_TOGETHER: usize = 8;

/// The items of an interval of one snapshot, in key order.
///
/// Owns the nodes on its path, so it outlives the tree value that it came from and is sent between
/// threads; cloning it costs one reference count per level. It knows how many items are left, and
/// so compares no keys on its way.
#[derive(Debug, Clone)]
pub struct Cursor<T: Item> {
    /// Branches from the root down, each with the child that the path takes.
    branches: Vec<(Arc<Node<T>>, usize)>,
    leaf: Arc<Node<T>>,
    /// Next item in the leaf.
    at: usize,
    remaining: u64,
}

impl<T: Item> Cursor<T> {
    /// The `remaining` items from `start` on; there must be that many.
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

    /// Items that are left.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// The next item without taking it.
    #[inline]
    pub fn peek(&mut self) -> Option<&T> {
        if self.remaining == 0 {
            return None;
        }
        if self.at == self.leaf_len() {
            self.next_leaf(Node::fetch);
        }
        match &*self.leaf {
            Node::Leaf(leaf) => leaf.items().get(self.at),
            Node::Branch(_) => None,
        }
    }

    /// The next item, borrowed from the tree: no reference count is touched.
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

    /// The next items as far as they lie side by side, without taking them; none at the end.
    pub fn upcoming(&mut self) -> &[T] {
        self.rest_of_leaf(Node::fetch).1
    }

    /// Their tags, and the items. Of the leaves that follow, the tags are fetched and not the items.
    pub fn upcoming_tagged(&mut self) -> (&[T::Tag], &[T]) {
        self.rest_of_leaf(Node::fetch_tags)
    }

    /// Tags and items that are left of the leaf, or of the next one. `fetch` is for leaves that will be read.
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

    /// Passes over so many of [`Self::upcoming`], or all of them.
    pub fn pass(&mut self, items: usize) {
        // Not into the next leaf: who reads on says what is fetched with that.
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

    /// Has the processor fetch what is read of the next leaves, where those before have been read.
    fn fetch_ahead(&self, fetch: impl Fn(&Node<T>)) {
        if let Some((branch, at)) = self.branches.last()
            && let Node::Branch(children) = &**branch
            && at.is_multiple_of(FETCHED_TOGETHER)
        {
            let next = children[*at..].iter().take(FETCHED_TOGETHER);
            next.for_each(|child| fetch(&child.node));
        }
    }

    /// Climbs to the nearest branch with a child to the right, and down its left edge.
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
            self.fetch_ahead(fetch);
            return;
        }
        unreachable!("the remaining count ends the walk before the tree does")
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
