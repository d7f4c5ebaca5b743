//! Worker threads: one current-thread runtime each, connections handed out in turn.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::{Either, ready};
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
use super::connections::{Newcomer, Seat};
use super::counts::COUNTS;
use super::handshake_log::FailedHandshakes;
use super::limits::{LOCAL_ERROR_RESETS, Limits, PENDING_ACCEPT_RESETS, Streams};
use super::protocol_timeout::FirstBytes;
use super::stalled::{Unstalled, streams_of_thread};
use super::time_limit::Limited;
use super::tls;
use super::write_coalescing::gathered;

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
type Connection<H> = (std::net::TcpStream, Option<Tls>, Seat, Newcomer, H);

/// The threads that serve connections. Dropping it ends them and their connections.
#[derive(Debug)]
pub struct Workers<H> {
    queues: Vec<mpsc::UnboundedSender<Connection<H>>>,
    next: AtomicUsize,
    limits: Limits,
}

impl<H: Handler> Workers<H> {
    /// Starts `threads` of them (0: one per core); `gather` says whether small writes are gathered.
    ///
    /// # Errors
    /// The system's, when a thread or a runtime cannot be made.
    pub fn start(threads: usize, gather: bool, limits: Limits) -> std::io::Result<Self> {
        let threads = match threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        };
        let mut queues = Vec::with_capacity(threads);
        let serving = Serving {
            gather,
            limits,
            streams_of_thread: limits.all_streams.div_ceil(threads),
        };
        let failed = Arc::new(FailedHandshakes::default());
        for index in 0..threads {
            let (queue, connections) = mpsc::unbounded_channel();
            let failed = failed.clone();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            std::thread::Builder::new()
                .name(format!("conn-{index}"))
                .spawn(move || runtime.block_on(serve_queue(connections, serving, failed)))?;
            queues.push(queue);
        }
        Ok(Self {
            queues,
            next: AtomicUsize::new(0),
            limits,
        })
    }

    /// Gives a connection to the next worker, to be answered by `handler`; `tls` is how to shake hands first, and with whom.
    /// It counts until `seat` is dropped.
    pub(super) fn hand_over(
        &self,
        stream: TcpStream,
        tls: Option<(TlsAcceptor, SocketAddr)>,
        seat: Seat,
        handler: H,
    ) {
        // Nagle would hold back the last packet of every small response.
        if let Err(e) = stream.set_nodelay(true) {
            tracing::debug!("connection lost before it was served: {e}");
            return;
        }
        let_go_of_the_dead(&stream, self.limits.tcp_user_timeout);
        let stream = match stream.into_std() {
            Ok(stream) => stream,
            Err(e) => {
                tracing::warn!("cannot hand over a connection: {e}");
                return;
            }
        };
        let index = self.next.fetch_add(1, Ordering::Relaxed) % self.queues.len();
        let connection = (stream, tls, seat, Newcomer::new(), handler);
        if self.queues[index].send(connection).is_err() {
            tracing::error!("worker {index} is gone, connection dropped");
        }
    }
}

/// Has the kernel close a connection whose peer acknowledges nothing for so long, or keeps its window shut.
fn let_go_of_the_dead(stream: &TcpStream, timeout: Duration) {
    #[cfg(target_os = "linux")]
    if !timeout.is_zero() {
        let milliseconds = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        if let Err(e) = rustix::net::sockopt::set_tcp_user_timeout(stream, milliseconds) {
            tracing::debug!("TCP_USER_TIMEOUT is not set: {e}");
        }
    }
    #[cfg(not(target_os = "linux"))]
    let (_, _) = (stream, timeout);
}

/// How a worker serves its connections.
#[derive(Debug, Clone, Copy)]
struct Serving {
    gather: bool,
    limits: Limits,
    /// Streams that may be under way in one worker.
    streams_of_thread: usize,
}

