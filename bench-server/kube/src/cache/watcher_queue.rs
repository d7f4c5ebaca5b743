//! The bounded queue of events for one watcher, filled by the dispatcher and emptied by the
//! connection.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use super::event::{CachingEvent, EventType};

/// One event for one watcher.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The event, shared by all watchers that receive it.
    pub event: Arc<CachingEvent>,
    /// The type of the event for this watcher.
    pub event_type: EventType,
}

/// A queue between the dispatcher and one watcher. At most one task waits on each side.
#[derive(Debug)]
pub(crate) struct WatcherQueue {
    capacity: usize,
    state: Mutex<QueueState>,
}

#[derive(Debug, Default)]
struct QueueState {
    deliveries: VecDeque<Delivery>,
    closed: bool,
    /// Wakes the connection, which waits while the queue is empty.
    reader: Option<Waker>,
    /// Wakes the dispatcher, which waits while the queue is full.
    writer: Option<Waker>,
}

/// The result of [`WatcherQueue::try_recv`].
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

    /// Adds a delivery, or returns it if the queue is full. A closed queue drops it.
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

    /// Waits until the queue has room or is closed.
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

    /// Closes the queue and drops its deliveries, so that a client that reads nothing keeps nothing
    /// in memory.
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

    /// Removes and returns the next delivery. If the queue is empty and there is a context, its
    /// task is woken when the queue changes.
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
