//! Limits the memory of requests' messages from their first byte until they are handled.
//!
//! A client may begin many large messages and end none. A message larger than [`UNCOUNTED_BYTES`]
//! therefore needs memory before it is read. If its connection has too much already, it is rejected
//! at once: what is not read fills the connection's receive window, and earlier messages could not
//! end while it waits. If the process has too much, it waits, and is rejected after a timeout.
//! Smaller messages need no memory of their own: the limit of streams counts them.
//!
//! Likewise, requests for one object take turns ([`turn`]).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::in_flight::{self, ConnectionBytes};
use crate::room::{Room, WAIT_TIMEOUT};

/// Size up to which a message is not counted, bytes.
pub const UNCOUNTED_BYTES: u64 = 8 * 1024;

/// Maximum size of the counted messages of one connection, bytes: 32 of etcd's largest.
const CONNECTION_BYTES: u64 = 64 * 1024 * 1024;

/// Maximum number of requests of one connection that hold an object which they read or write.
const TURNS: usize = 32;

/// The limit of all connections; unset, there is none.
static PROCESS: OnceLock<Room> = OnceLock::new();

/// Number of messages that were rejected.
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// Memory for the messages of one connection.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionRoom(Room);

impl Default for ConnectionRoom {
    fn default() -> Self {
        Self(Room::new(CONNECTION_BYTES))
    }
}

/// The requests of one connection that hold an object.
#[derive(Debug, Clone)]
pub(crate) struct Turns(Arc<Semaphore>);

impl Default for Turns {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(TURNS)))
    }
}

/// Waits until few requests of the current task's connection hold an object. The request must hold
/// what is returned until its response is encoded: how large an object of storage is shows only
/// once it is read.
pub async fn turn() -> impl Send + use<> {
    match in_flight::connection().map(|connection| connection.turns()) {
        Some(Turns(turns)) => turns.acquire_owned().await.ok(),
        None => None,
    }
}

/// Memory for one message; released when dropped.
#[derive(Debug)]
pub struct Reserved {
    _connection: Option<OwnedSemaphorePermit>,
    _process: Option<OwnedSemaphorePermit>,
}

/// The error when there is no memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    /// The connection's messages have all that it may have.
    #[error("the connection's unfinished requests hold {} MiB, which is the limit", CONNECTION_BYTES >> 20)]
    Connection,
    /// No memory of the process became free in time.
    #[error("no memory for the request's message within {} s", WAIT_TIMEOUT.as_secs())]
    Process,
}

/// Sets the limit of all connections. The first call counts: both tiers of a process have the same
/// flags.
pub fn set_process_limit(bytes: u64) {
    PROCESS.get_or_init(|| Room::new(bytes));
}

/// Returns the size of the messages of all connections, bytes.
pub fn process_bytes() -> u64 {
    PROCESS.get().map_or(0, Room::taken_bytes)
}

/// Returns the number of messages that were rejected.
pub fn refused() -> u64 {
    REFUSED.load(Ordering::Relaxed)
}

/// Waits for memory for a message of `bytes` of the current task's connection; `None` if it needs
/// none. A message larger than a limit takes all of it.
///
/// # Errors
/// [`NoRoom`], at once or after the timeout.
pub fn reserve(
    bytes: u64,
) -> impl Future<Output = Result<Option<Reserved>, NoRoom>> + Send + 'static {
    let is_counted = bytes > UNCOUNTED_BYTES;
    let connection = in_flight::connection().filter(|_| is_counted);
    let process = PROCESS.get().filter(|_| is_counted).cloned();
    async move {
        if !is_counted {
            return Ok(None);
        }
        let reserved = taken(connection, process, bytes).await;
        if reserved.is_err() {
            REFUSED.fetch_add(1, Ordering::Relaxed);
        }
        reserved.map(Some)
    }
}

async fn taken(
    connection: Option<Arc<ConnectionBytes>>,
    process: Option<Room>,
    bytes: u64,
) -> Result<Reserved, NoRoom> {
    let connection = match connection.map(|connection| connection.request_room()) {
        Some(ConnectionRoom(room)) => {
            let units = room.units_of(bytes);
            Some(room.try_take(units).ok_or(NoRoom::Connection)?)
        }
        None => None,
    };
    let process = match process {
        Some(room) => {
            let units = room.units_of(bytes);
            let taken = timeout(WAIT_TIMEOUT, room.take(units)).await;
            Some(taken.map_err(|_| NoRoom::Process)?)
        }
        None => None,
    };
    Ok(Reserved {
        _connection: connection,
        _process: process,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Reserves when it is polled, in the scope of a connection.
    async fn of_connection(bytes: u64) -> Result<Option<Reserved>, NoRoom> {
        reserve(bytes).await
    }

    #[tokio::test(start_paused = true)]
    async fn the_messages_of_a_connection_share_its_memory() {
        let connection = Arc::new(ConnectionBytes::default());
        let reserve = |bytes| in_flight::scope(connection.clone(), of_connection(bytes));
        assert!(reserve(UNCOUNTED_BYTES).await.expect("room").is_none());
        let half = reserve(CONNECTION_BYTES / 2).await.expect("room");
        let rest = reserve(CONNECTION_BYTES / 2).await.expect("room");
        assert!(half.is_some() && rest.is_some());
        let begun = tokio::time::Instant::now();
        assert_eq!(reserve(10_000).await.err(), Some(NoRoom::Connection));
        assert_eq!(begun.elapsed(), Duration::ZERO, "at once");
        let other = Arc::new(ConnectionBytes::default());
        let other = in_flight::scope(other, of_connection(10_000)).await;
        assert!(other.is_ok(), "another connection has its own");
        drop(half);
        assert!(reserve(CONNECTION_BYTES / 2).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_larger_than_the_limit_takes_all_of_it() {
        let connection = Arc::new(ConnectionBytes::default());
        let large = in_flight::scope(connection.clone(), of_connection(u64::MAX)).await;
        assert!(large.expect("room").is_some());
        let next = in_flight::scope(connection, of_connection(10_000));
        assert!(next.await.is_ok(), "it was released");
    }
}
