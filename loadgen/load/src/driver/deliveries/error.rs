//! What watchers and writes did not agree on.

use etcd_api::error::Error as EtcdError;

use super::{LAST_EVENT_WITHIN, MOST_EVENTS};
use crate::operation::list::ListError;

/// What watchers and writes did not agree on.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// A stream that failed.
    #[error("watching: {0}")]
    Etcd(#[from] EtcdError),
    /// A watch through a Kubernetes API that failed.
    #[error("watching through the Kubernetes API: {0}")]
    Api(Box<ListError>),
    /// No thread to watch in.
    #[error("watching: cannot start a thread: {0}")]
    Start(#[from] std::io::Error),
    /// The thread ended without an answer.
    #[error("watching: its thread ended")]
    Ended,
    /// Events did not come.
    #[error("{missing} of {watchers} watchers had no event of revision {revision} within {} s of the last write", LAST_EVENT_WITHIN.as_secs())]
    Late {
        /// Watchers that lack it.
        missing: usize,
        /// Of so many.
        watchers: usize,
        /// The last write's.
        revision: i64,
    },
    /// An event that is not newer than the one before.
    #[error("a watcher got an event of revision {revision} after one of revision {before}")]
    Order {
        /// The event's.
        revision: i64,
        /// Of the event before.
        before: i64,
    },
    /// A watcher's events are not the writes.
    #[error("a watcher got {events} events of {writes} writes, or others than were written")]
    Wrong {
        /// Events that it got.
        events: u64,
        /// Writes that were acknowledged since it was created.
        writes: u64,
    },
    /// More than can be kept.
    #[error("more than {MOST_EVENTS} events: take fewer watchers, a lower rate or less time")]
    TooMany,
}

impl From<ListError> for DeliveryError {
    fn from(error: ListError) -> Self {
        Self::Api(Box::new(error))
    }
}
