//! Counts the frames in flight: passed to a connection and not yet sent to its client.
//!
//! hyper polls a body for its next frame while HTTP/2 still holds earlier ones, and a client that
//! opens no window leaves them there. Frames are therefore counted in the [`StreamFrames`] of their
//! stream until HTTP/2 drops them, for three purposes:
//!
//! - A connection whose frames hold [`CONNECTION_BYTES`], or a process over its limit, gets frames
//!   of [`SMALL_FRAME_BYTES`] instead of full ones, one per stream, so that n stalled streams hold
//!   n small frames. A large object that is encoded as a whole waits until the connection is below
//!   its limit ([`poll_room`]).
//! - A stream whose client has taken nothing for a while, although frames are waiting, can be found
//!   and reset.
//! - A list does not end while 64 KiB or more of its frames are in flight: HTTP/2 keeps the frames
//!   of an ended stream without its task, which could then no longer be reset.
//!
//! The frames of small responses are not counted, because a counter for each would cost more than
//! it saves.

use std::cell::{Cell, OnceCell};
use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::task::futures::TaskLocalFuture;
use tokio::time::sleep;

use crate::request_room::{ConnectionRoom, Turns};

/// Minimum size of a counted frame, bytes.
pub const COUNTED_FROM_BYTES: usize = 4 * 1024;

/// Size of frames when the connection or the process is over its limit.
pub const SMALL_FRAME_BYTES: usize = 8 * 1024;

/// Bytes that one connection may have in flight before its frames become small: enough for five
/// lists with HTTP/2's buffers.
pub const CONNECTION_BYTES: usize = 4 * 1024 * 1024;

/// Number of tasks in a connection's queue at which those that have ended leave it: twice the
/// streams that a connection may have.
const MAX_ENDED_WAITERS: usize = 2_000;

/// Time after which a task that waits looks again whether the process is below its limit.
const RECHECK: Duration = Duration::from_millis(100);

/// A response may end while fewer bytes than this are in flight.
const MAX_AT_END_BYTES: usize = 64 * 1024;

/// Bytes in flight of all connections of the process.
static PROCESS_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Limit of [`PROCESS_BYTES`], from which on frames are small; [`set_process_limit`] sets it.
static PROCESS_LIMIT_BYTES: AtomicUsize = AtomicUsize::new(usize::MAX);

tokio::task_local! {
    static TASK_SLOT: TaskSlot;
}

/// Sets the limit of bytes in flight of all connections, above which frames become small.
pub fn set_process_limit(bytes: usize) {
    PROCESS_LIMIT_BYTES.store(bytes, Ordering::Relaxed);
}

/// Returns the limit of bytes in flight of all connections.
pub fn process_limit_bytes() -> usize {
    PROCESS_LIMIT_BYTES.load(Ordering::Relaxed)
}

/// Returns the bytes in flight of all connections.
pub fn process_bytes() -> usize {
    PROCESS_BYTES.load(Ordering::Relaxed)
}

/// The memory of one connection.
#[derive(Debug, Default)]
pub struct ConnectionBytes {
    /// Bytes in flight.
    in_flight: AtomicUsize,
    requests: ConnectionRoom,
    turns: Turns,
    /// Whether there are `waiters`.
    is_awaited: AtomicBool,
    /// Tasks that wait until it has room for a large frame. Those that have ended may be among
    /// them.
    waiters: Mutex<Vec<Weak<Waiter>>>,
}

/// A task that waits for room.
#[derive(Debug, Default)]
struct Waiter {
    waker: AtomicWaker,
    is_queued: AtomicBool,
}

impl ConnectionBytes {
    /// Returns whether a large frame may be made: the connection is below its limit, or, if the
    /// process is over its own, has little in flight.
    fn has_room(&self) -> bool {
        let most = match is_process_over_limit() {
            true => MAX_AT_END_BYTES,
            false => CONNECTION_BYTES,
        };
        self.in_flight.load(Ordering::SeqCst) < most
    }

    /// Queues a task that waits for room, once.
    fn queue(&self, waiter: &Arc<Waiter>) {
        if !waiter.is_queued.swap(true, Ordering::SeqCst) {
            let mut waiters = self.waiters.lock();
            if waiters.len() >= MAX_ENDED_WAITERS {
                waiters.retain(|waiter| waiter.strong_count() > 0);
            }
            waiters.push(Arc::downgrade(waiter));
        }
        self.is_awaited.store(true, Ordering::SeqCst);
    }

