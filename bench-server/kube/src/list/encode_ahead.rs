//! Frames of a long list that another thread makes while those before them are sent.
//!
//! To write JSON takes about as long as to send it, so a list takes two thirds of the time where a core has nothing else to do
//! (`docs/performance.md`). Frames are made when they are asked for, as those of short lists are, while as many other lists are
//! made ahead as there are cores but one, and while too much waits to be sent.

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

/// Bytes of one list that wait to be sent. Then the other thread is done: it never waits for a reader.
const MAX_READY_BYTES: usize = 8 * TARGET_BYTES;

/// When so much is left, more is made.
const LOW_READY_BYTES: usize = MAX_READY_BYTES / 2;

/// Bytes of all lists that wait: of many slow readers each has its one frame.
const MAX_TOTAL_READY_BYTES: usize = 64 * 1024 * 1024;

/// Frames that are made at a time, some four milliseconds' work; then another list may have the core.
const FRAMES_PER_TURN: usize = 64;

static TOTAL_READY_BYTES: AtomicUsize = AtomicUsize::new(0);

/// One core fewer than there are: one is left to send.
static CORES: LazyLock<Semaphore> = LazyLock::new(|| {
    let cores = available_parallelism().map_or(1, usize::from);
    Semaphore::new(cores - 1)
});

/// Whether lists hold as many bytes as they may: fewer than [`MAX_TOTAL_READY_BYTES`] where responses have little memory.
fn are_all_full() -> bool {
    TOTAL_READY_BYTES.load(Ordering::Relaxed) >= MAX_TOTAL_READY_BYTES.min(in_flight::most_bytes())
}

/// A list that is being sent. Up to 2 MiB and a frame wait in it, where nothing waits in a [`ListBody`].
#[derive(Debug)]
pub struct AheadBody {
    /// `None` while its frames are made.
    list: Option<Box<ListBody>>,
    /// Hands the list back.
    encoding: Option<JoinHandle<Box<ListBody>>>,
    sender: mpsc::UnboundedSender<ReadyFrame>,
    frames: mpsc::UnboundedReceiver<ReadyFrame>,
    /// Bytes of `frames`.
    ready_bytes: Arc<AtomicUsize>,
    /// Whether its first frame was asked for, which is so of every list, read or not.
    is_started: bool,
    cores: &'static Semaphore,
}

/// A frame that waits to be sent, counted until this is dropped.
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

    /// The next frame; `None` behind the last.
    ///
    /// # Panics
    /// As the thread that makes frames, or when the system has no thread for it.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Frame>> {
        let frame = ready!(self.poll_frame(context));
        // HTTP/2 asks for the first one before its client has room for any.
        let is_read = std::mem::replace(&mut self.is_started, true);
        if is_read && self.ready_bytes.load(Ordering::Relaxed) <= LOW_READY_BYTES {
            self.encode_more(context);
        }
        Poll::Ready(frame)
    }

    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Frame>> {
        loop {
            if let Some(list) = &mut self.list {
                // Nobody sends: to ask waits for nobody.
                let ready_frame = self.frames.try_recv().ok().map(ReadyFrame::end);
                return Poll::Ready(ready_frame.or_else(|| list.next_frame()));
            }
            if let Poll::Ready(ready_frame) = self.frames.poll_recv(context) {
                return Poll::Ready(ready_frame.map(ReadyFrame::end));
            }
            ready!(self.poll_encoding(context));
        }
    }

    /// Waits until the list is back. What was made of it lies among the frames by then.
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
                // The runtime ends, and this connection with it.
                Err(_) => Poll::Pending,
            },
        }
    }

    /// Has another thread make frames, if it may.
    fn encode_more(&mut self, context: &mut Context<'_>) {
        let is_finished = self.encoding.as_ref().is_some_and(JoinHandle::is_finished);
        if is_finished && self.poll_encoding(context).is_pending() {
            return;
        }
        if are_all_full() || in_flight::is_much() {
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
