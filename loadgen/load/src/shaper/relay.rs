//! One direction of one connection: passes bytes on when the emulated network would have delivered
//! them.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, sleep_until};

/// How many bytes are read and passed on at once.
const CHUNK_BYTES: usize = 16 << 10;

/// A limit of bytes per second, which several directions may share.
#[derive(Debug)]
pub(super) struct RateLimit {
    bytes_per_s: u64,
    /// When all bytes taken so far have passed.
    free_at: Mutex<Option<Instant>>,
}

impl RateLimit {
    /// Returns a limit of which nothing has been taken.
    pub(super) fn new(bytes_per_s: u64) -> Self {
        Self {
            bytes_per_s: bytes_per_s.max(1),
            free_at: Mutex::new(None),
        }
    }

    /// Takes `bytes` that arrive at `at`. Returns when the last of them passes.
    fn take(&self, bytes: usize, at: Instant) -> Instant {
        let time = Duration::from_secs_f64(bytes as f64 / self.bytes_per_s as f64);
        let mut free_at = self.free_at.lock();
        let begins = free_at.map_or(at, |free| free.max(at));
        *free_at.insert(begins + time)
    }
}

/// The properties of a direction.
#[derive(Debug)]
pub(super) struct Way {
    /// The time in flight of a byte.
    pub(super) delay: Duration,
    /// The rate limits, in the order in which bytes pass them.
    pub(super) limits: Vec<Arc<RateLimit>>,
    /// The number of bytes that may wait.
    pub(super) buffer_bytes: usize,
}

impl Way {
    /// Returns when bytes that arrive now are to be passed on.
    fn due(&self, bytes: usize) -> Instant {
        let paced = self
            .limits
            .iter()
            .fold(Instant::now(), |at, limit| limit.take(bytes, at));
        paced + self.delay
    }
}

/// Passes bytes on until `from` ends, and then shuts `to` down.
///
/// # Errors
/// The error of either side.
pub(super) async fn relay(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    way: Way,
) -> io::Result<()> {
    let mut waiting: VecDeque<(Instant, Bytes)> = VecDeque::new();
    let mut waiting_bytes = 0;
    let mut has_ended = false;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let next = waiting.front().map(|(due, _)| *due);
        if has_ended && next.is_none() {
            return to.shutdown().await;
        }
        tokio::select! {
            read = from.read(&mut chunk), if !has_ended && waiting_bytes < way.buffer_bytes => {
                match read? {
                    0 => has_ended = true,
                    count => {
                        let bytes = Bytes::copy_from_slice(&chunk[..count]);
                        waiting.push_back((way.due(count), bytes));
                        waiting_bytes += count;
                    }
                }
            }
            () = due(next), if next.is_some() => {
                // All bytes that are due are passed on at once, however late: the schedule does not
                // wait.
                let now = Instant::now();
                while let Some((_, bytes)) = waiting.pop_front_if(|(due, _)| *due <= now) {
                    to.write_all(&bytes).await?;
                    waiting_bytes -= bytes.len();
                }
            }
        }
    }
}

async fn due(at: Option<Instant>) {
    if let Some(at) = at {
        sleep_until(at).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{DuplexStream, duplex, split};

    fn way(delay_ms: u64, rates: &[u64], buffer_bytes: usize) -> Way {
        let limits = rates.iter().map(|rate| Arc::new(RateLimit::new(*rate)));
        Way {
            delay: Duration::from_millis(delay_ms),
            limits: limits.collect(),
            buffer_bytes,
        }
    }

    /// Returns the two ends of a direction that is relayed.
    fn relayed(way: Way) -> (DuplexStream, DuplexStream) {
        let (near, from) = duplex(1 << 20);
        let (to, far) = duplex(1 << 20);
        tokio::spawn(async move {
            let (from, _) = split(from);
            relay(from, to, way).await.expect("both ends are there");
        });
        (near, far)
    }

    #[tokio::test(start_paused = true)]
    async fn a_byte_is_on_its_way_for_the_delay() {
        let (mut near, mut far) = relayed(way(25, &[], 1 << 20));
        let begun = Instant::now();
        near.write_all(b"ping").await.expect("room");
        let mut got = [0; 4];
        far.read_exact(&mut got).await.expect("four bytes");
        assert_eq!(begun.elapsed().as_millis(), 25);
        // Bytes that follow at once do not wait for one another.
        tokio::time::advance(Duration::from_millis(100)).await;
        let begun = Instant::now();
        for _ in 0..10 {
            near.write_all(b"ping").await.expect("room");
        }
        let mut got = [0; 40];
        far.read_exact(&mut got).await.expect("forty bytes");
        assert!(
            begun.elapsed() <= Duration::from_millis(26),
            "{:?}",
            begun.elapsed()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_pass_at_the_slower_of_two_rates() {
        let (mut near, mut far) = relayed(way(10, &[1_000_000, 100_000], 1 << 20));
        let begun = Instant::now();
        near.write_all(&vec![7; 200_000]).await.expect("room");
        let mut got = vec![0; 200_000];
        far.read_exact(&mut got).await.expect("all of them");
        let took = begun.elapsed().as_secs_f64();
        assert!((2.0..2.05).contains(&took), "{took}");
    }

    #[tokio::test(start_paused = true)]
    async fn directions_that_share_a_rate_take_turns() {
        let limit = Arc::new(RateLimit::new(100_000));
        let now = Instant::now();
        let through = |at| (limit.take(50_000, at) - now).as_secs_f64();
        assert!((through(now) - 0.5).abs() < 1e-6);
        assert!((through(now) - 1.0).abs() < 1e-6);
        // Unused capacity does not accumulate.
        assert!((through(now + Duration::from_secs(5)) - 5.5).abs() < 1e-6);
    }

    #[tokio::test(start_paused = true)]
    async fn a_relay_that_is_full_reads_no_more() {
        let (mut near, _far) = relayed(way(0, &[1_000], 20_000));
        // In addition to what the test's own pipes hold.
        let more = vec![0; (1 << 20) + 100_000];
        let written = tokio::time::timeout(Duration::from_secs(1), near.write_all(&more));
        assert!(written.await.is_err(), "somebody has read all of it");
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_comes_after_the_last_byte() {
        let (mut near, mut far) = relayed(way(25, &[], 1 << 20));
        let begun = Instant::now();
        near.write_all(b"bye").await.expect("room");
        drop(near);
        let mut all = Vec::new();
        far.read_to_end(&mut all).await.expect("until it ends");
        assert_eq!(all, b"bye");
        assert!(begun.elapsed() >= Duration::from_millis(25));
    }
}
