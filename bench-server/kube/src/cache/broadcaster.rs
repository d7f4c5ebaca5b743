//! Who watches what, and handing events out.
//!
//! Watchers that want the same are a group, whose filter looks at an event once. Groups are found by what
//! their filter demands: one object by its key, the pods of one node by its name, one namespace by its
//! prefix. Among those, watchers of a shard are found by the hash of the object. Only groups that demand none
//! of these are tried for every event.
//!
//! - [`watcher_groups`]: the groups of one place; [`shard_ranges`]: which shards a hash belongs to

pub(crate) mod interest;
mod watcher_groups;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::Mutex;

use self::interest::{Interest, Place};
use self::watcher_groups::{Crowd, Found, Group};
use super::event::{Dispatched, Event, EventType};
use super::index::indexed_value;
use super::watcher_queue::{Delivery, Queue};
use crate::resource::Resource;

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
        places.at(interest.place()).join(&interest, &queue);
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
        places.at(interest.place()).leave(interest, queue);
        places.prune(interest.place());
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
