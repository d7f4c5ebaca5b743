//! Indexes of the objects by value: on `spec.nodeName`, on labels that selectors have named, and on
//! the hash of uids ([`UidIndex`]).
//!
//! For each value, an index has a tree of the objects with that value, in key order like the cache
//! itself, so that the result is paged and encoded in the same way as the whole cache. Indexes are
//! persistent data structures: each snapshot contains them, and cloning takes constant time. A
//! label costs nothing until a selector names it. Its index is then built while the cache serves
//! requests ([`build`]), and kept until [`MAX_LABELS`] others have been used more recently.

pub(super) mod build;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use etcd_api::keys::KeyRange;
use index::{Item, Tree};
use kube_api::ShardKey;

use crate::resource::Resource;
use crate::resource::filter::{Filter, field_of, label_of};
use crate::resource::object::Object;
use crate::shard::object_set::ObjectSet;
use crate::shard::uid_index::UidIndex;

/// The indexed field of resources that have it. Kubelets list and watch by it.
pub(crate) const INDEXED_FIELD: &str = "spec.nodeName";

/// The name in metrics of the index on [`INDEXED_FIELD`], as in kube-apiserver.
const FIELD_INDEX: &str = "f:spec.nodeName";

/// The name in metrics of the index on the hash of uids.
const UID_INDEX: &str = "h:metadata.uid";

/// The name in metrics of lookups of namespaces by their hash. The key order of the cache serves as
/// the index.
const NAMESPACE_INDEX: &str = "h:metadata.namespace";

/// The name in metrics of every index on a label. Clients choose labels, so a name for each would
/// be a time series for each.
const LABEL_INDEX: &str = "l:*";

/// The maximum number of labels that are indexed at the same time.
const MAX_LABELS: usize = 16;

/// The reciprocal of the largest fraction of all objects for which the objects of several values
/// are merged. For a larger fraction, reading every object is no slower.
const UNION_MAX_DIVISOR: u64 = 8;

/// The fraction of all hashes from which on a shard is found by testing the hash of every object.
/// Testing 64 hashes takes no longer than merging one object by its key, which has to be fetched
/// from memory.
const FILTERED_SCAN_MIN_SHARE: f64 = 1.0 / 64.0;

/// The number of the next use of an index. Identifies the least recently used index.
static USES: AtomicU64 = AtomicU64::new(1);

/// Returns whether the resource has [`INDEXED_FIELD`].
pub(crate) fn has_indexed_field(resource: &Resource) -> bool {
    let mut paths = resource.selectable.unwrap_or_default().iter();
    paths.any(|(path, _)| *path == INDEXED_FIELD)
}

/// Returns the value of [`INDEXED_FIELD`] of an object.
pub(crate) fn indexed_value<'o>(resource: &Resource, object: &'o Object) -> &'o [u8] {
    field_of(resource, object, INDEXED_FIELD)
}

/// The objects that have one value.
#[derive(Debug, Clone)]
struct ValueBucket {
    value: Arc<[u8]>,
    objects: Tree<Object>,
}

impl Item for ValueBucket {
    type Tag = ();

    fn key(&self) -> &[u8] {
        &self.value
    }

    /// Returns the number of objects, so that the tree of buckets knows how many it holds in all.
    fn weight(&self) -> u64 {
        self.objects.len()
    }

    fn tag(&self) {}
}

/// The objects by the values of one field or label.
#[derive(Debug, Clone, Default)]
struct ValueIndex {
    buckets: Tree<ValueBucket>,
}

impl ValueIndex {
    /// Indexes the objects that have a value.
    fn build(objects: &Tree<Object>, value: impl Fn(&Object) -> Option<&[u8]>) -> Self {
        // The objects are grouped in a hash map first, where the trees grow in place.
        let mut by_value: HashMap<Vec<u8>, Tree<Object>> = HashMap::new();
        let mut iter = objects.cursor(KeyRange::From(b""));
        while let Some(object) = iter.next_ref() {
            let Some(value) = value(object) else { continue };
            match by_value.get_mut(value) {
                Some(tree) => drop(tree.insert(object.clone())),
                None => {
                    let mut tree = Tree::default();
                    tree.insert(object.clone());
                    by_value.insert(value.to_vec(), tree);
                }
            }
        }
        let mut index = Self::default();
        for (value, objects) in by_value {
            let value = value.into();
            index.buckets.insert(ValueBucket { value, objects });
        }
        index
    }

