//! Tests of coalescing over sockets in memory, and over a simulated TLS session.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

/// A socket that counts its writes.
struct Counting {
    inner: tokio::io::DuplexStream,
    writes: Arc<Mutex<Vec<usize>>>,
}

impl AsyncWrite for Counting {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write(cx, buf);
        if let Poll::Ready(Ok(count)) = result {
            self.writes.lock().push(count);
        }
        result
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

impl AsyncRead for Counting {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

type Writes = Arc<Mutex<Vec<usize>>>;

/// Returns the socket and the writer over a socket that counts writes, its other end, and the
/// counts.
fn counted(
    room: usize,
) -> (
    CoalescingSocket<Counting>,
    CoalescedWriter<Counting>,
    tokio::io::DuplexStream,
    Writes,
) {
    let (near, far) = tokio::io::duplex(room);
    let writes = Writes::default();
    let socket = Counting {
        inner: near,
        writes: writes.clone(),
    };
    let (near, writer) = coalescing(socket, true);
    (near, writer, far, writes)
}

#[tokio::test]
async fn small_writes_of_one_poll_are_one_write_before_any_other_task_runs() {
    let (mut near, writer, mut far, writes) = counted(1 << 20);
    let turns = writer.run(async move {
        for i in 0..100u8 {
            near.write_all(&[i; 10]).await.unwrap();
            near.flush().await.unwrap();
        }
        std::future::pending::<()>().await;
    });
    let mut turns = std::pin::pin!(turns);
    assert!(futures::poll!(&mut turns).is_pending());
    assert_eq!(*writes.lock(), [1000]);
    let mut seen = vec![0; 1000];
    far.read_exact(&mut seen).await.unwrap();
    assert!((0..100).all(|i| seen[i * 10] == i as u8), "order is kept");
}

/// Ten responses of 1 KiB in each poll must not allocate a buffer each time.
#[tokio::test]
async fn connections_of_a_thread_share_one_grown_buffer() {
    let (mut first, first_outlet, _far, _) = counted(1 << 20);
    let (mut second, second_outlet, _other, _) = counted(1 << 20);
    let states = [first_outlet.shared.clone(), second_outlet.shared.clone()];
    for turn in 0..3 {
        for (near, state) in [&mut first, &mut second].into_iter().zip(&states) {
            near.write_all(&[0; 1024]).await.unwrap();
            let is_grown = state.lock().waiting.capacity() >= 20 * 1024;
            assert!(is_grown || turn == 0, "it was grown in a turn before");
            for _ in 1..20 {
                near.write_all(&[0; 1024]).await.unwrap();
            }
            poll_fn(|cx| state.lock().poll_drain(cx)).await.unwrap();
            assert_eq!(state.lock().waiting.capacity(), 0, "nothing at rest");
        }
    }
}

#[tokio::test]
async fn large_writes_are_direct_but_never_overtake() {
    let (mut near, writer, mut far, writes) = counted(1 << 20);
    writer
        .run(async move {
            near.write_all(&[1; 10]).await.unwrap();
            near.write_all(&vec![2; DIRECT_WRITE_BYTES]).await.unwrap();
            near.write_all(&[3; 10]).await.unwrap();
        })
        .await;
    let mut seen = Vec::new();
    far.read_to_end(&mut seen).await.unwrap();
    assert_eq!(*writes.lock(), [10, DIRECT_WRITE_BYTES, 10]);
    assert_eq!((seen[9], seen[10], seen[seen.len() - 1]), (1, 2, 3));
}

#[tokio::test]
async fn a_reader_that_stops_blocks_the_writer() {
    let (mut near, writer, mut far, _) = counted(1024);
    let writing = tokio::spawn(writer.run(async move {
        for _ in 0..100 {
            near.write_all(&[7; 16 * 1024]).await.unwrap();
        }
        near.shutdown().await.unwrap();
    }));
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!writing.is_finished(), "1.6 MB do not fit into the buffer");
    let mut seen = Vec::new();
    far.read_to_end(&mut seen).await.unwrap();
    assert_eq!(seen.len(), 100 * 16 * 1024);
    writing.await.unwrap();
}

#[tokio::test]
async fn a_broken_socket_fails_the_next_write() {
    let (mut near, writer, far, _) = counted(1024);
    drop(far);
    let told = writer.run(async move {
        near.write_all(b"lost").await.unwrap();
        tokio::task::yield_now().await;
        near.write_all(b"told").await
    });
    assert!(told.await.is_err());
}

#[tokio::test(start_paused = true)]
async fn unread_bytes_are_dropped_after_the_linger_timeout() {
    let (mut near, writer, _far, _) = counted(1024);
    let held = Arc::new(());
    let holds = held.clone();
    let turns = writer.run(async move {
        near.write_all(&[7; 16 * 1024]).await.unwrap();
        drop(holds);
    });
    let mut turns = std::pin::pin!(turns);
    let began = tokio::time::Instant::now();
    assert!(futures::poll!(&mut turns).is_pending());
    assert_eq!(Arc::strong_count(&held), 1, "the connection is gone");
    turns.await;
    assert_eq!(began.elapsed(), LINGER_TIMEOUT);
}

/// A session that buffers writes until flushed, as TLS does with bytes that the socket does not
/// accept.
struct Session {
    inner: tokio::io::DuplexStream,
    held: Vec<u8>,
}

/// Capacity of the session's buffer.
const SESSION_BYTES: usize = 64 * 1024;

impl Session {
    fn poll_release(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.held.is_empty() {
            let count = match Pin::new(&mut self.inner).poll_write(cx, &self.held) {
                Poll::Ready(written) => written?,
                Poll::Pending => return Poll::Pending,
            };
            self.held.drain(..count);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Session {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.held.len() >= SESSION_BYTES && self.poll_release(cx)?.is_pending() {
            return Poll::Pending;
        }
        let count = buf.len().min(SESSION_BYTES);
        self.held.extend_from_slice(&buf[..count]);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_release(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.poll_release(cx)?.is_pending() {
            return Poll::Pending;
        }
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

impl AsyncRead for Session {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

fn over_a_session(
    room: usize,
) -> (
    CoalescingSocket<Session>,
    CoalescedWriter<Session>,
    tokio::io::DuplexStream,
) {
    let (inner, far) = tokio::io::duplex(room);
    let held = Vec::new();
    let (near, writer) = coalescing(Session { inner, held }, true);
    (near, writer, far)
}

// Time is paused, so that a hanging test fails at once.

#[tokio::test(start_paused = true)]
async fn a_session_is_flushed() {
    let (mut near, writer, mut far) = over_a_session(1 << 20);
    tokio::spawn(writer.run(async move {
        near.write_all(b"small").await.unwrap();
        near.flush().await.unwrap();
        tokio::task::yield_now().await;
        near.write_all(&vec![7; DIRECT_WRITE_BYTES]).await.unwrap();
        near.flush().await.unwrap();
        std::future::pending::<()>().await;
    }));
    let mut seen = vec![0; 5 + DIRECT_WRITE_BYTES];
    let read = far.read_exact(&mut seen);
    tokio::time::timeout(LINGER_TIMEOUT, read)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(&seen[..5], b"small");
}

#[tokio::test(start_paused = true)]
async fn a_full_socket_wakes_the_task() {
    // Sizes around the limits of the session, of direct writes and of the buffer.
    const SIZES: [usize; 6] = [10, 20_000, DIRECT_WRITE_BYTES, 9, 100_000, MAX_BYTES];
    let (mut near, writer, mut far) = over_a_session(3_000);
    let writing = tokio::spawn(writer.run(async move {
        for (i, size) in SIZES.iter().cycle().take(60).enumerate() {
            near.write_all(&vec![i as u8; *size]).await.unwrap();
            if i % 4 != 3 {
                near.flush().await.unwrap();
            }
            if i % 5 == 4 {
                tokio::task::yield_now().await;
            }
        }
        near.shutdown().await.unwrap();
    }));
    let mut seen = Vec::new();
    let read = far.read_to_end(&mut seen);
    tokio::time::timeout(LINGER_TIMEOUT, read)
        .await
        .unwrap()
        .unwrap();
    writing.await.unwrap();
    let mut rest = &seen[..];
    for (i, size) in SIZES.iter().cycle().take(60).enumerate() {
        let (write, after) = rest.split_at(*size);
        assert!(write.iter().all(|byte| *byte == i as u8), "write {i}");
        rest = after;
    }
    assert!(rest.is_empty());
}
