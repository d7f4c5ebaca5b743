//! A client that connects and says nothing is let go.
//!
//! hyper has a time limit for the head of an HTTP/1.1 request. Before that it waits for as many bytes as tell
//! the protocol's version, without any limit, and holds the connection and its buffers for as long.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::connections::Newcomer;

/// Bytes that tell the version: those of HTTP/2's preface. No request that is answered is shorter by much.
const TELLING_BYTES: usize = 24;

/// A connection whose first bytes must come in time; afterwards it is what it wraps.
#[derive(Debug)]
pub(super) struct FirstBytes<S> {
    stream: S,
    waiting: Option<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    until: Pin<Box<Sleep>>,
    missing: usize,
    newcomer: Newcomer,
}

impl<S> FirstBytes<S> {
    /// Gives the peer of `stream` so much time, unless too many others come meanwhile.
    pub(super) fn within(limit: Duration, newcomer: Newcomer, stream: S) -> Self {
        let until = Box::pin(sleep(limit));
        Self {
            stream,
            waiting: Some(Waiting {
                until,
                missing: TELLING_BYTES,
                newcomer,
            }),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FirstBytes<S> {
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
            if waiting.newcomer.poll_dismissed(context).is_ready() {
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

impl<S: AsyncWrite + Unpin> AsyncWrite for FirstBytes<S> {
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
