//! How far the log has got, and the condition variable and wakers through which its thread and the
//! writers wait for each other.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use etcd_api::error::Refusal;
use parking_lot::{Condvar, Mutex};

/// The progress of the log: accepted entries, published entries, and the waiters.
#[derive(Default)]
pub(super) struct CommitProgress {
    /// Number of entries ever accepted. Incremented under the writer's lock, read without it.
    accepted: AtomicU64,
    state: Mutex<State>,
    /// Wakes the log's thread.
    more: Condvar,
}

#[derive(Default)]
struct State {
    /// Copy of the number of accepted entries, which the log's thread waits on.
    accepted: u64,
    /// Number of entries ever published.
    published: u64,
    closed: bool,
    /// The error that ended the log, if any.
    failure: Option<String>,
    /// The waiting tasks, by the number of published entries that they wait for.
    wakers: BTreeMap<u64, Vec<Waker>>,
}

/// The reason for which the log's thread was woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Woken {
    /// Entries were accepted.
    More,
    /// The time of the next sync has come.
    Due,
    /// The store was closed: no more entries will be accepted.
    Closed,
}

impl CommitProgress {
    pub(super) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Acquire)
    }

    /// Counts an entry. Called under the writer's lock.
    pub(super) fn accept(&self) {
        let accepted = self.accepted.fetch_add(1, Ordering::AcqRel) + 1;
        self.state.lock().accepted = accepted;
        self.more.notify_one();
    }

    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.more.notify_one();
    }

    /// Waits until more than `taken` entries are accepted, the time `due` has come, or the log is
    /// closed.
    pub(super) fn wait(&self, taken: u64, due: Option<Instant>) -> Woken {
        let mut state = self.state.lock();
        loop {
            if state.accepted > taken {
                return Woken::More;
            }
            if state.closed {
                return Woken::Closed;
            }
            match due {
                None => self.more.wait(&mut state),
                Some(due) => {
                    if self.more.wait_until(&mut state, due).timed_out() {
                        return Woken::Due;
                    }
                }
            }
        }
    }

    /// Sets the number of published entries, and wakes the tasks that wait for one of them.
    pub(super) fn publish(&self, published: u64) {
        let mut state = self.state.lock();
        state.published = published;
        let later = state.wakers.split_off(&published.saturating_add(1));
        let ready = std::mem::replace(&mut state.wakers, later);
        drop(state);
        ready.into_values().flatten().for_each(Waker::wake);
    }

    /// Ends the log with an error and wakes all waiting tasks. Only the first reason is kept.
    pub(super) fn fail(&self, reason: String) {
        let mut state = self.state.lock();
        state.failure.get_or_insert(reason);
        let all = std::mem::take(&mut state.wakers);
        drop(state);
        all.into_values().flatten().for_each(Waker::wake);
    }

    /// Waits until this number of entries is published.
    ///
    /// # Errors
    /// [`Refusal::Stopped`] if the log fails or is closed before that.
    pub(super) async fn published(&self, entries: u64) -> Result<(), Refusal> {
        std::future::poll_fn(|context| self.poll(entries, context))
            .await
            .map_err(|_| Refusal::Stopped)
    }

    /// Waits until the log has failed or is closed; returns the reason.
    pub(super) async fn failed(&self) -> String {
        let never = std::future::poll_fn(|context| self.poll(u64::MAX, context)).await;
        never.err().unwrap_or_default()
    }

    fn poll(&self, entries: u64, context: &mut Context<'_>) -> Poll<Result<(), String>> {
        let mut state = self.state.lock();
        if state.published >= entries {
            return Poll::Ready(Ok(()));
        }
        if let Some(failure) = &state.failure {
            return Poll::Ready(Err(failure.clone()));
        }
        let waker = context.waker();
        let same = state.wakers.entry(entries).or_default();
        if !same.iter().any(|known| known.will_wake(waker)) {
            same.push(waker.clone());
        }
        Poll::Pending
    }
}
