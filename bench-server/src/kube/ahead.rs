//! Frames of a long list that another thread makes while those before them are sent.
//!
//! To write JSON takes about as long as to send it, so a list takes two thirds of the time where a core has nothing else to do
//! (`docs/performance.md`). Without such a core frames are made when they are asked for, as those of short lists are.

use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll, ready};
use std::thread::available_parallelism;

use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinHandle, spawn_blocking};

use super::body::ListBody;
use crate::wire::frame::Frame;

/// Frames that wait to be sent, at most. Then the other thread is done: it never waits for a reader.
const HELD: usize = 8;

/// So many or fewer are left when more are made.
const LOW: usize = HELD / 2;

/// One core is left to send.
static SPARE_CORES: LazyLock<Semaphore> = LazyLock::new(|| {
    let cores = available_parallelism().map_or(1, usize::from);
    Semaphore::new(cores - 1)
});

/// A list that is being sent. It holds up to ten frames, 3 MiB, where [`ListBody`] holds one.
#[derive(Debug)]
pub struct AheadBody {
    /// `None` while its frames are made.
    list: Option<Box<ListBody>>,
    /// Hands the list back.
    making: Option<JoinHandle<Box<ListBody>>>,
    made: mpsc::Sender<Frame>,
    frames: mpsc::Receiver<Frame>,
    cores: &'static Semaphore,
}

impl AheadBody {
    pub(super) fn new(list: ListBody) -> Self {
        Self::on(&SPARE_CORES, list)
    }

    fn on(cores: &'static Semaphore, list: ListBody) -> Self {
        let (made, frames) = mpsc::channel(HELD);
        Self {
            list: Some(list.into()),
            making: None,
            made,
            frames,
            cores,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.frames.is_empty() && self.list.as_ref().is_some_and(|list| list.is_over())
    }

    /// The next frame; `None` behind the last.
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Frame>> {
        let frame = ready!(self.poll_frame(context));
        if self.frames.len() <= LOW {
            self.make_more(context);
        }
        Poll::Ready(frame)
    }

    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Frame>> {
        loop {
            if let Ok(frame) = self.frames.try_recv() {
                return Poll::Ready(Some(frame));
            }
            if let Some(list) = &mut self.list {
                return Poll::Ready(list.next_frame());
            }
            if let Poll::Ready(frame) = self.frames.poll_recv(context) {
                return Poll::Ready(frame);
            }
            ready!(self.poll_back(context));
        }
    }

    /// Waits until the list is back. What was made of it lies among the frames by then.
    fn poll_back(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(making) = &mut self.making else {
            return Poll::Ready(());
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

    /// Has another thread make frames, if there is a core to spare.
    fn make_more(&mut self, context: &mut Context<'_>) {
        let is_made = self.making.as_ref().is_some_and(JoinHandle::is_finished);
        if is_made && self.poll_back(context).is_pending() {
            return;
        }
        let Some(mut list) = self.list.take_if(|list| !list.is_over()) else {
            return;
        };
        let Ok(core) = self.cores.try_acquire() else {
            self.list = Some(list);
            return;
        };
        let made = self.made.clone();
        self.making = Some(spawn_blocking(move || {
            while let Ok(place) = made.try_reserve() {
                let Some(frame) = list.next_frame() else {
                    break;
                };
                place.send(frame);
            }
            drop(core);
            list
        }));
    }
}

#[cfg(test)]
mod tests;
