//! The watch cache of one resource. A list fills it, a watch keeps it current, and readers do not
//! wait for writers.
//!
//! - [`reflector`]: the tasks that keep the cache current: a list ([`initial_list`]), then a watch
//! - [`past_snapshots`]: snapshots of the cache at earlier revisions, for pages and exact lists
//! - [`index`]: indexes of the objects by node, by label, and by the hash of the uid
//! - [`freshness`]: waits until the cache has reached a revision
//! - [`event`], [`event_history`]: the latest changes, from which watches are resumed
//! - [`dispatcher`], [`broadcaster`], [`watcher_queue`], [`time_budget`]: deliver changes to
//!   watchers, including slow ones
//! - [`consistency_checker`]: compares the cache with storage
//! - [`open_lists`]: metrics of the snapshots that open lists keep in memory

pub mod broadcaster;
pub mod event;
pub mod event_history;
pub mod watcher_queue;

mod consistency_checker;
mod dispatcher;
pub(crate) mod freshness;
pub(crate) mod index;
mod initial_list;
pub(crate) mod open_lists;
pub(crate) mod past_snapshots;
mod reflector;
mod time_budget;

use std::sync::Arc;
use std::time::Duration;

use ::index::Tree;
use kube_api::{ShardKey, Status};
use memory::open_lists::{OpenList, OpenLists, Pinned};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use self::broadcaster::interest::Interest;
use self::broadcaster::{Broadcaster, Subscription};
use self::event::Event;
use self::event_history::{EventHistory, TooOld};
use self::freshness::{Freshness, Position};
use self::index::{Candidates, Indexes};
use self::past_snapshots::{PastSnapshot, PastSnapshots};
use crate::feature_gates::FeatureGates;
use crate::metrics::{CacheGauges, Metrics};
use crate::resource::Resource;
use crate::resource::filter::Filter;
use crate::resource::object::Object;
use crate::shard::object_set::ObjectSet;
use crate::storage::decoder::Decoder;

/// The watch cache of one resource.
#[derive(Debug)]
pub struct WatchCache {
    resource: &'static Resource,
    prefix: Vec<u8>,
    /// The name of a gRPC stream that only this cache's watch uses, because storage reports
    /// progress per stream.
    stream_key: String,
    gates: FeatureGates,
    /// Locked to clone or replace the roots of trees, never while filtering or encoding.
    state: Mutex<State>,
    /// The size and revision of the state, as metrics. Set while the state is locked, so that a
    /// slower thread cannot overwrite them with the values of an earlier state.
    gauges: CacheGauges,
    freshness: Freshness,
    broadcaster: Arc<Broadcaster>,
    /// Indexes that a list would have used if they existed.
    requested_indexes: Mutex<RequestedIndexes>,
    index_requested: Notify,
    /// Notified when a check has not confirmed that storage reports progress.
    progress_unknown: Notify,
    /// Lists that are being sent.
    open_lists: Arc<OpenLists>,
    metrics: Metrics,
    created: Instant,
}

#[derive(Debug, Default)]
struct State {
    ready: bool,
    /// The time at which the cache last stopped being ready; `None` if it never has.
    not_ready_since: Option<Instant>,
    revision: i64,
    /// The number of initial lists so far. A watch, or the building of an index, that began in one
    /// generation does not continue in another.
    generation: u64,
    /// The highest revision of a history that storage has abandoned, because it was restored or
    /// restarted empty.
    abandoned_revision: i64,
    tree: Tree<Object>,
    /// The total bytes of all objects that were ever replaced or deleted.
    replaced_bytes: u64,
    indexes: Arc<Indexes>,
    past_snapshots: PastSnapshots,
    /// Set when the consistency checker finds a difference from storage: past snapshots are then
    /// not served.
    inconsistent: bool,
    history: EventHistory,
    /// Whether storage reports progress; `None` while that is unknown.
    progress: Option<bool>,
}

impl State {
    /// Returns the state as a past snapshot to be kept.
    fn past_snapshot(&self) -> PastSnapshot {
        PastSnapshot {
            objects: self.tree.clone(),
            uids: self.indexes.uids().cloned(),
            replaced_bytes: self.replaced_bytes,
        }
    }
}

/// The indexes that are to be built.
#[derive(Debug, Default)]
struct RequestedIndexes {
    /// The label to index: the one that was requested last.
    label: Option<String>,
    /// Whether to index the hash of uids.
    uids: bool,
}

/// The content of the cache at one revision. Cloning takes constant time.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The revision.
    pub revision: i64,
    /// The objects.
    pub tree: Tree<Object>,
    indexes: Arc<Indexes>,
    replaced_bytes: u64,
    pub(crate) generation: u64,
}

/// The reason why the cache has no snapshot at a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoSnapshot {
    /// The snapshot is not kept, or the cache has not reached the revision.
    NotKept,
    /// The last consistency check found that the cache differs from storage.
    Inconsistent,
}

