//! The watchers of a resource, and the delivery of events to their queues.
//!
//! Watchers with equal interests form a group, whose filter is evaluated once per event. A group is
//! looked up by what its filter requires: one object by its key, the pods of a node by the node's
//! name, a namespace by its prefix. Among the groups with the same lookup key, watchers of a shard
//! are found by the hash of the object. Only groups that require none of these are tried for every
//! event.
//!
//! - [`interest`]: what a watcher is interested in, and the key by which it is looked up
//! - [`watcher_groups`]: the groups with the same lookup key

pub(crate) mod interest;
mod watcher_groups;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::Mutex;

use self::interest::{Interest, LookupKey};
use self::watcher_groups::{MatchedGroups, WatcherGroup, WatcherGroups};
use super::event::{CachingEvent, Event, EventType};
use super::index::indexed_value;
use super::watcher_queue::{Delivery, WatcherQueue};
use crate::resource::Resource;

/// The watchers by lookup key.
#[derive(Debug, Default)]
struct IndexedWatchers {
    by_key: HashMap<Vec<u8>, WatcherGroups>,
    by_field: HashMap<Vec<u8>, WatcherGroups>,
    by_namespace: HashMap<Vec<u8>, WatcherGroups>,
    everywhere: WatcherGroups,
}

/// The watchers of a resource.
#[derive(Debug)]
pub(crate) struct Broadcaster {
    resource: &'static Resource,
    watchers: Mutex<IndexedWatchers>,
    /// Every event up to this revision has been delivered.
    revision: AtomicI64,
}

/// A watcher's subscription. Dropping it unsubscribes.
#[derive(Debug)]
pub(crate) struct Subscription {
    broadcaster: Arc<Broadcaster>,
    interest: Arc<Interest>,
    pub(crate) queue: Arc<WatcherQueue>,
}

/// An event type, and the queues of the watchers for whom the event is of that type.
type Recipients = (EventType, Arc<Vec<Arc<WatcherQueue>>>);

/// The result of a delivery.
#[derive(Debug)]
pub(crate) struct Broadcast {
    /// Queues that were full.
    pub(crate) blocked: Vec<(Arc<WatcherQueue>, Delivery)>,
    /// Objects that are not in a watcher's shard, counted for each watcher.
    pub(crate) filtered: u64,
}

impl Broadcaster {
    pub(crate) fn new(resource: &'static Resource) -> Arc<Self> {
        Arc::new(Self {
            resource,
            watchers: Mutex::default(),
            revision: AtomicI64::new(0),
        })
    }

    /// Returns the revision up to which every event is in its watchers' queues.
    pub(crate) fn revision(&self) -> i64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Sets the revision up to which every event has been delivered.
    pub(crate) fn publish(&self, revision: i64) {
        self.revision.store(revision, Ordering::Release);
    }

    /// Subscribes a watcher: events that are delivered from now on go to its queue, which holds
    /// `capacity` of them.
    pub(crate) fn subscribe(
        self: &Arc<Self>,
        interest: Arc<Interest>,
        capacity: usize,
    ) -> Subscription {
        let queue = Arc::new(WatcherQueue::new(capacity));
        let mut watchers = self.watchers.lock();
        watchers.at(interest.lookup_key()).join(&interest, &queue);
        Subscription {
            broadcaster: self.clone(),
            interest,
            queue,
        }
    }

    /// Puts an event into the queues of its watchers, except those that are full, which are
    /// returned.
    pub(crate) fn broadcast(&self, event: &Arc<Event>) -> Broadcast {
        let mut blocked = Vec::new();
        let (recipients, filtered) = self.recipients(event);
        let dispatched = Arc::new(CachingEvent::new(event.clone()));
        for (event_type, watchers) in recipients {
            for queue in watchers.iter() {
                let delivery = Delivery {
                    event: dispatched.clone(),
                    event_type,
                };
                if let Err(delivery) = queue.try_send(delivery) {
                    blocked.push((queue.clone(), delivery));
                }
            }
        }
        Broadcast { blocked, filtered }
    }

    /// Returns the queues that receive the event, and how many objects shards filtered out. Finds
    /// the groups while holding the lock, and evaluates their filters after releasing it.
    fn recipients(&self, event: &Event) -> (Vec<Recipients>, u64) {
        let mut found = MatchedGroups::default();
        {
            let mut watchers = self.watchers.lock();
            watchers.everywhere.find(event, &mut found);
            let mut find = |groups: Option<&mut WatcherGroups>| {
                if let Some(groups) = groups {
                    groups.find(event, &mut found);
                }
            };
            if !watchers.by_key.is_empty() {
                find(watchers.by_key.get_mut(event.key()));
            }
            if !watchers.by_namespace.is_empty()
                && let Some(slash) = event.key().iter().position(|byte| *byte == b'/')
            {
                find(watchers.by_namespace.get_mut(&event.key()[..=slash]));
            }
            if !watchers.by_field.is_empty() {
                let value = |object| indexed_value(self.resource, object);
                let (old, new) = (event.old().map(value), event.new_object().map(value));
                find(old.and_then(|old| watchers.by_field.get_mut(old)));
                if new != old {
                    find(new.and_then(|new| watchers.by_field.get_mut(new)));
                }
            }
        }
        let to_recipients =
            |group: WatcherGroup| Some((group.interest.event_type(event)?, group.watchers));
        let recipients = found.groups.into_iter().filter_map(to_recipients).collect();
        (recipients, found.filtered)
    }

    /// Closes every queue. Called when the next events do not follow on those that watchers have
    /// received.
    pub(crate) fn close_all(&self) {
        for queue in self.queues() {
            queue.close();
        }
    }

    /// Returns the queues of all watchers.
    pub(crate) fn queues(&self) -> Vec<Arc<WatcherQueue>> {
        let watchers = self.watchers.lock();
        let maps = [&watchers.by_key, &watchers.by_field, &watchers.by_namespace];
        let maps = maps.into_iter().flat_map(HashMap::values);
        let groups = maps
            .chain([&watchers.everywhere])
            .flat_map(WatcherGroups::groups);
        groups
            .flat_map(|group| group.watchers.iter().cloned())
            .collect()
    }

    fn leave(&self, interest: &Interest, queue: &Arc<WatcherQueue>) {
        let mut watchers = self.watchers.lock();
        watchers.at(interest.lookup_key()).leave(interest, queue);
        watchers.prune(interest.lookup_key());
    }
}

impl IndexedWatchers {
    fn at(&mut self, lookup_key: &LookupKey) -> &mut WatcherGroups {
        match lookup_key {
            LookupKey::Key(key) => self.by_key.entry(key.clone()).or_default(),
            LookupKey::Field(value) => self.by_field.entry(value.clone()).or_default(),
            LookupKey::Namespace(below) => self.by_namespace.entry(below.clone()).or_default(),
            LookupKey::Everywhere => &mut self.everywhere,
        }
    }

    /// Removes the groups of a key that has no watchers left.
    fn prune(&mut self, lookup_key: &LookupKey) {
        let (map, key) = match lookup_key {
            LookupKey::Key(key) => (&mut self.by_key, key),
            LookupKey::Field(value) => (&mut self.by_field, value),
            LookupKey::Namespace(below) => (&mut self.by_namespace, below),
            LookupKey::Everywhere => return,
        };
        if map.get(key).is_some_and(WatcherGroups::is_empty) {
            map.remove(key);
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.queue.close();
        self.broadcaster.leave(&self.interest, &self.queue);
    }
}
