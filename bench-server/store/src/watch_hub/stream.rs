//! A client's stream of watchers: one ordered queue, and reads of the history for watchers that are
//! behind.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use super::{Delivery, DeliverySource, Notice, SelectedEvents, WatchSpec, Watcher, WatcherState};
use crate::Store;
use crate::history::{Commit, Event};

/// Maximum number of notices in a stream's queue. When it is reached, the stream's watchers fall
/// behind.
const MAX_QUEUED_NOTICES: usize = 4096;
/// Maximum bytes of events in a queue, with the same effect. They are limited because after a
/// compaction only the queue may keep them in memory.
const MAX_QUEUED_BYTES: usize = 64 * 1024 * 1024;
/// Maximum number of responses to progress requests in a queue: the length of etcd's channel, which
/// drops further ones, too.
const MAX_QUEUED_PROGRESS: usize = 128;
/// An empty queue with more capacity than this is shrunk.
const MAX_KEPT_CAPACITY: usize = 1024;
/// Maximum number of revisions in one batch from the history, as in etcd.
const MAX_BATCH_REVISIONS: usize = 1000;
/// A batch ends with the revision that reaches this size, bytes. etcd has no such limit; 1,000
/// revisions of its largest values would be 1.5 GB in one message.
pub const MAX_BATCH_BYTES: usize = 64 * 1024 * 1024;
/// Maximum number of revisions that one poll reads from the history for all watchers of the stream
/// (the last watcher may exceed it), because the polling thread has other streams.
const MAX_POLL_REVISIONS: usize = 4 * MAX_BATCH_REVISIONS;
/// The maximum distance to the latest revision at which the rest is read under the hub's lock.
const LOCKED_READ_REVISIONS: i64 = 64;

const EMPTY_RANGE: &str = "mvcc: watcher range is empty";
const DUPLICATE_ID: &str = "mvcc: duplicate watch ID provided on the WatchStream";

/// The queue, shared by the hub and the stream.
#[derive(Default)]
pub(super) struct Queue(Mutex<QueueState>);

#[derive(Default)]
struct QueueState {
    notices: VecDeque<Notice>,
    /// Size of their events.
    bytes: usize,
    /// Number of them that tell the stream's progress.
    progress: usize,
    /// Whether a watcher of the stream must read the history.
    behind: bool,
    waker: Option<Waker>,
}

impl QueueState {
    fn push(&mut self, notice: Notice) {
        self.bytes += notice.bytes();
        if let Notice::Progress { id: -1, .. } = notice {
            self.progress += 1;
        }
        self.notices.push_back(notice);
    }

    fn is_full(&self) -> bool {
        self.notices.len() >= MAX_QUEUED_NOTICES || self.bytes >= MAX_QUEUED_BYTES
    }

    fn pop(&mut self) -> Option<Notice> {
        let notice = self.notices.pop_front()?;
        self.bytes -= notice.bytes();
        if let Notice::Progress { id: -1, .. } = notice {
            self.progress -= 1;
        }
        Some(notice)
    }
}

impl Queue {
    /// Returns whether the queue accepts no events.
    fn is_full(&self) -> bool {
        self.0.lock().is_full()
    }

    /// Appends events unless the queue is full; returns whether they were appended. The caller must
    /// wake the stream.
    pub(super) fn offer(&self, delivery: Delivery, wakers: &mut Vec<Waker>) -> bool {
        let mut state = self.0.lock();
        let fits = !state.is_full();
        match fits {
            true => state.push(Notice::Events(delivery)),
            false => state.behind = true,
        }
        wakers.extend(state.waker.take());
        fits
    }

    /// Appends a notice, even if the queue is full.
    fn push(&self, notice: Notice) {
        self.push_if(notice, |_| true);
    }

    /// Appends stream progress, unless there is already as much of it as may wait.
    fn push_progress(&self, revision: i64) {
        let notice = Notice::Progress { id: -1, revision };
        self.push_if(notice, |state| state.progress < MAX_QUEUED_PROGRESS);
    }

    fn push_if(&self, notice: Notice, fits: impl FnOnce(&QueueState) -> bool) {
        let mut state = self.0.lock();
        if !fits(&state) {
            return;
        }
        state.push(notice);
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }
}

/// The watchers of one client stream. Dropping it cancels them all.
pub struct WatchStream {
    store: Store,
    queue: Arc<Queue>,
    watchers: Mutex<Watchers>,
}

#[derive(Default)]
struct Watchers {
    by_id: BTreeMap<i64, Arc<Watcher>>,
    next_id: i64,
    /// The watcher that read the history last. The next one that is behind follows.
    turn: Option<i64>,
}

impl Store {
    /// Opens a stream without watchers.
    pub fn watch(&self) -> WatchStream {
        WatchStream {
            store: self.clone(),
            queue: Arc::default(),
            watchers: Mutex::default(),
        }
    }
}

