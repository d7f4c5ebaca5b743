//! Who is told of a commit.
//!
//! The hub hears of every commit inside the writer's critical section, so in order, and puts what
//! concerns a watcher into the queue of the watcher's stream. Everything that a stream is told –
//! created, events, progress, canceled – goes through that one queue: progress can never overtake
//! events. A queue is bounded; when it is full its watchers fall behind and the stream reads what
//! they missed from the log, in its own time. Nothing here runs by itself: an idle store is idle.

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
pub use stream::WatchStream;

/// What a watcher wants.
#[derive(Debug, Clone, Default)]
pub struct WatchSpec {
    /// First key; empty means the lowest.
    pub key: Vec<u8>,
    /// End of the interval, as in a Range.
    pub range_end: Vec<u8>,
    /// First revision to tell of; 0 is the next one.
    pub start_revision: i64,
    /// The id that it shall have on its stream; 0 lets the stream choose.
    pub id: i64,
    /// Leave puts out.
    pub no_put: bool,
    /// Leave deletes out.
    pub no_delete: bool,
    /// Deliver the previous state of the key, too.
    pub prev_kv: bool,
    /// Tell progress by time.
    pub progress_notify: bool,
    /// Large answers may be cut up.
    pub fragment: bool,
}

/// What a stream is told, in order.
#[derive(Debug)]
pub enum Notice {
    /// A watcher is there; precedes all its events.
    Created {
        /// Its id.
        id: i64,
        /// Store revision when it was made.
        revision: i64,
    },
    /// A watcher could not be made.
    Refused {
        /// etcd's text.
        reason: &'static str,
        /// Store revision then.
        revision: i64,
    },
    /// The client's cancel is done.
    Canceled {
        /// Its id.
        id: i64,
        /// Store revision then.
        revision: i64,
    },
    /// What the watcher would have to be told is compacted. It stays registered until the client
    /// cancels it, and until then the stream has no progress.
    Compacted {
        /// Its id.
        id: i64,
        /// Oldest revision that can still be watched.
        compact_revision: i64,
    },
    /// Events of one watcher.
    Events(Delivery),
    /// Everything up to `revision` has been told, on the whole stream or to one watcher.
    Progress {
        /// The watcher; −1 for the stream.
        id: i64,
        /// The revision.
        revision: i64,
    },
}

impl Notice {
    /// Encoded bytes of the events in it.
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
    /// The watcher.
    pub id: i64,
    /// The revision of the events; while catching up, the store's when they were read.
    pub revision: i64,
    /// Whether previous states were asked for.
    pub prev_kv: bool,
    /// Whether it may be cut up.
    pub fragment: bool,
    parts: Parts,
}

#[derive(Debug)]
enum Parts {
    /// What a commit has for this watcher and others like it.
    Live(Arc<Picked>),
    /// What the log has.
    Past(Vec<Picked>),
}

/// Some events of one commit, in order.
#[derive(Debug)]
struct Picked {
    commit: Commit,
    events: Box<[u32]>,
    /// Encoded bytes of the records, and of the records before them.
    bytes: [usize; 2],
}

impl Picked {
    /// The events at these places; `None` when there is none.
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
    fn picked(&self) -> &[Picked] {
        match &self.parts {
            Parts::Live(picked) => std::slice::from_ref(picked),
            Parts::Past(picked) => picked,
        }
    }

    /// Encoded bytes of the events.
    fn bytes(&self) -> usize {
        let bytes = |picked: &Picked| picked.bytes(self.prev_kv);
        self.picked().iter().map(bytes).sum()
    }

    /// The events, each with its previous state when that was asked for and is known.
    pub fn events(&self) -> impl Iterator<Item = (&Event, Option<&Record>)> {
        self.picked().iter().flat_map(|picked| {
            picked.events.iter().map(|at| {
                let at = *at as usize;
                let prev = self.prev_kv.then(|| previous(&picked.commit, at)).flatten();
                (&picked.commit[at], prev)
            })
        })
    }
}

/// The state of an event's key before the event's revision: a transaction can write a key twice.
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

/// Where a watcher stands. Written under the hub's lock only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Is told of commits as they come (from `next` on, which may be far ahead).
    Synced,
    /// Reads the log.
    Behind,
    /// Was told that its revisions are gone.
    Compacted,
}

