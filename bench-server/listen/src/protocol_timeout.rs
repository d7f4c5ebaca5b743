//! Closes connections whose client sends nothing.
//!
//! hyper has a timeout for the headers of an HTTP/1.1 request. But it waits without a limit for the
//! first bytes, which determine the protocol version, and holds the connection and its buffers
//! meanwhile.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use super::connections::PendingConnection;
use super::frame_position::PREFACE;
use super::guarded::InputGuard;

/// Closes a connection whose first bytes do not arrive in time.
#[derive(Debug)]
pub(super) struct ProtocolTimeout {
    waiting: Option<QueueEntry>,
}

#[derive(Debug)]
struct QueueEntry {
    until: Pin<Box<Sleep>>,
    missing: usize,
    pending: PendingConnection,
}

impl ProtocolTimeout {
    /// Returns a guard that gives a client the time `limit` for its first bytes, unless `pending`
    /// is evicted earlier.
    pub(super) fn within(limit: Duration, pending: PendingConnection) -> Self {
        let until = Box::pin(sleep(limit));
        Self {
            waiting: Some(QueueEntry {
                until,
                // They determine the version, and no valid request is much shorter.
                missing: PREFACE.len(),
                pending,
            }),
        }
    }
}

impl InputGuard for ProtocolTimeout {
    fn check(&mut self, read: Poll<&[u8]>, context: &mut Context<'_>) -> io::Result<()> {
        let Some(waiting) = &mut self.waiting else {
            return Ok(());
        };
        let Poll::Ready(bytes) = read else {
            if waiting.pending.poll_evicted(context).is_ready() {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            return match waiting.until.as_mut().poll(context) {
                Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
                Poll::Pending => Ok(()),
            };
        };
        waiting.missing = waiting.missing.saturating_sub(bytes.len());
        if waiting.missing == 0 {
            self.waiting = None;
        }
        Ok(())
    }
}
