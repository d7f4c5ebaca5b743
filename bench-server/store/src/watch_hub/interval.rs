//! Finds the watchers of a key in time independent of their number.
//!
//! Watchers of the same keys share a group. Single keys are found by hash, and intervals in a treap
//! ordered by start. Each node of the treap has the furthest end in its subtree, so a lookup visits
//! only paths to intervals that contain the key.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use etcd_api::keys::KeyRange;

/// The end of an interval; infinity is above all others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum End {
    Before(Box<[u8]>),
    Infinity,
}

impl End {
    fn is_after(&self, key: &[u8]) -> bool {
        match self {
            Self::Before(end) => key < &**end,
            Self::Infinity => true,
        }
    }
}

type Interval = (Box<[u8]>, End);

struct Node<V> {
    interval: Interval,
    /// The furthest end in this subtree.
    reach: End,
    /// Parents have the higher priority.
    priority: u64,
    value: V,
    left: Tree<V>,
    right: Tree<V>,
}

type Tree<V> = Option<Box<Node<V>>>;

/// Groups by their keys.
pub(super) struct Intervals<V> {
    keys: HashMap<Box<[u8]>, V>,
    root: Tree<V>,
    /// Computes the priorities of intervals, with a random key. A client that knew the priorities
    /// could choose intervals that make one long path, and the recursion is as deep as the tree.
    shuffle: RandomState,
}

impl<V> Default for Intervals<V> {
    fn default() -> Self {
        Self {
            keys: HashMap::new(),
            root: None,
            shuffle: RandomState::new(),
        }
    }
}

/// Returns the treap's key of a range; `None` for a single key.
fn interval(range: KeyRange<'_>) -> Option<Interval> {
    match range {
        KeyRange::One(_) => None,
        KeyRange::Between(start, end) => Some((start.into(), End::Before(end.into()))),
        KeyRange::From(start) => Some((start.into(), End::Infinity)),
    }
}

impl<V: Default> Intervals<V> {
    /// Returns the group of exactly this range; creates it if there is none.
    pub(super) fn entry(&mut self, range: KeyRange<'_>) -> &mut V {
        let Some(interval) = interval(range) else {
            return self.keys.entry(range.start().into()).or_default();
        };
        if find(&mut self.root, &interval).is_none() {
            let node = Box::new(Node {
                reach: interval.1.clone(),
                interval: interval.clone(),
                priority: self.shuffle.hash_one(&interval),
                value: V::default(),
                left: None,
                right: None,
            });
            self.root = Some(insert(self.root.take(), node));
        }
        &mut find(&mut self.root, &interval)
            .expect("it was found or has just been inserted")
            .value
    }

    /// Returns the group of exactly this range.
    pub(super) fn get_mut(&mut self, range: KeyRange<'_>) -> Option<&mut V> {
        match interval(range) {
            None => self.keys.get_mut(range.start()),
            Some(interval) => find(&mut self.root, &interval).map(|node| &mut node.value),
        }
    }

    /// Removes the group of exactly this range.
    pub(super) fn remove(&mut self, range: KeyRange<'_>) {
        match interval(range) {
            None => {
                self.keys.remove(range.start());
            }
            Some(interval) => self.root = remove(self.root.take(), &interval),
        }
    }

    /// Calls `visit` with every group whose range contains `key`. O(log n + groups found).
    pub(super) fn stab<'a>(&'a self, key: &[u8], mut visit: impl FnMut(&'a V)) {
        if let Some(group) = self.keys.get(key) {
            visit(group);
        }
        stab(&self.root, key, &mut visit);
    }
}

fn stab<'a, V>(tree: &'a Tree<V>, key: &[u8], visit: &mut impl FnMut(&'a V)) {
    let Some(node) = tree else { return };
    if !node.reach.is_after(key) {
        return;
    }
    stab(&node.left, key, visit);
    if *node.interval.0 <= *key {
        if node.interval.1.is_after(key) {
            visit(&node.value);
        }
        stab(&node.right, key, visit);
    }
}

fn find<'a, V>(mut tree: &'a mut Tree<V>, interval: &Interval) -> Option<&'a mut Node<V>> {
    while let Some(node) = tree {
        match interval.cmp(&node.interval) {
            std::cmp::Ordering::Equal => return Some(node),
            std::cmp::Ordering::Less => tree = &mut node.left,
            std::cmp::Ordering::Greater => tree = &mut node.right,
        }
    }
    None
}

