//! Coalesces small writes to a socket.
//!
//! h2 flushes after every frame, so each frame of a list sent in frames of 16 KiB, or each of a
//! hundred small responses that are ready at the same time, costs a system call, a TCP push and
//! perhaps a wake-up. Here small writes go to a buffer, which is written at the end of each poll of
//! the connection's task, before any other task runs. A response therefore waits only for others of
//! the same poll, and never for another connection. Writes of [`DIRECT_WRITE_BYTES`] and more go
//! directly to the socket, after the buffer, together with the extra slices of their DATA frame
//! ([`super::extra_slices`]).
//!
//! The socket may be a TLS session: coalesced writes then become full records, and the session is
//! flushed at the end of the poll, too.

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::mem;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use parking_lot::Mutex;
use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::unconstrained;
use tokio::time::{Sleep, sleep};

use super::extra_slices::ExtraSlices;
use super::frame_position::Output;

/// Maximum size of the buffer, bytes. Above it, the writer waits for the socket, as without
/// coalescing.
const MAX_BYTES: usize = 256 * 1024;

/// Minimum size of a direct write, bytes. Larger writes are not worth a copy into the buffer.
const DIRECT_WRITE_BYTES: usize = 32 * 1024;

thread_local! {
    /// The spare buffer, which is used by the connection being polled. One buffer that has grown
    /// serves all connections of a thread, and an idle connection holds none. If the socket is full
    /// at the end of a poll, the connection keeps the buffer until it is written, and the next
    /// connection allocates another one.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Maximum number of slices in one write: enough for a frame of 256 KiB with records of 4 KiB and
/// the bytes between them. Further slices need another write.
const MAX_SLICES: usize = 132;

/// Time that the last bytes of an ended connection wait for a peer that does not read.
const LINGER_TIMEOUT: Duration = Duration::from_secs(10);

/// The socket that a connection's protocol reads and writes; it buffers small writes.
#[derive(Debug)]
pub(super) struct CoalescingSocket<S> {
    shared: Arc<Mutex<State<S>>>,
}

/// Writes out the buffer of a [`CoalescingSocket`].
#[derive(Debug)]
pub(super) struct CoalescedWriter<S> {
    shared: Arc<Mutex<State<S>>>,
}

/// The state shared by socket and writer. The lock is never contended, because one task has both.
#[derive(Debug)]
struct State<S> {
    socket: S,
    waiting: Vec<u8>,
    /// Number of bytes of `waiting` that are written.
    written: usize,
    /// Position of the protocol's output in its frames.
    output: Output,
    /// Number of bytes that were written before the protocol has passed them. They belong to a DATA
    /// frame that h2 has begun to write; h2 neither writes anything else nor flushes before the end
    /// of that frame (its `Encoder::has_capacity`).
    written_ahead: usize,
    /// Whether small writes are coalesced.
    coalesce: bool,
    /// The error of a write at the end of a poll, which the next write returns.
    failed: Option<io::Error>,
}

/// Coalesces small writes to `socket`; without `coalesce`, every write is direct. The task that
/// uses the returned socket must run in [`CoalescedWriter::run`] of the returned writer; otherwise
/// small writes are never sent.
pub(super) fn coalescing<S>(
    socket: S,
    coalesce: bool,
) -> (CoalescingSocket<S>, CoalescedWriter<S>) {
    let shared = Arc::new(Mutex::new(State {
        socket,
        waiting: Vec::new(),
        written: 0,
        output: Output::default(),
        written_ahead: 0,
        coalesce,
        failed: None,
    }));
    let writer = CoalescedWriter {
        shared: shared.clone(),
    };
    (CoalescingSocket { shared }, writer)
}

impl<S: AsyncWrite + Unpin> CoalescedWriter<S> {
    /// Runs `connection`, which has the socket, and writes out the buffer after each poll. Ends
    /// when the last bytes of an ended connection are written, or after [`LINGER_TIMEOUT`].
    pub(super) fn run<C: Future>(self, connection: C) -> CoalescingTask<S, C> {
        CoalescingTask {
            connection: Some(connection),
            ended: None,
            shared: self.shared,
            linger: None,
        }
    }
}

pin_project! {
    /// A connection whose coalesced writes are sent at the end of each poll.
    pub(super) struct CoalescingTask<S, C: Future> {
        // Dropped as soon as it has ended, so that it holds nothing while the last bytes are
        // written.
        #[pin]
        connection: Option<C>,
        ended: Option<C::Output>,
        shared: Arc<Mutex<State<S>>>,
        linger: Option<Pin<Box<Sleep>>>,
    }
}

impl<S: AsyncWrite + Unpin, C: Future> Future for CoalescingTask<S, C> {
    type Output = C::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<C::Output> {
        let mut this = self.project();
        if let Some(connection) = this.connection.as_mut().as_pin_mut()
            && let Poll::Ready(output) = connection.poll(cx)
        {
            *this.ended = Some(output);
            this.connection.set(None);
        }
        // Writes even if the poll has used up tokio's cooperative budget.
        let drain = poll_fn(|cx| this.shared.lock().poll_drain_or_fail(cx));
        let drained = pin!(unconstrained(drain)).poll(cx);
        if this.ended.is_none() {
            return Poll::Pending;
        }
        if drained.is_pending() {
            let linger = this
                .linger
                .get_or_insert_with(|| Box::pin(sleep(LINGER_TIMEOUT)));
            if linger.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
        this.ended.take().map_or(Poll::Pending, Poll::Ready)
    }
}

impl<S: AsyncWrite + Unpin> State<S> {
    /// Writes out the buffer. An error is kept for the next write.
    fn poll_drain_or_fail(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_drain(cx).map(|drained| {
            if let Err(e) = drained {
                self.waiting.clear();
                self.written = 0;
                self.failed = Some(e);
            }
        })
    }

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
        if self.waiting.capacity() > 0 {
            self.waiting.clear();
            SPARE.set(mem::take(&mut self.waiting));
        }
        Pin::new(&mut self.socket).poll_flush(cx)
    }
}

impl<S: AsyncWrite + Unpin> State<S> {
    /// Accepts `bufs`, which have `bytes` bytes: buffers them, or writes them together with the
    /// part of `rest` in the same DATA frame, or waits for room.
    fn poll_accept(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
        bytes: usize,
        rest: Option<ExtraSlices>,
    ) -> Poll<io::Result<usize>> {
        if let Some(e) = self.failed.take() {
            return Poll::Ready(Err(e));
        }
        if self.written_ahead > 0 {
            let count = self.written_ahead.min(bytes);
            self.written_ahead -= count;
            return Poll::Ready(Ok(count));
        }
        let mut output = self.output;
        bufs.iter().for_each(|buf| output.advance(buf));
        // Extra bytes of the same DATA frame.
        let more = match &rest {
            Some(rest) => output.left_of_data().min(rest.bytes()),
            None => 0,
        };
        let is_direct = bytes + more >= DIRECT_WRITE_BYTES || !self.coalesce;
        let waiting = self.waiting.len();
        if waiting > 0 && (is_direct || waiting + bytes > MAX_BYTES) {
            ready!(self.poll_drain(cx))?;
        }
        if !is_direct {
            if self.waiting.capacity() == 0 {
                self.waiting = SPARE.take();
            }
            bufs.iter()
                .for_each(|buf| self.waiting.extend_from_slice(buf));
            self.output = output;
            return Poll::Ready(Ok(bytes));
        }
        let socket = Pin::new(&mut self.socket);
        let written = match rest {
            Some(rest) => ready!(poll_write_whole(socket, cx, bufs, &rest, more))?,
            None => ready!(socket.poll_write_vectored(cx, bufs))?,
        };
        if written < bytes {
            let mut left = written;
            for buf in bufs {
                let taken = &buf[..buf.len().min(left)];
                self.output.advance(taken);
                left -= taken.len();
            }
            return Poll::Ready(Ok(written));
        }
        self.written_ahead = written - bytes;
        self.output = output;
        self.output.skip_data(self.written_ahead);
        Poll::Ready(Ok(bytes))
    }
}

/// Writes `bufs` and then at most `most` bytes of `rest`. Returns the number of bytes written.
fn poll_write_whole<S: AsyncWrite>(
    socket: Pin<&mut S>,
    cx: &mut Context<'_>,
    bufs: &[IoSlice<'_>],
    rest: &ExtraSlices,
    most: usize,
) -> Poll<io::Result<usize>> {
    let mut all = [IoSlice::new(&[]); MAX_SLICES];
    let mut filled = 0;
    let rest = rest.slices(most).map(IoSlice::new);
    for (slot, slice) in all.iter_mut().zip(bufs.iter().copied().chain(rest)) {
        *slot = slice;
        filled += 1;
    }
    socket.poll_write_vectored(cx, &all[..filled])
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CoalescingSocket<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let bufs = [IoSlice::new(buf)];
        self.shared.lock().poll_accept(cx, &bufs, buf.len(), None)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let bytes = bufs.iter().map(|buf| buf.len()).sum();
        let rest = ExtraSlices::take_after(bufs);
        self.shared.lock().poll_accept(cx, bufs, bytes, rest)
    }

    fn is_write_vectored(&self) -> bool {
        self.shared.lock().socket.is_write_vectored()
    }

    /// Ready at once if bytes are buffered: the end of this poll writes and flushes them. Otherwise
    /// flushes the TLS session.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.shared.lock();
        if let Some(e) = state.failed.take() {
            return Poll::Ready(Err(e));
        }
        debug_assert_eq!(state.written_ahead, 0, "no flush within a DATA frame");
        if !state.waiting.is_empty() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut state.socket).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.shared.lock();
        ready!(state.poll_drain(cx))?;
        Pin::new(&mut state.socket).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CoalescingSocket<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.shared.lock().socket).poll_read(cx, buf)
    }
}
