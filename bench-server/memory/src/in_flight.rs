//! What was handed to a connection and its client has not taken yet.
//!
//! hyper asks a body for its next frame while HTTP/2 still holds those before it, and a client that opens no window
//! leaves them there. Each frame that is worth counting therefore belongs to an [`Exchange`], one stream's requests and
//! responses, until HTTP/2 drops it. Three limits follow from that:
//!
//! - a connection whose frames hold [`CONNECTION_BYTES`], or a process whose frames hold its share of memory, gets frames of
//!   [`SMALL_FRAME_BYTES`] instead of full ones, one for each stream, so that n stalled streams hold n small frames;
//! - a stream whose client has taken nothing for a while, although something waits, can be found and reset;
//! - a list does not end before its frames are gone. HTTP/2 keeps the frames of an ended stream without its task, and nobody
//!   could reset it any more.
//!
//! The frames of small responses are not counted: a counter for each would cost more than it protects.

use std::cell::{Cell, OnceCell};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures::task::AtomicWaker;
use tokio::task::futures::TaskLocalFuture;

/// Frames below this are not counted.
pub const COUNTED_FROM_BYTES: usize = 4 * 1024;

/// Frames of a stream whose connection, or whose process, has too much in flight.
pub const SMALL_FRAME_BYTES: usize = 8 * 1024;

/// Bytes that one connection may have in flight before its frames become small: five lists with all that
/// HTTP/2 buffers for each.
pub const CONNECTION_BYTES: usize = 4 * 1024 * 1024;

/// A response may end while its client has not taken so many bytes of it.
const ENDS_BEFORE_BYTES: usize = 64 * 1024;

/// Bytes of all connections of the process.
static ALL: AtomicUsize = AtomicUsize::new(0);

/// Bytes of all connections from which on frames are small; [`limit_all`] sets it.
static MOST: AtomicUsize = AtomicUsize::new(usize::MAX);

tokio::task_local! {
    static SLOT: Slot;
}

/// Sets how many bytes the frames of all connections may hold before they become small.
pub fn limit_all(bytes: usize) {
    MOST.store(bytes, Ordering::Relaxed);
}

/// Bytes from which on the frames of all connections become small.
pub fn most_bytes() -> usize {
    MOST.load(Ordering::Relaxed)
}

/// Bytes that all connections have in flight.
pub fn all_bytes() -> usize {
    ALL.load(Ordering::Relaxed)
}

/// Bytes that one connection has in flight.
#[derive(Debug, Default)]
pub struct ConnectionBytes(AtomicUsize);

/// What a sending task starts with. Most tasks send one small response, and never make an exchange.
#[derive(Debug)]
pub struct Slot {
    connection: Arc<ConnectionBytes>,
    exchange: OnceCell<Arc<Exchange>>,
    /// Whether a frame was handed over that is not counted, and more is to come.
    small_waits: Cell<bool>,
}

/// One stream's frames in flight, or those of an HTTP/1.1 connection.
#[derive(Debug)]
struct Exchange {
    connection: Arc<ConnectionBytes>,
    frames: AtomicUsize,
    bytes: AtomicUsize,
    /// Counts whatever the connection takes.
    progress: AtomicU64,
    /// Who waits for the last frame to go.
    emptied: AtomicWaker,
}

/// One frame in flight, until this is dropped.
#[derive(Debug)]
pub struct InFlight {
    exchange: Arc<Exchange>,
    bytes: usize,
}

impl InFlight {
    /// Notes that the connection has taken some of it.
    #[inline]
    pub fn advanced(&self) {
        self.exchange.progress.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let exchange = &self.exchange;
        exchange
            .connection
            .0
            .fetch_sub(self.bytes, Ordering::Relaxed);
        ALL.fetch_sub(self.bytes, Ordering::Relaxed);
        exchange.progress.fetch_add(1, Ordering::Relaxed);
        exchange.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        if exchange.frames.fetch_sub(1, Ordering::AcqRel) == 1 {
            exchange.emptied.wake();
        }
    }
}