    /// Records that `bytes` are no longer in flight.
    fn sent(&self, bytes: usize) {
        self.in_flight.fetch_sub(bytes, Ordering::SeqCst);
        if self.is_awaited.load(Ordering::SeqCst) && self.has_room() {
            self.is_awaited.store(false, Ordering::SeqCst);
            let waiters = std::mem::take(&mut *self.waiters.lock());
            for waiter in waiters.iter().filter_map(Weak::upgrade) {
                waiter.is_queued.store(false, Ordering::SeqCst);
                waiter.waker.wake();
            }
        }
    }

    /// Returns the turns of requests for one object.
    pub(crate) fn turns(&self) -> Turns {
        self.turns.clone()
    }

    /// Returns the memory for messages of requests.
    pub(crate) fn request_room(&self) -> ConnectionRoom {
        self.requests.clone()
    }
}

/// The state of a sending task. Most tasks send one small response, and never allocate a
/// [`StreamFrames`].
#[derive(Debug)]
pub struct TaskSlot {
    connection: Arc<ConnectionBytes>,
    stream: OnceCell<Arc<StreamFrames>>,
    /// Set once the task has waited for room.
    waiter: OnceCell<Arc<Waiter>>,
    /// Whether an uncounted frame was passed on, with more to come.
    has_uncounted: Cell<bool>,
}

/// The frames in flight of one stream, or of an HTTP/1.1 connection.
#[derive(Debug)]
struct StreamFrames {
    connection: Arc<ConnectionBytes>,
    frames: AtomicUsize,
    bytes: AtomicUsize,
    /// Incremented whenever the connection takes something.
    progress: AtomicU64,
    /// Woken when the last frame is gone.
    empty_waker: AtomicWaker,
}

/// Counts one frame in flight until dropped.
#[derive(Debug)]
pub struct InFlight {
    stream: Arc<StreamFrames>,
    bytes: usize,
}

impl InFlight {
    /// Records that the connection has taken a part of the frame.
    #[inline]
    pub fn record_progress(&self) {
        self.stream.progress.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let stream = &self.stream;
        PROCESS_BYTES.fetch_sub(self.bytes, Ordering::Relaxed);
        stream.connection.sent(self.bytes);
        stream.progress.fetch_add(1, Ordering::Relaxed);
        stream.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        if stream.frames.fetch_sub(1, Ordering::AcqRel) == 1 {
            stream.empty_waker.wake();
        }
    }
}

/// Runs `sending` as a task of `connection`, so that its frames are counted.
pub fn scope<F: Future>(
    connection: Arc<ConnectionBytes>,
    sending: F,
) -> TaskLocalFuture<TaskSlot, F> {
    let slot = TaskSlot {
        connection,
        stream: OnceCell::new(),
        waiter: OnceCell::new(),
        has_uncounted: Cell::new(false),
    };
    TASK_SLOT.scope(slot, sending)
}

/// Returns the connection of the current task; `None` outside one.
pub(crate) fn connection() -> Option<Arc<ConnectionBytes>> {
    TASK_SLOT.try_with(|slot| slot.connection.clone()).ok()
}

/// Counts a frame of `bytes` that the current task passes on; `None` outside a connection.
pub fn count_frame(bytes: usize) -> Option<InFlight> {
    TASK_SLOT
        .try_with(|slot| {
            let stream = slot.stream.get_or_init(|| {
                Arc::new(StreamFrames {
                    connection: slot.connection.clone(),
                    frames: AtomicUsize::new(0),
                    bytes: AtomicUsize::new(0),
                    progress: AtomicU64::new(0),
                    empty_waker: AtomicWaker::new(),
                })
            });
            let in_flight = &stream.connection.in_flight;
            in_flight.fetch_add(bytes, Ordering::SeqCst);
            PROCESS_BYTES.fetch_add(bytes, Ordering::Relaxed);
            stream.bytes.fetch_add(bytes, Ordering::Relaxed);
            stream.frames.fetch_add(1, Ordering::AcqRel);
            InFlight {
                stream: stream.clone(),
                bytes,
            }
        })
        .ok()
}

/// Records that the current task passes on an uncounted frame, with more to follow.
#[inline]
pub fn mark_uncounted() {
    // Outside a connection there is no client that can stall.
    TASK_SLOT.try_with(|slot| slot.has_uncounted.set(true)).ok();
}

