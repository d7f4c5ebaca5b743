//! Nodes of the tree, and how they are changed, split and joined.

use std::hint::black_box;
use std::sync::Arc;

use super::entries::{FANOUT, insert_at};
use super::leaf::Leaf;
use super::{Item, Totals};

/// A node that a removal leaves with fewer is joined with a neighbour.
const SPARSE: usize = FANOUT / 4;
/// One item in so many is prefetched when a leaf is about to be read: its cache line, and the processor's own
/// prefetcher, bring those between.
const FETCHED_STEP: usize = 8;
/// A cache line: what fetching one byte brings.
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
    /// Every key below is at least this; every key below the child before is less. Meaningless
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

    /// Has the processor fetch a leaf's items, without waiting for them.
    pub(super) fn fetch(&self) {
        if let Self::Leaf(leaf) = self {
            let some = leaf.items().iter().step_by(FETCHED_STEP);
            // One sum is fewer instructions than a value that somebody looks at each time.
            black_box(some.fold(0, |sum, item| sum ^ item.weight()));
        }
    }

    /// The same of the items' tags, for who looks at few items or none.
    pub(super) fn fetch_tags(&self) {
        if let Self::Leaf(leaf) = self {
            let in_a_line = LINE_BYTES / size_of::<T::Tag>().clamp(1, LINE_BYTES);
            // They are four, of whatever type.
            leaf.tags().iter().step_by(in_a_line).for_each(|tag| {
                black_box(*tag);
            });
        }
    }
}

/// The child whose interval holds `key`.
pub(super) fn child_of<T: Item>(children: &[Child<T>], key: &[u8]) -> usize {
    children[1..].partition_point(|child| &*child.low <= key)
}

// === insert ===

/// Inserts below `root`, growing the tree by a level when the root splits.
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

/// Where to cut an overfull node. Keys that arrive in order are inserted at the end of a node: cut
/// near the end then, so that the left half stays full.
fn cut(len: usize, inserted_at: usize) -> usize {
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
    let right = leaf.split_off(cut(len, inserted_at));
    let last = leaf
        .items()
        .last()
        .expect("a cut leaves items on both sides");
    let low = separator(last.key(), right[0].key());
    Some(child(low, Node::Leaf(Leaf::of(right))))
}

fn split_branch<T: Item>(children: &mut Vec<Child<T>>, inserted_at: usize) -> Option<Child<T>> {
    if children.len() <= FANOUT {
        return None;
    }
    let right = children.split_off(cut(children.len(), inserted_at));
    children.shrink_to(FANOUT);
    Some(child(right[0].low.clone(), Node::Branch(right)))
}

/// The shortest key above `left` and not above `right`.
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

/// Totals from the entries of one node.
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

/// Removes below `root`, dropping levels that have become a single child.
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
            if child.node.len() < SPARSE && children.len() > 1 {
                join(children, at.saturating_sub(1));
            }
            Some(old)
        }
    }
}

/// Joins the children at `at` and `at + 1`, into two even ones when they do not fit into one.
fn join<T: Item>(children: &mut Vec<Child<T>>, at: usize) {
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
            // The first child's own bound may be stale; what it is bounded by was its parent's.
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