/// Runs `sending` as a task of `connection`, so that its frames are counted.
pub fn scope<F: Future>(connection: Arc<ConnectionBytes>, sending: F) -> TaskLocalFuture<Slot, F> {
    let slot = Slot {
        connection,
        exchange: OnceCell::new(),
        small_waits: Cell::new(false),
    };
    SLOT.scope(slot, sending)
}

/// Counts a frame of `bytes` that the present task hands over; `None` outside of a connection.
pub fn begin(bytes: usize) -> Option<InFlight> {
    SLOT.try_with(|slot| {
        let exchange = slot.exchange.get_or_init(|| {
            Arc::new(Exchange {
                connection: slot.connection.clone(),
                frames: AtomicUsize::new(0),
                bytes: AtomicUsize::new(0),
                progress: AtomicU64::new(0),
                emptied: AtomicWaker::new(),
            })
        });
        exchange.connection.0.fetch_add(bytes, Ordering::Relaxed);
        ALL.fetch_add(bytes, Ordering::Relaxed);
        exchange.bytes.fetch_add(bytes, Ordering::Relaxed);
        exchange.frames.fetch_add(1, Ordering::AcqRel);
        InFlight {
            exchange: exchange.clone(),
            bytes,
        }
    })
    .ok()
}

/// Notes that the present task hands over a frame that is not counted, with more behind it.
#[inline]
pub fn begin_small() {
    // Outside of a connection nothing stalls.
    SLOT.try_with(|slot| slot.small_waits.set(true)).ok();
}

/// Whether the present task's connection, or the process, has too much in flight.
#[inline]
pub fn is_much() -> bool {
    let is_much = SLOT.try_with(|slot| {
        slot.connection.0.load(Ordering::Relaxed) >= CONNECTION_BYTES
            || ALL.load(Ordering::Relaxed) >= MOST.load(Ordering::Relaxed)
    });
    is_much.unwrap_or(false)
}

/// Bytes that the present task may fill its next frame to.
#[inline]
pub fn frame_bytes(full: usize) -> usize {
    match is_much() {
        true => full.min(SMALL_FRAME_BYTES),
        false => full,
    }
}

/// Whether the present task may end: its client has taken what it handed over, but for few bytes.
pub fn may_end() -> bool {
    let few = SLOT.try_with(|slot| {
        let exchange = slot.exchange.get();
        exchange.is_none_or(|exchange| exchange.bytes.load(Ordering::Acquire) < ENDS_BEFORE_BYTES)
    });
    few.unwrap_or(true)
}

/// Waits until [`may_end`].
pub fn poll_may_end(context: &mut Context<'_>) -> Poll<()> {
    poll_until(may_end, context)
}

/// Waits, where too much is in flight, until nothing of the present task is: then each stream holds one frame.
#[inline]
pub fn poll_next(context: &mut Context<'_>) -> Poll<()> {
    match is_much() {
        true => poll_until(is_empty, context),
        false => Poll::Ready(()),
    }
}

/// Whether nothing that the present task handed over is in flight.
fn is_empty() -> bool {
    let empty = SLOT.try_with(|slot| {
        let exchange = slot.exchange.get();
        exchange.is_none_or(|exchange| exchange.frames.load(Ordering::Acquire) == 0)
    });
    empty.unwrap_or(true)
}

/// Waits until `holds`, which is so at the latest when the last frame has gone.
fn poll_until(holds: impl Fn() -> bool, context: &mut Context<'_>) -> Poll<()> {
    if holds() {
        return Poll::Ready(());
    }
    SLOT.try_with(|slot| {
        if let Some(exchange) = slot.exchange.get() {
            exchange.emptied.register(context.waker());
        }
    })
    .ok();
    match holds() {
        true => Poll::Ready(()),
        false => Poll::Pending,
    }
}

/// How far the client of the present task has come; `None` while nothing waits for it.
pub fn waits_since() -> Option<u64> {
    let waits = SLOT.try_with(|slot| match slot.exchange.get() {
        Some(exchange) if exchange.frames.load(Ordering::Acquire) > 0 => {
            Some(exchange.progress.load(Ordering::Relaxed))
        }
        _ => slot.small_waits.get().then_some(0),
    });
    waits.ok().flatten()
}
