//! Accepts connections, for both tiers: listen URLs, TLS, and worker threads.
//!
//! Each worker is a current-thread runtime, and connections are assigned round-robin. Work stealing
//! between threads costs several microseconds per request, and a connection never needs to move.
//! HTTP/1.1 and HTTP/2 (prior knowledge or ALPN) share a port and are distinguished by their first
//! bytes.
//!
//! - [`workers`]: worker threads; [`connections`]: the limit of connections; [`limits`]: the limits
//!   of streams
//! - [`tls`], [`tls_reload`], [`handshake_log`]: TLS, with files that may change
//! - [`write_coalescing`], [`extra_slices`]: save system calls for many small or for large writes;
//!   [`frame_position`]: where a connection's frames begin
//! - [`protocol_timeout`], [`head_guard`] (by [`guarded`]), [`stalled`], [`time_limit`],
//!   [`mod@discard`]: handle silent, slow and failing clients
//! - [`tasks`]: background tasks of a tier; [`flags`] and [`url`]; [`counts`] and [`collector`]:
//!   metrics

mod collector;
mod connections;
mod counts;
mod discard;
mod extra_slices;
pub mod flags;
mod frame_position;
mod guarded;
mod handshake_log;
mod head_guard;
mod limits;
mod protocol_timeout;
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
pub use connections::{ConnectionClass, raise_descriptor_limit};
pub use discard::discard;
pub use extra_slices::{ExtraSlices, Slices};
pub use limits::response_bytes;
pub use limits::{Limits, MAX_STREAMS};
pub use time_limit::TimeLimit;
pub use tls::{ClientCertificates, TlsError, TlsFiles, TlsFlags};
pub use tls_reload::ServerTls;
pub use url::{ListenUrl, UrlError};
pub use workers::Workers;
#[cfg(any(test, feature = "test-support"))]
pub use workers::serve_one;

/// Serves the requests of a tier.
pub trait Handler: Clone + Send + 'static {
    /// The body's data.
    type Data: Buf + Send + 'static;
    /// The body.
    type Body: http_body::Body<Data = Self::Data, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + Send
        + 'static;

    /// Whether HTTP/2 responses have a `date` header.
    const DATE_HEADER: bool = true;

    /// Limit of a request's HTTP/2 header fields, counted as in RFC 9113, bytes. Go's servers
    /// accept a mebibyte, grpc-go more.
    const HEADER_LIST_BYTES: u32 = 1024 * 1024;

    /// Whether responses may have a time limit, which is checked at every poll of a connection.
    const TIME_LIMITS: bool = false;

    /// Returns the response to a request that exceeds the limit of streams; `None` to serve it
    /// nevertheless, as for health and metrics.
    fn refuse(&self, request: &Request<Incoming>) -> Option<Response<Self::Body>>;

    /// Serves one request with a clone of the handler. The future is dropped when the client
    /// disconnects.
    fn handle(
        self,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Self::Body>> + Send + 'static;
}

/// The error of setting up a listener.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The URL is not valid for listening.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// Certificates are missing or unreadable.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The address is in use or not local.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The requested address.
        address: String,
        /// The operating system's error.
        source: std::io::Error,
    },
}

/// A bound socket that does not accept yet.
#[derive(Debug)]
pub struct BoundListener {
    listener: TcpListener,
    tls: Option<Arc<ServerTls>>,
    /// URL with the actual port.
    pub url: String,
}

impl BoundListener {
    /// Binds `url`; `https://` needs certificates in `tls`.
    ///
    /// # Errors
    /// [`ListenError`] with the address and the reason.
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

    /// Binds any loopback port, without TLS.
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

    /// Accepts connections of this class forever and assigns them to `workers`, each with a clone
    /// of `handler`. Dropping the future stops accepting; connections continue until the workers
    /// are dropped.
    pub async fn accept<H: Handler>(
        self,
        workers: Arc<Workers<H>>,
        handler: H,
        class: ConnectionClass,
    ) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    // Dropping the connection closes it.
                    let Some(permit) = class.try_acquire() else {
                        continue;
                    };
                    // Not in a worker, where reading the files would delay other connections.
                    let acceptor = self.tls.as_ref().and_then(|tls| tls.acceptor());
                    let tls = acceptor.map(|acceptor| (acceptor, peer));
                    workers.dispatch(stream, tls, permit, handler.clone());
                }
                Err(e) => {
                    // Most likely the process is out of file descriptors: wait until some are
                    // closed.
                    tracing::warn!("accept on {} failed: {e}", self.url);
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                }
            }
        }
    }
}