/// The continuation of a watcher from the revision that it has reached.
#[derive(Debug)]
pub(crate) enum CatchUp {
    /// These events come next, and more may follow.
    Events(Vec<Arc<Event>>),
    /// The watcher has received every event up to `revision`. Later ones come through the
    /// subscription.
    Subscribed {
        subscription: Subscription,
        revision: i64,
    },
    /// The watcher cannot continue: the next events are not kept, or the cache is not ready or has
    /// been filled again.
    Lost,
}

impl WatchCache {
    /// Returns an empty cache that keeps at most `most_events` events, from which watches resume.
    /// [`Self::run`] fills the cache and keeps it current.
    pub fn new(
        resource: &'static Resource,
        prefix: Vec<u8>,
        gates: FeatureGates,
        most_events: usize,
        metrics: Metrics,
    ) -> Arc<Self> {
        let state = State {
            history: EventHistory::with_max_capacity(most_events),
            ..State::default()
        };
        Arc::new(Self {
            resource,
            prefix,
            stream_key: format!("cache/{}", resource.name),
            gates,
            state: Mutex::new(state),
            gauges: metrics.cache(resource),
            freshness: Freshness::default(),
            broadcaster: Broadcaster::new(resource),
            requested_indexes: Mutex::default(),
            index_requested: Notify::new(),
            progress_unknown: Notify::new(),
            open_lists: Arc::default(),
            metrics,
            created: Instant::now(),
        })
    }

