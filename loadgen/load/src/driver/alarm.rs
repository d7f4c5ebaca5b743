//! A timer that is exact to microseconds, where the runtime's own rounds up to milliseconds
//! (a tokio timer is late by 1.1 ms at the median).

use std::io;
use std::os::fd::{AsFd as _, AsRawFd, RawFd};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use tokio::io::unix::AsyncFd;

/// The longest that a timer is set for. A schedule may have its next request in a year.
const LONGEST: Duration = Duration::from_secs(3_600);

/// A timer file descriptor in the runtime that waits for it.
#[derive(Debug)]
pub(super) struct Alarm(AsyncFd<Timer>);

/// A timer whose expiry a runtime can wait for.
#[derive(Debug)]
struct Timer(TimerFd);

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl Alarm {
    /// One that is not set. Must be called within a runtime.
    ///
    /// # Errors
    /// The system's, when no timer can be had.
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = Timer(TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?);
        #[expect(
            deprecated,
            reason = "its successor is unsafe: the promise that it asks for is that a descriptor \
                      stays open as long as its owner, which `TimerFd` keeps"
        )]
        let timer = AsyncFd::new(timer)?;
        Ok(Self(timer))
    }

    /// Sets it to expire once, in `wait` (in a nanosecond at least: zero would disarm it; in an
    /// hour at most).
    ///
    /// # Errors
    /// The system's.
    pub(super) fn set(&self, wait: Duration) -> io::Result<()> {
        let wait = wait.clamp(Duration::from_nanos(1), LONGEST);
        let timer = &self.0.get_ref().0;
        timer.set(Expiration::OneShot(wait.into()), TimerSetTimeFlags::empty())?;
        Ok(())
    }

    /// Ready when it has expired. Nothing is read from it: setting it again takes back its expiry.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn poll_expired(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0
            .poll_read_ready(cx)
            .map(|ready| ready.map(|mut guard| guard.clear_ready()))
    }

    /// Waits until that time.
    ///
    /// # Errors
    /// The system's.
    pub(super) async fn until(&mut self, at: Instant) -> io::Result<()> {
        loop {
            let wait = at.saturating_duration_since(Instant::now());
            if wait.is_zero() {
                return Ok(());
            }
            self.set(wait)?;
            std::future::poll_fn(|cx| self.poll_expired(cx)).await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_alarm_goes_off_when_it_is_due_and_at_once_when_it_was() {
        let mut alarm = Alarm::new().expect("a timer");
        let due = Instant::now() + Duration::from_millis(20);
        alarm.until(due).await.expect("it can be set");
        assert!(Instant::now() >= due);
        alarm.until(due).await.expect("nothing to wait for");
        // Given up and set anew, as in a select.
        let far = Instant::now() + Duration::from_secs(3_000);
        let given_up = tokio::time::timeout(Duration::from_millis(1), alarm.until(far)).await;
        assert!(given_up.is_err());
        let due = Instant::now() + Duration::from_millis(20);
        alarm.until(due).await.expect("it can be set again");
        assert!(Instant::now() >= due);
    }
}
