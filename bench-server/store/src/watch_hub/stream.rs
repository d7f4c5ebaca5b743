//! A client's stream of watchers: one ordered queue, and the log for those who fell behind.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use super::{Delivery, Notice, Parts, Picked, Standing, WatchSpec, Watcher};
use crate::Store;
use crate::history::{Commit, Event};

/// Notices that wait in a stream's queue before its watchers fall behind.
const QUEUE_LIMIT: usize = 4096;
/// Bytes of events that wait in a queue before the same happens: they may be held by nothing else
/// any more once history is compacted.
const QUEUE_BYTES: usize = 64 * 1024 * 1024;
/// An empty queue with more room than this gives it back.
const LARGE_QUEUE: usize = 1024;
/// Most revisions of one answer from the log, etcd's.
const BATCH_REVISIONS: usize = 1000;
/// An answer from the log ends with the revision that brings it to this size. etcd has no such
/// limit; 1,000 revisions of its largest values would be 1.5 GB in one message.
const BATCH_BYTES: usize = 64 * 1024 * 1024;
/// Revisions that one poll may read from the log, for all watchers of the stream together; a few more for
/// the last of them. Whoever polls has other streams to serve.
const POLL_REVISIONS: usize = 4 * BATCH_REVISIONS;
/// So close to the latest revision, the rest is read under the hub's lock.
const LAST_LEAP: i64 = 64;

const EMPTY_RANGE: &str = "mvcc: watcher range is empty";
const DUPLICATE_ID: &str = "mvcc: duplicate watch ID provided on the WatchStream";

/// What the hub and the stream share.
#[derive(Default)]
pub(super) struct Queue(Mutex<QueueState>);

#[derive(Default)]
struct QueueState {
    notices: VecDeque<Notice>,
    /// Of the events among them.
    bytes: usize,
    /// Some watcher of the stream must read the log.
    behind: bool,
    waker: Option<Waker>,
}

impl QueueState {
    fn push(&mut self, notice: Notice) {
        self.bytes += notice.bytes();
        self.notices.push_back(notice);
    }

    fn is_full(&self) -> bool {
        self.notices.len() >= QUEUE_LIMIT || self.bytes >= QUEUE_BYTES
    }

    fn pop(&mut self) -> Option<Notice> {
        let notice = self.notices.pop_front()?;
        self.bytes -= notice.bytes();
        Some(notice)
    }
}

impl Queue {
    /// Whether events must wait elsewhere.
    fn is_full(&self) -> bool {
        self.0.lock().is_full()
    }

    /// Appends events unless the queue is full. Whoever waits for them is left to the caller to
    /// wake.
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

