//! Who watches what, and handing events out.
//!
//! Watchers that want the same are a group, whose filter looks at an event once. Groups are found by what
//! their filter demands: one object by its key, the pods of one node by its name, one namespace by its
//! prefix. Among those, watchers of a shard are found by the hash of the object. Only groups that demand none
//! of these are tried for every event.
//!
//! - [`watcher_groups`]: the groups of one place; [`shard_ranges`]: which shards a hash belongs to

mod watcher_groups;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use kube_api::{ShardKey, ShardRange};
use parking_lot::Mutex;

use self::watcher_groups::{Crowd, Found, Group};
use super::event::{Dispatched, Event, EventType};
use super::index::{INDEXED_FIELD, indexed_value};
use super::watcher_queue::{Delivery, Queue};
use crate::resource::Resource;
use crate::resource::filter::{Filter, NAME, NAMESPACE};
use crate::resource::object::Object;

/// What a watcher wants to be told about.
#[derive(Debug)]
pub struct Interest {
    /// Empty, or `NAMESPACE/`.
    below: String,
    filter: Filter,
    place: Place,
    /// Interests with the same text are the same.
    identity: String,
}

/// Where an interest is looked up.
#[derive(Debug)]
enum Place {
    /// Objects with this key.
    Key(Vec<u8>),
    /// Objects with this value of the resource's indexed field.
    Field(Vec<u8>),
    /// Objects below this prefix, which ends in a slash.
    Namespace(Vec<u8>),
    /// Any object.
    Everywhere,
}

impl Interest {
    /// Everything below `below` that `filter` selects; `selectors` is the text that the filter was read from.
    pub(crate) fn new(below: String, filter: Filter, selectors: &str) -> Self {
        let name = filter.demands_field(NAME);
        let namespace = match filter.demands_field(NAMESPACE) {
            Some(namespace) if below.is_empty() => Some(format!("{namespace}/")),
            _ => (!below.is_empty()).then(|| below.clone()),
        };
        let place = if let Some(value) = filter.demands_field(INDEXED_FIELD) {
            Place::Field(value.as_bytes().to_vec())
        } else {
            match (filter.resource().namespaced, namespace, name) {
                (false, _, Some(name)) => Place::Key(name.as_bytes().to_vec()),
                (true, Some(below), Some(name)) => Place::Key((below + name).into_bytes()),
                (true, Some(below), None) => Place::Namespace(below.into_bytes()),
                _ => Place::Everywhere,
            }
        };
        Self {
            identity: format!("{below}\n{selectors}"),
            below,
            filter,
            place,
        }
    }

    /// The field by whose hash its watchers are found, where they are.
    fn hashes(&self) -> Option<ShardKey> {
        self.filter.indexed_shard().map(|shard| shard.key())
    }

    /// The hashes that it is about; none where it is about no shard.
    fn spans(&self) -> &[ShardRange] {
        self.filter.shard().map_or(&[], |shard| shard.spans())
    }

    /// Whether it is about objects with this hash.
    fn has_hash(&self, hash: u64) -> bool {
        self.filter.shard().is_none_or(|shard| shard.selects(hash))
    }

    /// Whether it is about a shard.
    pub(crate) fn is_sharded(&self) -> bool {
        self.filter.shard().is_some()
    }

    /// The selectors.
    pub(crate) fn filter(&self) -> &Filter {
        &self.filter
    }

    /// How many of an event's objects, old and new, are not in the shard that it is about.
    pub(crate) fn shard_misses(&self, event: &Event) -> u64 {
        if !self.is_sharded() {
            return 0;
        }
        let objects = [event.old(), event.new_object()].into_iter().flatten();
        let below = objects.filter(|object| object.key().starts_with(self.below.as_bytes()));
        below
            .filter(|object| !self.filter.is_in_shard(object))
            .count() as u64
    }

