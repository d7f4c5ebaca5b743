//! What a watcher is interested in, and the key by which an event finds it.

use kube_api::{ShardKey, ShardRange};

use crate::cache::event::{Event, EventType};
use crate::cache::index::INDEXED_FIELD;
use crate::resource::filter::{Filter, NAME, NAMESPACE};
use crate::resource::object::Object;

/// What a watcher is interested in: the objects below a prefix that a filter selects.
#[derive(Debug)]
pub(crate) struct Interest {
    /// Empty, or `NAMESPACE/`.
    namespace_prefix: String,
    filter: Filter,
    lookup_key: LookupKey,
    /// Interests with the same text are equal.
    identity: String,
}

/// The key by which the watchers of an interest are looked up.
#[derive(Debug)]
pub(super) enum LookupKey {
    /// The key of one object.
    Key(Vec<u8>),
    /// A value of the resource's indexed field.
    Field(Vec<u8>),
    /// The prefix of a namespace, which ends in a slash.
    Namespace(Vec<u8>),
    /// No key: the watchers are tried for every event.
    Everywhere,
}

impl Interest {
    /// Returns the interest in everything below the prefix that `filter` selects; `selectors` is
    /// the text that the filter was parsed from.
    pub(crate) fn new(namespace_prefix: String, filter: Filter, selectors: &str) -> Self {
        let name = filter.demands_field(NAME);
        let namespace = match filter.demands_field(NAMESPACE) {
            Some(namespace) if namespace_prefix.is_empty() => Some(format!("{namespace}/")),
            _ => (!namespace_prefix.is_empty()).then(|| namespace_prefix.clone()),
        };
        let lookup_key = if let Some(value) = filter.demands_field(INDEXED_FIELD) {
            LookupKey::Field(value.as_bytes().to_vec())
        } else {
            match (filter.resource().namespaced, namespace, name) {
                (false, _, Some(name)) => LookupKey::Key(name.as_bytes().to_vec()),
                (true, Some(namespace_prefix), Some(name)) => {
                    LookupKey::Key((namespace_prefix + name).into_bytes())
                }
                (true, Some(namespace_prefix), None) => {
                    LookupKey::Namespace(namespace_prefix.into_bytes())
                }
                _ => LookupKey::Everywhere,
            }
        };
        Self {
            identity: format!("{namespace_prefix}\n{selectors}"),
            namespace_prefix,
            filter,
            lookup_key,
        }
    }

    /// Returns the field by whose hash the watchers are found, if they watch an indexed shard.
    pub(super) fn hashes(&self) -> Option<ShardKey> {
        self.filter.indexed_shard().map(|shard| shard.key())
    }

    /// Returns the ranges of hashes of the shard; none without a shard.
    pub(super) fn spans(&self) -> &[ShardRange] {
        self.filter.shard().map_or(&[], |shard| shard.spans())
    }

    /// Returns whether the shard contains this hash; `true` without a shard.
    pub(super) fn has_hash(&self, hash: u64) -> bool {
        self.filter.shard().is_none_or(|shard| shard.selects(hash))
    }

    /// Returns whether the interest is restricted to a shard.
    pub(crate) fn is_sharded(&self) -> bool {
        self.filter.shard().is_some()
    }

    /// Returns the filter of the objects.
    pub(crate) fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Returns how many of an event's objects, old and new, are outside the shard. Objects of other
    /// namespaces do not count.
    pub(crate) fn shard_misses(&self, event: &Event) -> u64 {
        if !self.is_sharded() {
            return 0;
        }
        let objects = [event.old(), event.new_object()].into_iter().flatten();
        let in_namespace =
            objects.filter(|object| object.key().starts_with(self.namespace_prefix.as_bytes()));
        in_namespace
            .filter(|object| !self.filter.is_in_shard(object))
            .count() as u64
    }

    /// Returns the key by which the watchers are looked up.
    pub(super) fn lookup_key(&self) -> &LookupKey {
        &self.lookup_key
    }

    /// Returns the prefix: empty, or `NAMESPACE/`.
    pub(crate) fn namespace_prefix(&self) -> &str {
        &self.namespace_prefix
    }

    /// Returns whether the watchers are looked up by a value of the indexed field.
    pub(crate) fn uses_index(&self) -> bool {
        matches!(self.lookup_key, LookupKey::Field(_))
    }

    /// Returns whether the interest includes this object.
    pub(crate) fn passes(&self, object: &Object) -> bool {
        object.key().starts_with(self.namespace_prefix.as_bytes())
            && (self.filter.is_empty() || self.filter.matches(object))
    }

    /// Returns the type that an event has for these watchers; `None` if it does not concern them.
    pub(crate) fn event_type(&self, event: &Event) -> Option<EventType> {
        let passes = |object: Option<&Object>| object.is_some_and(|object| self.passes(object));
        EventType::of(passes(event.old()), passes(event.new_object()))
    }
}

/// Two interests are equal if they were parsed from the same texts.
impl PartialEq for Interest {
    fn eq(&self, other: &Self) -> bool {
        self.identity == other.identity
    }
}

#[cfg(test)]
mod tests {
    use kube_api::ListOptions;

    use super::*;
    use crate::feature_gates::FeatureGates;
    use crate::resource::RESOURCES;

    /// The cost of an event grows with the number of interests that are tried for every event.
    #[test]
    fn who_watches_one_object_is_found_by_its_key() {
        for (resource, namespace_prefix, fields, lookup_key) in [
            ("nodes", "", "metadata.name=n", "Key n"),
            ("namespaces", "", "metadata.name=n", "Key n"),
            ("nodes", "", "spec.unschedulable=true", "Everywhere"),
            ("pods", "a/", "metadata.name=n", "Key a/n"),
            (
                "pods",
                "",
                "metadata.namespace=a,metadata.name=n",
                "Key a/n",
            ),
            ("pods", "", "metadata.namespace=a", "Namespace a/"),
            ("pods", "b/", "metadata.namespace=a", "Namespace b/"),
            ("pods", "", "metadata.name=n", "Everywhere"),
            ("pods", "a/", "spec.nodeName=n", "Field n"),
            ("configmaps", "", "metadata.namespace=a", "Namespace a/"),
        ] {
            let mut resources = RESOURCES.iter();
            let found = resources.find(|candidate| candidate.name == resource);
            let options = ListOptions {
                field_selector: fields.to_owned(),
                ..ListOptions::default()
            };
            let filter = Filter::parse(found.expect("served"), &options, FeatureGates::default());
            let interest = Interest::new(
                namespace_prefix.to_owned(),
                filter.expect("a filter"),
                fields,
            );
            let text = |name: &str, bytes: &[u8]| format!("{name} {}", bytes.escape_ascii());
            let looked_up = match &interest.lookup_key {
                LookupKey::Key(key) => text("Key", key),
                LookupKey::Field(value) => text("Field", value),
                LookupKey::Namespace(namespace_prefix) => text("Namespace", namespace_prefix),
                LookupKey::Everywhere => "Everywhere".to_owned(),
            };
            assert_eq!(
                looked_up, lookup_key,
                "{resource} {namespace_prefix} {fields}"
            );
        }
    }
}
