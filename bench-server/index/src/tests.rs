//! Compares the tree with `BTreeMap`, with snapshots held across updates.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone, PartialEq)]
struct Pair(Vec<u8>, u64);

impl Item for Pair {
    /// The weight, so that a replacing item has another tag.
    type Tag = u64;

    fn key(&self) -> &[u8] {
        &self.0
    }

    fn weight(&self) -> u64 {
        self.1
    }

    fn tag(&self) -> u64 {
        self.1
    }
}

type Model = BTreeMap<Vec<u8>, u64>;

/// Checks every invariant of the structure: equal depth, sizes, order, bounds, tags, totals.
fn check(tree: &Tree<Pair>) {
    fn walk(node: &Node<Pair>, low: &[u8], high: Option<&[u8]>, top: bool) -> (usize, Totals) {
        match node {
            Node::Leaf(leaf) => {
                let items = leaf.items();
                assert!(top || !items.is_empty(), "an empty leaf stays in the tree");
                assert!(items.len() <= entries::FANOUT, "an overfull leaf");
                assert!(items.is_sorted_by(|a, b| a.0 < b.0), "leaf out of order");
                for item in items {
                    assert!(low <= item.key(), "an item below its separator");
                    assert!(high.is_none_or(|high| item.key() < high), "an item above");
                    assert!(leaf.search(item.key()).is_ok(), "an item that is not found");
                }
                let tags = items.iter().map(Item::tag);
                assert!(tags.eq(leaf.tags().iter().copied()), "another item's tag");
                (1, node::totals_of(node))
            }
            Node::Branch(children) => {
                assert!(children.len() <= entries::FANOUT, "an overfull branch");
                assert!(!top || children.len() > 1, "a root with one child");
                let mut totals = Totals::default();
                let mut depths = Vec::new();
                for (at, child) in children.iter().enumerate() {
                    let low = if at == 0 { low } else { &child.low };
                    let high = children.get(at + 1).map(|next| &*next.low).or(high);
                    let (depth, below) = walk(&child.node, low, high, false);
                    assert_eq!(below, child.totals, "a branch that miscounts");
                    totals += below;
                    depths.push(depth);
                }
                depths.dedup();
                assert_eq!(depths.len(), 1, "leaves at different depths");
                (depths[0] + 1, totals)
            }
        }
    }
    let (_, totals) = walk(&tree.root, b"", None, true);
    assert_eq!(totals, tree.totals);
}

fn same(tree: &Tree<Pair>, model: &Model) {
    check(tree);
    let all: Vec<_> = tree
        .cursor(KeyRange::From(b""))
        .map(|p| (p.0, p.1))
        .collect();
    let expected: Vec<_> = model.iter().map(|(k, w)| (k.clone(), *w)).collect();
    assert_eq!(all, expected);
}

fn built(model: &Model) -> Tree<Pair> {
    let mut builder = Builder::default();
    for (key, weight) in model {
        builder
            .push(Pair(key.clone(), *weight))
            .expect("a map is in order");
    }
    builder.finish()
}

/// Short keys over a small alphabet: long shared prefixes, many replacements, many misses.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![0u8, b'a', b'b', 0xff]), 0..7)
}

#[derive(Debug, Clone)]
enum Step {
    Insert(Vec<u8>, u64),
    /// Inserts keys in ascending order, as seeding does.
    Run(Vec<u8>, u16),
    Remove(Vec<u8>),
    /// Removes every n-th item.
    Thin(usize),
    /// Builds a new tree of the same items.
    Build,
    Snapshot,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (key(), 0..9u64).prop_map(|(k, w)| Step::Insert(k, w)),
        2 => (key(), 1..400u16).prop_map(|(k, n)| Step::Run(k, n)),
        6 => key().prop_map(Step::Remove),
        1 => (1..4usize).prop_map(Step::Thin),
        1 => Just(Step::Build),
        2 => Just(Step::Snapshot),
    ]
}

fn apply(tree: &mut Tree<Pair>, model: &mut Model, step: Step) {
    match step {
        Step::Insert(key, weight) => {
            let old = tree.insert(Pair(key.clone(), weight)).map(|p| p.1);
            assert_eq!(old, model.insert(key, weight));
        }
        Step::Run(prefix, n) => {
            for i in 0..n {
                let key = [&prefix[..], &i.to_be_bytes()].concat();
                tree.insert(Pair(key.clone(), 1));
                model.insert(key, 1);
            }
        }
        Step::Remove(key) => assert_eq!(tree.remove(&key).map(|p| p.1), model.remove(&key)),
        Step::Thin(nth) => {
            let keys: Vec<_> = model.keys().step_by(nth).cloned().collect();
            for key in keys {
                assert!(tree.remove(&key).is_some());
                model.remove(&key);
            }
        }
        Step::Build => *tree = built(model),
        Step::Snapshot => {}
    }
}

