//! How long watchers try to go on after they have lost their stream, and with which pauses.

use std::time::Duration;

use tokio::time::Instant;

/// How long they try.
pub(super) const RESUMED_WITHIN: Duration = Duration::from_secs(60);
/// How long an endpoint may take to confirm the watchers that go on there: one that hangs accepts
/// connections.
pub(super) const CONFIRMED_WITHIN: Duration = Duration::from_secs(10);
/// The first pause, and the longest: each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Pauses before attempts: none before the first, and longer ones until something has come.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    next: Duration,
}

impl Backoff {
    /// Notes that something has come.
    pub(super) fn reset(&mut self) {
        self.next = Duration::ZERO;
    }

    /// Waits before the next attempt.
    pub(super) async fn pause(&mut self) {
        let now = self.next;
        self.next = (2 * now).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        if !now.is_zero() {
            tokio::time::sleep(now).await;
        }
    }
}

/// Returns whether no further attempt is made, of those that began at `begun`.
pub(super) fn is_over(begun: Instant) -> bool {
    begun.elapsed() > RESUMED_WITHIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_until_something_comes() {
        let mut backoff = Backoff::default();
        let mut paused = async || {
            let begun = Instant::now();
            backoff.pause().await;
            begun.elapsed()
        };
        assert_eq!(paused().await, Duration::ZERO);
        assert_eq!(paused().await, FIRST_PAUSE);
        assert_eq!(paused().await, 2 * FIRST_PAUSE);
        for _ in 0..10 {
            assert!(paused().await <= LONGEST_PAUSE);
        }
        assert_eq!(paused().await, LONGEST_PAUSE);
        backoff.reset();
        let begun = Instant::now();
        backoff.pause().await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
