//! The watch cache of one resource: filled by a list, kept by a watch, read without waiting for writers.
//!
//! - [`initial_list`]: the first list; [`bulk_load`]: makes a tree of its objects; [`reflector`]: the
//!   watch behind it, and what becomes of its events
//! - [`snapshots`]: older states, for pages and exact reads
//! - [`index`]: which objects have a node or a label
//! - [`freshness`]: waiting for a revision
//! - [`event`], [`event_history`]: the latest changes, from which watches are resumed
//! - [`broadcaster`], [`watcher_queue`], [`budget`], [`dispatch`]: handing changes to watchers, slow
//!   ones included
//! - [`consistency_checker`]: is it what etcd holds?

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

/// One resource's cache.
#[derive(Debug)]
pub struct WatchCache {
    resource: &'static Resource,
    prefix: Vec<u8>,
    /// Its watch has a stream of its own, since progress is answered per stream.
    stream_key: String,
    gates: FeatureGates,
    /// Held to clone or replace the tree's root, never while filtering or encoding.
    state: Mutex<State>,
    /// The state's size and revision in metrics. Set under the state's lock: a slower thread would otherwise
    /// overwrite them with an older state's.
    gauges: CacheGauges,
    freshness: Freshness,
    broadcaster: Arc<Broadcaster>,
    /// Indexes that would have helped and are not there.
    requested_indexes: Mutex<RequestedIndexes>,
    index_requested: Notify,
    /// Notified where storage did not say that its progress can be believed.
    progress_unknown: Notify,
    /// Lists that are being sent.
    open_lists: Arc<OpenLists>,
    metrics: Metrics,
    created: Instant,
}

#[derive(Debug, Default)]
struct State {
    ready: bool,
    /// When readiness was lost; `None` before the first fill.
    not_ready_since: Option<Instant>,
    revision: i64,
    /// Counts the fills: what was read from one does not join up with another.
    generation: u64,
    /// The highest revision of a history that storage has left, by being restored or restarted empty.
    abandoned_revision: i64,
    tree: Tree<Object>,
    /// Bytes of objects that were replaced or deleted, ever.
    replaced_bytes: u64,
    indexes: Arc<Indexes>,
    past_snapshots: PastSnapshots,
    /// Set by the detector when the cache is not what storage holds: older states are not to be served.
    inconsistent: bool,
    history: EventHistory,
    /// Whether storage can report progress; `None` while it has not said so.
    progress: Option<bool>,
}

impl State {
    /// What it holds now, to be kept as an older state.
    fn past_snapshot(&self) -> PastSnapshot {
        PastSnapshot {
            objects: self.tree.clone(),
            uids: self.indexes.uids().cloned(),
            replaced_bytes: self.replaced_bytes,
        }
    }
}

/// Indexes to be built.
#[derive(Debug, Default)]
struct RequestedIndexes {
    /// On the label that was asked for last.
    label: Option<String>,
    /// On the hash of uids.
    uids: bool,
}

/// The cache's content at one revision.
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

/// Why a cache does not tell what it held at a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoSnapshot {
    /// That state is not kept (any more), or not reached yet.
    NotKept,
    /// The last consistency check found that the cache differs from storage.
    Inconsistent,
}

/// How a watcher goes on behind what it has.
#[derive(Debug)]
pub(crate) enum CatchUp {
    /// These come next; there may be more.
    Events(Vec<Arc<Event>>),
    /// It has everything up to `revision`; what is newer comes through the subscription.
    Joined {
        subscription: Subscription,
        revision: i64,
    },
    /// What comes next is not there any more.
    Lost,
}

