//! What one connection may cost, and the tasks that hold its streams to that.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use memory::admission::quarter_of_memory;
use memory::in_flight::{self, ConnectionBytes, SMALL_FRAME_BYTES};

use super::flags::CommonFlags;
use super::stalled::Unstalled;
use super::time_limit::Limited;

/// Streams that a connection may have open by default: what aggregated API servers recommend to each other, and twenty times
/// what a client of ours opens. A stream that stalls holds a small frame, so that a connection of them holds 8 MiB.
pub const MAX_STREAMS: u32 = 1_000;

/// Streams that clients have reset before they were accepted, and that wait to be. A client that cancels what it has seen
/// the beginning of is never counted; it takes a burst of requests and resets in one read.
pub(super) const PENDING_ACCEPT_RESETS: usize = 100;

/// Streams that the server resets for errors of the client's before it closes the connection: h2's default, spelled out
/// since versions of hyper lost it.
pub(super) const LOCAL_ERROR_RESETS: usize = 1_024;

/// Limits of the connections of one tier.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Streams that a connection may have open.
    pub max_streams: u32,
    /// How long a client may take nothing of what waits for it; zero is for ever.
    pub stalled_reader: Duration,
    /// How long a peer may acknowledge nothing, or keep its TCP window shut; zero is as long as the kernel likes.
    pub tcp_user_timeout: Duration,
    /// Streams that all connections may have under way, a small frame each.
    pub all_streams: usize,
}

impl Limits {
    /// Those of a server for one client that is trusted: a stalled reader is waited for, and memory has no limit.
    pub const fn trusting() -> Self {
        Self {
            max_streams: MAX_STREAMS,
            stalled_reader: Duration::ZERO,
            tcp_user_timeout: Duration::ZERO,
            all_streams: usize::MAX,
        }
    }

    /// The limits that the flags ask for.
    pub fn new(max_streams: u32, common: &CommonFlags) -> Self {
        let bytes = usize::try_from(response_bytes(common)).unwrap_or(usize::MAX);
        in_flight::limit_all(bytes / 4);
        Self {
            max_streams,
            stalled_reader: common.stalled_reader_timeout,
            tcp_user_timeout: common.tcp_user_timeout,
            all_streams: (bytes / SMALL_FRAME_BYTES).max(MAX_STREAMS as usize),
        }
    }
}

/// Bytes that responses may hold.
pub fn response_bytes(common: &CommonFlags) -> u64 {
    match common.response_memory_bytes {
        0 => quarter_of_memory(),
        bytes => bytes,
    }
}

/// Spawns the streams of one HTTP/2 connection.
#[derive(Debug, Clone)]
pub(super) struct Streams {
    /// Whether responses may have time limits of their own.
    pub(super) limited: bool,
    pub(super) stalled_reader: Duration,
    pub(super) bytes: Arc<ConnectionBytes>,
}

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let bytes = self.bytes.clone();
        match self.limited {
            true => {
                let stream = Unstalled::stream(self.stalled_reader, Limited::new(stream));
                drop(tokio::spawn(in_flight::scope(bytes, stream)));
            }
            false => {
                let stream = Unstalled::stream(self.stalled_reader, stream);
                drop(tokio::spawn(in_flight::scope(bytes, stream)));
            }
        }
    }
}
