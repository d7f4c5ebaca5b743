//! How received events can disagree with the writes.

use etcd_api::error::Error as EtcdError;

use super::{LAST_EVENT_TIMEOUT, MAX_EVENTS};
use crate::operation::list::ListError;

/// A failure of the watchers, or a disagreement between events and writes.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// A stream failed.
    #[error("watching: {0}")]
    Etcd(#[from] EtcdError),
    /// A watch through a Kubernetes API failed.
    #[error("watching through the Kubernetes API: {0}")]
    Api(Box<ListError>),
    /// No thread could be started for the watchers.
    #[error("watching: cannot start a thread: {0}")]
    Start(#[from] std::io::Error),
    /// The thread ended without a result.
    #[error("watching: its thread ended")]
    Ended,
    /// Watchers did not receive the last event in time.
    #[error("{missing} of {watchers} watchers had no event of revision {revision} within {} s of the last write", LAST_EVENT_TIMEOUT.as_secs())]
    Late {
        /// The number of watchers that lack it.
        missing: usize,
        /// The number of all watchers.
        watchers: usize,
        /// The revision of the last write.
        revision: i64,
    },
    /// An event is not newer than the one before.
    #[error("a watcher got an event of revision {revision} after one of revision {before}")]
    Order {
        /// The event's revision.
        revision: i64,
        /// The revision of the event before it.
        before: i64,
    },
    /// A watcher's events do not match the writes.
    #[error("a watcher got {events} events of {writes} writes, or others than were written")]
    Wrong {
        /// The number of events that it received.
        events: u64,
        /// The number of writes whose events it should have received.
        writes: u64,
    },
    /// More events than can be kept.
    #[error("more than {MAX_EVENTS} events: take fewer watchers, a lower rate or less time")]
    TooMany,
}

impl From<ListError> for DeliveryError {
    fn from(error: ListError) -> Self {
        Self::Api(Box::new(error))
    }
}
