//! Time limits and backoff of watchers that resume after losing their stream.

use std::time::Duration;

use tokio::time::Instant;

/// How long watchers try to resume.
pub(super) const RESUME_TIMEOUT: Duration = Duration::from_secs(60);
/// How long an endpoint may take to confirm resumed watchers. An endpoint that hangs still accepts
/// connections.
pub(super) const CONFIRM_TIMEOUT: Duration = Duration::from_secs(10);
/// The first and the longest pause. Each pause is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Pauses between attempts: none before the first, then growing ones until something is received.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    next: Duration,
}

impl Backoff {
    /// Records that something was received.
    pub(super) fn reset(&mut self) {
        self.next = Duration::ZERO;
    }

    /// Waits before the next attempt.
    pub(super) async fn pause(&mut self) {
        let now = self.next;
        self.next = (2 * now).clamp(FIRST_PAUSE, MAX_PAUSE);
        if !now.is_zero() {
            tokio::time::sleep(now).await;
        }
    }
}

/// Returns whether attempts that began at `begun` must stop.
pub(super) fn is_over(begun: Instant) -> bool {
    begun.elapsed() > RESUME_TIMEOUT
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
            assert!(paused().await <= MAX_PAUSE);
        }
        assert_eq!(paused().await, MAX_PAUSE);
        backoff.reset();
        let begun = Instant::now();
        backoff.pause().await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
