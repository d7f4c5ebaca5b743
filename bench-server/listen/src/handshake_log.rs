//! Logs failed TLS handshakes, at most one line per second.

use std::fmt::Display;
use std::net::SocketAddr;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Minimum time between two lines.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// The failed handshakes of one server.
#[derive(Debug, Default)]
pub(super) struct HandshakeLog {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Time of the last line.
    logged: Option<Instant>,
    /// Failed handshakes since then that were not logged.
    unlogged: u64,
}

impl HandshakeLog {
    /// Logs a failed handshake, unless the last line is too recent.
    pub(super) fn log(&self, peer: SocketAddr, reason: impl Display) {
        match self.count() {
            None => {}
            Some(0) => tracing::warn!("TLS handshake with {peer} failed: {reason}"),
            Some(unlogged) => tracing::warn!(
                "TLS handshake with {peer} failed: {reason}; {unlogged} more have failed since the last such line"
            ),
        }
    }

    /// Counts a failed handshake. If it may be logged, returns the number of earlier ones that were
    /// not logged.
    fn count(&self) -> Option<u64> {
        let mut state = self.state.lock();
        if state
            .logged
            .is_some_and(|logged| logged.elapsed() < LOG_INTERVAL)
        {
            state.unlogged += 1;
            return None;
        }
        state.logged = Some(Instant::now());
        Some(std::mem::take(&mut state.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_per_second_is_logged_and_the_others_are_counted() {
        let failed = HandshakeLog::default();
        assert_eq!(failed.count(), Some(0), "the first");
        assert_eq!((failed.count(), failed.count()), (None, None));
        tokio::time::advance(LOG_INTERVAL).await;
        assert_eq!(failed.count(), Some(2));
        assert_eq!(failed.count(), None);
        tokio::time::advance(2 * LOG_INTERVAL).await;
        assert_eq!(failed.count(), Some(1));
    }
}
