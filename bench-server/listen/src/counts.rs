//! Counts of open connections and of rejections by limits. They are per process, like file
//! descriptors.

use std::sync::atomic::{AtomicU64, AtomicUsize};

use parking_lot::Mutex;
use tokio::runtime::Handle;

/// The counts of this process.
#[derive(Debug)]
pub(super) struct Counts {
    /// Open connections of clients.
    pub(super) open: AtomicUsize,
    /// Connections closed at once because of the limit.
    pub(super) refused: AtomicU64,
    /// Pending connections evicted by newer ones.
    pub(super) pending_evicted: AtomicU64,
    /// Connections closed because of a head that did not end.
    pub(super) heads_closed: AtomicU64,
    /// Requests rejected because of too many open streams.
    pub(super) requests_refused: AtomicU64,
    /// Responses aborted because their clients took no data.
    pub(super) stalled: AtomicU64,
}

pub(super) static COUNTS: Counts = Counts {
    open: AtomicUsize::new(0),
    refused: AtomicU64::new(0),
    pending_evicted: AtomicU64::new(0),
    heads_closed: AtomicU64::new(0),
    requests_refused: AtomicU64::new(0),
    stalled: AtomicU64::new(0),
};

/// The runtimes of the worker threads of this process.
pub(super) static RUNTIMES: Mutex<Vec<Handle>> = Mutex::new(Vec::new());

/// Returns the number of tasks of all worker threads: connections, and the tasks that they have
/// started.
pub(super) fn tasks() -> usize {
    let runtimes = RUNTIMES.lock();
    let each = runtimes.iter().map(|of| of.metrics().num_alive_tasks());
    each.sum()
}
