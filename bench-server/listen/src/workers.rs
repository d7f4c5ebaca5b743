//! Worker threads, each with a current-thread runtime; connections are assigned round-robin.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::{Either, ready};
use futures::stream;
use http::{Method, Request, Version};
use http_body::Frame;
use http_body_util::{Either as EitherBody, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use memory::in_flight::{self, ConnectionBytes};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::Handler;
use super::connections::{ConnectionPermit, PendingConnection};
use super::counts::{COUNTS, RUNTIMES};
use super::guarded::Guarded;
use super::handshake_log::HandshakeLog;
use super::head_guard::HeadGuard;
use super::limits::{LOCAL_ERROR_RESETS, Limits, PENDING_ACCEPT_RESETS, StreamExecutor};
use super::protocol_timeout::ProtocolTimeout;
use super::stalled::{StallGuard, streams_of_thread};
use super::time_limit::TimeLimited;
use super::tls;
use super::write_coalescing::coalescing;

/// Limit of HTTP/2's send buffer per stream, bytes: two of our frames, so that one is ready while
/// the other is written.
const SEND_BUFFER_BYTES: usize = 512 * 1024;

/// Receive window of a stream, bytes: what a message that waits for memory takes of its
/// connection's.
const STREAM_WINDOW_BYTES: u32 = 64 * 1024;

/// Receive window of a connection, bytes: what it holds of messages that wait for memory.
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;

/// Time that an HTTP/1.1 connection may wait for its next request: an apiserver's idle timeout.
/// hyper includes the time to read the request's headers.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// Time allowed for the TLS handshake, and then for the first bytes: an apiserver's timeout for the
/// headers of a request.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(32);

/// The TLS acceptor of a connection, and its peer.
pub(super) type Tls = (TlsAcceptor, SocketAddr);

/// A connection to be served by a worker.
struct Connection<H> {
    stream: std::net::TcpStream,
    tls: Option<Tls>,
    /// The connection counts until this is dropped.
    permit: ConnectionPermit,
    pending: PendingConnection,
    handler: H,
}

/// The threads that serve connections. Dropping it ends the threads and their connections.
#[derive(Debug)]
pub struct Workers<H> {
    queues: Vec<mpsc::UnboundedSender<Connection<H>>>,
    next: AtomicUsize,
    limits: Limits,
}

impl<H: Handler> Workers<H> {
    /// Starts `threads` workers (0: one per core); `coalesce` is whether small writes are
    /// coalesced.
    ///
    /// # Errors
    /// The operating system's error, if a thread or a runtime cannot be created.
    pub fn start(threads: usize, coalesce: bool, limits: Limits) -> std::io::Result<Self> {
        let threads = match threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        };
        let mut queues = Vec::with_capacity(threads);
        let config = WorkerConfig {
            coalesce,
            limits,
            streams_of_thread: limits.all_streams.div_ceil(threads),
        };
        let failed = Arc::new(HandshakeLog::default());
        for index in 0..threads {
            let (queue, connections) = mpsc::unbounded_channel();
            let failed = failed.clone();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            RUNTIMES.lock().push(runtime.handle().clone());
            std::thread::Builder::new()
                .name(format!("conn-{index}"))
                .spawn(move || {
                    runtime.block_on(serve_queue(connections, config, failed));
                    let ended = runtime.handle().id();
                    RUNTIMES.lock().retain(|of| of.id() != ended);
                })?;
            queues.push(queue);
        }
        Ok(Self {
            queues,
            next: AtomicUsize::new(0),
            limits,
        })
    }

    /// Assigns a connection to the next worker. `handler` serves it, after the handshake if there
    /// is a `tls` acceptor. The connection counts until `permit` is dropped.
    pub(super) fn dispatch(
        &self,
        stream: TcpStream,
        tls: Option<Tls>,
        permit: ConnectionPermit,
        handler: H,
    ) {
        // Nagle's algorithm would delay the last packet of every small response.
        if let Err(e) = stream.set_nodelay(true) {
            tracing::debug!("connection lost before it was served: {e}");
            return;
        }
        set_tcp_user_timeout(&stream, self.limits.tcp_user_timeout);
        let stream = match stream.into_std() {
            Ok(stream) => stream,
            Err(e) => {
                tracing::warn!("cannot pass a connection to a worker: {e}");
                return;
            }
        };
        let index = self.next.fetch_add(1, Ordering::Relaxed) % self.queues.len();
        let connection = Connection {
            stream,
            tls,
            permit,
            pending: PendingConnection::new(),
            handler,
        };
        if self.queues[index].send(connection).is_err() {
            tracing::error!("worker {index} has ended, connection dropped");
        }
    }
}

