//! Who watches what, and handing events out.
//!
//! Watchers that want the same are a group, whose filter looks at an event once. Groups are found by what
//! their filter demands: one object by its key, the pods of one node by its name, one namespace by its
//! prefix; only groups that demand none of these are tried for every event.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::Mutex;

use super::event::{Dispatched, Event, EventType};
use super::index::{INDEXED_FIELD, indexed_value};
use super::queue::{Delivery, Queue};
use crate::kube::filter::{Filter, NAME};
use crate::kube::object::Object;
use crate::kube::resource::Resource;

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
        let place = if let Some(value) = filter.demands_field(INDEXED_FIELD) {
            Place::Field(value.as_bytes().to_vec())
        } else if let (Some(name), false) = (filter.demands_field(NAME), below.is_empty()) {
            Place::Key(format!("{below}{name}").into_bytes())
        } else if below.is_empty() {
            Place::Everywhere
        } else {
            Place::Namespace(below.clone().into_bytes())
        };
        Self {
            identity: format!("{below}\n{selectors}"),
            below,
            filter,
            place,
        }
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

/// Watchers of one interest.
#[derive(Debug)]
struct Group {
    interest: Arc<Interest>,
    /// Copied when it changes while an event is handed out.
    watchers: Arc<Vec<Arc<Queue>>>,
}

/// Groups by where they are looked up.
#[derive(Debug, Default)]
struct Groups {
    by_key: HashMap<Vec<u8>, Vec<Group>>,
    by_field: HashMap<Vec<u8>, Vec<Group>>,
    by_namespace: HashMap<Vec<u8>, Vec<Group>>,
    everywhere: Vec<Group>,
}

/// The watchers of a resource.
#[derive(Debug)]
pub(crate) struct Hub {
    resource: &'static Resource,
    groups: Mutex<Groups>,
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

impl Hub {
    pub(crate) fn new(resource: &'static Resource) -> Arc<Self> {
        Arc::new(Self {
            resource,
            groups: Mutex::default(),
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
        let mut groups = self.groups.lock();
        let there = groups.at(&interest.place);
        match there
            .iter_mut()
            .find(|group| group.interest.identity == interest.identity)
        {
            Some(group) => Arc::make_mut(&mut group.watchers).push(queue.clone()),
            None => there.push(Group {
                interest: interest.clone(),
                watchers: Arc::new(vec![queue.clone()]),
            }),
        }
        Subscription {
            hub: self.clone(),
            interest,
            queue,
        }
    }

    /// Puts an event into every queue that wants it and has room; answers those without.
    pub(crate) fn hand_out(&self, event: &Arc<Event>) -> Vec<(Arc<Queue>, Delivery)> {
        let mut blocked = Vec::new();
        let audiences = self.audiences(event);
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
        blocked
    }

    /// Looks up who may want the event under the lock, and asks their filters outside of it.
    fn audiences(&self, event: &Event) -> Vec<Audience> {
        let mut candidates = Vec::new();
        {
            let groups = self.groups.lock();
            let mut add = |found: Option<&Vec<Group>>| {
                let found = found.into_iter().flatten();
                candidates.extend(found.map(|g| (g.interest.clone(), g.watchers.clone())));
            };
            add(Some(&groups.everywhere));
            if !groups.by_key.is_empty() {
                add(groups.by_key.get(event.key()));
            }
            if !groups.by_namespace.is_empty()
                && let Some(slash) = event.key().iter().position(|byte| *byte == b'/')
            {
                add(groups.by_namespace.get(&event.key()[..=slash]));
            }
            if !groups.by_field.is_empty() {
                let value = |object| indexed_value(self.resource, object);
                let (old, new) = (event.old().map(value), event.new_object().map(value));
                add(old.and_then(|old| groups.by_field.get(old)));
                if new != old {
                    add(new.and_then(|new| groups.by_field.get(new)));
                }
            }
        }
        candidates
            .into_iter()
            .filter_map(|(interest, watchers)| Some((interest.event_type(event)?, watchers)))
            .collect()
    }

    /// Closes every queue: what they were told no longer joins up with what comes.
    pub(crate) fn close_all(&self) {
        for queue in self.queues() {
            queue.close();
        }
    }

    /// The queues of all watchers that are there.
    pub(crate) fn queues(&self) -> Vec<Arc<Queue>> {
        let groups = self.groups.lock();
        let all = groups
            .by_key
            .values()
            .chain(groups.by_field.values())
            .chain(groups.by_namespace.values())
            .flatten()
            .chain(&groups.everywhere);
        all.flat_map(|group| group.watchers.iter().cloned())
            .collect()
    }

    fn leave(&self, interest: &Interest, queue: &Arc<Queue>) {
        let mut groups = self.groups.lock();
        let there = groups.at(&interest.place);
        if let Some(at) = there
            .iter()
            .position(|group| group.interest.identity == interest.identity)
        {
            let watchers = Arc::make_mut(&mut there[at].watchers);
            watchers.retain(|other| !Arc::ptr_eq(other, queue));
            if watchers.is_empty() {
                there.swap_remove(at);
            }
        }
        groups.prune(&interest.place);
    }
}

impl Groups {
    fn at(&mut self, place: &Place) -> &mut Vec<Group> {
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
        if map.get(key).is_some_and(Vec::is_empty) {
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
