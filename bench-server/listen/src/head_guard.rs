//! Limits the heads of HTTP/2 requests while they arrive.
//!
//! A head may have many frames, and h2 keeps its fragments until the last. It limits their size for
//! each connection, but neither their memory over all connections nor their time. Of an HTTP/1.1
//! head, hyper limits size and time.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use super::counts::COUNTS;
use super::frame_position::Input;
use super::guarded::InputGuard;

/// Size up to which an unfinished head is not counted, bytes. It is that small because a byte on
/// the wire may stand for a field that takes h2 seventy.
const UNCOUNTED_BYTES: usize = 1024;

/// Maximum size of the unfinished heads of all connections, bytes. A head that arrives at once is
/// not among them.
const ALL_BYTES: usize = 1024 * 1024;

/// Time from a head's first byte to its last: an apiserver's.
const TIMEOUT: Duration = Duration::from_secs(32);

/// The size of the unfinished heads of all connections, bytes, without [`UNCOUNTED_BYTES`] of each.
static UNFINISHED_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Closes a connection when a head does not end in time, or when unfinished heads take too much
/// memory.
#[derive(Debug, Default)]
pub(super) struct HeadGuard {
    input: Input,
    /// The head that is being read, if it did not arrive whole.
    head: Option<UnfinishedHead>,
}

/// A head that is being read.
#[derive(Debug)]
struct UnfinishedHead {
    counted: usize,
    until: Pin<Box<Sleep>>,
}

impl UnfinishedHead {
    fn begin() -> Self {
        Self {
            counted: 0,
            until: Box::pin(sleep(TIMEOUT)),
        }
    }

    /// Counts a head that has grown to `bytes`. Returns whether all heads are within their limit.
    fn grow_to(&mut self, bytes: usize) -> bool {
        let more = bytes
            .saturating_sub(UNCOUNTED_BYTES)
            .saturating_sub(self.counted);
        self.counted += more;
        let before = UNFINISHED_BYTES.fetch_add(more, Ordering::Relaxed);
        more == 0 || before + more <= ALL_BYTES
    }
}

impl Drop for UnfinishedHead {
    fn drop(&mut self) {
        UNFINISHED_BYTES.fetch_sub(self.counted, Ordering::Relaxed);
    }
}

impl HeadGuard {
    /// Follows the bytes that were read.
    fn follow(&mut self, bytes: &[u8], context: &mut Context<'_>) -> io::Result<()> {
        self.input.advance(bytes);
        let bytes = self.input.unfinished_head_bytes();
        if bytes == 0 {
            self.head = None;
            return Ok(());
        }
        let head = self.head.get_or_insert_with(UnfinishedHead::begin);
        let is_within = head.grow_to(bytes);
        if head.until.as_mut().poll(context).is_ready() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match is_within {
            true => Ok(()),
            false => Err(io::Error::other(
                "too many heads of requests are unfinished",
            )),
        }
    }
}

impl InputGuard for HeadGuard {
    fn check(&mut self, read: Poll<&[u8]>, context: &mut Context<'_>) -> io::Result<()> {
        let bytes = match read {
            Poll::Ready(bytes) => bytes,
            Poll::Pending => &[],
        };
        let followed = self.follow(bytes, context);
        if followed.is_err() {
            COUNTS.heads_closed.fetch_add(1, Ordering::Relaxed);
        }
        followed
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;
    use crate::frame_position::PREFACE;
    use crate::guarded::Guarded;

    /// The header of a HEADERS frame with `bytes` bytes, which does not end the head.
    fn headers(bytes: u16) -> Vec<u8> {
        let [high, low] = bytes.to_be_bytes();
        vec![0, high, low, 1, 0, 0, 0, 0, 1]
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_does_not_end_ends_its_connection() {
        let (mut client, server) = duplex(1 << 20);
        let mut server = Guarded::new(server, HeadGuard::default());
        client.write_all(PREFACE).await.expect("room");
        client.write_all(&headers(5)).await.expect("room");
        let begun = tokio::time::Instant::now();
        let mut read = Vec::new();
        let error = server.read_to_end(&mut read).await;
        assert_eq!(error.expect_err("late").kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed(), TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_ends_has_no_time_limit_behind_it() {
        let (mut client, server) = duplex(1 << 20);
        let mut server = Guarded::new(server, HeadGuard::default());
        client.write_all(PREFACE).await.expect("room");
        client.write_all(&headers(1)).await.expect("room");
        client.write_all(&[7]).await.expect("room");
        let mut buf = [0; 100];
        assert_eq!(server.read(&mut buf).await.expect("it waits"), 34);
        client
            .write_all(&[0, 0, 0, 9, 4, 0, 0, 0, 1])
            .await
            .expect("room");
        assert_eq!(server.read(&mut buf).await.expect("the rest"), 9);
        let silence = tokio::time::timeout(2 * TIMEOUT, server.read(&mut buf)).await;
        assert!(silence.is_err(), "the connection stays");
    }

    /// The only test that counts heads: the limit is the process's.
    #[tokio::test]
    async fn unfinished_heads_share_a_limit() {
        const FRAME: u16 = 16_384;
        let mut all = Vec::new();
        let mut closed = 0;
        for _ in 0..20 {
            let (mut client, server) = duplex(4 << 20);
            let mut server = Guarded::new(server, HeadGuard::default());
            client.write_all(PREFACE).await.expect("room");
            for _ in 0..4 {
                client.write_all(&headers(FRAME)).await.expect("room");
                client.write_all(&[0; FRAME as usize]).await.expect("room");
            }
            let mut left = PREFACE.len() + 4 * (9 + usize::from(FRAME));
            let mut buf = vec![0; 1 << 16];
            while left > 0 {
                match server.read(&mut buf).await {
                    Ok(count) => left -= count,
                    Err(_) => break,
                }
            }
            closed += usize::from(left > 0);
            all.push((client, server));
        }
        // Each head has 64 KiB, of which one is not counted.
        assert_eq!(closed, 4);
        assert!(UNFINISHED_BYTES.load(Ordering::Relaxed) > ALL_BYTES / 2);
        drop(all);
        assert_eq!(UNFINISHED_BYTES.load(Ordering::Relaxed), 0);
    }
}
