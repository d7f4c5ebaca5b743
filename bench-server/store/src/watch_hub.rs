//! Delivers commits to watchers.
//!
//! The hub receives every commit inside the writer's critical section, and therefore in order, and
//! puts the events of a watcher into the queue of the watcher's stream. All notices of a stream
//! (created, events, progress, canceled) go through this queue, so progress can never overtake
//! events. A queue is bounded; when it is full, its watchers fall behind, and the stream reads the
//! missed events from the history when it is polled. There are no background tasks: an idle store
//! does nothing.

mod interval;
mod stream;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::task::Waker;

use etcd_api::keys::KeyRange;

use super::Record;
use super::history::{Commit, Event};
use interval::Intervals;
use stream::Queue;
pub use stream::{MAX_BATCH_BYTES, WatchStream};

/// The specification of a watcher.
#[derive(Debug, Clone, Default)]
pub struct WatchSpec {
    /// First key; empty means the lowest.
    pub key: Vec<u8>,
    /// End of the interval, as in a Range.
    pub range_end: Vec<u8>,
    /// First revision to deliver; 0 is the next one.
    pub start_revision: i64,
    /// Requested id on its stream; 0 lets the stream choose.
    pub id: i64,
    /// Whether to omit puts.
    pub no_put: bool,
    /// Whether to omit deletes.
    pub no_delete: bool,
    /// Whether to deliver the previous state of the key, too.
    pub prev_kv: bool,
    /// Whether to send periodic progress.
    pub progress_notify: bool,
    /// Whether large responses may be split.
    pub fragment: bool,
}

/// An item of a stream's queue.
#[derive(Debug)]
pub enum Notice {
    /// A watcher was created; precedes all its events.
    Created {
        /// The watcher's id.
        id: i64,
        /// Store revision at the creation.
        revision: i64,
    },
    /// A watcher was rejected.
    Refused {
        /// The reason, with etcd's text.
        reason: &'static str,
        /// Store revision at that time.
        revision: i64,
    },
    /// A watcher was cancelled by the client.
    Canceled {
        /// The watcher's id.
        id: i64,
        /// Store revision at that time.
        revision: i64,
    },
    /// A watcher's next events are compacted. It stays registered until the client cancels it;
    /// until then the stream has no progress.
    Compacted {
        /// The watcher's id.
        id: i64,
        /// Oldest revision that can still be watched.
        compact_revision: i64,
    },
    /// Events of one watcher.
    Events(Delivery),
    /// Everything up to `revision` has been delivered, on the whole stream or to one watcher.
    Progress {
        /// The watcher; −1 for the stream.
        id: i64,
        /// The revision.
        revision: i64,
    },
}

impl Notice {
    /// Returns the encoded size of the notice's events, bytes.
    fn bytes(&self) -> usize {
        match self {
            Self::Events(delivery) => delivery.bytes(),
            _ => 0,
        }
    }
}

/// Events for one watcher: whole revisions, in order.
#[derive(Debug)]
pub struct Delivery {
    /// Id of the watcher.
    pub id: i64,
    /// The revision of the events. While the watcher catches up, the store's revision when they
    /// were read.
    pub revision: i64,
    /// Whether previous states were requested.
    pub prev_kv: bool,
    /// Whether the response may be split.
    pub fragment: bool,
    source: DeliverySource,
}

#[derive(Debug)]
enum DeliverySource {
    /// Events of one commit, shared by watchers of the same keys and filters.
    Live(Arc<SelectedEvents>),
    /// Events from the history.
    Past(Vec<SelectedEvents>),
}

/// Selected events of one commit, in order.
#[derive(Debug)]
struct SelectedEvents {
    commit: Commit,
    events: Box<[u32]>,
    /// Encoded size of the records, and of their previous records, bytes.
    bytes: [usize; 2],
}

impl SelectedEvents {
    /// Selects the events at these indexes; `None` if there are no indexes.
    fn of(commit: &Commit, at: impl Iterator<Item = u32>) -> Option<Self> {
        let mut bytes = [0; 2];
        let count = |at: &u32| {
            let event = &commit[*at as usize];
            bytes[0] += event.record.wire_len();
            bytes[1] += event.prev.as_ref().map_or(0, |prev| prev.wire_len());
        };
        let events: Box<[u32]> = at.inspect(count).collect();
        (!events.is_empty()).then(|| Self {
            commit: commit.clone(),
            events,
            bytes,
        })
    }

    fn bytes(&self, prev_kv: bool) -> usize {
        match prev_kv {
            true => self.bytes[0] + self.bytes[1],
            false => self.bytes[0],
        }
    }
}

impl Delivery {
    fn selected(&self) -> &[SelectedEvents] {
        match &self.source {
            DeliverySource::Live(selected) => std::slice::from_ref(selected),
            DeliverySource::Past(selected) => selected,
        }
    }

    /// Returns the encoded size of the events' records, bytes.
    pub fn bytes(&self) -> usize {
        let bytes = |selected: &SelectedEvents| selected.bytes(self.prev_kv);
        self.selected().iter().map(bytes).sum()
    }

    /// Returns the events, each with its previous state if requested and known.
    pub fn events(&self) -> impl Iterator<Item = (&Event, Option<&Record>)> {
        self.selected().iter().flat_map(|selected| {
            selected.events.iter().map(|at| {
                let at = *at as usize;
                let prev = self
                    .prev_kv
                    .then(|| previous(&selected.commit, at))
                    .flatten();
                (&selected.commit[at], prev)
            })
        })
    }
}

