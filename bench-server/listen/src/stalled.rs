//! Aborts streams whose client takes no data.
//!
//! Time alone is no criterion: a list may be read slowly, and a watch may have nothing to send for
//! days. A stream is stalled if data waits for its client and the client takes none of it. Its task
//! is then dropped with everything that it holds, which resets the stream; the connection
//! continues. If a client does not read its connection at all, the kernel closes it
//! (`TCP_USER_TIMEOUT`).

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use memory::in_flight;
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};

use super::counts::COUNTS;

thread_local! {
    /// Open streams of this thread's connections.
    static STREAMS: Cell<usize> = const { Cell::new(0) };
}

/// Returns the number of this thread's open streams. Not atomic: a connection never leaves its
/// thread.
pub(super) fn streams_of_thread() -> usize {
    STREAMS.get()
}

/// Counts a stream of this thread until dropped.
#[derive(Debug)]
struct StreamCount;

impl StreamCount {
    fn new() -> Self {
        STREAMS.set(STREAMS.get() + 1);
        Self
    }
}

impl Drop for StreamCount {
    fn drop(&mut self) {
        STREAMS.set(STREAMS.get().saturating_sub(1));
    }
}

pin_project! {
    /// A sending task that is aborted when data has waited for its client for the time limit and
    /// the client has taken none. Must be polled in [`in_flight::scope`].
    #[derive(Debug)]
    pub(super) struct StallGuard<F> {
        #[pin]
        sending: F,
        limit: Duration,
        // Set while data waits for the client; most tasks never need it.
        wait: Option<Wait>,
        counted: Option<StreamCount>,
    }
}

#[derive(Debug)]
struct Wait {
    until: Pin<Box<Sleep>>,
    /// The client's progress at the start of the wait.
    seen: u64,
}

impl<F> StallGuard<F> {
    /// Wraps `sending`, an HTTP/2 stream, which is aborted when its client takes nothing for
    /// `limit`. Zero is no limit.
    pub(super) fn stream(limit: Duration, sending: F) -> Self {
        Self {
            sending,
            limit,
            wait: None,
            counted: Some(StreamCount::new()),
        }
    }

    /// Wraps `sending`, a connection, which is the sending task of HTTP/1.1.
    pub(super) fn connection(limit: Duration, sending: F) -> Self {
        Self {
            sending,
            limit,
            wait: None,
            counted: None,
        }
    }
}

impl<F: Future> Future for StallGuard<F> {
    /// `None` if the task was aborted.
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(output) = this.sending.poll(context) {
            return Poll::Ready(Some(output));
        }
        if this.limit.is_zero() {
            return Poll::Pending;
        }
        // The timer is not reset while frames are sent; progress is compared when it elapses.
        if this.wait.is_none()
            && let Some(seen) = in_flight::client_progress()
        {
            let until = Box::pin(sleep_until(Instant::now() + *this.limit));
            *this.wait = Some(Wait { until, seen });
        }
        while let Some(wait) = this.wait {
            if wait.until.as_mut().poll(context).is_pending() {
                break;
            }
            match in_flight::client_progress() {
                None => *this.wait = None,
                Some(progress) if progress == wait.seen => {
                    COUNTS.stalled.fetch_add(1, Ordering::Relaxed);
                    return Poll::Ready(None);
                }
                Some(progress) => {
                    wait.seen = progress;
                    wait.until.as_mut().reset(Instant::now() + *this.limit);
                }
            }
        }
        Poll::Pending
    }
}
