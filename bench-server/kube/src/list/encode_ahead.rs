//! Encodes the frames of a long list on another thread, ahead of the connection that sends them.
//!
//! Encoding JSON takes about as long as sending it, so a list takes two thirds of the time if a
//! core is idle (`docs/performance.md`). Frames are encoded on demand, like those of short lists,
//! while all cores but one encode other lists ahead, and while too many bytes wait to be sent.

use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, ready};
use std::thread::available_parallelism;

use bytes::Buf;
use memory::in_flight;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinHandle, spawn_blocking};
use wire::frame::{Frame, TARGET_BYTES};

use super::body::ListBody;

/// The maximum number of bytes of one list that wait to be sent. When it is reached, the encoding
/// task ends: it never waits for a client.
const MAX_READY_BYTES: usize = 8 * TARGET_BYTES;

/// The number of waiting bytes of a list at which encoding resumes.
const LOW_READY_BYTES: usize = MAX_READY_BYTES / 2;

/// The maximum number of bytes of all lists that wait to be sent. Beyond it, each list encodes one
/// frame at a time, on demand.
const MAX_TOTAL_READY_BYTES: usize = 64 * 1024 * 1024;

/// The number of frames that a task encodes before another list may use the core. They take about 4
/// ms.
const FRAMES_PER_TURN: usize = 64;

static TOTAL_READY_BYTES: AtomicUsize = AtomicUsize::new(0);

/// A permit for each core but one, which is left for sending.
static CORES: LazyLock<Semaphore> = LazyLock::new(|| {
    let cores = available_parallelism().map_or(1, usize::from);
    Semaphore::new(cores - 1)
});

/// Returns whether the waiting bytes of all lists have reached their limit:
/// [`MAX_TOTAL_READY_BYTES`], or the memory limit of responses if that is less.
fn are_all_full() -> bool {
    TOTAL_READY_BYTES.load(Ordering::Relaxed)
        >= MAX_TOTAL_READY_BYTES.min(in_flight::process_limit_bytes())
}

/// The body of a long list, of which up to 2 MiB and a frame are encoded ahead. A [`ListBody`]
/// encodes nothing ahead.
#[derive(Debug)]
pub struct AheadBody {
    /// The list; `None` while the other thread encodes it.
    list: Option<Box<ListBody>>,
    /// The task on the other thread, which returns the list.
    encoding: Option<JoinHandle<Box<ListBody>>>,
    sender: mpsc::UnboundedSender<ReadyFrame>,
    frames: mpsc::UnboundedReceiver<ReadyFrame>,
    /// The number of bytes in `frames`.
    ready_bytes: Arc<AtomicUsize>,
    /// Whether the first frame has been polled. It is polled even if the client never reads.
    is_started: bool,
    cores: &'static Semaphore,
}

/// An encoded frame, whose bytes count as waiting until it is dropped.
#[derive(Debug)]
struct ReadyFrame {
    frame: Frame,
    bytes: usize,
    ready_bytes: Arc<AtomicUsize>,
}

impl ReadyFrame {
    fn new(frame: Frame, ready_bytes: &Arc<AtomicUsize>) -> Self {
        let bytes = frame.remaining();
        ready_bytes.fetch_add(bytes, Ordering::Relaxed);
        TOTAL_READY_BYTES.fetch_add(bytes, Ordering::Relaxed);
        Self {
            frame,
            bytes,
            ready_bytes: ready_bytes.clone(),
        }
    }

    fn end(mut self) -> Frame {
        std::mem::take(&mut self.frame)
    }
}

impl Drop for ReadyFrame {
    fn drop(&mut self) {
        self.ready_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        TOTAL_READY_BYTES.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl AheadBody {
    pub(crate) fn new(list: ListBody) -> Self {
        Self::on(&CORES, list)
    }

    fn on(cores: &'static Semaphore, list: ListBody) -> Self {
        let (sender, frames) = mpsc::unbounded_channel();
        Self {
            list: Some(list.into()),
            encoding: None,
            sender,
            frames,
            ready_bytes: Arc::default(),
            is_started: false,
            cores,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.frames.is_empty() && self.list.as_ref().is_some_and(|list| list.is_over())
    }

    /// Returns the next frame; `None` after the last.
    ///
    /// # Panics
    /// If the other thread panicked, or the system refuses to start one.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Frame>> {
        let frame = ready!(self.poll_frame(context));
        // HTTP/2 polls the first frame before the client's flow-control window has room for it.
        let is_read = std::mem::replace(&mut self.is_started, true);
        if is_read && self.ready_bytes.load(Ordering::Relaxed) <= LOW_READY_BYTES {
            self.encode_more(context);
        }
        Poll::Ready(frame)
    }

    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Frame>> {
        loop {
            if let Some(list) = &mut self.list {
                // The other thread is not running, so there is nothing to wait for.
                let ready_frame = self.frames.try_recv().ok().map(ReadyFrame::end);
                if ready_frame.is_none() {
                    ready!(list.poll_room(context));
                }
                return Poll::Ready(ready_frame.or_else(|| list.next_frame()));
            }
            if let Poll::Ready(ready_frame) = self.frames.poll_recv(context) {
                return Poll::Ready(ready_frame.map(ReadyFrame::end));
            }
            ready!(self.poll_encoding(context));
        }
    }

    /// Waits until the task on the other thread has ended. All frames that it encoded are in
    /// `frames` by then.
    fn poll_encoding(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(encoding) = &mut self.encoding else {
            unreachable!("the list is here, or its frames are being made");
        };
        match ready!(Pin::new(encoding).poll(context)) {
            Ok(list) => {
                self.encoding = None;
                self.list = Some(list);
                Poll::Ready(())
            }
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // The runtime is shutting down, and this connection with it.
                Err(_) => Poll::Pending,
            },
        }
    }

    /// Starts encoding on another thread, if a core and memory are free.
    fn encode_more(&mut self, context: &mut Context<'_>) {
        let is_finished = self.encoding.as_ref().is_some_and(JoinHandle::is_finished);
        if is_finished && self.poll_encoding(context).is_pending() {
            return;
        }
        if are_all_full() || in_flight::is_over_limit() {
            return;
        }
        let Some(mut list) = self.list.take_if(|list| !list.is_over()) else {
            return;
        };
        let Ok(core) = self.cores.try_acquire() else {
            self.list = Some(list);
            return;
        };
        let (sender, ready_bytes) = (self.sender.clone(), self.ready_bytes.clone());
        self.encoding = Some(spawn_blocking(move || {
            for _ in 0..FRAMES_PER_TURN {
                let is_full =
                    ready_bytes.load(Ordering::Relaxed) >= MAX_READY_BYTES || are_all_full();
                if is_full {
                    break;
                }
                let Some(frame) = list.next_frame() else {
                    break;
                };
                if sender.send(ReadyFrame::new(frame, &ready_bytes)).is_err() {
                    break;
                }
            }
            drop(core);
            list
        }));
    }
}

#[cfg(test)]
mod tests;
