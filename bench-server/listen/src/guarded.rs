//! A connection that is closed when its input breaks a rule.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A rule of a connection's input.
pub(super) trait InputGuard {
    /// Sees a read: the bytes that it returned, or that it waits for the client.
    ///
    /// # Errors
    /// Why the connection is closed.
    fn check(&mut self, read: Poll<&[u8]>, context: &mut Context<'_>) -> io::Result<()>;
}

/// A connection whose reads are checked by a guard.
#[derive(Debug)]
pub(super) struct Guarded<S, G> {
    stream: S,
    guard: G,
}

impl<S, G> Guarded<S, G> {
    /// Wraps `stream`.
    pub(super) fn new(stream: S, guard: G) -> Self {
        Self { stream, guard }
    }
}

impl<S: AsyncRead + Unpin, G: InputGuard + Unpin> AsyncRead for Guarded<S, G> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buf.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buf);
        let bytes = match read.is_pending() {
            true => Poll::Pending,
            false => Poll::Ready(&buf.filled()[before..]),
        };
        match this.guard.check(bytes, context) {
            Ok(()) => read,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl<S: AsyncWrite + Unpin, G: Unpin> AsyncWrite for Guarded<S, G> {
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
