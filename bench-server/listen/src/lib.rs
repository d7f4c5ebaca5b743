//! Accepting connections, for both tiers: listen URLs, TLS, and worker threads.
//!
//! Each worker is a current-thread runtime of its own and connections are handed out in turn:
//! work stealing between threads costs several microseconds a request, and a connection never
//! needs to move. HTTP/1.1 and HTTP/2 (prior knowledge or ALPN) are told apart by their first
//! bytes, on one port.

mod collector;
mod connections;
mod counts;
mod data_frames;
mod discard;
pub mod flags;
mod handshake_log;
mod limits;
mod protocol_timeout;
mod rope;
mod stalled;
pub mod tasks;
mod time_limit;
mod tls;
mod tls_reload;
mod url;
mod workers;
mod write_coalescing;

use std::sync::Arc;

use bytes::Buf;
use http::{Request, Response};
use hyper::body::Incoming;
use tokio::net::TcpListener;

pub use collector::LimitCollector;
pub use connections::{Door, raise_descriptor_limit};
pub use discard::discard;
pub use limits::response_bytes;
pub use limits::{Limits, MAX_STREAMS};
pub use rope::{NotShown, Slices};
pub use time_limit::TimeLimit;
pub use tls::{ClientCertificates, TlsError, TlsFiles, TlsFlags};
pub use tls_reload::ServerTls;
pub use url::{ListenUrl, UrlError};
pub use workers::Workers;
#[cfg(any(test, feature = "test-support"))]
pub use workers::serve_one;

/// What a tier serves: a request in, a response with a body of our own out.
pub trait Handler: Clone + Send + 'static {
    /// The body's data.
    type Data: Buf + Send + 'static;
    /// The body.
    type Body: http_body::Body<Data = Self::Data, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + Send
        + 'static;

    /// Whether HTTP/2 answers carry `date`.
    const DATE_HEADER: bool = true;

    /// Bytes of a request's HTTP/2 header fields, by RFC 9113's count. Go's servers take a mebibyte; grpc-go's more.
    const HEADER_LIST_BYTES: u32 = 1024 * 1024;

    /// Whether answers may have a time limit, which costs every turn of a connection a look at it.
    const TIME_LIMITS: bool = false;

    /// The response to a request for which there is no room; `None` where it is served all the same: health and metrics.
    fn refuse(&self, request: &Request<Incoming>) -> Option<Response<Self::Body>>;

    /// Answers one request with a clone of the handler; dropped when the client goes away.
    fn handle(
        self,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Self::Body>> + Send + 'static;
}

/// Why a listener could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The URL is not one that can be listened on.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// Certificates are missing or unreadable.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The address is taken or not ours.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address asked for.
        address: String,
        /// The system's reason.
        source: std::io::Error,
    },
}

/// A bound socket that does not accept yet.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    tls: Option<Arc<ServerTls>>,
    /// URL with the real port, as clients reach it.
    pub url: String,
}

impl Bound {
    /// Binds `url`; `https://` needs certificates in `tls`.
    ///
    /// # Errors
    /// [`ListenError`], with the address and the reason.
    pub async fn bind(url: &str, tls: &Arc<ServerTls>) -> Result<Self, ListenError> {
        let url: ListenUrl = url.parse()?;
        let tls = match url.tls {
            true => {
                tls.load()?;
                Some(tls.clone())
            }
            false => None,
        };
        Self::at(&url, tls).await
    }

    /// Binds any port of this machine's own address, without TLS.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub async fn loopback() -> Result<Self, ListenError> {
        Self::at(&"http://127.0.0.1:0".parse()?, None).await
    }

    async fn at(url: &ListenUrl, tls: Option<Arc<ServerTls>>) -> Result<Self, ListenError> {
        let bind_error = |source| ListenError::Bind {
            address: url.authority(),
            source,
        };
        let listener = TcpListener::bind((url.host.as_str(), url.port))
            .await
            .map_err(bind_error)?;
        let port = listener.local_addr().map_err(bind_error)?.port();
        Ok(Self {
            listener,
            tls,
            url: url.with_port(port),
        })
    }

    /// Accepts for ever whom `door` lets in, handing connections to `workers` in turn, each with a clone of `handler`.
    /// Dropping the future stops accepting; connections go on until the workers are dropped.
    pub async fn accept<H: Handler>(self, workers: Arc<Workers<H>>, handler: H, door: Door) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    // Dropping the connection closes it.
                    let Some(seat) = door.enter() else {
                        continue;
                    };
                    // Here and not in a worker: reading the files would hold up its other connections.
                    let acceptor = self.tls.as_ref().and_then(|tls| tls.acceptor());
                    let tls = acceptor.map(|acceptor| (acceptor, peer));
                    workers.hand_over(stream, tls, seat, handler.clone());
                }
                Err(e) => {
                    // Out of file descriptors, most likely: give others time to close some.
                    tracing::warn!("accept on {} failed: {e}", self.url);
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                }
            }
        }
    }
}
