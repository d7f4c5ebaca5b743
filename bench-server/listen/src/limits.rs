//! Limits of a connection, and the executor that applies them to its streams.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use memory::admission::quarter_of_memory;
use memory::in_flight::{self, ConnectionBytes, SMALL_FRAME_BYTES};
use memory::request_room;

use super::flags::CommonFlags;
use super::stalled::StallGuard;
use super::time_limit::TimeLimited;

/// Default limit of open streams per connection, as recommended for aggregated API servers, and
/// twenty times what our clients open. A stalled stream holds a small frame, so a connection of
/// stalled streams holds 8 MiB.
pub const MAX_STREAMS: u32 = 1_000;

/// Maximum number of streams that a client may reset before they are accepted. Cancelling a
/// response that has begun does not count; only a burst of requests and resets in one read does.
pub(super) const PENDING_ACCEPT_RESETS: usize = 100;

/// Maximum number of streams that the server resets for a client's errors before it closes the
/// connection. It is h2's default, set explicitly because some versions of hyper do not set it.
pub(super) const LOCAL_ERROR_RESETS: usize = 1_024;

/// The limits of one tier's connections.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum number of open streams of a connection.
    pub max_streams: u32,
    /// Time that a client may take no data although some is waiting for it; zero is no limit.
    pub stalled_reader: Duration,
    /// Time that a peer may acknowledge nothing, or keep its TCP window closed; zero leaves it to
    /// the kernel.
    pub tcp_user_timeout: Duration,
    /// Maximum number of open streams of all connections, each of which may hold a small frame.
    pub all_streams: usize,
}

impl Limits {
    /// Returns limits for a trusted client: no timeout for stalled readers, no limit of memory.
    pub const fn trusting() -> Self {
        Self {
            max_streams: MAX_STREAMS,
            stalled_reader: Duration::ZERO,
            tcp_user_timeout: Duration::ZERO,
            all_streams: usize::MAX,
        }
    }

    /// Returns the limits that the flags set. Also sets the process's limits of bytes in flight and
    /// of requests.
    pub fn new(max_streams: u32, common: &CommonFlags) -> Self {
        let bytes = usize::try_from(response_bytes(common)).unwrap_or(usize::MAX);
        in_flight::set_process_limit(bytes / 4);
        request_room::set_process_limit((bytes / 4) as u64);
        Self {
            max_streams,
            stalled_reader: common.stalled_reader_timeout,
            tcp_user_timeout: common.tcp_user_timeout,
            all_streams: (bytes / SMALL_FRAME_BYTES).max(MAX_STREAMS as usize),
        }
    }
}

/// Returns the limit of responses' memory, bytes.
pub fn response_bytes(common: &CommonFlags) -> u64 {
    match common.response_memory_bytes {
        0 => quarter_of_memory(),
        bytes => bytes,
    }
}

/// Spawns the tasks of one HTTP/2 connection's streams.
#[derive(Debug, Clone)]
pub(super) struct StreamExecutor {
    /// Whether responses may have their own time limits.
    pub(super) limited: bool,
    pub(super) stalled_reader: Duration,
    pub(super) bytes: Arc<ConnectionBytes>,
}

impl<F> hyper::rt::Executor<F> for StreamExecutor
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let bytes = self.bytes.clone();
        match self.limited {
            true => {
                let stream = StallGuard::stream(self.stalled_reader, TimeLimited::new(stream));
                drop(tokio::spawn(in_flight::scope(bytes, stream)));
            }
            false => {
                let stream = StallGuard::stream(self.stalled_reader, stream);
                drop(tokio::spawn(in_flight::scope(bytes, stream)));
            }
        }
    }
}