/// Returns the items of a cursor that are read with their tags, half of the upcoming ones at a
/// time.
fn by_tags(mut cursor: Cursor<Pair>) -> Vec<Pair> {
    let mut passed = Vec::new();
    loop {
        let (tags, items) = cursor.upcoming_tagged();
        assert!(items.iter().map(Item::tag).eq(tags.iter().copied()));
        let some = items.len().div_ceil(2);
        if some == 0 {
            return passed;
        }
        passed.extend_from_slice(&items[..some]);
        cursor.advance(some);
    }
}

#[test]
fn trees_of_every_height_are_built() {
    for count in [
        0, 1, 55, 56, 57, 112, 113, 3_136, 3_137, 3_192, 3_193, 180_000,
    ] {
        let keys = (0..count as u64).map(|i| (i.to_be_bytes().to_vec(), i));
        let model: Model = keys.collect();
        same(&built(&model), &model);
    }
}

#[test]
fn what_is_out_of_order_comes_back() {
    let mut builder = Builder::default();
    for key in [b"b", b"c"] {
        builder.push(Pair(key.to_vec(), 1)).expect("it ascends");
    }
    for key in [b"c", b"a"] {
        let refused = builder.push(Pair(key.to_vec(), 1));
        assert_eq!(refused, Err(Pair(key.to_vec(), 1)));
    }
    assert_eq!(builder.finish().len(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_tree_is_a_btreemap_and_its_snapshots_never_change(
        steps in prop::collection::vec(step(), 1..80),
        probes in prop::collection::vec((key(), key()), 20),
    ) {
        let (mut tree, mut model) = (Tree::default(), Model::new());
        let mut held = Vec::new();
        for step in steps {
            if matches!(step, Step::Snapshot) {
                held.push((tree.clone(), model.clone()));
            }
            apply(&mut tree, &mut model, step);
        }
        held.push((tree, model));
        for (tree, model) in &held {
            same(tree, model);
            for (start, end) in &probes {
                let range = KeyRange::new(start, end);
                let expected: Vec<_> = model.iter().filter(|(k, _)| range.contains(k)).collect();
                let cursor = tree.cursor(range);
                prop_assert_eq!(cursor.remaining(), expected.len() as u64);
                prop_assert_eq!(by_tags(cursor.clone()), cursor.clone().collect::<Vec<_>>());
                let found: Vec<_> = cursor.collect();
                prop_assert!(found.iter().map(|p| (&p.0, &p.1)).eq(expected.iter().copied()));
                let weight = expected.iter().map(|(_, w)| **w).sum::<u64>();
                prop_assert_eq!(tree.totals(range).weight, weight);
                prop_assert_eq!(tree.get(start).map(|p| p.1), model.get(start).copied());
            }
        }
    }
}

#[test]
fn ascending_keys_leave_full_leaves() {
    let mut tree = Tree::default();
    for i in 0..100_000u32 {
        tree.insert(Pair(i.to_be_bytes().to_vec(), 1));
    }
    check(&tree);
    fn leaves(node: &Node<Pair>) -> usize {
        match node {
            Node::Leaf(_) => 1,
            Node::Branch(children) => children.iter().map(|c| leaves(&c.node)).sum(),
        }
    }
    let filled = 100_000.0 / (leaves(&tree.root) * entries::FANOUT) as f64;
    assert!(filled > 0.8, "leaves are {filled:.2} full");
}

#[test]
fn a_removed_item_is_released_by_the_tree() {
    #[derive(Debug, Clone)]
    struct Counted(Arc<Vec<u8>>);
    impl Item for Counted {
        type Tag = ();

        fn key(&self) -> &[u8] {
            &self.0
        }
        fn weight(&self) -> u64 {
            1
        }

        fn tag(&self) {}
    }
    let keys: Vec<_> = (0..1000u32)
        .map(|i| Arc::new(i.to_be_bytes().to_vec()))
        .collect();
    let mut tree = Tree::default();
    for key in &keys {
        tree.insert(Counted(key.clone()));
    }
    for key in &keys {
        tree.remove(key);
    }
    assert!(keys.iter().all(|key| Arc::strong_count(key) == 1));
}
