//! Closes connections whose client sends nothing.
//!
//! hyper has a timeout for the headers of an HTTP/1.1 request. But it waits without a limit for the
//! first bytes, which determine the protocol version, and holds the connection and its buffers
//! meanwhile.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::connections::PendingConnection;

/// Number of bytes that determine the version: the length of HTTP/2's preface. No valid request is
/// much shorter.
const PREFACE_BYTES: usize = 24;

/// A connection whose first bytes must arrive in time. After them it only forwards.
#[derive(Debug)]
pub(super) struct ProtocolTimeout<S> {
    stream: S,
    waiting: Option<QueueEntry>,
}

#[derive(Debug)]
struct QueueEntry {
    until: Pin<Box<Sleep>>,
    missing: usize,
    pending: PendingConnection,
}

impl<S> ProtocolTimeout<S> {
    /// Wraps `stream`. Its peer has the time `limit` for its first bytes, unless `pending` is
    /// evicted earlier.
    pub(super) fn within(limit: Duration, pending: PendingConnection, stream: S) -> Self {
        let until = Box::pin(sleep(limit));
        Self {
            stream,
            waiting: Some(QueueEntry {
                until,
                missing: PREFACE_BYTES,
                pending,
            }),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ProtocolTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buf.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buf);
        let Some(waiting) = &mut this.waiting else {
            return read;
        };
        if read.is_pending() {
            if waiting.pending.poll_evicted(context).is_ready() {
                return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
            }
            let late = waiting.until.as_mut().poll(context);
            return late.map(|()| Err(io::ErrorKind::TimedOut.into()));
        }
        waiting.missing = waiting.missing.saturating_sub(buf.filled().len() - before);
        if waiting.missing == 0 {
            this.waiting = None;
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ProtocolTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