/// One watcher, known to the hub and to its stream.
struct Watcher {
    id: i64,
    /// Unique in the hub; ascending.
    serial: u64,
    spec: WatchSpec,
    queue: Arc<Queue>,
    /// First revision that it has not been told of. Under the hub's lock.
    next: AtomicI64,
    standing: parking_lot::Mutex<Standing>,
    /// No event since the last tick of progress.
    quiet: AtomicBool,
}

impl Watcher {
    fn range(&self) -> KeyRange<'_> {
        KeyRange::new(&self.spec.key, &self.spec.range_end)
    }

    fn next(&self) -> i64 {
        self.next.load(Ordering::Relaxed)
    }

    fn standing(&self) -> Standing {
        *self.standing.lock()
    }

    /// Whether it has been told everything up to `revision` and will be told what follows. Before the
    /// revision that it was asked to begin with, there is no progress to tell (etcd's `progressIfSync`).
    fn is_synced_at(&self, revision: i64) -> bool {
        self.standing() == Standing::Synced
            && self.next() <= revision + 1
            && self.spec.start_revision <= revision
    }

    fn wants(&self, event: &Event) -> bool {
        match event.record.is_tombstone() {
            true => !self.spec.no_delete,
            false => !self.spec.no_put,
        }
    }

    fn delivery(&self, revision: i64, parts: Parts) -> Delivery {
        Delivery {
            id: self.id,
            revision,
            prev_kv: self.spec.prev_kv,
            fragment: self.spec.fragment,
            parts,
        }
    }
}

/// Watchers by serial: those of one stream are mostly neighbours.
#[derive(Default)]
struct Group(BTreeMap<u64, Arc<Watcher>>);

/// Everybody who watches. Behind a lock of its own, taken inside the writer's.
#[derive(Default)]
pub(super) struct Hub {
    groups: Intervals<Group>,
    /// Last revision that everybody synced has been told of.
    delivered: i64,
    serial: u64,
}

impl Hub {
    pub(super) fn new(revision: i64) -> Self {
        Self {
            delivered: revision,
            ..Self::default()
        }
    }

    /// Tells everybody concerned of a commit. Called with the writer's lock held, once per commit.
    /// What is told is made once per group and filter, however many watchers there are. Returns
    /// the streams' wakers: a stream that runs before all locks are released would only wait.
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
            let mut picked: [Option<Option<Arc<Picked>>>; 4] = Default::default();
            for watcher in group.0.values() {
                let spec = &watcher.spec;
                let filter = usize::from(spec.no_put) + 2 * usize::from(spec.no_delete);
                let picked = picked[filter].get_or_insert_with(|| {
                    let wanted = |at: &u32| watcher.wants(&commit[*at as usize]);
                    Picked::of(commit, events.iter().copied().filter(wanted)).map(Arc::new)
                });
                tell(watcher, revision, picked.as_ref(), &mut wakers);
            }
        }
        wakers
    }

    fn add(&mut self, watcher: &Arc<Watcher>) {
        let group = self.groups.entry(watcher.range());
        group.0.insert(watcher.serial, watcher.clone());
    }

    fn remove(&mut self, watcher: &Watcher) {
        if let Some(group) = self.groups.get_mut(watcher.range()) {
            group.0.remove(&watcher.serial);
            if group.0.is_empty() {
                self.groups.remove(watcher.range());
            }
        }
    }
}

/// Tells one watcher of one revision, if it is due; it falls behind when its queue is full.
fn tell(watcher: &Watcher, revision: i64, picked: Option<&Arc<Picked>>, wakers: &mut Vec<Waker>) {
    let mut standing = watcher.standing.lock();
    if *standing != Standing::Synced || watcher.next() > revision {
        return;
    }
    if let Some(picked) = picked {
        let delivery = watcher.delivery(revision, Parts::Live(picked.clone()));
        if !watcher.queue.offer(delivery, wakers) {
            *standing = Standing::Behind;
            return;
        }
        watcher.quiet.store(false, Ordering::Relaxed);
    }
    watcher.next.store(revision + 1, Ordering::Relaxed);
}
