//! Worker threads: one current-thread runtime each, connections handed out in turn.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::Handler;
use super::first_bytes::FirstBytes;
use super::gather::gathered;
use super::handshakes::FailedHandshakes;
use super::time_limit::{Limited, Streams};
use super::tls;

/// Bytes that one stream may have waiting in HTTP/2's send buffer; two frames of ours, so that the
/// next is ready while one is written.
const SEND_BUFFER_BYTES: usize = 512 * 1024;

/// Window that clients may fill with request bytes, per stream and per connection. Requests are at
/// most 2 MiB by default, so a whole one fits.
const RECEIVE_WINDOW_BYTES: u32 = 4 * 1024 * 1024;

/// How long an HTTP/1.1 connection may wait for its next request: an apiserver's idle timeout. hyper counts
/// the wait and the reading of the request's head as one.
const IDLE: Duration = Duration::from_secs(90);

/// How long a client may take to shake hands, and after that to say which protocol it speaks: an apiserver's time
/// for the head of a request.
const FIRST_WORD: Duration = Duration::from_secs(32);

/// How to shake hands, and with whom.
type Tls = (TlsAcceptor, SocketAddr);

/// A connection on its way to a worker, with what answers it.
type Connection<H> = (std::net::TcpStream, Option<Tls>, H);

/// The threads that serve connections. Dropping it ends them and their connections.
#[derive(Debug)]
pub struct Workers<H> {
    queues: Vec<mpsc::UnboundedSender<Connection<H>>>,
    next: AtomicUsize,
}

impl<H: Handler> Workers<H> {
    /// Starts `threads` of them (0: one per core); `gather` says whether small writes are gathered.
    ///
    /// # Errors
    /// The system's, when a thread or a runtime cannot be made.
    pub fn start(threads: usize, gather: bool) -> std::io::Result<Self> {
        let threads = match threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        };
        let mut queues = Vec::with_capacity(threads);
        let failed = Arc::new(FailedHandshakes::default());
        for index in 0..threads {
            let (queue, connections) = mpsc::unbounded_channel();
            let failed = failed.clone();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            std::thread::Builder::new()
                .name(format!("conn-{index}"))
                .spawn(move || runtime.block_on(serve_queue(connections, gather, failed)))?;
            queues.push(queue);
        }
        Ok(Self {
            queues,
            next: AtomicUsize::new(0),
        })
    }

    /// Gives a connection to the next worker, to be answered by `handler`; `tls` is how to shake hands first, and with whom.
    pub fn hand_over(&self, stream: TcpStream, tls: Option<(TlsAcceptor, SocketAddr)>, handler: H) {
        // Nagle would hold back the last packet of every small response.
        if let Err(e) = stream.set_nodelay(true) {
            tracing::debug!("connection lost before it was served: {e}");
            return;
        }
        let stream = match stream.into_std() {
            Ok(stream) => stream,
            Err(e) => {
                tracing::warn!("cannot hand over a connection: {e}");
                return;
            }
        };
        let index = self.next.fetch_add(1, Ordering::Relaxed) % self.queues.len();
        if self.queues[index].send((stream, tls, handler)).is_err() {
            tracing::error!("worker {index} is gone, connection dropped");
        }
    }
}

/// Serves what arrives until the queue's sender is dropped.
async fn serve_queue<H: Handler>(
    mut queue: mpsc::UnboundedReceiver<Connection<H>>,
    gather: bool,
    failed: Arc<FailedHandshakes>,
) {
    while let Some((stream, tls, handler)) = queue.recv().await {
        let failed = failed.clone();
        tokio::spawn(async move {
            let stream = match TcpStream::from_std(stream) {
                Ok(stream) => stream,
                Err(e) => {
                    tracing::warn!("cannot register a connection: {e}");
                    return;
                }
            };
            match tls {
                None => serve_connection(stream, gather, handler).await,
                Some((acceptor, peer)) => {
                    match timeout(FIRST_WORD, tls::accept(&acceptor, stream)).await {
                        // Above the session, so that what is gathered becomes one record, and not each of its parts.
                        Ok(Ok(stream)) => serve_connection(stream, gather, handler).await,
                        Ok(Err(e)) => failed.tell(peer, e),
                        Err(_) => failed.tell(peer, "it took too long"),
                    }
                }
            }
        });
    }
}

