//! The clock of an open loop: requests are due at times that were fixed before the first was sent.
//!
//! A thread of its own sleeps until something is due and wakes whoever must send it: a runtime's timer is a millisecond
//! coarse, and a runtime that is busy with answers would be late without noticing. What the thread itself is late by is a stall:
//! the machine did not let the generator run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use futures::task::AtomicWaker;

/// What is due within this of each other is woken together: a wake-up costs more than a request.
const QUANTUM: Duration = Duration::from_micros(200);
/// Nothing more is due in a lane.
const NEVER: u64 = u64::MAX;
/// How often the clock looks whether it is to stop while nothing is due.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(20);

/// One sender's share of the schedule, as the clock sees it.
#[derive(Debug)]
pub(super) struct Lane {
    due_ns: AtomicU64,
    waker: AtomicWaker,
}

impl Default for Lane {
    fn default() -> Self {
        Self {
            due_ns: AtomicU64::new(NEVER),
            waker: AtomicWaker::new(),
        }
    }
}

impl Lane {
    /// Who is woken when something is due.
    pub(super) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    /// Has its sender look again.
    pub(super) fn wake(&self) {
        self.waker.wake();
    }

    /// When this lane's next request is due, from the start of the run.
    pub(super) fn due(&self, at: Option<Duration>) {
        let ns = at.map_or(NEVER, |at| at.as_nanos() as u64);
        self.due_ns.store(ns, Ordering::Release);
    }
}

/// A running clock; dropped, it stops.
#[derive(Debug)]
pub(super) struct Clock {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Duration>>,
}

impl Clock {
    /// Starts waking `lanes` by their due times, which are counted from `begun`. What is due first must stand in them: the clock
    /// may already sleep when it is told later, up to [`LOOK_EVERY`] too long.
    ///
    /// # Errors
    /// When no thread can be had.
    pub(super) fn start(begun: Instant, lanes: Vec<Arc<Lane>>) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("pace".to_owned())
            .spawn(move || tick(begun, &lanes, &stopped))?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }

    /// Stops it; answers the longest time that it was kept from running.
    pub(super) fn stop(mut self) -> Duration {
        self.stop.store(true, Ordering::Release);
        let thread = self.thread.take().map(JoinHandle::join);
        thread.and_then(Result::ok).unwrap_or_default()
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

/// How long nothing is due from `now` on, within what a clock may sleep.
pub(super) fn next_wait(lanes: &[Arc<Lane>], now: Duration) -> Duration {
    let next = lanes.iter().map(|lane| lane.due_ns.load(Ordering::Acquire));
    let next = Duration::from_nanos(next.min().unwrap_or(NEVER));
    next.saturating_sub(now).clamp(QUANTUM, LOOK_EVERY)
}

fn tick(begun: Instant, lanes: &[Arc<Lane>], stop: &AtomicBool) -> Duration {
    let mut longest_stall = Duration::ZERO;
    while !stop.load(Ordering::Acquire) {
        let asked = Instant::now();
        let wait = next_wait(lanes, asked.duration_since(begun));
        thread::sleep(wait);
        longest_stall = longest_stall.max(asked.elapsed().saturating_sub(wait));
        let now_ns = begun.elapsed().as_nanos() as u64;
        for lane in lanes {
            if lane.due_ns.load(Ordering::Acquire) <= now_ns {
                lane.waker.wake();
            }
        }
    }
    longest_stall
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use super::*;

    #[test]
    fn a_clock_sleeps_until_the_first_lane_is_due() {
        let lanes = [Duration::from_millis(9), Duration::from_millis(5)].map(|due| {
            let lane = Lane::default();
            lane.due(Some(due));
            Arc::new(lane)
        });
        let wait = |now_ms| next_wait(&lanes, Duration::from_millis(now_ms));
        assert_eq!(wait(2), Duration::from_millis(3));
        assert_eq!(wait(7), QUANTUM, "what is overdue goes with the next");
        lanes.iter().for_each(|lane| lane.due(None));
        assert_eq!(wait(2), LOOK_EVERY);
    }

    #[tokio::test]
    async fn a_lane_is_woken_when_it_is_due_and_not_before() {
        let lane = Arc::new(Lane::default());
        let begun = Instant::now();
        let clock = Clock::start(begun, vec![Arc::clone(&lane)]).expect("a thread");
        let due = Duration::from_millis(30);
        lane.due(Some(due));
        poll_fn(|cx| {
            lane.register(cx.waker());
            match begun.elapsed() {
                now if now >= due => Poll::Ready(()),
                _ => Poll::Pending,
            }
        })
        .await;
        lane.due(None);
        clock.stop();
    }
}
