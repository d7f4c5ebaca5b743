//! Who waits for the log: its thread for writes, writes for its thread.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use etcd_api::error::Refusal;
use parking_lot::{Condvar, Mutex};

/// How far the log is.
#[derive(Default)]
pub(super) struct CommitProgress {
    /// Entries that were ever accepted. Counted under the writer's lock, read without it.
    accepted: AtomicU64,
    state: Mutex<State>,
    /// Wakes the thread.
    more: Condvar,
}

#[derive(Default)]
struct State {
    /// Entries that were ever accepted, as the thread is told.
    accepted: u64,
    /// Entries that were ever published.
    published: u64,
    closed: bool,
    /// Why there will be no more.
    failure: Option<String>,
    /// Who waits, by how many must be published.
    wakers: BTreeMap<u64, Vec<Waker>>,
}

/// Why the thread goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Woken {
    /// Entries were accepted.
    More,
    /// Its time has come.
    Due,
    /// Nothing will be accepted any more.
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

    /// Waits until more than `taken` entries were accepted, until `due`, or for the end.
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

    /// Wakes those who wait for one of the first `published` entries.
    pub(super) fn publish(&self, published: u64) {
        let mut state = self.state.lock();
        state.published = published;
        let later = state.wakers.split_off(&published.saturating_add(1));
        let ready = std::mem::replace(&mut state.wakers, later);
        drop(state);
        ready.into_values().flatten().for_each(Waker::wake);
    }

    /// Ends publishing, for the first reason that is given.
    pub(super) fn fail(&self, reason: String) {
        let mut state = self.state.lock();
        state.failure.get_or_insert(reason);
        let all = std::mem::take(&mut state.wakers);
        drop(state);
        all.into_values().flatten().for_each(Waker::wake);
    }

    /// Waits until so many entries are published.
    ///
    /// # Errors
    /// [`Refusal::Stopped`] when they will never be.
    pub(super) async fn published(&self, entries: u64) -> Result<(), Refusal> {
        std::future::poll_fn(|context| self.poll(entries, context))
            .await
            .map_err(|_| Refusal::Stopped)
    }

    /// Waits until nothing will be published any more; returns why.
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
