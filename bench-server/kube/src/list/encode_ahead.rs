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
const HELD_BYTES: usize = 8 * TARGET_BYTES;

/// When so much is left, more is made.
const LOW_BYTES: usize = HELD_BYTES / 2;

/// Bytes of all lists that wait: of many slow readers each has its one frame.
const ALL_HELD_BYTES: usize = 64 * 1024 * 1024;

/// Frames that are made at a time, some four milliseconds' work; then another list may have the core.
const TURN: usize = 64;

static ALL_HELD: AtomicUsize = AtomicUsize::new(0);

/// One core fewer than there are: one is left to send.
static CORES: LazyLock<Semaphore> = LazyLock::new(|| {
    let cores = available_parallelism().map_or(1, usize::from);
    Semaphore::new(cores - 1)
});

/// Whether lists hold as many bytes as they may: fewer than [`ALL_HELD_BYTES`] where responses have little memory.
fn is_all_held() -> bool {
    ALL_HELD.load(Ordering::Relaxed) >= ALL_HELD_BYTES.min(in_flight::most_bytes())
}

/// A list that is being sent. Up to 2 MiB and a frame wait in it, where nothing waits in a [`ListBody`].
#[derive(Debug)]
pub struct AheadBody {
    /// `None` while its frames are made.
    list: Option<Box<ListBody>>,
    /// Hands the list back.
    making: Option<JoinHandle<Box<ListBody>>>,
    made: mpsc::UnboundedSender<Waiting>,
    frames: mpsc::UnboundedReceiver<Waiting>,
    /// Bytes of `frames`.
    held: Arc<AtomicUsize>,
    /// Whether its first frame was asked for, which is so of every list, read or not.
    is_begun: bool,
    cores: &'static Semaphore,
}

/// A frame that waits to be sent, counted until this is dropped.
#[derive(Debug)]
struct Waiting {
    frame: Frame,
    bytes: usize,
    held: Arc<AtomicUsize>,
}

impl Waiting {
    fn new(frame: Frame, held: &Arc<AtomicUsize>) -> Self {
        let bytes = frame.remaining();
        held.fetch_add(bytes, Ordering::Relaxed);
        ALL_HELD.fetch_add(bytes, Ordering::Relaxed);
        Self {
            frame,
            bytes,
            held: held.clone(),
        }
    }

    fn end(mut self) -> Frame {
        std::mem::take(&mut self.frame)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes, Ordering::Relaxed);
        ALL_HELD.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl AheadBody {
    pub(crate) fn new(list: ListBody) -> Self {
        Self::on(&CORES, list)
    }

    fn on(cores: &'static Semaphore, list: ListBody) -> Self {
        let (made, frames) = mpsc::unbounded_channel();
        Self {
            list: Some(list.into()),
            making: None,
            made,
            frames,
            held: Arc::default(),
            is_begun: false,
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
        let is_read = std::mem::replace(&mut self.is_begun, true);
        if is_read && self.held.load(Ordering::Relaxed) <= LOW_BYTES {
            self.make_more(context);
        }
        Poll::Ready(frame)
    }

    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Frame>> {
        loop {
            if let Some(list) = &mut self.list {
                // Nobody sends: to ask waits for nobody.
                let waiting = self.frames.try_recv().ok().map(Waiting::end);
                return Poll::Ready(waiting.or_else(|| list.next_frame()));
            }
            if let Poll::Ready(waiting) = self.frames.poll_recv(context) {
                return Poll::Ready(waiting.map(Waiting::end));
            }
            ready!(self.poll_back(context));
        }
    }

    /// Waits until the list is back. What was made of it lies among the frames by then.
    fn poll_back(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(making) = &mut self.making else {
            unreachable!("the list is here, or its frames are being made");
        };
        match ready!(Pin::new(making).poll(context)) {
            Ok(list) => {
                self.making = None;
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
    fn make_more(&mut self, context: &mut Context<'_>) {
        let is_made = self.making.as_ref().is_some_and(JoinHandle::is_finished);
        if is_made && self.poll_back(context).is_pending() {
            return;
        }
        if is_all_held() || in_flight::is_much() {
            return;
        }
        let Some(mut list) = self.list.take_if(|list| !list.is_over()) else {
            return;
        };
        let Ok(core) = self.cores.try_acquire() else {
            self.list = Some(list);
            return;
        };
        let (made, held) = (self.made.clone(), self.held.clone());
        self.making = Some(spawn_blocking(move || {
            for _ in 0..TURN {
                let is_enough = held.load(Ordering::Relaxed) >= HELD_BYTES || is_all_held();
                if is_enough {
                    break;
                }
                let Some(frame) = list.next_frame() else {
                    break;
                };
                if made.send(Waiting::new(frame, &held)).is_err() {
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
