//! What limits of connections and streams have refused. The counts are the process's, as its file descriptors are.

use std::sync::atomic::{AtomicU64, AtomicUsize};

/// Counts of this process.
#[derive(Debug)]
pub(super) struct Counts {
    /// Connections of clients that are open.
    pub(super) open: AtomicUsize,
    /// Connections closed at once, since there were too many.
    pub(super) refused: AtomicU64,
    /// Connections that had said nothing yet and made room for others.
    pub(super) newcomers_closed: AtomicU64,
    /// Requests refused, since too many were being answered.
    pub(super) requests_refused: AtomicU64,
    /// Responses given up, since their clients took nothing.
    pub(super) stalled: AtomicU64,
}

pub(super) static COUNTS: Counts = Counts {
    open: AtomicUsize::new(0),
    refused: AtomicU64::new(0),
    newcomers_closed: AtomicU64::new(0),
    requests_refused: AtomicU64::new(0),
    stalled: AtomicU64::new(0),
};
