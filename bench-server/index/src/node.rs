//! The nodes of the tree: inserting, removing, splitting and merging.

use std::hint::black_box;
use std::sync::Arc;

use super::entries::{FANOUT, insert_at};
use super::leaf::Leaf;
use super::{Item, Totals};

/// A node with fewer entries after a removal is merged with a neighbour.
const MIN_ENTRIES: usize = FANOUT / 4;
/// Distance between the items that are prefetched before a leaf is read. Their cache lines and the
/// processor's own prefetcher load the items in between.
const PREFETCH_STEP: usize = 8;
/// Size of a cache line, bytes.
const LINE_BYTES: usize = 64;

#[derive(Debug, Clone)]
pub(super) enum Node<T: Item> {
    /// Items in key order.
    Leaf(Leaf<T>),
    /// At least one child, in key order.
    Branch(Vec<Child<T>>),
}

#[derive(Debug, Clone)]
pub(super) struct Child<T: Item> {
    /// Every key below is at least this; every key below the previous child is less. Undefined
    /// (never read) in a branch's first child.
    pub(super) low: Arc<[u8]>,
    pub(super) totals: Totals,
    pub(super) node: Arc<Node<T>>,
}

impl<T: Item> Node<T> {
    fn len(&self) -> usize {
        match self {
            Self::Leaf(leaf) => leaf.items().len(),
            Self::Branch(children) => children.len(),
        }
    }

    /// Prefetches a leaf's items without waiting for them.
    pub(super) fn prefetch(&self) {
        if let Self::Leaf(leaf) = self {
            let some = leaf.items().iter().step_by(PREFETCH_STEP);
            // One sum takes fewer instructions than a `black_box` for each item.
            black_box(some.fold(0, |sum, item| sum ^ item.weight()));
        }
    }

    /// Prefetches a leaf's tags, for scans that read few items or none.
    pub(super) fn prefetch_tags(&self) {
        if let Self::Leaf(leaf) = self {
            let in_a_line = LINE_BYTES / size_of::<T::Tag>().clamp(1, LINE_BYTES);
            // At most a few cache lines for any type.
            leaf.tags().iter().step_by(in_a_line).for_each(|tag| {
                black_box(*tag);
            });
        }
    }
}

/// Returns the index of the child whose interval contains `key`.
pub(super) fn child_of<T: Item>(children: &[Child<T>], key: &[u8]) -> usize {
    children[1..].partition_point(|child| &*child.low <= key)
}

// === insert ===

/// Inserts below `root`; the tree grows by a level when the root splits.
pub(super) fn insert<T: Item>(root: &mut Arc<Node<T>>, item: T) -> Option<T> {
    let (old, split) = insert_below(root, item);
    if let Some(right) = split {
        let left = Child {
            low: Arc::default(),
            totals: totals_of(root),
            node: root.clone(),
        };
        *root = Arc::new(Node::Branch(vec![left, right]));
    }
    old
}

fn insert_below<T: Item>(node: &mut Arc<Node<T>>, item: T) -> (Option<T>, Option<Child<T>>) {
    match Arc::make_mut(node) {
        Node::Leaf(leaf) => match leaf.search(item.key()) {
            Ok(at) => (Some(leaf.replace(at, item)), None),
            Err(at) => {
                leaf.insert(at, item);
                (None, split_leaf(leaf, at))
            }
        },
        Node::Branch(children) => {
            let at = child_of(children, item.key());
            let child = &mut children[at];
            child.totals += Totals::of(&item);
            let (old, split) = insert_below(&mut child.node, item);
            if let Some(old) = &old {
                child.totals -= Totals::of(old);
            }
            let Some(right) = split else {
                return (old, None);
            };
            child.totals -= right.totals;
            insert_at(children, at + 1, right);
            (old, split_branch(children, at + 1))
        }
    }
}

/// Returns the position at which to split an overfull node. Keys in ascending order are inserted at
/// the end of a node, and a split near the end then leaves the left half full.
fn split_point(len: usize, inserted_at: usize) -> usize {
    if inserted_at + 1 == len {
        len - FANOUT / 8
    } else {
        len / 2
    }
}

fn split_leaf<T: Item>(leaf: &mut Leaf<T>, inserted_at: usize) -> Option<Child<T>> {
    let len = leaf.items().len();
    if len <= FANOUT {
        return None;
    }
    let right = leaf.split_off(split_point(len, inserted_at));
    let last = leaf
        .items()
        .last()
        .expect("a split leaves items on both sides");
    let low = separator(last.key(), right[0].key());
    Some(child(low, Node::Leaf(Leaf::new(right))))
}

fn split_branch<T: Item>(children: &mut Vec<Child<T>>, inserted_at: usize) -> Option<Child<T>> {
    if children.len() <= FANOUT {
        return None;
    }
    let right = children.split_off(split_point(children.len(), inserted_at));
    children.shrink_to(FANOUT);
    Some(child(right[0].low.clone(), Node::Branch(right)))
}

/// Returns the shortest key above `left` and not above `right`.
pub(super) fn separator(left: &[u8], right: &[u8]) -> Arc<[u8]> {
    let common = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    right[..=common].into()
}

fn child<T: Item>(low: Arc<[u8]>, node: Node<T>) -> Child<T> {
    Child {
        low,
        totals: totals_of(&node),
        node: Arc::new(node),
    }
}

/// Returns the totals of the entries of one node.
pub(super) fn totals_of<T: Item>(node: &Node<T>) -> Totals {
    let mut totals = Totals::default();
    match node {
        Node::Leaf(leaf) => leaf
            .items()
            .iter()
            .for_each(|item| totals += Totals::of(item)),
        Node::Branch(children) => children.iter().for_each(|child| totals += child.totals),
    }
    totals
}

// === remove ===

/// Removes below `root`; drops levels with a single child.
pub(super) fn remove<T: Item>(root: &mut Arc<Node<T>>, key: &[u8]) -> Option<T> {
    let old = remove_below(root, key);
    while let Node::Branch(children) = &**root {
        match &children[..] {
            [only] => *root = only.node.clone(),
            _ => break,
        }
    }
    old
}

fn remove_below<T: Item>(node: &mut Arc<Node<T>>, key: &[u8]) -> Option<T> {
    match Arc::make_mut(node) {
        Node::Leaf(leaf) => leaf.search(key).ok().map(|at| leaf.remove(at)),
        Node::Branch(children) => {
            let at = child_of(children, key);
            let child = &mut children[at];
            let old = remove_below(&mut child.node, key)?;
            child.totals -= Totals::of(&old);
            if child.node.len() < MIN_ENTRIES && children.len() > 1 {
                merge_children(children, at.saturating_sub(1));
            }
            Some(old)
        }
    }
}

/// Merges the children at `at` and `at + 1`, or balances them if they do not fit into one node.
fn merge_children<T: Item>(children: &mut Vec<Child<T>>, at: usize) {
    let right = children.remove(at + 1);
    let left = &mut children[at];
    left.totals += right.totals;
    let split = match (
        Arc::make_mut(&mut left.node),
        Arc::unwrap_or_clone(right.node),
    ) {
        (Node::Leaf(leaf), Node::Leaf(more)) => {
            leaf.extend(more.into_items());
            split_leaf(leaf, 0)
        }
        (Node::Branch(items), Node::Branch(mut more)) => {
            // The bound of the first child is undefined in the child; its parent has it.
            more[0].low = right.low;
            items.extend(more);
            split_branch(items, 0)
        }
        _ => unreachable!("siblings are at the same height"),
    };
    if let Some(right) = split {
        left.totals -= right.totals;
        insert_at(children, at + 1, right);
    }
}