impl WatchStream {
    /// Adds a watcher; the result is queued. Returns its id unless it was rejected.
    pub fn create(&self, mut spec: WatchSpec) -> Option<i64> {
        if spec.key.is_empty() {
            spec.key = vec![0];
        }
        let mut watchers = self.watchers.lock();
        let mut hub = self.store.inner.hub.lock();
        let revision = hub.delivered;
        let refuse = |reason| {
            self.queue.push(Notice::Refused { reason, revision });
            None
        };
        if spec.start_revision < 0 {
            return refuse(etcd_api::error::Refusal::Compacted.text());
        }
        let empty = !matches!(&spec.range_end[..], [] | [0]) && spec.range_end <= spec.key;
        if empty {
            return refuse(EMPTY_RANGE);
        }
        let id = match spec.id {
            0 => watchers.free_id(),
            id if watchers.by_id.contains_key(&id) => return refuse(DUPLICATE_ID),
            id => id,
        };
        let next = match spec.start_revision {
            0 => revision + 1,
            start => start,
        };
        hub.serial += 1;
        let state = match next > revision {
            true => WatcherState::Synced,
            false => WatcherState::Behind,
        };
        let watcher = Arc::new(Watcher {
            id,
            serial: hub.serial,
            spec,
            queue: self.queue.clone(),
            next: AtomicI64::new(next),
            state: Mutex::new(state),
            quiet: AtomicBool::new(true),
        });
        hub.add(&watcher);
        watchers.by_id.insert(id, watcher);
        if state == WatcherState::Behind {
            self.queue.0.lock().behind = true;
        }
        self.queue.push(Notice::Created { id, revision });
        Some(id)
    }

    /// Removes a watcher; an unknown id is ignored.
    pub fn cancel(&self, id: i64) {
        let mut watchers = self.watchers.lock();
        if let Some(watcher) = watchers.by_id.remove(&id) {
            let mut hub = self.store.inner.hub.lock();
            hub.remove(&watcher);
            let revision = hub.delivered;
            self.queue.push(Notice::Canceled { id, revision });
        }
    }

    /// Queues the progress of the stream, if it has watchers and every one is synced: none is
    /// behind, waits for a future revision, or is compacted. Otherwise the request is ignored, as
    /// in etcd.
    pub fn request_progress(&self) {
        let watchers = self.watchers.lock();
        let hub = self.store.inner.hub.lock();
        let at = hub.delivered;
        let mut all = watchers.by_id.values();
        if !watchers.by_id.is_empty() && all.all(|watcher| watcher.is_synced_at(at)) {
            self.queue.push_progress(at);
        }
    }

    /// Queues periodic progress for each watcher that requested it and had no event since the last
    /// tick.
    pub fn tick_progress(&self) {
        let watchers = self.watchers.lock();
        let hub = self.store.inner.hub.lock();
        let at = hub.delivered;
        let wanted = watchers.by_id.values();
        for watcher in wanted.filter(|watcher| watcher.spec.progress_notify) {
            let was_quiet = watcher.quiet.swap(true, Ordering::Relaxed);
            if was_quiet && watcher.is_synced_at(at) {
                let id = watcher.id;
                self.queue.push(Notice::Progress { id, revision: at });
            }
        }
    }

    /// Returns whether the queue is full, so that no further request should be handled.
    pub fn is_full(&self) -> bool {
        self.queue.is_full()
    }

    /// Returns the next notice. Reads the history for watchers that are behind, up to a limit per
    /// call. The stream never ends by itself.
    pub fn poll_next(&self, context: &mut Context<'_>) -> Poll<Notice> {
        self.poll_next_within(context, MAX_BATCH_BYTES)
    }

