//! A socket that gathers small writes.
//!
//! h2 flushes after every frame, so a list sent to a client at 16 KiB frames, or a hundred small
//! responses that are ready at once, cost a system call, a TCP push and perhaps a wake-up each.
//! Here small writes land in a buffer, which is written out at the end of the connection's turn: when it has
//! nothing more to do, and before any other task runs. So a response waits for those of its own turn only, which are
//! copied meanwhile, and never for another connection. Writes of [`PASS_BYTES`] and more pass straight through, after what
//! waits before them, and take along what is left of their DATA frame and was not shown ([`super::rope`]).
//!
//! The socket may be a TLS session: what is gathered becomes full records, and what the session holds back
//! is flushed at the end of the turn, too.

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

use super::data_frames::Output;
use super::rope::NotShown;

/// Bytes that may wait; beyond, the writer waits for the socket as it would without gathering.
const MOST_BYTES: usize = 256 * 1024;

/// Writes of this size gain nothing from a copy into the buffer.
const PASS_BYTES: usize = 32 * 1024;

thread_local! {
    /// The buffer of whichever connection's turn it is: one that has grown serves all connections of a thread, and a connection at
    /// rest holds none. A turn that ends at a full socket keeps it until it is written, and the next connection grows its own.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Slices of one write: those of a frame of 256 KiB whose records are of 4 KiB, with what lies between them. Of more, the
/// rest takes another write.
const MOST_SLICES: usize = 132;

/// How long the last bytes of a connection that is gone may wait for a peer that does not read.
const LINGER: Duration = Duration::from_secs(10);

/// The gathering side of a connection: the socket that its protocol reads and writes.
#[derive(Debug)]
pub(super) struct Gathered<S> {
    shared: Arc<Mutex<State<S>>>,
}

/// The side that writes out what was gathered.
#[derive(Debug)]
pub(super) struct Outlet<S> {
    shared: Arc<Mutex<State<S>>>,
}

/// Behind a lock that is never contended: one task has both sides.
#[derive(Debug)]
struct State<S> {
    socket: S,
    waiting: Vec<u8>,
    /// Bytes of `waiting` that are written.
    written: usize,
    /// Where the protocol's output is in its frames.
    output: Output,
    /// Bytes that were written before the protocol showed them. They are of a DATA frame that h2 has begun to write, and it
    /// writes nothing else before the end of that frame, nor flushes (its `Encoder::has_capacity`).
    ahead: usize,
    /// Whether small writes are gathered at all.
    gather: bool,
    /// What the end of a turn ran into; the next write reports it.
    failed: Option<io::Error>,
}

/// Gathers small writes to `socket`; without `gather` every write passes. What reads and writes the first must be polled by
/// [`Outlet::after_each_turn`] of the second, or small writes never leave.
pub(super) fn gathered<S>(socket: S, gather: bool) -> (Gathered<S>, Outlet<S>) {
    let shared = Arc::new(Mutex::new(State {
        socket,
        waiting: Vec::new(),
        written: 0,
        output: Output::default(),
        ahead: 0,
        gather,
        failed: None,
    }));
    let outlet = Outlet {
        shared: shared.clone(),
    };
    (Gathered { shared }, outlet)
}

impl<S: AsyncWrite + Unpin> Outlet<S> {
    /// The connection's task: `connection`, which holds the other side, and after each of its turns what it gathered. Ends when
    /// the last bytes of an ended connection are written, or nobody has read them for [`LINGER`].
    pub(super) fn after_each_turn<C: Future>(self, connection: C) -> Turns<S, C> {
        Turns {
            connection: Some(connection),
            ended: None,
            shared: self.shared,
            linger: None,
        }
    }
}

pin_project! {
    /// A connection whose gathered writes leave at the end of each of its turns.
    pub(super) struct Turns<S, C: Future> {
        // Dropped as soon as it has ended: what it holds does not linger.
        #[pin]
        connection: Option<C>,
        ended: Option<C::Output>,
        shared: Arc<Mutex<State<S>>>,
        linger: Option<Pin<Box<Sleep>>>,
    }
}

impl<S: AsyncWrite + Unpin, C: Future> Future for Turns<S, C> {
    type Output = C::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<C::Output> {
        let mut this = self.project();
        if let Some(connection) = this.connection.as_mut().as_pin_mut()
            && let Poll::Ready(output) = connection.poll(cx)
        {
            *this.ended = Some(output);
            this.connection.set(None);
        }
        // A turn that has used up what tokio lets it do at a time still ends with its writes.
        let drain = poll_fn(|cx| this.shared.lock().poll_drain_or_fail(cx));
        let drained = pin!(unconstrained(drain)).poll(cx);
        if this.ended.is_none() {
            return Poll::Pending;
        }
        if drained.is_pending() {
            let linger = this.linger.get_or_insert_with(|| Box::pin(sleep(LINGER)));
            if linger.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
        this.ended.take().map_or(Poll::Pending, Poll::Ready)
    }
}

impl<S: AsyncWrite + Unpin> State<S> {
    /// Writes out what waits; an error is kept for the next write to report.
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
    /// Takes `bufs`: they are gathered, or written with what of `rest` belongs to the same DATA frame, or wait for room.
    /// `bytes` is the length of `bufs`.
    fn poll_take(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
        bytes: usize,
        rest: Option<NotShown>,
    ) -> Poll<io::Result<usize>> {
        if let Some(e) = self.failed.take() {
            return Poll::Ready(Err(e));
        }
        if self.ahead > 0 {
            let count = self.ahead.min(bytes);
            self.ahead -= count;
            return Poll::Ready(Ok(count));
        }
        let mut output = self.output;
        bufs.iter().for_each(|buf| output.advance(buf));
        // Those of the same DATA frame.
        let more = match &rest {
            Some(rest) => output.left_of_data().min(rest.bytes()),
            None => 0,
        };
        let passes = bytes + more >= PASS_BYTES || !self.gather;
        let waiting = self.waiting.len();
        if waiting > 0 && (passes || waiting + bytes > MOST_BYTES) {
            ready!(self.poll_drain(cx))?;
        }
        if !passes {
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
        self.ahead = written - bytes;
        self.output = output;
        self.output.skip_data(self.ahead);
        Poll::Ready(Ok(bytes))
    }
}

/// Writes `bufs` and at most `most` bytes of `rest` behind them. Returns how many bytes the socket took of all.
fn poll_write_whole<S: AsyncWrite>(
    socket: Pin<&mut S>,
    cx: &mut Context<'_>,
    bufs: &[IoSlice<'_>],
    rest: &NotShown,
    most: usize,
) -> Poll<io::Result<usize>> {
    let mut all = [IoSlice::new(&[]); MOST_SLICES];
    let mut filled = 0;
    let rest = rest.slices(most).map(IoSlice::new);
    for (slot, slice) in all.iter_mut().zip(bufs.iter().copied().chain(rest)) {
        *slot = slice;
        filled += 1;
    }
    socket.poll_write_vectored(cx, &all[..filled])
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathered<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let bufs = [IoSlice::new(buf)];
        self.shared.lock().poll_take(cx, &bufs, buf.len(), None)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let bytes = bufs.iter().map(|buf| buf.len()).sum();
        let rest = NotShown::take_behind(bufs);
        self.shared.lock().poll_take(cx, bufs, bytes, rest)
    }

    fn is_write_vectored(&self) -> bool {
        self.shared.lock().socket.is_write_vectored()
    }

    /// Ready at once where something waits: the end of this turn writes and flushes it.
    /// Else it flushes what a write that passed left in a TLS session.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.shared.lock();
        if let Some(e) = state.failed.take() {
            return Poll::Ready(Err(e));
        }
        debug_assert_eq!(state.ahead, 0, "no flush within a DATA frame");
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

impl<S: AsyncRead + Unpin> AsyncRead for Gathered<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.shared.lock().socket).poll_read(cx, buf)
    }
}