/// Makes the kernel close a connection whose peer acknowledges nothing, or keeps its window closed,
/// for this time.
fn set_tcp_user_timeout(stream: &TcpStream, timeout: Duration) {
    #[cfg(target_os = "linux")]
    if !timeout.is_zero() {
        let milliseconds = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        if let Err(e) = rustix::net::sockopt::set_tcp_user_timeout(stream, milliseconds) {
            tracing::debug!("cannot set TCP_USER_TIMEOUT: {e}");
        }
    }
    #[cfg(not(target_os = "linux"))]
    let (_, _) = (stream, timeout);
}

/// The configuration of a worker's connections.
#[derive(Debug, Clone, Copy)]
struct WorkerConfig {
    coalesce: bool,
    limits: Limits,
    /// Maximum number of open streams of one worker.
    streams_of_thread: usize,
}

/// Serves connections until the queue's sender is dropped.
async fn serve_queue<H: Handler>(
    mut queue: mpsc::UnboundedReceiver<Connection<H>>,
    config: WorkerConfig,
    failed: Arc<HandshakeLog>,
) {
    while let Some(connection) = queue.recv().await {
        tokio::spawn(serve(connection, config, failed.clone()));
    }
}

/// Serves one connection, after the TLS handshake if there is one.
async fn serve<H: Handler>(
    connection: Connection<H>,
    config: WorkerConfig,
    failed: Arc<HandshakeLog>,
) {
    let Connection {
        stream,
        tls,
        permit: _permit,
        mut pending,
        handler,
    } = connection;
    let stream = match TcpStream::from_std(stream) {
        Ok(stream) => stream,
        Err(e) => {
            tracing::warn!("cannot register a connection: {e}");
            return;
        }
    };
    let Some((acceptor, peer)) = tls else {
        return serve_connection(stream, config, pending, false, handler).await;
    };
    let handshake = timeout(HANDSHAKE_TIMEOUT, tls::accept(&acceptor, stream));
    let handshake = tokio::select! {
        shaken = handshake => shaken,
        () = pending.evicted() => return,
    };
    match handshake {
        // Coalesces above the TLS session, so that small writes become one record.
        Ok(Ok(stream)) => {
            let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            serve_connection(stream, config, pending, http2, handler).await;
        }
        Ok(Err(e)) => failed.log(peer, e),
        Err(_) => failed.log(peer, "timeout"),
    }
}

/// Serves one connection. `http2` is whether the client has chosen HTTP/2 in the TLS handshake;
/// HTTP/1.1 is then an error.
async fn serve_connection<H, S>(
    stream: S,
    config: WorkerConfig,
    pending: PendingConnection,
    http2: bool,
    handler: H,
) where
    H: Handler,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = config.limits;
    let service = service_fn(move |request: Request<Incoming>| {
        // hyper omits the body of a response to HEAD only over HTTP/1.1, and HTTP/2 clients reset a
        // stream that has one.
        let http2 = request.version() == Version::HTTP_2;
        let without_body = http2 && request.method() == Method::HEAD;
        let refusal = match streams_of_thread() > config.streams_of_thread {
            true => handler.refuse(&request),
            false => None,
        };
        let response = match refusal {
            Some(refusal) => {
                COUNTS.requests_refused.fetch_add(1, Ordering::Relaxed);
                Either::Left(ready(refusal))
            }
            // The task that polls it is moved and copied several times on its way, and a future
            // has all that any kind of request needs.
            None => Either::Right(Box::pin(handler.clone().handle(request))),
        };
        async move {
            let response = response.await;
            Ok::<_, Infallible>(match without_body {
                // A body of unknown length; otherwise hyper would declare that the response to a
                // GET is empty.
                true => response.map(|_| {
                    let nothing = stream::empty::<Result<Frame<H::Data>, Infallible>>();
                    EitherBody::Right(StreamBody::new(nothing))
                }),
                false => response.map(EitherBody::Left),
            })
        }
    });
    let bytes = Arc::new(ConnectionBytes::default());
    let builder = http_builder::<H>(limits, bytes.clone(), http2);
    let (stream, writer) = coalescing(stream, config.coalesce);
    let stream = Guarded::new(stream, ProtocolTimeout::within(HANDSHAKE_TIMEOUT, pending));
    let stream = TokioIo::new(Guarded::new(stream, HeadGuard::default()));
    let connection = builder.serve_connection(stream, service);
    // These limits apply to HTTP/1.1, where the connection's task sends the response.
    let ended = match H::TIME_LIMITS {
        true => {
            let connection =
                StallGuard::connection(limits.stalled_reader, TimeLimited::new(connection));
            let connection = in_flight::scope(bytes, connection);
            writer.run(connection).await.flatten()
        }
        false => {
            let connection = StallGuard::connection(limits.stalled_reader, connection);
            let connection = in_flight::scope(bytes, connection);
            writer.run(connection).await
        }
    };
    match ended {
        Some(Ok(())) => {}
        Some(Err(e)) => tracing::debug!("connection ended: {e}"),
        None => tracing::debug!("connection closed: the client did not read in time"),
    }
}