    /// Returns the next notice like [`Self::poll_next`], but a batch of the history ends with the
    /// revision that reaches `batch_bytes`.
    pub fn poll_next_within(&self, context: &mut Context<'_>, batch_bytes: usize) -> Poll<Notice> {
        {
            let mut queue = self.queue.0.lock();
            if let Some(notice) = queue.pop() {
                return Poll::Ready(notice);
            }
            if !queue.behind {
                if queue.notices.capacity() > MAX_KEPT_CAPACITY {
                    queue.notices.shrink_to_fit();
                }
                queue.waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            queue.behind = false;
        }
        self.catch_up(batch_bytes);
        let mut queue = self.queue.0.lock();
        match queue.pop() {
            Some(notice) => Poll::Ready(notice),
            None if queue.behind => {
                // A long part of the history had no events for these watchers: yield to other
                // tasks.
                drop(queue);
                context.waker().wake_by_ref();
                Poll::Pending
            }
            None => {
                queue.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.queue.0.lock().notices.len()
    }

    #[cfg(test)]
    pub(super) fn is_behind(&self) -> bool {
        self.queue.0.lock().behind
    }

    /// Reads one batch for each watcher that is behind, in turn, until the queue is full or the
    /// limit of this poll is reached.
    fn catch_up(&self, batch_bytes: usize) {
        let mut watchers = self.watchers.lock();
        let Watchers { by_id, turn, .. } = &mut *watchers;
        let later = turn.map_or(Bound::Unbounded, Bound::Excluded);
        let earlier = turn.map_or(Bound::Excluded(i64::MIN), Bound::Included);
        let in_turn = by_id
            .range((later, Bound::Unbounded))
            .chain(by_id.range((Bound::Unbounded, earlier)));
        let (mut behind, mut read) = (false, 0);
        for (id, watcher) in in_turn {
            if watcher.state() != WatcherState::Behind {
                continue;
            }
            if read >= MAX_POLL_REVISIONS || self.queue.is_full() {
                behind = true;
                break;
            }
            let step = self.advance(watcher, batch_bytes);
            *turn = Some(*id);
            behind |= !step.done;
            // A watcher with little to read costs time, too.
            read += step.read.max(1);
        }
        if behind {
            self.queue.0.lock().behind = true;
        }
    }

    /// Reads one batch of the history.
    fn advance(&self, watcher: &Watcher, batch_bytes: usize) -> Step {
        let (from, commits, head) = {
            let state = self.store.inner.state.read();
            if watcher.next() < state.compacted() {
                let compacted = state.compacted();
                drop(state);
                return self.lose(watcher, compacted);
            }
            let (from, commits) = state.commits(watcher.next(), MAX_BATCH_REVISIONS);
            (from, commits, state.revision())
        };
        if head - from > LOCKED_READ_REVISIONS {
            let (selected, read) = pick(watcher, &commits, batch_bytes);
            let _hub = self.store.inner.hub.lock();
            self.give(watcher, head, selected, from + read as i64);
            return Step { read, done: false };
        }
        drop(commits);
        let hub = self.store.inner.hub.lock();
        let (from, commits) = {
            let state = self.store.inner.state.read();
            if watcher.next() < state.compacted() {
                // The next call notifies it.
                return Step::default();
            }
            // The hub is about to deliver a commit after `delivered`.
            let known = usize::try_from(hub.delivered + 1 - from).unwrap_or(0);
            state.commits(watcher.next(), known.min(MAX_BATCH_REVISIONS))
        };
        let (selected, read) = pick(watcher, &commits, batch_bytes);
        let next = from + read as i64;
        self.give(watcher, hub.delivered, selected, next);
        let done = next > hub.delivered;
        if done {
            *watcher.state.lock() = WatcherState::Synced;
        }
        Step { read, done }
    }

    /// Queues a batch. Called under the hub's lock, so that no newer commit is delivered first.
    fn give(&self, watcher: &Watcher, revision: i64, selected: Vec<SelectedEvents>, next: i64) {
        if !selected.is_empty() {
            let delivery = watcher.delivery(revision, DeliverySource::Past(selected));
            self.queue.push(Notice::Events(delivery));
            watcher.quiet.store(false, Ordering::Relaxed);
        }
        watcher.next.store(next, Ordering::Relaxed);
    }

    /// Notifies a watcher that its revisions are compacted. The watcher does not read the history
    /// again.
    fn lose(&self, watcher: &Watcher, compact_revision: i64) -> Step {
        let hub = self.store.inner.hub.lock();
        *watcher.state.lock() = WatcherState::Compacted;
        let id = watcher.id;
        self.queue.push(Notice::Compacted {
            id,
            compact_revision,
        });
        drop(hub);
        Step {
            read: 0,
            done: true,
        }
    }
}

/// The result of reading one batch of the history.
#[derive(Debug, Default)]
struct Step {
    /// Number of revisions read.
    read: usize,
    /// Whether the watcher has caught up.
    done: bool,
}

impl Watchers {
    fn free_id(&mut self) -> i64 {
        while self.by_id.contains_key(&self.next_id) {
            self.next_id += 1;
        }
        self.next_id += 1;
        self.next_id - 1
    }
}

impl Drop for WatchStream {
    fn drop(&mut self) {
        let watchers = std::mem::take(&mut self.watchers.get_mut().by_id);
        let mut hub = self.store.inner.hub.lock();
        watchers.values().for_each(|watcher| hub.remove(watcher));
    }
}

/// Selects a watcher's events of `commits`, up to the size of a batch; returns them and the number
/// of revisions covered.
fn pick(watcher: &Watcher, commits: &[Commit], batch_bytes: usize) -> (Vec<SelectedEvents>, usize) {
    let range = watcher.range();
    let (mut batch, mut bytes, mut read) = (Vec::new(), 0, 0);
    for commit in commits {
        let wanted = |(_, event): &(usize, &Event)| {
            range.contains(event.record.key()) && watcher.wants(event)
        };
        let wanted = commit.iter().enumerate().filter(wanted);
        if let Some(selected) = SelectedEvents::of(commit, wanted.map(|(at, _)| at as u32)) {
            bytes += selected.bytes(watcher.spec.prev_kv);
            batch.push(selected);
        }
        read += 1;
        if bytes >= batch_bytes {
            break;
        }
    }
    (batch, read)
}