    fn insert(&mut self, value: &[u8], object: &Object) {
        // The bucket is removed first, so that its tree is changed in place if no snapshot shares
        // it.
        let mut bucket = self.buckets.remove(value).unwrap_or_else(|| ValueBucket {
            value: Arc::from(value),
            objects: Tree::default(),
        });
        bucket.objects.insert(object.clone());
        self.buckets.insert(bucket);
    }

    fn remove(&mut self, value: &[u8], key: &[u8]) {
        if let Some(mut bucket) = self.buckets.remove(value) {
            bucket.objects.remove(key);
            if !bucket.objects.is_empty() {
                self.buckets.insert(bucket);
            }
        }
    }

    fn with(&self, value: &[u8]) -> Tree<Object> {
        let bucket = self.buckets.get(value);
        bucket.map_or_else(Tree::default, |bucket| bucket.objects.clone())
    }

    /// Returns how many objects have one of these values (none given: any value).
    fn count(&self, values: &[String]) -> u64 {
        if values.is_empty() {
            return self.buckets.weight();
        }
        let counts = values.iter().map(|value| {
            let bucket = self.buckets.get(value.as_bytes());
            bucket.map_or(0, ValueBucket::weight)
        });
        counts.sum()
    }

    /// Returns the objects that have one of these values (none given: any value).
    fn union(&self, values: &[String]) -> Tree<Object> {
        match values {
            [value] => self.with(value.as_bytes()),
            [] => merged(self.buckets.cursor(KeyRange::From(b"")).map(|b| b.objects)),
            _ => merged(values.iter().map(|value| self.with(value.as_bytes()))),
        }
    }
}

fn merged(trees: impl Iterator<Item = Tree<Object>>) -> Tree<Object> {
    let mut all = Tree::default();
    for tree in trees {
        for object in tree.cursor(KeyRange::From(b"")) {
            all.insert(object);
        }
    }
    all
}

/// An index on a label.
#[derive(Debug, Clone)]
pub(crate) struct LabelIndex {
    label: Arc<str>,
    index: ValueIndex,
    used: Arc<AtomicU64>,
}

impl LabelIndex {
    /// Indexes the objects that have the label. Reads every object.
    pub(crate) fn build(label: &str, objects: &Tree<Object>) -> Self {
        Self {
            label: label.into(),
            index: ValueIndex::build(objects, |object| label_of(object, label)),
            used: Arc::new(AtomicU64::new(USES.fetch_add(1, Ordering::Relaxed))),
        }
    }

    /// Applies a change of one object.
    pub(crate) fn change(&mut self, old: Option<&Object>, new: Option<&Object>) {
        if let Some(old) = old
            && let Some(value) = label_of(old, &self.label)
        {
            self.index.remove(value, old.key());
        }
        if let Some(new) = new
            && let Some(value) = label_of(new, &self.label)
        {
            self.index.insert(value, new);
        }
    }
}

/// The objects that an index has found, or all objects.
#[derive(Debug)]
pub(crate) struct Candidates {
    /// In key order.
    pub(crate) objects: ObjectSet,
    /// The name of the index in metrics; empty without an index.
    pub(crate) index: &'static str,
}

impl Candidates {
    /// Returns all objects, without an index.
    pub(crate) fn all(objects: Tree<Object>) -> Self {
        Self {
            objects: ObjectSet::All(objects),
            index: "",
        }
    }
}

/// An index that was built while the cache serves requests.
#[derive(Debug)]
pub(crate) enum NewIndex {
    Label(LabelIndex),
    Uids(UidIndex),
}

impl NewIndex {
    /// Applies a change of one object.
    pub(crate) fn change(&mut self, old: Option<&Object>, new: Option<&Object>) {
        match self {
            Self::Label(label) => label.change(old, new),
            Self::Uids(uids) => uids.change(old, new),
        }
    }
}

/// All indexes of a cache.
#[derive(Debug, Clone, Default)]
pub(crate) struct Indexes {
    field: Option<ValueIndex>,
    labels: Vec<LabelIndex>,
    /// The index on the hash of uids. Built when a shard is first requested.
    uids: Option<UidIndex>,
}

impl Indexes {
    /// Returns the indexes of a past snapshot: only that on the hash of uids is kept.
    pub(crate) fn of_uids(uids: Option<UidIndex>) -> Self {
        Self {
            uids,
            ..Self::default()
        }
    }

    /// Returns whether there is no index.
    pub(crate) fn is_empty(&self) -> bool {
        self.field.is_none() && self.labels.is_empty() && self.uids.is_none()
    }