/// Returns the state of an event's key before the event's revision; a transaction can write a key
/// twice.
fn previous(commit: &Commit, at: usize) -> Option<&Record> {
    let event = &commit[at];
    match &event.prev {
        Some(prev) if prev.mod_revision() == event.record.mod_revision() => {
            let first = commit.iter().find(|e| e.record.key() == prev.key());
            first.and_then(|first| first.prev.as_ref())
        }
        prev => prev.as_ref(),
    }
}

/// The state of a watcher. Written only under the hub's lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WatcherState {
    /// Receives commits as they are made, from revision `next` on, which may be in the future.
    Synced,
    /// Reads from the history.
    Behind,
    /// Was notified that its revisions are compacted.
    Compacted,
}

/// One watcher, known to the hub and to its stream.
struct Watcher {
    id: i64,
    /// Unique in the hub; ascending.
    serial: u64,
    spec: WatchSpec,
    queue: Arc<Queue>,
    /// First revision that is not delivered yet. Written under the hub's lock.
    next: AtomicI64,
    state: parking_lot::Mutex<WatcherState>,
    /// Whether there was no event since the last periodic progress.
    quiet: AtomicBool,
}

impl Watcher {
    fn range(&self) -> KeyRange<'_> {
        KeyRange::new(&self.spec.key, &self.spec.range_end)
    }

    fn next(&self) -> i64 {
        self.next.load(Ordering::Relaxed)
    }

    fn state(&self) -> WatcherState {
        *self.state.lock()
    }

    /// Returns whether everything up to `revision` was delivered and later commits will be. A
    /// watcher has no progress before its start revision (etcd's `progressIfSync`).
    fn is_synced_at(&self, revision: i64) -> bool {
        self.state() == WatcherState::Synced
            && self.next() <= revision + 1
            && self.spec.start_revision <= revision
    }

    fn wants(&self, event: &Event) -> bool {
        match event.record.is_tombstone() {
            true => !self.spec.no_delete,
            false => !self.spec.no_put,
        }
    }

    fn delivery(&self, revision: i64, source: DeliverySource) -> Delivery {
        Delivery {
            id: self.id,
            revision,
            prev_kv: self.spec.prev_kv,
            fragment: self.spec.fragment,
            source,
        }
    }
}

/// Watchers by serial number. Those of one stream are usually adjacent.
#[derive(Default)]
struct Group(BTreeMap<u64, Arc<Watcher>>);

/// All watchers. It has its own lock, which is taken inside the writer's.
#[derive(Default)]
pub(super) struct Hub {
    groups: Intervals<Group>,
    /// Last revision that was delivered to all synced watchers.
    delivered: i64,
    serial: u64,
    watchers: usize,
}

impl Hub {
    pub(super) fn new(revision: i64) -> Self {
        Self {
            delivered: revision,
            ..Self::default()
        }
    }

    /// Delivers a commit to its watchers. Called under the writer's lock, once per commit. Events
    /// are selected once per group and filter, for any number of watchers. Returns the wakers of
    /// the streams. The caller must wake them after all locks are released, because a stream woken
    /// earlier would only wait for the locks.
    #[must_use]
    pub(super) fn deliver(&mut self, revision: i64, commit: &Commit) -> Vec<Waker> {
        self.delivered = revision;
        let mut wakers = Vec::new();
        let mut concerned: Vec<(&Group, Vec<u32>)> = Vec::new();
        let mut places: HashMap<*const Group, usize> = HashMap::new();
        for (at, event) in commit.iter().enumerate() {
            self.groups.stab(event.record.key(), |group| {
                let place = *places.entry(group).or_insert(concerned.len());
                if place == concerned.len() {
                    concerned.push((group, Vec::new()));
                }
                concerned[place].1.push(at as u32);
            });
        }
        for (group, events) in concerned {
            let mut selected: [Option<Option<Arc<SelectedEvents>>>; 4] = Default::default();
            for watcher in group.0.values() {
                let spec = &watcher.spec;
                let filter = usize::from(spec.no_put) + 2 * usize::from(spec.no_delete);
                let selected = selected[filter].get_or_insert_with(|| {
                    let wanted = |at: &u32| watcher.wants(&commit[*at as usize]);
                    SelectedEvents::of(commit, events.iter().copied().filter(wanted)).map(Arc::new)
                });
                tell(watcher, revision, selected.as_ref(), &mut wakers);
            }
        }
        wakers
    }

    /// Returns the number of watchers of all streams.
    pub(super) fn watchers(&self) -> usize {
        self.watchers
    }

    fn add(&mut self, watcher: &Arc<Watcher>) {
        let group = self.groups.entry(watcher.range());
        let replaced = group.0.insert(watcher.serial, watcher.clone());
        self.watchers += usize::from(replaced.is_none());
    }

    fn remove(&mut self, watcher: &Watcher) {
        if let Some(group) = self.groups.get_mut(watcher.range()) {
            self.watchers -= usize::from(group.0.remove(&watcher.serial).is_some());
            if group.0.is_empty() {
                self.groups.remove(watcher.range());
            }
        }
    }
}

/// Delivers one revision to one watcher, if the watcher is synced and waits for it. The watcher
/// falls behind if its queue is full.
fn tell(
    watcher: &Watcher,
    revision: i64,
    selected: Option<&Arc<SelectedEvents>>,
    wakers: &mut Vec<Waker>,
) {
    let mut state = watcher.state.lock();
    if *state != WatcherState::Synced || watcher.next() > revision {
        return;
    }
    if let Some(selected) = selected {
        let delivery = watcher.delivery(revision, DeliverySource::Live(selected.clone()));
        if !watcher.queue.offer(delivery, wakers) {
            *state = WatcherState::Behind;
            return;
        }
        watcher.quiet.store(false, Ordering::Relaxed);
    }
    watcher.next.store(revision + 1, Ordering::Relaxed);
}
