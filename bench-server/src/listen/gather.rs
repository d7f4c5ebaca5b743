//! A socket that gathers small writes.
//!
//! h2 flushes after every frame, so a list sent to a client at 16 KiB frames, or a hundred small
//! responses that are ready at once, cost a system call, a TCP push and perhaps a wake-up each.
//! Here small writes land in a buffer, and another task of the same runtime writes the buffer out
//! once the connection's task has yielded: by then everything that was ready is in it. Writes of
//! [`PASS_BYTES`] and more pass straight through, after what waits before them.
//!
//! The socket may be a TLS session: what is gathered becomes full records, and what the session holds back
//! is flushed by whichever of the two tasks comes first.

#[cfg(test)]
mod tests;

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

/// Bytes that may wait; beyond, the writer waits for the socket as it would without gathering.
const MOST_BYTES: usize = 256 * 1024;

/// Writes of this size gain nothing from a copy into the buffer.
const PASS_BYTES: usize = 32 * 1024;

/// A buffer that grew beyond this is given back once it is empty, so that an idle connection holds
/// little.
const KEEP_BYTES: usize = 8 * 1024;

/// How long the last bytes of a connection that is gone may wait for a peer that does not read.
const LINGER: Duration = Duration::from_secs(10);

/// The gathering side of a connection. Dropping it lets what waits be written out first.
#[derive(Debug)]
pub(super) struct Gathered<S> {
    shared: Arc<Shared<S>>,
}

#[derive(Debug)]
struct Shared<S> {
    state: Mutex<State<S>>,
    /// Wakes the task that writes the buffer out.
    due: Notify,
    /// Tells it that the connection is gone.
    closing: Notify,
}

/// Behind a lock that is never contended: both tasks run on one thread.
#[derive(Debug)]
struct State<S> {
    socket: S,
    waiting: Vec<u8>,
    /// Bytes of `waiting` that are written.
    written: usize,
    /// Whether small writes are gathered at all.
    gather: bool,
    /// The connection's task, when it waits for the buffer to drain, or for a socket whose one waker the draining task
    /// may replace with its own.
    blocked: Option<Waker>,
    /// Whether the draining task waits for the socket. While it does, nobody else may poll the
    /// socket for writing, or its waker would be lost.
    draining: bool,
    /// What the draining task ran into; the next write reports it.
    failed: Option<io::Error>,
    closed: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Gathered<S> {
    /// Wraps `socket` and spawns its draining task on the current runtime; without `gather` every
    /// write passes.
    pub(super) fn new(socket: S, gather: bool) -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                socket,
                waiting: Vec::new(),
                written: 0,
                gather,
                blocked: None,
                draining: false,
                failed: None,
                closed: false,
            }),
            due: Notify::new(),
            closing: Notify::new(),
        });
        tokio::spawn(drain_when_due(shared.clone()));
        Self { shared }
    }
}

async fn drain_when_due<S: AsyncWrite + Unpin>(shared: Arc<Shared<S>>) {
    let given_up = async {
        shared.closing.notified().await;
        tokio::time::sleep(LINGER).await;
    };
    tokio::select! {
        () = drain(&shared) => {}
        () = given_up => {}
    }
}

/// Writes the buffer out each time it is due, until the connection is gone and nothing waits.
async fn drain<S: AsyncWrite + Unpin>(shared: &Shared<S>) {
    loop {
        shared.due.notified().await;
        let closed = std::future::poll_fn(|cx| {
            let mut state = shared.state.lock();
            let drained = state.poll_drain(cx);
            state.draining = drained.is_pending();
            match drained {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(e)) => {
                    state.waiting.clear();
                    state.written = 0;
                    state.failed = Some(e);
                }
            }
            if let Some(task) = state.blocked.take() {
                task.wake();
            }
            Poll::Ready(state.closed)
        })
        .await;
        if closed {
            return;
        }
    }
}

impl<S: AsyncWrite + Unpin> State<S> {
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.waiting.len() {
            let rest = &self.waiting[self.written..];
            match Pin::new(&mut self.socket).poll_write(cx, rest) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => self.written += count,
                Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
                Poll::Pending => return Poll::Pending,
            }
        }
        self.written = 0;
        if self.waiting.capacity() > KEEP_BYTES {
            self.waiting = Vec::new();
        } else {
            self.waiting.clear();
        }
        Pin::new(&mut self.socket).poll_flush(cx)
    }
}

impl<S: AsyncWrite + Unpin> Gathered<S> {
    /// Gathers `bytes` bytes by `gather`, or lets `pass` write them, or waits for room.
    fn poll_gather(
        &self,
        cx: &mut Context<'_>,
        bytes: usize,
        gather: impl FnOnce(&mut Vec<u8>),
        pass: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let mut state = self.shared.state.lock();
        if let Some(e) = state.failed.take() {
            return Poll::Ready(Err(e));
        }
        let passes = bytes >= PASS_BYTES || !state.gather;
        let waiting = state.waiting.len();
        if (waiting > 0 || state.draining) && (passes || waiting + bytes > MOST_BYTES) {
            // Room is made here and now where the socket takes it: no other task need run for it.
            let drained = match state.draining {
                true => Poll::Pending,
                false => state.poll_drain(cx)?,
            };
            if drained.is_pending() {
                state.blocked = Some(cx.waker().clone());
                self.shared.due.notify_one();
                return Poll::Pending;
            }
        }
        if passes {
            let passed = pass(Pin::new(&mut state.socket), cx);
            if passed.is_pending() {
                state.blocked = Some(cx.waker().clone());
            }
            return passed;
        }
        gather(&mut state.waiting);
        if waiting == 0 {
            self.shared.due.notify_one();
        }
        Poll::Ready(Ok(bytes))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathered<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_gather(
            cx,
            buf.len(),
            |waiting| waiting.extend_from_slice(buf),
            |socket, cx| socket.poll_write(cx, buf),
        )
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_gather(
            cx,
            bufs.iter().map(|b| b.len()).sum(),
            |waiting| bufs.iter().for_each(|b| waiting.extend_from_slice(b)),
            |socket, cx| socket.poll_write_vectored(cx, bufs),
        )
    }

    fn is_write_vectored(&self) -> bool {
        self.shared.state.lock().socket.is_write_vectored()
    }

    /// Ready at once where something waits: the draining task writes and flushes as soon as the connection's task yields.
    /// Else it flushes what a write that passed left in a TLS session.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.shared.state.lock();
        if let Some(e) = state.failed.take() {
            return Poll::Ready(Err(e));
        }
        if state.draining || !state.waiting.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let flushed = Pin::new(&mut state.socket).poll_flush(cx);
        if flushed.is_pending() {
            state.blocked = Some(cx.waker().clone());
        }
        flushed
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.shared.state.lock();
        if state.draining || !state.waiting.is_empty() {
            state.blocked = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Pin::new(&mut state.socket).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gathered<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.shared.state.lock().socket).poll_read(cx, buf)
    }
}

impl<S> Drop for Gathered<S> {
    fn drop(&mut self) {
        self.shared.state.lock().closed = true;
        self.shared.due.notify_one();
        self.shared.closing.notify_one();
    }
}