    /// Appends whatever the client asked for itself.
    fn push(&self, notice: Notice) {
        let mut state = self.0.lock();
        state.push(notice);
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Appends stream progress; progress that still waits at the end is brought up to date, so that
    /// asking often costs no memory.
    fn push_progress(&self, at: i64) {
        if let Some(Notice::Progress { id: -1, revision }) = self.0.lock().notices.back_mut() {
            *revision = at;
            return;
        }
        self.push(Notice::Progress {
            id: -1,
            revision: at,
        });
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
    /// Who read the log last; the next one behind has the next turn.
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
    /// Adds a watcher; the answer is in the queue. Returns its id unless it was refused.
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
        let standing = match next > revision {
            true => Standing::Synced,
            false => Standing::Behind,
        };
        let watcher = Arc::new(Watcher {
            id,
            serial: hub.serial,
            spec,
            queue: self.queue.clone(),
            next: AtomicI64::new(next),
            standing: Mutex::new(standing),
            quiet: AtomicBool::new(true),
        });
        hub.add(&watcher);
        watchers.by_id.insert(id, watcher);
        if standing == Standing::Behind {
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

    /// Tells the stream how far it is, if it has watchers and none of them is behind, waits for a
    /// revision to come, or was lost to a compaction; otherwise the request is dropped, as etcd
    /// does.
    pub fn request_progress(&self) {
        let watchers = self.watchers.lock();
        let hub = self.store.inner.hub.lock();
        let at = hub.delivered;
        let mut all = watchers.by_id.values();
        if !watchers.by_id.is_empty() && all.all(|watcher| watcher.is_synced_at(at)) {
            self.queue.push_progress(at);
        }
    }

    /// Tells progress to each watcher that wants it by time and has had no event since the last
    /// tick.
    pub fn tick_progress(&self) {
        let watchers = self.watchers.lock();
        let hub = self.store.inner.hub.lock();
        let at = hub.delivered;
        for watcher in watchers.by_id.values() {
            let due = watcher.spec.progress_notify && watcher.is_synced_at(at);
            if due && watcher.quiet.swap(true, Ordering::Relaxed) {
                let id = watcher.id;
                self.queue.push(Notice::Progress { id, revision: at });
            }
        }
    }

    /// Whether any watcher wants progress by time.
    pub fn wants_progress(&self) -> bool {
        let watchers = self.watchers.lock();
        watchers.by_id.values().any(|w| w.spec.progress_notify)
    }

    /// The next notice. Reads the log for watchers that are behind, a bounded piece per call. Never
    /// ends by itself.
    pub fn poll_next(&self, context: &mut Context<'_>) -> Poll<Notice> {
        {
            let mut queue = self.queue.0.lock();
            if let Some(notice) = queue.pop() {
                return Poll::Ready(notice);
            }
            if !queue.behind {
                if queue.notices.capacity() > LARGE_QUEUE {
                    queue.notices.shrink_to_fit();
                }
                queue.waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            queue.behind = false;
        }
        self.catch_up();
        let mut queue = self.queue.0.lock();
        match queue.pop() {
            Some(notice) => Poll::Ready(notice),
            None if queue.behind => {
                // A long stretch of the log without anything to tell: let others run.
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

    /// Moves watchers that are behind one batch on each, in turn, until the queue is full or this poll has
    /// read enough.
    fn catch_up(&self) {
        let mut watchers = self.watchers.lock();
        let Watchers { by_id, turn, .. } = &mut *watchers;
        let later = turn.map_or(Bound::Unbounded, Bound::Excluded);
        let earlier = turn.map_or(Bound::Excluded(i64::MIN), Bound::Included);
        let in_turn = by_id
            .range((later, Bound::Unbounded))
            .chain(by_id.range((Bound::Unbounded, earlier)));
        let (mut behind, mut read) = (false, 0);
        for (id, watcher) in in_turn {
            if watcher.standing() != Standing::Behind {
                continue;
            }
            if read >= POLL_REVISIONS || self.queue.is_full() {
                behind = true;
                break;
            }
            let step = self.advance(watcher);
            *turn = Some(*id);
            behind |= !step.done;
            // One that has little to read is work, too.
            read += step.read.max(1);
        }
        if behind {
            self.queue.0.lock().behind = true;
        }
    }

    /// Reads one batch of the log.
    fn advance(&self, watcher: &Watcher) -> Step {
        let (from, commits, head) = {
            let state = self.store.inner.state.read();
            if watcher.next() < state.compacted() {
                let compacted = state.compacted();
                drop(state);
                return self.lose(watcher, compacted);
            }
            let (from, commits) = state.commits(watcher.next(), BATCH_REVISIONS);
            (from, commits, state.revision())
        };
        if head - from > LAST_LEAP {
            let (picked, read) = pick(watcher, &commits);
            let _hub = self.store.inner.hub.lock();
            self.give(watcher, head, picked, from + read as i64);
            return Step { read, done: false };
        }
        drop(commits);
        let hub = self.store.inner.hub.lock();
        let (from, commits) = {
            let state = self.store.inner.state.read();
            if watcher.next() < state.compacted() {
                // The next call tells it so.
                return Step::default();
            }
            // A commit after `delivered` is about to be told by the hub.
            let known = usize::try_from(hub.delivered + 1 - from).unwrap_or(0);
            state.commits(watcher.next(), known.min(BATCH_REVISIONS))
        };
        let (picked, read) = pick(watcher, &commits);
        let next = from + read as i64;
        self.give(watcher, hub.delivered, picked, next);
        let done = next > hub.delivered;
        if done {
            *watcher.standing.lock() = Standing::Synced;
        }
        Step { read, done }
    }

    /// Queues a batch. Called with the hub locked, so that nothing newer gets in between.
    fn give(&self, watcher: &Watcher, revision: i64, picked: Vec<Picked>, next: i64) {
        if !picked.is_empty() {
            let delivery = watcher.delivery(revision, Parts::Past(picked));
            self.queue.push(Notice::Events(delivery));
            watcher.quiet.store(false, Ordering::Relaxed);
        }
        watcher.next.store(next, Ordering::Relaxed);
    }

    /// The watcher's revisions are compacted; it needs no more of the log.
    fn lose(&self, watcher: &Watcher, compact_revision: i64) -> Step {
        let hub = self.store.inner.hub.lock();
        *watcher.standing.lock() = Standing::Compacted;
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

/// What came of one batch of the log.
#[derive(Debug, Default)]
struct Step {
    /// Revisions that were read.
    read: usize,
    /// Whether the watcher needs no more of the log.
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

/// What of `commits` a watcher wants, up to the size of a batch, and how many revisions that covers.
fn pick(watcher: &Watcher, commits: &[Commit]) -> (Vec<Picked>, usize) {
    let range = watcher.range();
    let (mut batch, mut bytes, mut read) = (Vec::new(), 0, 0);
    for commit in commits {
        let wanted = |(_, event): &(usize, &Event)| {
            range.contains(event.record.key()) && watcher.wants(event)
        };
        let wanted = commit.iter().enumerate().filter(wanted);
        if let Some(picked) = Picked::of(commit, wanted.map(|(at, _)| at as u32)) {
            bytes += picked.bytes(watcher.spec.prev_kv);
            batch.push(picked);
        }
        read += 1;
        if bytes >= BATCH_BYTES {
            break;
        }
    }
    (batch, read)
}