    /// Returns the decoder of the resource's stored values.
    fn decoder(&self) -> Decoder<'_> {
        Decoder {
            resource: self.resource,
            prefix: &self.prefix,
            metrics: &self.metrics,
        }
    }

    /// Returns whether the cache has been filled and is kept current.
    pub fn is_ready(&self) -> bool {
        self.freshness.position().ready
    }

    /// Returns whether storage is known to report progress, without which no list from the cache is
    /// consistent.
    pub fn has_progress(&self) -> bool {
        self.freshness.position().progress == Some(true)
    }

    /// Returns whether storage is known not to report progress.
    pub fn lacks_progress(&self) -> bool {
        self.freshness.position().progress == Some(false)
    }

    /// Returns the revision up to which the cache has every change.
    pub fn revision(&self) -> i64 {
        self.freshness.position().revision
    }

    /// Returns how long the cache has not been ready.
    fn not_ready_for(&self) -> Duration {
        self.state
            .lock()
            .not_ready_since
            .unwrap_or(self.created)
            .elapsed()
    }

    /// Returns the Status for a request that needs the cache to be ready. The longer the cache has
    /// not been ready, the later clients are told to retry (after 1 to 30 s), as in kube-apiserver.
    pub(crate) fn not_ready(&self) -> Status {
        let seconds = (0.06 * self.not_ready_for().as_secs_f64())
            .exp()
            .clamp(1.0, 30.0);
        Status::too_many_requests("storage is (re)initializing", seconds as u32)
    }

    /// Returns a snapshot of the current content. Takes constant time.
    pub fn snapshot(&self) -> Snapshot {
        let state = self.state.lock();
        Snapshot {
            revision: state.revision,
            tree: state.tree.clone(),
            indexes: state.indexes.clone(),
            replaced_bytes: state.replaced_bytes,
            generation: state.generation,
        }
    }

    /// Returns the resource whose objects the cache holds.
    pub(crate) fn resource(&self) -> &'static Resource {
        self.resource
    }

    /// Counts a list of `snapshot` as open until the returned value is dropped.
    pub(crate) fn open_list(&self, snapshot: &Snapshot) -> OpenList {
        self.open_lists.open(snapshot.replaced_bytes)
    }

    /// Returns what open lists keep in memory, without what past snapshots keep in any case.
    pub(crate) fn pinned(&self) -> Pinned {
        let freed = {
            let state = self.state.lock();
            let oldest = state.past_snapshots.oldest();
            oldest.map_or(state.replaced_bytes, |kept| kept.replaced_bytes)
        };
        self.open_lists.pinned(freed)
    }

    /// Waits until the cache has reached `revision`, for at most 3 s, and returns a snapshot.
    ///
    /// # Errors
    /// The revision that the cache has reached by the end of that time.
    pub async fn wait_until_fresh(&self, revision: i64) -> Result<Snapshot, i64> {
        let _timed = self.metrics.wait(self.resource);
        match self.freshness.wait_until_fresh(revision).await {
            true => Ok(self.snapshot()),
            false => Err(self.freshness.position().revision),
        }
    }

    /// Returns the snapshot at `revision`.
    ///
    /// # Errors
    /// The reason why there is no such snapshot.
    pub(crate) fn snapshot_at(&self, revision: i64) -> Result<Snapshot, NoSnapshot> {
        let state = self.state.lock();
        if state.inconsistent {
            return Err(NoSnapshot::Inconsistent);
        }
        if !self.gates.list_from_cache_snapshot || revision > state.revision {
            return Err(NoSnapshot::NotKept);
        }
        let kept = state
            .past_snapshots
            .at(revision)
            .ok_or(NoSnapshot::NotKept)?;
        Ok(Snapshot {
            revision,
            tree: kept.objects.clone(),
            indexes: Arc::new(Indexes::of_uids(kept.uids.clone())),
            replaced_bytes: kept.replaced_bytes,
            generation: state.generation,
        })
    }

    /// Returns a set of objects of `snapshot`, in key order, that contains every object which the
    /// filter selects. A label that a filter requires is indexed from its first use on, and so is
    /// the hash of uids. The first use itself reads every object.
    pub(crate) fn candidates(&self, snapshot: &Snapshot, filter: &Filter) -> Candidates {
        let mut by_value = None;
        if self.gates.cache_index && !filter.selects_whole_shard() {
            if let Some(label) = snapshot.indexes.missing_label(filter) {
                self.request_index(|requested| requested.label = Some(label.to_owned()));
            }
            by_value = snapshot.indexes.candidates(filter, snapshot.tree.len());
        }
        let Some(found) = by_value else {
            return self.shard(snapshot, filter);
        };
        match (filter.indexed_shard(), &found.objects) {
            // Uids are spread evenly, so this is about the size of the shard.
            (Some(shard), ObjectSet::All(some))
                if shard.key() == ShardKey::Uid
                    && snapshot.tree.len() as f64 * shard.share() < some.len() as f64 =>
            {
                self.shard(snapshot, filter)
            }
            _ => found,
        }
    }

    /// Returns the objects of the shard that the filter requires. Returns all objects if there is
    /// no shard or no index for it.
    pub(crate) fn shard(&self, snapshot: &Snapshot, filter: &Filter) -> Candidates {
        let found = snapshot.indexes.shard(filter, &snapshot.tree);
        found.unwrap_or_else(|| {
            if filter.indexed_shard().is_some() {
                self.request_index(|requested| requested.uids = true);
            }
            Candidates::all(snapshot.tree.clone())
        })
    }

    /// Returns the revision up to which every event has been put into its watchers' queues.
    pub(crate) fn dispatched_revision(&self) -> i64 {
        self.broadcaster.revision()
    }

    /// Checks that a watch can begin after `revision`, and returns the generation in which it
    /// begins. A revision that the cache has not reached is accepted, and the watch waits for it.
    /// It is rejected if storage had reached it before being restored or restarted empty, because
    /// it then belongs to the abandoned history.
    ///
    /// # Errors
    /// The oldest revision that a watch can begin after.
    pub(crate) fn resume_after(&self, revision: i64) -> Result<u64, TooOld> {
        let state = self.state.lock();
        let floor = state.history.floor();
        let left = revision > state.revision && revision <= state.abandoned_revision;
        match revision < floor || left {
            true => Err(TooOld { floor }),
            false => Ok(state.generation),
        }
    }

    /// Returns about `most` events after `revision`. If there are none, subscribes to those that
    /// follow. [`CatchUp::Lost`] if the cache is not ready or in another generation than
    /// `generation`, or if some of the events are not kept.
    pub(crate) fn catch_up(
        &self,
        generation: u64,
        revision: i64,
        interest: &Arc<Interest>,
        most: usize,
    ) -> CatchUp {
        // Locked while subscribing, so that no event is added in between.
        let state = self.state.lock();
        if !state.ready || state.generation != generation {
            return CatchUp::Lost;
        }
        match state.history.after(revision, most) {
            Err(TooOld { .. }) => CatchUp::Lost,
            Ok(events) if events.is_empty() => CatchUp::Subscribed {
                subscription: self
                    .broadcaster
                    .subscribe(interest.clone(), self.queue_capacity(&state, interest)),
                revision: state.revision,
            },
            Ok(events) => CatchUp::Events(events),
        }
    }

    /// Returns how many events may wait in a watcher's queue: the events of one second, assuming
    /// that the history holds exactly 75 s, within the bounds of kube-apiserver.
    fn queue_capacity(&self, state: &State, interest: &Interest) -> usize {
        let most = match index::has_indexed_field(self.resource) {
            true if interest.uses_index() => 10,
            true => 1_000,
            false => 100,
        };
        state.history.capacity().div_ceil(75).clamp(10, most)
    }

    /// Returns the number of subscriptions.
    #[cfg(test)]
    pub(crate) fn subscriptions(&self) -> usize {
        self.broadcaster.queues().len()
    }

    /// Changes the state, then wakes the readers that wait for a revision.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let (position, result) = {
            let mut state = self.state.lock();
            let result = change(&mut state);
            self.gauges.set(
                state.revision,
                state.tree.len(),
                state.tree.weight(),
                state.past_snapshots.len(),
                state.history.capacity(),
            );
            let position = Position {
                ready: state.ready,
                revision: state.revision,
                progress: state.progress,
            };
            (position, result)
        };
        self.freshness.publish(position);
        result
    }
}
