//! The groups of watchers with the same lookup key. Those of shards are found by an object's hash.

use std::sync::Arc;

use kube_api::ShardKey;

use super::interest::Interest;
use crate::cache::event::Event;
use crate::cache::watcher_queue::WatcherQueue;
use crate::resource::object::Object;
use crate::shard::interval_tree::IntervalTree;

/// The watchers of one interest.
#[derive(Debug, Clone)]
pub(super) struct WatcherGroup {
    pub(super) interest: Arc<Interest>,
    /// The queues of the watchers, copied on write while an event is being delivered.
    pub(super) watchers: Arc<Vec<Arc<WatcherQueue>>>,
}

/// The groups with the same lookup key.
#[derive(Debug, Default)]
pub(super) struct WatcherGroups {
    /// Groups without an indexed shard. They are tried for every event with this lookup key.
    unkeyed: Vec<WatcherGroup>,
    by_uid: ShardGroups,
    by_namespace: ShardGroups,
}

/// Groups with a shard of the same field.
#[derive(Debug, Default)]
struct ShardGroups {
    groups: Vec<WatcherGroup>,
    /// The number of watchers in all groups.
    watchers: u64,
    /// Ranges of hashes to positions in `groups`. `None` after a change, until the next event.
    ranges: Option<IntervalTree<usize>>,
}

/// The groups that an event finds.
#[derive(Debug, Default)]
pub(super) struct MatchedGroups {
    pub(super) groups: Vec<WatcherGroup>,
    /// Objects, old and new, that are not in a watcher's shard, counted for each watcher with a
    /// shard.
    pub(super) filtered: u64,
}

impl WatcherGroups {
    pub(super) fn is_empty(&self) -> bool {
        self.groups().next().is_none()
    }

    pub(super) fn groups(&self) -> impl Iterator<Item = &WatcherGroup> {
        let sharded = [&self.by_uid.groups, &self.by_namespace.groups];
        sharded.into_iter().flatten().chain(&self.unkeyed)
    }

    pub(super) fn join(&mut self, interest: &Arc<Interest>, queue: &Arc<WatcherQueue>) {
        let groups = match interest.hashes() {
            None => &mut self.unkeyed,
            Some(key) => self.shards(key).groups_mut(1),
        };
        match groups.iter_mut().find(|group| group.interest == *interest) {
            Some(group) => Arc::make_mut(&mut group.watchers).push(queue.clone()),
            None => groups.push(WatcherGroup {
                interest: interest.clone(),
                watchers: Arc::new(vec![queue.clone()]),
            }),
        }
    }

    pub(super) fn leave(&mut self, interest: &Interest, queue: &Arc<WatcherQueue>) {
        let groups = match interest.hashes() {
            None => &mut self.unkeyed,
            Some(key) => self.shards(key).groups_mut(-1),
        };
        let Some(at) = groups.iter().position(|group| *group.interest == *interest) else {
            return;
        };
        let watchers = Arc::make_mut(&mut groups[at].watchers);
        watchers.retain(|other| !Arc::ptr_eq(other, queue));
        if watchers.is_empty() {
            groups.swap_remove(at);
        }
    }

    /// Adds the groups that may be interested in the event to `found`. Takes O(log shards + groups
    /// found), plus the number of groups without an indexed shard.
    pub(super) fn find(&mut self, event: &Event, found: &mut MatchedGroups) {
        for group in &self.unkeyed {
            let watchers = group.watchers.len() as u64;
            found.filtered += group.interest.shard_misses(event) * watchers;
            found.add(group);
        }
        self.by_uid.find(event, Object::uid_hash, found);
        let namespace = |object: &Object| ShardKey::Namespace.hash(b"", object.namespace());
        self.by_namespace.find(event, namespace, found);
    }

    fn shards(&mut self, key: ShardKey) -> &mut ShardGroups {
        match key {
            ShardKey::Uid => &mut self.by_uid,
            ShardKey::Namespace => &mut self.by_namespace,
        }
    }
}

impl ShardGroups {
    /// Returns the groups, to which the caller adds (or from which it removes) this number of
    /// watchers. Discards the ranges.
    fn groups_mut(&mut self, watchers: i64) -> &mut Vec<WatcherGroup> {
        self.watchers = self.watchers.saturating_add_signed(watchers);
        self.ranges = None;
        &mut self.groups
    }

    fn find(&mut self, event: &Event, hash: impl Fn(&Object) -> u64, found: &mut MatchedGroups) {
        if self.groups.is_empty() {
            return;
        }
        let groups = &self.groups;
        let ranges = self.ranges.get_or_insert_with(|| {
            let of = |(at, group): (usize, &WatcherGroup)| {
                let spans = group.interest.spans().to_vec();
                spans.into_iter().map(move |span| (span, at))
            };
            IntervalTree::new(groups.iter().enumerate().flat_map(of).collect())
        });
        let (old, new) = (event.old().map(&hash), event.new_object().map(&hash));
        for hash in [old, new].into_iter().flatten() {
            let mut hits = 0;
            ranges.find(hash, |at| hits += groups[*at].watchers.len() as u64);
            found.filtered += self.watchers - hits;
        }
        if let Some(old) = old {
            ranges.find(old, |at| found.add(&groups[*at]));
        }
        // If another object has taken the name, the old and the new one may be in different shards.
        // A group that contains both is added once.
        let saw_old = |group: &WatcherGroup| old.is_some_and(|old| group.interest.has_hash(old));
        if let Some(new) = new
            && old != Some(new)
        {
            ranges.find(new, |at| {
                if !saw_old(&groups[*at]) {
                    found.add(&groups[*at]);
                }
            });
        }
    }
}

impl MatchedGroups {
    fn add(&mut self, group: &WatcherGroup) {
        self.groups.push(group.clone());
    }
}
