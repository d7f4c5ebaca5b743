//! The clock of an open loop: requests are due at times that are fixed before the first is sent.
//!
//! Its timer is a file descriptor in the runtime that sends. It is exact to microseconds, while the
//! runtime's own timer rounds to milliseconds. Its expiry wakes the sender directly, not through
//! another thread. A wake-up costs several times as much CPU as a request, and the generator pays
//! one for each time at which something is due.
//!
//! A clock that is polled late although its thread had nothing to do reveals a stall: the machine
//! did not let the generator run.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::Instant;

use super::alarm::Timer;

/// How a clock waits until the next request is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// Sleeps. Another process can use the CPU meanwhile, and a wake-up is late by tens of
    /// microseconds.
    Sleep,
    /// Polls, and is late by a few microseconds. It uses all of a CPU, so it is only for a
    /// generator with a CPU that no server may use.
    Spin,
}

/// The next due time of one sender, shared with the clock.
#[derive(Debug, Default)]
pub(super) struct NextDue {
    due: Cell<Option<Duration>>,
    waker: RefCell<Option<Waker>>,
}

impl NextDue {
    /// Sets the waker that is woken when something is due.
    pub(super) fn register(&self, waker: &Waker) {
        let mut registered = self.waker.borrow_mut();
        match &mut *registered {
            Some(known) => known.clone_from(waker),
            None => *registered = Some(waker.clone()),
        }
    }

    /// Makes the sender check its schedule again.
    pub(super) fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Sets when this connection's next request is due, from the start of the run; `None` for
    /// never.
    pub(super) fn set_due(&self, at: Option<Duration>) {
        self.due.set(at);
    }

    /// Returns when this connection's next request is due.
    pub(super) fn due(&self) -> Option<Duration> {
        self.due.get()
    }
}

/// Wakes connections when their requests are due. Runs in the task that drives the connections.
#[derive(Debug)]
pub(super) struct Clock<T> {
    timer: T,
    waiting: Waiting,
    begun: Instant,
    due_times: Vec<Rc<NextDue>>,
    /// The time that the timer is set to, relative to the start of the run.
    set_to: Option<Duration>,
    /// When the task last had nothing to do.
    left: Duration,
    stall: Rc<Cell<Duration>>,
}

impl<T: Timer> Clock<T> {
    /// Returns a clock for connections whose due times are relative to `begun`. Keeps the longest
    /// stall in `stall`.
    ///
    /// # Errors
    /// The system's error when it cannot create a timer. Must be called within a runtime.
    pub(super) fn new(
        waiting: Waiting,
        begun: Instant,
        due_times: Vec<Rc<NextDue>>,
        stall: Rc<Cell<Duration>>,
    ) -> io::Result<Self> {
        Ok(Self {
            timer: T::new()?,
            waiting,
            begun,
            due_times,
            set_to: None,
            left: begun.elapsed(),
            stall,
        })
    }

    /// Wakes connections for as long as it is polled. It must be polled after the connections, to
    /// see the due times that they have set.
    ///
    /// # Errors
    /// The system's error when the timer cannot be set.
    pub(super) async fn run(mut self) -> io::Result<Infallible> {
        match self.waiting {
            Waiting::Sleep => poll_fn(|cx| self.poll_sleeping(cx)).await,
            Waiting::Spin => loop {
                self.wake_due();
                // The runtime polls for responses in between.
                yield_now().await;
            },
        }
    }

    fn poll_sleeping(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Infallible>> {
        loop {
            let (now, next) = self.wake_due();
            if let Some(next) = next
                && self.set_to != Some(next)
            {
                self.timer.set(next.saturating_sub(now))?;
                self.set_to = Some(next);
            }
            ready!(self.timer.poll_expired(cx))?;
        }
    }

    /// Wakes the connections that are due. Returns the current time and the next due time.
    fn wake_due(&mut self) -> (Duration, Option<Duration>) {
        let now = self.begun.elapsed();
        if let Some(expected) = self.expected(now) {
            let stall = now.saturating_sub(expected.max(self.left));
            self.stall.set(self.stall.get().max(stall));
        }
        let mut next: Option<Duration> = None;
        for next_due in &self.due_times {
            match next_due.due() {
                Some(due) if due <= now => next_due.wake(),
                Some(due) => next = Some(next.map_or(due, |next| next.min(due))),
                None => {}
            }
        }
        self.left = self.begun.elapsed();
        (now, next)
    }

    /// Returns when this thread was to run again, if that time has passed.
    fn expected(&mut self, now: Duration) -> Option<Duration> {
        match self.waiting {
            Waiting::Sleep => self.set_to.take_if(|due| *due <= now),
            Waiting::Spin => Some(self.left),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::alarm::Alarm;

    /// Runs a clock until the connection is due. Returns how often the connection's sender was
    /// polled, and when it ended.
    async fn until_due(waiting: Waiting, due: Duration) -> (u32, Duration) {
        let next_due = Rc::new(NextDue::default());
        next_due.set_due(Some(due));
        let begun = Instant::now();
        let due_times = vec![Rc::clone(&next_due)];
        let clock = Clock::<Alarm>::new(waiting, begun, due_times, Rc::default()).expect("a timer");
        let mut polls = 0;
        let sender = poll_fn(|cx| {
            polls += 1;
            next_due.register(cx.waker());
            match begun.elapsed() {
                now if now >= due => {
                    next_due.set_due(None);
                    Poll::Ready(())
                }
                _ => Poll::Pending,
            }
        });
        tokio::select! {
            biased;
            () = sender => {}
            ended = clock.run() => panic!("the clock ended: {ended:?}"),
        }
        (polls, begun.elapsed())
    }

    #[tokio::test]
    async fn a_connection_is_woken_when_it_is_due_and_not_before() {
        let due = Duration::from_millis(30);
        let (polls, ended) = until_due(Waiting::Sleep, due).await;
        assert!(ended >= due, "woken after {ended:?}");
        // The expiry polls the task, and so does the connection that it wakes.
        assert!(polls <= 4, "polled {polls} times");
        let (_, ended) = until_due(Waiting::Spin, due).await;
        assert!(ended >= due, "woken after {ended:?}");
    }

    #[tokio::test]
    async fn a_connection_that_is_overdue_is_woken_at_once() {
        let (polls, _) = until_due(Waiting::Sleep, Duration::ZERO).await;
        assert_eq!(polls, 1);
    }
}
