//! A list that the server's compaction cuts off is begun again, at a new revision.
//!
//! Compacted (etcd) and 410 Expired (Kubernetes) in the middle of a list are the server's right:
//! history is not kept for as long as a slow list takes. Kubernetes' 410 carries a token with which
//! the list may go on at another revision: the pages before and behind it are of two states, so it
//! is never taken.

use std::time::{Duration, Instant};

use super::error::{ListError, MOST_RESTARTS};
use super::lister::Lister;

/// The tries of a list that came to nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Restarts {
    /// How many.
    pub count: u32,
    /// Time that they took; none of it is in the time of the list.
    pub time: Duration,
}

/// Runs `work` on `lister`, again where history was compacted meanwhile. Returns what it came to,
/// when the try began that came to it, and the tries before.
///
/// # Errors
/// Those of `work`; [`ListError::HistoryTooShort`] where it was begun again [`MOST_RESTARTS`]
/// times.
pub async fn until_whole<T>(
    lister: &mut dyn Lister,
    mut work: impl AsyncFnMut(&mut dyn Lister, Instant) -> Result<T, ListError>,
) -> (Result<T, ListError>, Instant, Restarts) {
    let mut restarts = Restarts::default();
    loop {
        let begun = Instant::now();
        let error = match work(lister, begun).await {
            Err(error) if error.is_compacted() => error,
            outcome => return (outcome, begun, restarts),
        };
        if restarts.count == MOST_RESTARTS {
            let last = error.to_string();
            return (Err(ListError::HistoryTooShort { last }), begun, restarts);
        }
        if let Err(error) = lister.begin_again().await {
            return (Err(error), begun, restarts);
        }
        restarts.count += 1;
        restarts.time += begun.elapsed();
    }
}