/// Serves what arrives until the queue's sender is dropped.
async fn serve_queue<H: Handler>(
    mut queue: mpsc::UnboundedReceiver<Connection<H>>,
    serving: Serving,
    failed: Arc<FailedHandshakes>,
) {
    while let Some((stream, tls, seat, mut newcomer, handler)) = queue.recv().await {
        let failed = failed.clone();
        tokio::spawn(async move {
            let _seat = seat;
            let stream = match TcpStream::from_std(stream) {
                Ok(stream) => stream,
                Err(e) => {
                    tracing::warn!("cannot register a connection: {e}");
                    return;
                }
            };
            match tls {
                None => serve_connection(stream, serving, newcomer, false, handler).await,
                Some((acceptor, peer)) => {
                    let handshake = timeout(FIRST_WORD, tls::accept(&acceptor, stream));
                    let handshake = tokio::select! {
                        shaken = handshake => shaken,
                        () = newcomer.dismissed() => return,
                    };
                    match handshake {
                        // Above the session, so that what is gathered becomes one record, and not each of its parts.
                        Ok(Ok(stream)) => {
                            let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                            serve_connection(stream, serving, newcomer, http2, handler).await;
                        }
                        Ok(Err(e)) => failed.tell(peer, e),
                        Err(_) => failed.tell(peer, "it took too long"),
                    }
                }
            }
        });
    }
}

/// `http2`: the client has chosen HTTP/2 in the TLS handshake, so that HTTP/1.1 is an error.
async fn serve_connection<H, S>(
    stream: S,
    serving: Serving,
    newcomer: Newcomer,
    http2: bool,
    handler: H,
) where
    H: Handler,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = serving.limits;
    let service = service_fn(move |request| {
        let refusal = match streams_of_thread() > serving.streams_of_thread {
            true => handler.refuse(&request),
            false => None,
        };
        let response = match refusal {
            Some(refusal) => {
                COUNTS.requests_refused.fetch_add(1, Ordering::Relaxed);
                Either::Left(ready(refusal))
            }
            None => Either::Right(handler.clone().handle(request)),
        };
        async move { Ok::<_, std::convert::Infallible>(response.await) }
    });
    let bytes = Arc::new(ConnectionBytes::default());
    let mut builder = auto::Builder::new(Streams {
        limited: H::TIME_LIMITS,
        stalled_reader: limits.stalled_reader,
        bytes: bytes.clone(),
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
        .initial_stream_window_size(RECEIVE_WINDOW_BYTES)
        .initial_connection_window_size(RECEIVE_WINDOW_BYTES)
        .max_concurrent_streams(limits.max_streams)
        .max_pending_accept_reset_streams(Some(PENDING_ACCEPT_RESETS))
        .max_local_error_reset_streams(Some(LOCAL_ERROR_RESETS))
        .keep_alive_interval(Some(Duration::from_secs(2 * 60 * 60)));
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE);
    let (stream, outlet) = gathered(stream, serving.gather);
    let stream = TokioIo::new(FirstBytes::within(FIRST_WORD, newcomer, stream));
    let connection = builder.serve_connection(stream, service);
    // Of HTTP/1.1, where the connection's task is what sends.
    let ended = match H::TIME_LIMITS {
        true => {
            let connection = Unstalled::connection(limits.stalled_reader, Limited::new(connection));
            let connection = in_flight::scope(bytes, connection);
            outlet.after_each_turn(connection).await.flatten()
        }
        false => {
            let connection = Unstalled::connection(limits.stalled_reader, connection);
            let connection = in_flight::scope(bytes, connection);
            outlet.after_each_turn(connection).await
        }
    };
    match ended {
        Some(Ok(())) => {}
        Some(Err(e)) => tracing::debug!("connection ended: {e}"),
        None => tracing::debug!("connection closed: its client did not read in time"),
    }
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
    let serving = Serving {
        gather: true,
        limits,
        streams_of_thread: usize::MAX,
    };
    serve_connection(stream, serving, Newcomer::new(), false, handler).await;
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