impl<V> Node<V> {
    /// Sets `reach` from the children.
    fn measured(mut self: Box<Self>) -> Box<Self> {
        let below = self
            .left
            .iter()
            .chain(&self.right)
            .map(|child| &child.reach);
        let furthest = below.fold(&self.interval.1, Ord::max);
        if *furthest != self.reach {
            self.reach = furthest.clone();
        }
        self
    }
}

fn insert<V>(tree: Tree<V>, mut node: Box<Node<V>>) -> Box<Node<V>> {
    let Some(mut top) = tree else {
        return node;
    };
    if node.priority > top.priority {
        (node.left, node.right) = split(Some(top), &node.interval);
        return node.measured();
    }
    if node.interval < top.interval {
        top.left = Some(insert(top.left.take(), node));
    } else {
        top.right = Some(insert(top.right.take(), node));
    }
    top.measured()
}

/// Splits into the nodes below `at` and the others.
fn split<V>(tree: Tree<V>, at: &Interval) -> (Tree<V>, Tree<V>) {
    let Some(mut top) = tree else {
        return (None, None);
    };
    if top.interval < *at {
        let (left, right) = split(top.right.take(), at);
        top.right = left;
        (Some(top.measured()), right)
    } else {
        let (left, right) = split(top.left.take(), at);
        top.left = right;
        (left, Some(top.measured()))
    }
}

fn remove<V>(tree: Tree<V>, interval: &Interval) -> Tree<V> {
    let mut top = tree?;
    match interval.cmp(&top.interval) {
        std::cmp::Ordering::Equal => return merge(top.left, top.right),
        std::cmp::Ordering::Less => top.left = remove(top.left.take(), interval),
        std::cmp::Ordering::Greater => top.right = remove(top.right.take(), interval),
    }
    Some(top.measured())
}

/// Merges two trees; all of the left one is below all of the right one.
fn merge<V>(left: Tree<V>, right: Tree<V>) -> Tree<V> {
    match (left, right) {
        (None, tree) | (tree, None) => tree,
        (Some(mut left), Some(mut right)) => {
            if left.priority > right.priority {
                left.right = merge(left.right.take(), Some(right));
                Some(left.measured())
            } else {
                right.left = merge(Some(left), right.left.take());
                Some(right.measured())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Returns the priorities in the order of intervals.
    fn priorities<V>(tree: &Tree<V>, found: &mut Vec<u64>) {
        let Some(node) = tree else { return };
        priorities(&node.left, found);
        found.push(node.priority);
        priorities(&node.right, found);
    }

    #[test]
    fn the_shape_of_a_tree_is_unpredictable() {
        let [one, other] = [(); 2].map(|()| {
            let mut intervals = Intervals::<()>::default();
            for start in 0..16u8 {
                intervals.entry(KeyRange::new(&[start], &[255]));
            }
            let mut found = Vec::new();
            priorities(&intervals.root, &mut found);
            found
        });
        assert_eq!((one.len(), other.len()), (16, 16));
        assert_ne!(one, other, "the same intervals, the same priorities");
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(vec![0u8, b'a', b'b', b'c']), 0..4)
    }

    proptest! {
        #[test]
        fn a_key_finds_exactly_the_groups_that_hold_it(
            steps in prop::collection::vec((any::<bool>(), bytes(), bytes()), 1..120),
            keys in prop::collection::vec(bytes(), 20),
        ) {
            let mut intervals = Intervals::<Option<(Vec<u8>, Vec<u8>)>>::default();
            let mut model = BTreeSet::new();
            for (add, start, end) in steps {
                if add {
                    *intervals.entry(KeyRange::new(&start, &end)) = Some((start.clone(), end.clone()));
                    model.insert((start, end));
                } else if let Some(gone) = model.range((start, end)..).next().cloned() {
                    intervals.remove(KeyRange::new(&gone.0, &gone.1));
                    prop_assert!(intervals.get_mut(KeyRange::new(&gone.0, &gone.1)).is_none());
                    model.remove(&gone);
                }
            }
            for key in keys {
                let mut found = Vec::new();
                intervals.stab(&key, |group| found.extend(group.clone()));
                found.sort();
                let holds = |(s, e): &&(Vec<u8>, Vec<u8>)| KeyRange::new(s, e).contains(&key);
                let expected: Vec<_> = model.iter().filter(holds).cloned().collect();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
