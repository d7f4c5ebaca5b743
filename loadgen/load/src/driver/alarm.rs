//! A timer with a resolution of microseconds. The runtime's own timer rounds up to milliseconds: a
//! tokio timer is late by 1.1 ms at the median.

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd, RawFd};
use std::task::{Context, Poll};
use std::time::Duration;

use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

/// The longest time that a timer is set for. The next request of a schedule may be due in a year.
const MAX_WAIT: Duration = Duration::from_secs(3_600);

/// A one-shot timer that can be set again, which wakes a schedule. Tests use one on tokio's paused
/// clock.
pub(super) trait Timer: Sized {
    /// Returns a timer that is not set. Must be called within a runtime.
    ///
    /// # Errors
    /// The system's error when it cannot create a timer.
    fn new() -> io::Result<Self>;

    /// Sets the timer to expire once, in `wait`. Discards an expiry that was not consumed.
    ///
    /// # Errors
    /// The system's error.
    fn set(&mut self, wait: Duration) -> io::Result<()>;

    /// Polls until the timer has expired.
    ///
    /// # Errors
    /// The system's error.
    fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}

/// Waits until `at`.
///
/// # Errors
/// The system's error.
pub(super) async fn until(timer: &mut impl Timer, at: Instant) -> io::Result<()> {
    loop {
        let wait = at.saturating_duration_since(Instant::now());
        if wait.is_zero() {
            return Ok(());
        }
        timer.set(wait)?;
        poll_fn(|cx| timer.poll_expired(cx)).await?;
    }
}

/// A timer file descriptor that is registered with the runtime.
#[derive(Debug)]
pub(super) struct Alarm(AsyncFd<Descriptor>);

/// A timer file descriptor in the form that [`AsyncFd`] takes.
#[derive(Debug)]
struct Descriptor(TimerFd);

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl Timer for Alarm {
    fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = Descriptor(TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?);
        #[expect(
            deprecated,
            reason = "its successor is unsafe: the promise that it asks for is that a descriptor \
                      stays open as long as its owner, which `TimerFd` keeps"
        )]
        let timer = AsyncFd::new(timer)?;
        Ok(Self(timer))
    }

    /// Waits for a nanosecond at least, because zero would disarm the timer, and for an hour at
    /// most.
    fn set(&mut self, wait: Duration) -> io::Result<()> {
        let wait = wait.clamp(Duration::from_nanos(1), MAX_WAIT);
        let timer = &self.0.get_ref().0;
        timer.set(Expiration::OneShot(wait.into()), TimerSetTimeFlags::empty())?;
        Ok(())
    }

    /// Does not read the descriptor: setting the timer again discards its expiry.
    fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0
            .poll_read_ready(cx)
            .map(|ready| ready.map(|mut guard| guard.clear_ready()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_alarm_goes_off_when_it_is_due_and_at_once_when_it_was() {
        let mut alarm = Alarm::new().expect("a timer");
        let due = Instant::now() + Duration::from_millis(20);
        until(&mut alarm, due).await.expect("it can be set");
        assert!(Instant::now() >= due);
        until(&mut alarm, due).await.expect("nothing to wait for");
        // Abandoned and set anew, as in a select.
        let far = Instant::now() + Duration::from_secs(3_000);
        let given_up = tokio::time::timeout(Duration::from_millis(1), until(&mut alarm, far)).await;
        assert!(given_up.is_err());
        let due = Instant::now() + Duration::from_millis(20);
        until(&mut alarm, due).await.expect("it can be set again");
        assert!(Instant::now() >= due);
    }
}
