//! TLS handshakes that failed, in the log: at most one line a second, however many peers fail.

use std::fmt::Display;
use std::net::SocketAddr;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Time from one line to the next, at least.
const PAUSE: Duration = Duration::from_secs(1);

/// Handshakes that failed at one server.
#[derive(Debug, Default)]
pub(super) struct FailedHandshakes {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// When the last line was written.
    told: Option<Instant>,
    /// Handshakes since, of which nothing was written.
    untold: u64,
}

impl FailedHandshakes {
    /// Tells of one, unless another was told of just now.
    pub(super) fn tell(&self, peer: SocketAddr, reason: impl Display) {
        match self.note() {
            None => {}
            Some(0) => tracing::warn!("TLS handshake with {peer} failed: {reason}"),
            Some(untold) => tracing::warn!(
                "TLS handshake with {peer} failed: {reason}; so did {untold} since the last such line"
            ),
        }
    }

    /// Counts one. Where it may be told of, answers how many before it were not.
    fn note(&self) -> Option<u64> {
        let mut state = self.state.lock();
        if state.told.is_some_and(|told| told.elapsed() < PAUSE) {
            state.untold += 1;
            return None;
        }
        state.told = Some(Instant::now());
        Some(std::mem::take(&mut state.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_in_a_second_is_told_and_the_others_are_counted() {
        let failed = FailedHandshakes::default();
        assert_eq!(failed.note(), Some(0), "the first");
        assert_eq!((failed.note(), failed.note()), (None, None));
        tokio::time::advance(PAUSE).await;
        assert_eq!(failed.note(), Some(2));
        assert_eq!(failed.note(), None);
        tokio::time::advance(2 * PAUSE).await;
        assert_eq!(failed.note(), Some(1));
    }
}
