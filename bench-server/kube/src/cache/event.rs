//! One change of one object, as watchers are told about it.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::resource::object::Object;
use crate::resource::representation::Representation;

/// What a watcher is told about an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// It is there now, for this watcher.
    Added,
    /// It has changed.
    Modified,
    /// It is gone, or no longer selected.
    Deleted,
}

impl EventType {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }

    /// What a watcher is told whose filter passes the old object, the new one, or both: an object that stops
    /// being selected is deleted for that watcher. `None`: nothing.
    pub(crate) fn of(old_passes: bool, new_passes: bool) -> Option<Self> {
        match (old_passes, new_passes) {
            (false, true) => Some(Self::Added),
            (true, true) => Some(Self::Modified),
            (true, false) => Some(Self::Deleted),
            (false, false) => None,
        }
    }
}

/// A change: one object before and after a revision, at least one of the two.
#[derive(Debug)]
pub struct Event {
    revision: i64,
    old: Option<Object>,
    new: Option<Object>,
    /// The old object under the revision of the change; made for the first watcher that is told of an end.
    last: OnceLock<Option<Object>>,
}

impl Event {
    /// `None` when there is no object before or after: nobody can have seen it.
    pub(crate) fn new(revision: i64, old: Option<Object>, new: Option<Object>) -> Option<Self> {
        (old.is_some() || new.is_some()).then(|| Self {
            revision,
            old,
            new,
            last: OnceLock::new(),
        })
    }

    /// Revision of the change.
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// Key below the resource's prefix.
    pub fn key(&self) -> &[u8] {
        let object = self.new.as_ref().or(self.old.as_ref());
        object.map_or(&[], Object::key)
    }

    /// The object before.
    pub fn old(&self) -> Option<&Object> {
        self.old.as_ref()
    }

    /// The object after.
    pub fn new_object(&self) -> Option<&Object> {
        self.new.as_ref()
    }

    /// The object that goes out with an event of this type: the new one, or for an end the old content under
    /// the revision of the end.
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

/// What an event was encoded to: the form of its object, and what the watcher is told.
pub(crate) type EncodingKey = (Representation, EventType);

/// An event on its way to watchers, with what it was encoded to: each form is made once, whoever asks first,
/// and kept as long as some watcher has it to send. The ring keeps the event alone.
#[derive(Debug)]
pub struct CachingEvent {
    event: Arc<Event>,
    encoded: Mutex<Vec<(EncodingKey, Arc<OnceLock<Bytes>>)>>,
}

impl CachingEvent {
    /// Nothing is encoded yet.
    pub fn new(event: Arc<Event>) -> Self {
        Self {
            event,
            encoded: Mutex::default(),
        }
    }

    /// The event.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// The encoding in this form, made now when nobody has made it before. Those who want another one do
    /// not wait meanwhile.
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
