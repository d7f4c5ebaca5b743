//! Nodes of the tree, and how they are changed, split and joined.

use std::sync::Arc;

use super::{Item, Totals};

/// Most items of a leaf, and most children of a branch. A leaf of 64 records is 1 KiB, a branch
/// 3 KiB: what an update copies on its way down while a snapshot is held.
pub(super) const FANOUT: usize = 64;
/// A node that a removal leaves with fewer is joined with a neighbour.
const SPARSE: usize = FANOUT / 4;

#[derive(Debug, Clone)]
pub(super) enum Node<T> {
    /// Items in key order.
    Leaf(Vec<T>),
    /// At least one child, in key order.
    Branch(Vec<Child<T>>),
}

#[derive(Debug, Clone)]
pub(super) struct Child<T> {
    /// Every key below is at least this; every key below the child before is less. Meaningless
    /// (never read) in a branch's first child.
    pub(super) low: Arc<[u8]>,
    pub(super) totals: Totals,
    pub(super) node: Arc<Node<T>>,
}

impl<T> Node<T> {
    fn len(&self) -> usize {
        match self {
            Self::Leaf(items) => items.len(),
            Self::Branch(children) => children.len(),
        }
    }
}

/// Where `key` is among a leaf's items, or where it would be.
pub(super) fn search<T: Item>(items: &[T], key: &[u8]) -> Result<usize, usize> {
    items.binary_search_by(|item| item.key().cmp(key))
}

/// The child whose interval holds `key`.
pub(super) fn child_of<T>(children: &[Child<T>], key: &[u8]) -> usize {
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
        Node::Leaf(items) => match search(items, item.key()) {
            Ok(at) => (Some(std::mem::replace(&mut items[at], item)), None),
            Err(at) => {
                insert_at(items, at, item);
                (None, split_leaf(items, at))
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

/// Inserts without the doubling that `Vec` would do: a copied node has no spare room, and a full
/// node must not hold twice what it can ever use.
fn insert_at<E>(entries: &mut Vec<E>, at: usize, entry: E) {
    if entries.len() == entries.capacity() {
        entries.reserve_exact(FANOUT / 8);
    }
    entries.insert(at, entry);
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

fn split_leaf<T: Item>(items: &mut Vec<T>, inserted_at: usize) -> Option<Child<T>> {
    if items.len() <= FANOUT {
        return None;
    }
    let right = items.split_off(cut(items.len(), inserted_at));
    items.shrink_to(FANOUT);
    let last = items.last().expect("a cut leaves items on both sides");
    let low = separator(last.key(), right[0].key());
    Some(leaf_child(low, right))
}

fn split_branch<T: Item>(children: &mut Vec<Child<T>>, inserted_at: usize) -> Option<Child<T>> {
    if children.len() <= FANOUT {
        return None;
    }
    let right = children.split_off(cut(children.len(), inserted_at));
    children.shrink_to(FANOUT);
    Some(branch_child(right[0].low.clone(), right))
}

/// The shortest key above `left` and not above `right`.
fn separator(left: &[u8], right: &[u8]) -> Arc<[u8]> {
    let common = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    right[..=common].into()
}

fn leaf_child<T: Item>(low: Arc<[u8]>, items: Vec<T>) -> Child<T> {
    let node = Node::Leaf(items);
    Child {
        low,
        totals: totals_of(&node),
        node: Arc::new(node),
    }
}

fn branch_child<T: Item>(low: Arc<[u8]>, children: Vec<Child<T>>) -> Child<T> {
    let node = Node::Branch(children);
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
        Node::Leaf(items) => items.iter().for_each(|item| totals += Totals::of(item)),
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
        Node::Leaf(items) => search(items, key).ok().map(|at| items.remove(at)),
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
        (Node::Leaf(items), Node::Leaf(more)) => {
            items.extend(more);
            (items.len() > FANOUT)
                .then(|| split_leaf(items, 0))
                .flatten()
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
