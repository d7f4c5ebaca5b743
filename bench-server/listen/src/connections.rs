//! How many connections there may be, and how many of them may keep silent.
//!
//! A connection costs a file descriptor. As many are left to clients as the process may have, but for [`RESERVED`] of its own:
//! etcd's rule. Whoever comes then is closed at once: a peer learns more from that than from a queue, and `accept` never
//! runs out of descriptors.
//!
//! A newcomer has not said its first word yet, or is shaking hands. At most [`NEWCOMERS`] are waited for; one more lets the
//! oldest of them go, so that those who say nothing never keep out those who do.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::oneshot;

use super::counts::COUNTS;

/// Descriptors that are left to the process itself.
const RESERVED: usize = 150;

/// Connections to `--listen-metrics-urls`, which live on what is reserved.
const METRICS_CONNECTIONS: usize = 64;

/// Newcomers that are waited for.
const NEWCOMERS: usize = 1024;

/// Connections that clients may have, over all listeners of the process.
static LIMIT: LazyLock<usize> = LazyLock::new(|| {
    usize::try_from(descriptors().unwrap_or(u64::MAX)).map_or(usize::MAX, |most| {
        // Fewer than a handful would serve nobody.
        most.saturating_sub(RESERVED).max(8)
    })
});

static METRICS_OPEN: AtomicUsize = AtomicUsize::new(0);

static NEWCOMERS_WAITING: Mutex<Queue> = Mutex::new(Queue {
    next: 0,
    waiting: VecDeque::new(),
});

/// Newcomers in the order in which they came.
struct Queue {
    next: u64,
    waiting: VecDeque<Waiting>,
}

/// Connections that clients may have.
pub(super) fn limit() -> usize {
    *LIMIT
}

fn descriptors() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Lets the process have as many file descriptors as it may ask for, as Go's runtime does for etcd.
pub fn raise_descriptor_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: maximum,
                maximum,
            },
        )
    {
        tracing::debug!("the limit of file descriptors stays at {current:?}: {error}");
    }
}

/// Whom a listener lets in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// Clients, as many as there are descriptors.
    Clients,
    /// Who reads health and metrics, beside the limit of clients.
    Metrics,
}

impl Door {
    fn open(self) -> &'static AtomicUsize {
        match self {
            Self::Clients => &COUNTS.open,
            Self::Metrics => &METRICS_OPEN,
        }
    }

    fn most(self) -> usize {
        match self {
            Self::Clients => limit(),
            Self::Metrics => METRICS_CONNECTIONS,
        }
    }

    /// Lets one more connection in, or counts that it was refused.
    pub(super) fn enter(self) -> Option<Seat> {
        let open = self.open();
        // One acceptor for each listener: they may be at it together.
        if open.fetch_add(1, Ordering::AcqRel) < self.most() {
            return Some(Seat(self));
        }
        open.fetch_sub(1, Ordering::AcqRel);
        COUNTS.refused.fetch_add(1, Ordering::Relaxed);
        None
    }
}

/// A connection that counts until this is dropped.
#[derive(Debug)]
pub(super) struct Seat(Door);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.open().fetch_sub(1, Ordering::AcqRel);
    }
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    /// Dropped to let the newcomer go.
    _stay: oneshot::Sender<()>,
}

/// A connection that has said nothing yet; it is one no longer when this is dropped.
#[derive(Debug)]
pub(super) struct Newcomer {
    number: u64,
    dismissed: oneshot::Receiver<()>,
}

impl Newcomer {
    /// Waits for one more; the oldest is let go where they are too many.
    pub(super) fn new() -> Self {
        let (stay, dismissed) = oneshot::channel();
        let mut queue = NEWCOMERS_WAITING.lock();
        let number = queue.next;
        queue.next += 1;
        let oldest = match queue.waiting.len() >= NEWCOMERS {
            true => queue.waiting.pop_front(),
            false => None,
        };
        queue.waiting.push_back(Waiting {
            number,
            _stay: stay,
        });
        drop(queue);
        if oldest.is_some() {
            COUNTS.newcomers_closed.fetch_add(1, Ordering::Relaxed);
        }
        Self { number, dismissed }
    }

    /// Ready when it is to be closed for a newer one.
    pub(super) fn poll_dismissed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.dismissed).poll(context).map(|_| ())
    }

    /// Waits until it is to be closed for a newer one.
    pub(super) async fn dismissed(&mut self) {
        std::future::poll_fn(|context| self.poll_dismissed(context)).await;
    }
}

impl Drop for Newcomer {
    fn drop(&mut self) {
        let mut queue = NEWCOMERS_WAITING.lock();
        let place = queue
            .waiting
            .binary_search_by_key(&self.number, |one| one.number);
        if let Ok(index) = place {
            queue.waiting.remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    /// The only test of this process that takes newcomers: their number is the process's.
    #[test]
    fn the_oldest_newcomer_makes_room() {
        let mut all: Vec<_> = (0..NEWCOMERS).map(|_| Newcomer::new()).collect();
        // Other tests may have newcomers of their own; theirs are older.
        let one_more = Newcomer::new();
        assert!(all[NEWCOMERS - 1].dismissed().now_or_never().is_none());
        drop(all.pop());
        drop(one_more);
        let mut newer = Vec::new();
        while all[0].dismissed().now_or_never().is_none() {
            newer.push(Newcomer::new());
            assert!(newer.len() < 2 * NEWCOMERS, "the oldest goes first");
        }
        assert!(all[NEWCOMERS - 2].dismissed().now_or_never().is_none());
    }
}