    /// Empty, or `NAMESPACE/`.
    pub(crate) fn below(&self) -> &str {
        &self.below
    }

    /// Whether its watchers are found by a value of the indexed field.
    pub(crate) fn uses_index(&self) -> bool {
        matches!(self.place, Place::Field(_))
    }

    /// Whether it is about this object.
    pub(crate) fn passes(&self, object: &Object) -> bool {
        object.key().starts_with(self.below.as_bytes())
            && (self.filter.is_empty() || self.filter.matches(object))
    }

    /// What its watchers are told about an event.
    pub(crate) fn event_type(&self, event: &Event) -> Option<EventType> {
        let passes = |object: Option<&Object>| object.is_some_and(|object| self.passes(object));
        EventType::of(passes(event.old()), passes(event.new_object()))
    }
}

/// Interests are the same when the texts are that they were read from.
impl PartialEq for Interest {
    fn eq(&self, other: &Self) -> bool {
        self.identity == other.identity
    }
}

/// Watchers by where they are looked up.
#[derive(Debug, Default)]
struct Places {
    by_key: HashMap<Vec<u8>, Crowd>,
    by_field: HashMap<Vec<u8>, Crowd>,
    by_namespace: HashMap<Vec<u8>, Crowd>,
    everywhere: Crowd,
}

/// The watchers of a resource.
#[derive(Debug)]
pub(crate) struct Hub {
    resource: &'static Resource,
    places: Mutex<Places>,
    /// Everything up to here was handed out.
    revision: AtomicI64,
}

/// A watcher's place in a hub; dropping it leaves.
#[derive(Debug)]
pub(crate) struct Subscription {
    hub: Arc<Hub>,
    interest: Arc<Interest>,
    pub(crate) queue: Arc<Queue>,
}

/// The watchers of one event, and what they are told.
type Audience = (EventType, Arc<Vec<Arc<Queue>>>);

/// What became of an event.
#[derive(Debug)]
pub(crate) struct HandedOut {
    /// Queues without room.
    pub(crate) blocked: Vec<(Arc<Queue>, Delivery)>,
    /// Tests of a shard that failed, or would have.
    pub(crate) filtered: u64,
}

impl Hub {
    pub(crate) fn new(resource: &'static Resource) -> Arc<Self> {
        Arc::new(Self {
            resource,
            places: Mutex::default(),
            revision: AtomicI64::new(0),
        })
    }

    /// Everything up to this revision is in the queues of those who want it.
    pub(crate) fn revision(&self) -> i64 {
        self.revision.load(Ordering::Acquire)
    }

    /// To be called after everything up to `revision` was handed out.
    pub(crate) fn publish(&self, revision: i64) {
        self.revision.store(revision, Ordering::Release);
    }

    /// Joins: what is handed out from now on comes to the queue, which holds `capacity` events.
    pub(crate) fn subscribe(
        self: &Arc<Self>,
        interest: Arc<Interest>,
        capacity: usize,
    ) -> Subscription {
        let queue = Arc::new(Queue::new(capacity));
        let mut places = self.places.lock();
        places.at(&interest.place).join(&interest, &queue);
        Subscription {
            hub: self.clone(),
            interest,
            queue,
        }
    }

    /// Puts an event into every queue that wants it and has room.
    pub(crate) fn hand_out(&self, event: &Arc<Event>) -> HandedOut {
        let mut blocked = Vec::new();
        let (audiences, filtered) = self.audiences(event);
        let dispatched = Arc::new(Dispatched::new(event.clone()));
        for (event_type, watchers) in audiences {
            for queue in watchers.iter() {
                let delivery = Delivery {
                    event: dispatched.clone(),
                    event_type,
                };
                if let Err(delivery) = queue.offer(delivery) {
                    blocked.push((queue.clone(), delivery));
                }
            }
        }
        HandedOut { blocked, filtered }
    }

