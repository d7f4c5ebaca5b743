//! The events that wait for one watcher: bounded, filled by the dispatcher, emptied by the connection.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use super::event::{CachingEvent, EventType};

/// One event for one watcher.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The event, shared by all who are told of it.
    pub event: Arc<CachingEvent>,
    /// What this watcher is told.
    pub event_type: EventType,
}

/// Between the dispatcher and one watcher. Each side has at most one task that waits.
#[derive(Debug)]
pub(crate) struct WatcherQueue {
    capacity: usize,
    state: Mutex<QueueState>,
}

#[derive(Debug, Default)]
struct QueueState {
    deliveries: VecDeque<Delivery>,
    closed: bool,
    /// The connection, while there is nothing for it.
    reader: Option<Waker>,
    /// The dispatcher, while there is no room.
    writer: Option<Waker>,
}

/// What a look into a queue shows.
#[derive(Debug)]
pub(crate) enum TryRecv {
    Delivery(Delivery),
    Empty,
    Closed,
}

impl WatcherQueue {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            state: Mutex::default(),
        }
    }

    /// Adds a delivery; gives it back when there is no room. A closed queue takes everything, to nobody's use.
    pub(crate) fn try_send(&self, delivery: Delivery) -> Result<(), Delivery> {
        let reader = {
            let mut state = self.state.lock();
            if state.closed {
                return Ok(());
            }
            if state.deliveries.len() >= self.capacity {
                return Err(delivery);
            }
            state.deliveries.push_back(delivery);
            state.reader.take()
        };
        if let Some(reader) = reader {
            reader.wake();
        }
        Ok(())
    }

    /// Waits for room, or until the queue is closed.
    pub(crate) async fn wait_for_room(&self) {
        std::future::poll_fn(|context| {
            let mut state = self.state.lock();
            if state.closed || state.deliveries.len() < self.capacity {
                return Poll::Ready(());
            }
            state.writer = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Ends it; what is waiting is dropped, so that a watcher that reads nothing any more holds nothing.
    pub(crate) fn close(&self) {
        let (wakers, dropped) = {
            let mut state = self.state.lock();
            state.closed = true;
            let wakers = [state.reader.take(), state.writer.take()];
            (wakers, std::mem::take(&mut state.deliveries))
        };
        drop(dropped);
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// The next delivery. With a context, that task is woken when an empty queue changes.
    pub(crate) fn try_recv(&self, context: Option<&mut Context<'_>>) -> TryRecv {
        let mut state = self.state.lock();
        if let Some(delivery) = state.deliveries.pop_front() {
            if let Some(writer) = state.writer.take() {
                writer.wake();
            }
            return TryRecv::Delivery(delivery);
        }
        if state.closed {
            return TryRecv::Closed;
        }
        if let Some(context) = context {
            state.reader = Some(context.waker().clone());
        }
        TryRecv::Empty
    }
}