/// Returns whether the current task's connection or the process is over its limit.
#[inline]
pub fn is_over_limit() -> bool {
    let is_over_limit = TASK_SLOT.try_with(|slot| {
        slot.connection.in_flight.load(Ordering::Relaxed) >= CONNECTION_BYTES
            || is_process_over_limit()
    });
    is_over_limit.unwrap_or(false)
}

#[inline]
fn is_process_over_limit() -> bool {
    PROCESS_BYTES.load(Ordering::Relaxed) >= PROCESS_LIMIT_BYTES.load(Ordering::Relaxed)
}

/// Waits until the current task may make a frame larger than [`SMALL_FRAME_BYTES`] of an object
/// that cannot be divided. While the connection is over its limit, it may not, since each of its
/// streams could hold such a frame.
pub fn poll_room(context: &mut Context<'_>) -> Poll<()> {
    let polled = TASK_SLOT.try_with(|slot| {
        let connection = &slot.connection;
        if connection.has_room() {
            return Poll::Ready(());
        }
        let waiter = slot.waiter.get_or_init(Arc::default);
        waiter.waker.register(context.waker());
        connection.queue(waiter);
        // What was sent before the task was queued did not wake it.
        if connection.has_room() {
            return Poll::Ready(());
        }
        if is_process_over_limit() {
            // Other connections end that, and do not know of this task.
            let waker = context.waker().clone();
            drop(tokio::spawn(async move {
                sleep(RECHECK).await;
                waker.wake();
            }));
        }
        Poll::Pending
    });
    polled.unwrap_or(Poll::Ready(()))
}

/// Waits like [`poll_room`].
pub async fn room() {
    poll_fn(poll_room).await;
}

/// Waits like [`poll_room`] if an object of `bytes` is large.
pub async fn room_for(bytes: usize) {
    if bytes > SMALL_FRAME_BYTES {
        room().await;
    }
}

/// Returns the size for the current task's next frame, bytes.
#[inline]
pub fn frame_bytes(full: usize) -> usize {
    match is_over_limit() {
        true => full.min(SMALL_FRAME_BYTES),
        false => full,
    }
}

/// Returns whether the current task may end: few of its bytes are in flight.
pub fn may_end() -> bool {
    let few = TASK_SLOT.try_with(|slot| {
        let stream = slot.stream.get();
        stream.is_none_or(|stream| stream.bytes.load(Ordering::Acquire) < MAX_AT_END_BYTES)
    });
    few.unwrap_or(true)
}

/// Waits until [`may_end`].
pub fn poll_may_end(context: &mut Context<'_>) -> Poll<()> {
    poll_until(may_end, context)
}

/// If the limit is exceeded, waits until the current task has nothing in flight, so that each
/// stream holds at most one frame.
#[inline]
pub fn poll_ready(context: &mut Context<'_>) -> Poll<()> {
    match is_over_limit() {
        true => poll_until(is_empty, context),
        false => Poll::Ready(()),
    }
}

/// Returns whether the current task has no counted frame in flight.
fn is_empty() -> bool {
    let empty = TASK_SLOT.try_with(|slot| {
        let stream = slot.stream.get();
        stream.is_none_or(|stream| stream.frames.load(Ordering::Acquire) == 0)
    });
    empty.unwrap_or(true)
}

/// Waits until `holds` returns true, which it must do at the latest when the last frame is dropped.
fn poll_until(holds: impl Fn() -> bool, context: &mut Context<'_>) -> Poll<()> {
    if holds() {
        return Poll::Ready(());
    }
    TASK_SLOT
        .try_with(|slot| {
            if let Some(stream) = slot.stream.get() {
                stream.empty_waker.register(context.waker());
            }
        })
        .ok();
    match holds() {
        true => Poll::Ready(()),
        false => Poll::Pending,
    }
}

/// Returns a counter of the progress of the current task's client; `None` while no frame waits for
/// the client.
pub fn client_progress() -> Option<u64> {
    let waits = TASK_SLOT.try_with(|slot| match slot.stream.get() {
        Some(stream) if stream.frames.load(Ordering::Acquire) > 0 => {
            Some(stream.progress.load(Ordering::Relaxed))
        }
        _ => slot.has_uncounted.get().then_some(0),
    });
    waits.ok().flatten()
}
