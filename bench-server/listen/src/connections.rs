//! Limits the number of connections, and of connections that have not sent their first bytes.
//!
//! A connection costs a file descriptor. Clients may use all descriptors of the process except
//! [`RESERVED_DESCRIPTORS`], as in etcd. Further connections are closed at once: a peer learns more
//! from this than from waiting in a queue, and `accept` never runs out of descriptors.
//!
//! A pending connection has not sent its first bytes or is in its TLS handshake. At most
//! [`MAX_PENDING`] may be pending. One more evicts the oldest, so silent peers never keep others
//! out.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::oneshot;

use super::counts::COUNTS;

/// File descriptors that are reserved for the process itself.
const RESERVED_DESCRIPTORS: usize = 150;

/// Maximum number of connections to `--listen-metrics-urls`, which use reserved descriptors.
const METRICS_CONNECTIONS: usize = 64;

/// Maximum number of pending connections.
const MAX_PENDING: usize = 1024;

/// Maximum number of connections of clients, over all listeners of the process.
static LIMIT: LazyLock<usize> = LazyLock::new(|| {
    usize::try_from(descriptors().unwrap_or(u64::MAX)).map_or(usize::MAX, |most| {
        // At least a few, so that the server stays usable.
        most.saturating_sub(RESERVED_DESCRIPTORS).max(8)
    })
});

static METRICS_OPEN: AtomicUsize = AtomicUsize::new(0);

static PENDING: Mutex<Queue> = Mutex::new(Queue {
    next: 0,
    waiting: VecDeque::new(),
});

/// Pending connections in the order of their arrival.
struct Queue {
    next: u64,
    waiting: VecDeque<QueueEntry>,
}

/// Returns the maximum number of connections of clients.
pub(super) fn limit() -> usize {
    *LIMIT
}

fn descriptors() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Raises the limit of file descriptors to its maximum, as Go's runtime does for etcd.
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
        tracing::debug!("cannot raise the limit of file descriptors from {current:?}: {error}");
    }
}

/// The class of a listener's connections, each with a limit of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionClass {
    /// Clients, limited by file descriptors.
    Clients,
    /// Clients of health and metrics, outside the limit of other clients.
    Metrics,
}

impl ConnectionClass {
    fn open(self) -> &'static AtomicUsize {
        match self {
            Self::Clients => &COUNTS.open,
            Self::Metrics => &METRICS_OPEN,
        }
    }

    fn limit(self) -> usize {
        match self {
            Self::Clients => limit(),
            Self::Metrics => METRICS_CONNECTIONS,
        }
    }

    /// Returns a permit for one more connection. At the limit, counts a refused connection and
    /// returns `None`.
    pub(super) fn try_acquire(self) -> Option<ConnectionPermit> {
        let open = self.open();
        // Listeners accept concurrently.
        if open.fetch_add(1, Ordering::AcqRel) < self.limit() {
            return Some(ConnectionPermit(self));
        }
        open.fetch_sub(1, Ordering::AcqRel);
        COUNTS.refused.fetch_add(1, Ordering::Relaxed);
        None
    }
}

/// Counts one connection until dropped.
#[derive(Debug)]
pub(super) struct ConnectionPermit(ConnectionClass);

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.0.open().fetch_sub(1, Ordering::AcqRel);
    }
}

#[derive(Debug)]
struct QueueEntry {
    number: u64,
    /// Dropped to evict the connection.
    _stay: oneshot::Sender<()>,
}

/// A pending connection; it is no longer pending when this is dropped.
#[derive(Debug)]
pub(super) struct PendingConnection {
    number: u64,
    evicted: oneshot::Receiver<()>,
}

impl PendingConnection {
    /// Adds a pending connection; evicts the oldest if there are too many.
    pub(super) fn new() -> Self {
        let (stay, evicted) = oneshot::channel();
        let mut queue = PENDING.lock();
        let number = queue.next;
        queue.next += 1;
        let oldest = match queue.waiting.len() >= MAX_PENDING {
            true => queue.waiting.pop_front(),
            false => None,
        };
        queue.waiting.push_back(QueueEntry {
            number,
            _stay: stay,
        });
        drop(queue);
        if oldest.is_some() {
            COUNTS.pending_evicted.fetch_add(1, Ordering::Relaxed);
        }
        Self { number, evicted }
    }

    /// Polls until it is evicted by a newer one.
    pub(super) fn poll_evicted(&mut self, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.evicted).poll(context).map(|_| ())
    }

    /// Waits until it is evicted by a newer one.
    pub(super) async fn evicted(&mut self) {
        std::future::poll_fn(|context| self.poll_evicted(context)).await;
    }
}

impl Drop for PendingConnection {
    fn drop(&mut self) {
        let mut queue = PENDING.lock();
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

    /// The only test with pending connections, whose number is global in the process.
    #[test]
    fn the_oldest_pending_connection_is_evicted() {
        let mut all: Vec<_> = (0..MAX_PENDING).map(|_| PendingConnection::new()).collect();
        // Other tests may add pending connections; those are older.
        let one_more = PendingConnection::new();
        assert!(all[MAX_PENDING - 1].evicted().now_or_never().is_none());
        drop(all.pop());
        drop(one_more);
        let mut newer = Vec::new();
        while all[0].evicted().now_or_never().is_none() {
            newer.push(PendingConnection::new());
            assert!(newer.len() < 2 * MAX_PENDING, "the oldest goes first");
        }
        assert!(all[MAX_PENDING - 2].evicted().now_or_never().is_none());
    }
}