impl WatchCache {
    /// An empty cache; [`Self::run`] fills and keeps it.
    pub fn new(
        resource: &'static Resource,
        prefix: Vec<u8>,
        gates: FeatureGates,
        metrics: Metrics,
    ) -> Arc<Self> {
        Arc::new(Self {
            resource,
            prefix,
            stream_key: format!("cache/{}", resource.name),
            gates,
            state: Mutex::default(),
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

    /// Reads what storage has of the resource.
    fn decoder(&self) -> Decoder<'_> {
        Decoder {
            resource: self.resource,
            prefix: &self.prefix,
            metrics: &self.metrics,
        }
    }

    /// Whether it is filled and kept.
    pub fn is_ready(&self) -> bool {
        self.freshness.position().ready
    }

    /// Whether storage is known to report progress, without which no read from the cache is consistent.
    pub fn has_progress(&self) -> bool {
        self.freshness.position().progress == Some(true)
    }

    /// Whether storage is known not to report progress.
    pub fn lacks_progress(&self) -> bool {
        self.freshness.position().progress == Some(false)
    }

    /// The revision up to which it has everything.
    pub fn revision(&self) -> i64 {
        self.freshness.position().revision
    }

    /// How long it has not been ready.
    pub fn not_ready_for(&self) -> Duration {
        self.state
            .lock()
            .not_ready_since
            .unwrap_or(self.created)
            .elapsed()
    }

    /// What a client is told whose request needs a cache that is not filled: when to come back.
    pub(crate) fn not_ready(&self) -> Status {
        let seconds = (0.06 * self.not_ready_for().as_secs_f64())
            .exp()
            .clamp(1.0, 30.0);
        Status::too_many_requests("storage is (re)initializing", seconds as u32)
    }

    /// What it holds now. Constant time.
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

    /// The resource that it holds.
    pub(crate) fn resource(&self) -> &'static Resource {
        self.resource
    }

    /// Counts a list of `view` among those that are being sent, until what this returns is dropped.
    pub(crate) fn open_list(&self, snapshot: &Snapshot) -> OpenList {
        self.open_lists.open(snapshot.replaced_bytes)
    }

    /// What lists that are being sent keep in memory beside the older states that are kept anyway.
    pub(crate) fn pinned(&self) -> Pinned {
        let freed = {
            let state = self.state.lock();
            let oldest = state.past_snapshots.oldest();
            oldest.map_or(state.replaced_bytes, |kept| kept.replaced_bytes)
        };
        self.open_lists.pinned(freed)
    }

    /// Waits until it is not older than `revision`, three seconds at most.
    ///
    /// # Errors
    /// The revision that it has then.
    pub async fn wait_until_fresh(&self, revision: i64) -> Result<Snapshot, i64> {
        let _timed = self.metrics.wait(self.resource);
        match self.freshness.wait_until_fresh(revision).await {
            true => Ok(self.snapshot()),
            false => Err(self.freshness.position().revision),
        }
    }

    /// Returns what it held at `revision`.
    ///
    /// # Errors
    /// Why it cannot tell: see [`NoSnapshot`].
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

    /// The objects of a view among which all are that the filter selects, in key order. A label that is asked
    /// for often enough to matter is indexed from its first use on, and so is the hash of uids; that use itself
    /// looks at every object.
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
            // Uids are spread evenly, so that is about how many the shard has.
            (Some(shard), ObjectSet::All(some))
                if shard.key() == ShardKey::Uid
                    && snapshot.tree.len() as f64 * shard.share() < some.len() as f64 =>
            {
                self.shard(snapshot, filter)
            }
            _ => found,
        }
    }

    /// As [`Self::candidates`], where only the shard is looked at.
    pub(crate) fn shard(&self, snapshot: &Snapshot, filter: &Filter) -> Candidates {
        let found = snapshot.indexes.shard(filter, &snapshot.tree);
        found.unwrap_or_else(|| {
            if filter.indexed_shard().is_some() {
                self.request_index(|requested| requested.uids = true);
            }
            Candidates::all(snapshot.tree.clone())
        })
    }

    /// The revision up to which every event was put into its watchers' queues.
    pub(crate) fn dispatched_revision(&self) -> i64 {
        self.broadcaster.revision()
    }

    /// Whether a watch can begin after `revision`; answers the fill that it follows. A revision that is ahead
    /// is waited for, unless storage was there once and went back: then it is of another history.
    ///
    /// # Errors
    /// The oldest revision that it could begin after.
    pub(crate) fn resume_after(&self, revision: i64) -> Result<u64, TooOld> {
        let state = self.state.lock();
        let floor = state.history.floor();
        let left = revision > state.revision && revision <= state.abandoned_revision;
        match revision < floor || left {
            true => Err(TooOld { floor }),
            false => Ok(state.generation),
        }
    }

    /// The next `most` or so events behind `revision`, as it was seen in the fill `generation`, or, when
    /// there are none, a place among the watchers that joins up with it exactly.
    pub(crate) fn catch_up(
        &self,
        generation: u64,
        revision: i64,
        interest: &Arc<Interest>,
        most: usize,
    ) -> CatchUp {
        // Held while joining, so that no event is added in between.
        let state = self.state.lock();
        if !state.ready || state.generation != generation {
            return CatchUp::Lost;
        }
        match state.history.after(revision, most) {
            Err(TooOld { .. }) => CatchUp::Lost,
            Ok(events) if events.is_empty() => CatchUp::Joined {
                subscription: self
                    .broadcaster
                    .subscribe(interest.clone(), self.queue_capacity(&state, interest)),
                revision: state.revision,
            },
            Ok(events) => CatchUp::Events(events),
        }
    }

    /// Events that a watcher may be behind: as many as come in a second when the ring is just large enough,
    /// within upstream's bounds.
    fn queue_capacity(&self, state: &State, interest: &Interest) -> usize {
        let most = match index::has_indexed_field(self.resource) {
            true if interest.uses_index() => 10,
            true => 1_000,
            false => 100,
        };
        state.history.capacity().div_ceil(75).clamp(10, most)
    }

    /// Watches that have joined.
    #[cfg(test)]
    pub(crate) fn joined(&self) -> usize {
        self.broadcaster.queues().len()
    }

    /// Changes the state, then tells those who wait for it.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let (position, answer) = {
            let mut state = self.state.lock();
            let answer = change(&mut state);
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
            (position, answer)
        };
        self.freshness.publish(position);
        answer
    }
}
