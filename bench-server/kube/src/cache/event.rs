//! A change of an object, as watchers receive it.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::resource::object::Object;
use crate::resource::representation::Representation;

/// The type of an event for a watcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// The object exists for this watcher from now on.
    Added,
    /// The object has changed.
    Modified,
    /// The object has been deleted, or the watcher's filter no longer selects it.
    Deleted,
}

impl EventType {
    /// Returns the type's name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }

    /// Returns the type for a watcher whose filter selects the old object, the new one, or both. An
    /// object that is no longer selected is deleted for this watcher. `None` if neither is
    /// selected.
    pub(crate) fn of(old_passes: bool, new_passes: bool) -> Option<Self> {
        match (old_passes, new_passes) {
            (false, true) => Some(Self::Added),
            (true, true) => Some(Self::Modified),
            (true, false) => Some(Self::Deleted),
            (false, false) => None,
        }
    }
}

/// A change of one object at a revision, with the object before the change, after it, or both.
#[derive(Debug)]
pub struct Event {
    revision: i64,
    old: Option<Object>,
    new: Option<Object>,
    /// The old object with the revision of its deletion, created for the first watcher that
    /// receives it.
    last: OnceLock<Option<Object>>,
}

impl Event {
    /// Returns the event. `None` if there is an object neither before nor after it, so that no
    /// client can see the change.
    pub(crate) fn new(revision: i64, old: Option<Object>, new: Option<Object>) -> Option<Self> {
        (old.is_some() || new.is_some()).then(|| Self {
            revision,
            old,
            new,
            last: OnceLock::new(),
        })
    }

    /// Returns the revision of the change.
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// Returns the object's key below the resource's prefix.
    pub fn key(&self) -> &[u8] {
        let object = self.new.as_ref().or(self.old.as_ref());
        object.map_or(&[], Object::key)
    }

    /// Returns the object before the change.
    pub fn old(&self) -> Option<&Object> {
        self.old.as_ref()
    }

    /// Returns the object after the change.
    pub fn new_object(&self) -> Option<&Object> {
        self.new.as_ref()
    }

    /// Returns the object that is sent with an event of this type: the new one, or, for a deletion,
    /// the old one with the revision of the deletion.
    pub fn object(&self, event_type: EventType) -> Option<&Object> {
        match event_type {
            EventType::Added | EventType::Modified => self.new.as_ref(),
            EventType::Deleted => self
                .last
                .get_or_init(|| self.old.as_ref()?.at_revision(self.revision).ok())
                .as_ref(),
        }
    }
}

/// The key under which an encoding of an event is cached.
pub(crate) type EncodingKey = (Representation, EventType);

/// An event that is being delivered, with a cache of its encodings, like apiserver's
/// `cachingObject`. Each encoding is made once, by the watcher that needs it first, and kept until
/// all watchers have sent the event. The history keeps the event without encodings.
#[derive(Debug)]
pub struct CachingEvent {
    event: Arc<Event>,
    encoded: Mutex<Vec<(EncodingKey, Arc<OnceLock<Bytes>>)>>,
}

impl CachingEvent {
    /// Returns the event with an empty cache.
    pub fn new(event: Arc<Event>) -> Self {
        Self {
            event,
            encoded: Mutex::default(),
        }
    }

    /// Returns the event.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// Returns the encoding for `key`, and makes it if no watcher has. Watchers that need another
    /// encoding do not wait for it.
    pub(crate) fn encoded(&self, key: EncodingKey, make: impl FnOnce() -> Bytes) -> Bytes {
        let slot = {
            let mut encoded = self.encoded.lock();
            match encoded.iter().find(|(known, _)| *known == key) {
                Some((_, slot)) => slot.clone(),
                None => {
                    let slot = Arc::new(OnceLock::new());
                    encoded.push((key, slot.clone()));
                    slot
                }
            }
        };
        slot.get_or_init(make).clone()
    }
}