    /// Looks up who may want the event under the lock, and asks their filters outside of it.
    fn audiences(&self, event: &Event) -> (Vec<Audience>, u64) {
        let mut found = Found::default();
        {
            let mut places = self.places.lock();
            places.everywhere.find(event, &mut found);
            let mut look = |crowd: Option<&mut Crowd>| {
                if let Some(crowd) = crowd {
                    crowd.find(event, &mut found);
                }
            };
            if !places.by_key.is_empty() {
                look(places.by_key.get_mut(event.key()));
            }
            if !places.by_namespace.is_empty()
                && let Some(slash) = event.key().iter().position(|byte| *byte == b'/')
            {
                look(places.by_namespace.get_mut(&event.key()[..=slash]));
            }
            if !places.by_field.is_empty() {
                let value = |object| indexed_value(self.resource, object);
                let (old, new) = (event.old().map(value), event.new_object().map(value));
                look(old.and_then(|old| places.by_field.get_mut(old)));
                if new != old {
                    look(new.and_then(|new| places.by_field.get_mut(new)));
                }
            }
        }
        let told = |group: Group| Some((group.interest.event_type(event)?, group.watchers));
        let audiences = found.groups.into_iter().filter_map(told).collect();
        (audiences, found.filtered)
    }

    /// Closes every queue: what they were told no longer joins up with what comes.
    pub(crate) fn close_all(&self) {
        for queue in self.queues() {
            queue.close();
        }
    }

    /// The queues of all watchers that are there.
    pub(crate) fn queues(&self) -> Vec<Arc<Queue>> {
        let places = self.places.lock();
        let crowds = [&places.by_key, &places.by_field, &places.by_namespace];
        let crowds = crowds.into_iter().flat_map(HashMap::values);
        let groups = crowds.chain([&places.everywhere]).flat_map(Crowd::groups);
        groups
            .flat_map(|group| group.watchers.iter().cloned())
            .collect()
    }

    fn leave(&self, interest: &Interest, queue: &Arc<Queue>) {
        let mut places = self.places.lock();
        places.at(&interest.place).leave(interest, queue);
        places.prune(&interest.place);
    }
}

impl Places {
    fn at(&mut self, place: &Place) -> &mut Crowd {
        match place {
            Place::Key(key) => self.by_key.entry(key.clone()).or_default(),
            Place::Field(value) => self.by_field.entry(value.clone()).or_default(),
            Place::Namespace(below) => self.by_namespace.entry(below.clone()).or_default(),
            Place::Everywhere => &mut self.everywhere,
        }
    }

    /// Removes a place where nobody is left.
    fn prune(&mut self, place: &Place) {
        let (map, key) = match place {
            Place::Key(key) => (&mut self.by_key, key),
            Place::Field(value) => (&mut self.by_field, value),
            Place::Namespace(below) => (&mut self.by_namespace, below),
            Place::Everywhere => return,
        };
        if map.get(key).is_some_and(Crowd::is_empty) {
            map.remove(key);
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.queue.close();
        self.hub.leave(&self.interest, &self.queue);
    }
}

#[cfg(test)]
mod tests {
    use kube_api::ListOptions;

    use super::*;
    use crate::feature_gates::FeatureGates;
    use crate::resource::RESOURCES;

    /// An event costs as much as there are interests that are looked up nowhere.
    #[test]
    fn who_watches_one_object_is_found_by_its_key() {
        for (resource, below, fields, place) in [
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
            let interest = Interest::new(below.to_owned(), filter.expect("a filter"), fields);
            let text = |name: &str, bytes: &[u8]| format!("{name} {}", bytes.escape_ascii());
            let looked_up = match &interest.place {
                Place::Key(key) => text("Key", key),
                Place::Field(value) => text("Field", value),
                Place::Namespace(below) => text("Namespace", below),
                Place::Everywhere => "Everywhere".to_owned(),
            };
            assert_eq!(looked_up, place, "{resource} {below} {fields}");
        }
    }
}