    /// Returns the index on the hash of uids.
    pub(crate) fn uids(&self) -> Option<&UidIndex> {
        self.uids.as_ref()
    }

    /// Builds the index on [`INDEXED_FIELD`], if the resource has that field. Labels are indexed
    /// when they are used.
    pub(crate) fn build(resource: &Resource, objects: &Tree<Object>) -> Self {
        if !has_indexed_field(resource) {
            return Self::default();
        }
        Self {
            field: Some(ValueIndex::build(objects, |object| {
                Some(indexed_value(resource, object))
            })),
            ..Self::default()
        }
    }

    /// Applies a change of one object.
    pub(crate) fn change(
        &mut self,
        resource: &Resource,
        old: Option<&Object>,
        new: Option<&Object>,
    ) {
        if let Some(index) = &mut self.field {
            if let Some(old) = old {
                index.remove(indexed_value(resource, old), old.key());
            }
            if let Some(new) = new {
                index.insert(indexed_value(resource, new), new);
            }
        }
        for label in &mut self.labels {
            label.change(old, new);
        }
        if let Some(uids) = &mut self.uids {
            uids.change(old, new);
        }
    }

    /// Adds a new index. If there are [`MAX_LABELS`] labels already, the least recently used one
    /// is dropped.
    pub(crate) fn add(&mut self, index: NewIndex) {
        let label = match index {
            NewIndex::Label(label) => label,
            NewIndex::Uids(uids) => {
                self.uids = Some(uids);
                return;
            }
        };
        self.labels.retain(|other| other.label != label.label);
        if self.labels.len() >= MAX_LABELS {
            let used = |index: &LabelIndex| index.used.load(Ordering::Relaxed);
            let oldest = (0..self.labels.len()).min_by_key(|at| used(&self.labels[*at]));
            oldest.map(|at| self.labels.swap_remove(at));
        }
        self.labels.push(label);
    }

    /// Returns the first label that the filter requires and that has no index.
    pub(crate) fn missing_label<'f>(&self, filter: &'f Filter) -> Option<&'f str> {
        let indexed = |key: &str| self.labels.iter().any(|label| &*label.label == key);
        let mut demanded = filter.demands_labels().map(|(key, _)| key);
        demanded.find(|key| !indexed(key))
    }

    /// Returns the objects of the shard that the filter requires; `None` without a shard or its
    /// index.
    pub(crate) fn shard(&self, filter: &Filter, objects: &Tree<Object>) -> Option<Candidates> {
        let selector = filter.indexed_shard()?;
        Some(match selector.key() {
            ShardKey::Uid if selector.share() >= FILTERED_SCAN_MIN_SHARE => Candidates {
                objects: ObjectSet::FilteredScan(objects.clone(), selector.clone()),
                index: UID_INDEX,
            },
            ShardKey::Uid => Candidates {
                objects: ObjectSet::ByUid(self.uids.clone()?, selector.clone()),
                index: UID_INDEX,
            },
            ShardKey::Namespace => Candidates {
                objects: ObjectSet::ByNamespace(objects.clone(), selector.clone()),
                index: NAMESPACE_INDEX,
            },
        })
    }

    /// Returns the smallest set of objects from an index, in key order, that contains every object
    /// which the filter selects; `None` if no index helps. Takes O(log n), or O(objects found) for
    /// several values.
    pub(crate) fn candidates(&self, filter: &Filter, everything: u64) -> Option<Candidates> {
        let mut best: Option<(u64, &ValueIndex, &[String])> = None;
        for (key, values) in filter.demands_labels() {
            let Some(label) = self.labels.iter().find(|label| &*label.label == key) else {
                continue;
            };
            let now = USES.fetch_add(1, Ordering::Relaxed);
            label.used.store(now, Ordering::Relaxed);
            let count = label.index.count(values);
            let cheap = values.len() == 1 || count <= everything / UNION_MAX_DIVISOR;
            if cheap && best.is_none_or(|(fewest, ..)| count < fewest) {
                best = Some((count, &label.index, values));
            }
        }
        if let (Some(index), Some(value)) = (&self.field, filter.demands_field(INDEXED_FIELD)) {
            let found = index.with(value.as_bytes());
            if best.is_none_or(|(fewest, ..)| found.len() <= fewest) {
                return Some(Candidates {
                    objects: ObjectSet::All(found),
                    index: FIELD_INDEX,
                });
            }
        }
        best.map(|(_, index, values)| Candidates {
            objects: ObjectSet::All(index.union(values)),
            index: LABEL_INDEX,
        })
    }
}
