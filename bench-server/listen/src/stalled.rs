//! Streams whose client takes nothing are given up.
//!
//! Time alone says nothing: a list may be read slowly, and a watch may have nothing to send for days. A stream is stalled when
//! something waits for its client and the client takes none of it. Its task is dropped then, with all that it holds, which
//! resets the stream; the connection goes on. A client that does not even read its connection is the kernel's
//! to let go (`TCP_USER_TIMEOUT`).

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
    /// Streams of this thread's connections whose handlers or responses are not over.
    static STREAMS: Cell<usize> = const { Cell::new(0) };
}

/// Streams of this thread whose handlers or responses are not over. No atomic: a connection never leaves its thread.
pub(super) fn streams_of_thread() -> usize {
    STREAMS.get()
}

/// Counts a stream of this thread until it is dropped.
#[derive(Debug)]
struct Counted;

impl Counted {
    fn new() -> Self {
        STREAMS.set(STREAMS.get() + 1);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        STREAMS.set(STREAMS.get().saturating_sub(1));
    }
}

pin_project! {
    /// A sending task that is given up when its client has taken nothing for so long. To be polled in
    /// [`in_flight::scope`].
    #[derive(Debug)]
    pub(super) struct Unstalled<F> {
        #[pin]
        sending: F,
        limit: Duration,
        // Set while something was waiting at the last look; most tasks never need it.
        wait: Option<Wait>,
        counted: Option<Counted>,
    }
}

#[derive(Debug)]
struct Wait {
    until: Pin<Box<Sleep>>,
    /// The client's progress when it began.
    seen: u64,
}

impl<F> Unstalled<F> {
    /// Gives up `sending`, a stream of HTTP/2, when nothing of it is taken for `limit`; for a zero limit never.
    pub(super) fn stream(limit: Duration, sending: F) -> Self {
        Self {
            sending,
            limit,
            wait: None,
            counted: Some(Counted::new()),
        }
    }

    /// The same for a connection, which is what sends where it speaks HTTP/1.1.
    pub(super) fn connection(limit: Duration, sending: F) -> Self {
        Self {
            sending,
            limit,
            wait: None,
            counted: None,
        }
    }
}

impl<F: Future> Future for Unstalled<F> {
    /// `None` when it was given up.
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(output) = this.sending.poll(context) {
            return Poll::Ready(Some(output));
        }
        if this.limit.is_zero() {
            return Poll::Pending;
        }
        // The timer is left as it is while frames come and go: it looks again when it has run out.
        if this.wait.is_none()
            && let Some(seen) = in_flight::waits_since()
        {
            let until = Box::pin(sleep_until(Instant::now() + *this.limit));
            *this.wait = Some(Wait { until, seen });
        }
        while let Some(wait) = this.wait {
            if wait.until.as_mut().poll(context).is_pending() {
                break;
            }
            match in_flight::waits_since() {
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