/// Returns a builder for a connection with its limits. `http2` selects HTTP/2 only; otherwise the
/// client chooses the protocol.
fn http_builder<H: Handler>(
    limits: Limits,
    bytes: Arc<ConnectionBytes>,
    http2: bool,
) -> auto::Builder<StreamExecutor> {
    let mut builder = auto::Builder::new(StreamExecutor {
        limited: H::TIME_LIMITS,
        stalled_reader: limits.stalled_reader,
        bytes,
    });
    if http2 {
        builder = builder.http2_only();
    }
    builder
        .http2()
        .timer(TokioTimer::new())
        .auto_date_header(H::DATE_HEADER)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .max_header_list_size(H::HEADER_LIST_BYTES)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(limits.max_streams)
        .max_pending_accept_reset_streams(Some(PENDING_ACCEPT_RESETS))
        .max_local_error_reset_streams(Some(LOCAL_ERROR_RESETS))
        .keep_alive_interval(Some(Duration::from_secs(2 * 60 * 60)));
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_TIMEOUT);
    builder
}

/// Serves one connection as a worker does.
#[cfg(any(test, feature = "test-support"))]
pub async fn serve_one<H, S>(stream: S, handler: H)
where
    H: Handler,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = Limits {
        stalled_reader: Duration::from_secs(90),
        ..Limits::trusting()
    };
    let config = WorkerConfig {
        coalesce: true,
        limits,
        streams_of_thread: usize::MAX,
    };
    serve_connection(stream, config, PendingConnection::new(), false, handler).await;
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

        fn refuse(&self, _: &Request<Incoming>) -> Option<Response<Self::Body>> {
            None
        }

        async fn handle(self, _: Request<Incoming>) -> Response<Self::Body> {
            Response::default()
        }
    }

    /// hyper has no timeout of its own while it detects the HTTP version.
    #[tokio::test(start_paused = true)]
    async fn a_peer_that_does_not_send_its_protocol_is_disconnected() {
        for word in [&b""[..], b"PRI * HT", b"G"] {
            let (mut near, far) = tokio::io::duplex(1024);
            let server = tokio::spawn(serve_one(far, Empty));
            near.write_all(word).await.unwrap();
            let served = timeout(2 * IDLE_TIMEOUT, server).await;
            assert!(served.is_ok(), "still served after {word:?} and silence");
        }
    }

    /// The timeout applies only to the first bytes: between requests a client may be silent.
    #[tokio::test(start_paused = true)]
    async fn a_peer_may_be_silent_after_its_first_bytes() {
        let (mut near, far) = tokio::io::duplex(64 * 1024);
        let server = tokio::spawn(serve_one(far, Empty));
        near.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
            .await
            .unwrap();
        let served = timeout(2 * IDLE_TIMEOUT, server).await;
        assert!(served.is_err(), "it is still served");
    }

    /// h2 responds to one PING or SETTINGS at a time and does not continue reading before that
    /// response is written; the coalescing buffer is bounded.
    #[tokio::test(start_paused = true)]
    async fn a_peer_that_floods_and_does_not_read_is_limited() {
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
            // Paused time advances only when all tasks wait: the server has stopped reading, or has
            // closed the connection.
            let _held_back = tokio::time::timeout(IDLE_TIMEOUT, flooding).await;
            assert!(taken < 1 << 20, "{taken} bytes were taken");
            server.abort();
        }
    }
}