async fn serve_connection<H, S>(stream: S, gather: bool, handler: H)
where
    H: Handler,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| {
        let answer = handler.clone().handle(request);
        async move { Ok::<_, std::convert::Infallible>(answer.await) }
    });
    let mut builder = auto::Builder::new(Streams {
        limited: H::TIME_LIMITS,
    });
    builder
        .http2()
        .timer(TokioTimer::new())
        .auto_date_header(H::DATE_HEADER)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .max_header_list_size(H::HEADER_LIST_BYTES)
        .initial_stream_window_size(RECEIVE_WINDOW_BYTES)
        .initial_connection_window_size(RECEIVE_WINDOW_BYTES)
        // Go's client multiplexes everything over one connection, so no small cap.
        .max_concurrent_streams(u32::MAX)
        // A load generator cancels thousands of streams to time first chunks; the default of 20
        // would close its connection.
        .max_pending_accept_reset_streams(Some(65_536))
        .keep_alive_interval(Some(Duration::from_secs(2 * 60 * 60)));
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE);
    let (stream, outlet) = gathered(stream, gather);
    let stream = TokioIo::new(FirstBytes::within(FIRST_WORD, stream));
    let connection = builder.serve_connection(stream, service);
    let ended = match H::TIME_LIMITS {
        true => outlet.after_each_turn(Limited::new(connection)).await,
        false => Some(outlet.after_each_turn(connection).await),
    };
    match ended {
        Some(Ok(())) => {}
        Some(Err(e)) => tracing::debug!("connection ended: {e}"),
        None => tracing::debug!("connection closed: its client did not read in time"),
    }
}

/// Serves one connection as a worker does.
#[cfg(test)]
pub(crate) async fn serve_one<H, S>(stream: S, handler: H)
where
    H: Handler,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    serve_connection(stream, true, handler).await;
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::Full;
    use hyper::body::Incoming;
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[derive(Clone)]
    struct Empty;

    impl Handler for Empty {
        type Data = Bytes;
        type Body = Full<Bytes>;

        async fn handle(self, _: Request<Incoming>) -> Response<Self::Body> {
            Response::default()
        }
    }

    /// Where hyper decides between the versions of HTTP it once waited for ever.
    #[tokio::test(start_paused = true)]
    async fn a_peer_that_does_not_say_what_it_speaks_is_let_go() {
        for word in [&b""[..], b"PRI * HT", b"G"] {
            let (mut near, far) = tokio::io::duplex(1024);
            let server = tokio::spawn(serve_one(far, Empty));
            near.write_all(word).await.unwrap();
            let served = timeout(2 * IDLE, server).await;
            assert!(served.is_ok(), "still served after {word:?} and silence");
        }
    }

    /// Only the first word is waited for: between its requests a client may be silent.
    #[tokio::test(start_paused = true)]
    async fn a_peer_that_has_said_it_may_be_silent() {
        let (mut near, far) = tokio::io::duplex(64 * 1024);
        let server = tokio::spawn(serve_one(far, Empty));
        near.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
            .await
            .unwrap();
        let served = timeout(2 * IDLE, server).await;
        assert!(served.is_err(), "it is still served");
    }

    /// h2 answers one PING or SETTINGS at a time and reads no further before it is written; what is gathered is bounded.
    #[tokio::test(start_paused = true)]
    async fn a_peer_that_floods_and_does_not_read_is_held_back() {
        let ping: &[u8] = &[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        let settings: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
        for flood in [ping, settings] {
            let (mut near, far) = tokio::io::duplex(64 * 1024);
            let server = tokio::spawn(serve_one(far, Empty));
            near.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
                .await
                .unwrap();
            near.write_all(settings).await.unwrap();
            let many = flood.repeat(1_000);
            let mut taken = 0;
            let flooding = async {
                while let Ok(count) = near.write(&many).await {
                    taken += count;
                }
            };
            // Time only passes while nobody can do anything: it takes no more, or it has left.
            let _held_back = tokio::time::timeout(IDLE, flooding).await;
            assert!(taken < 1 << 20, "{taken} bytes were taken");
            server.abort();
        }
    }
}
