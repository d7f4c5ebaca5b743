//! Connects sockets to an etcd (TCP, or TLS with ALPN `h2`) for connections that do not use tonic.

use futures::future::BoxFuture;
use http::Uri;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::config::{CLIENT_PORT, ClientConfig, chain, host_port, is_tls, no_response};
use crate::error::Error;

/// Size of the read buffer below a TLS session, bytes: eight full records. Without it, the session
/// reads 4 KiB at a time, which takes five system calls per record.
const TLS_READ_BYTES: usize = 128 * 1024;

/// A connected socket, plain or TLS.
pub(super) type Socket = Box<dyn ReadWrite>;

/// The capabilities of a [`Socket`].
pub(super) trait ReadWrite: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> ReadWrite for S {}

/// The reason why a connection attempt failed: configuration (no endpoint can succeed) or network.
pub(super) enum Failed {
    Config(Error),
    Network(String),
}

impl Failed {
    pub(super) fn network(error: &dyn std::error::Error) -> Self {
        Self::Network(chain(error))
    }
}

/// Connects to the first endpoint that accepts, and runs `handshake` on the socket. Returns the
/// result of `handshake` and the endpoint.
///
/// # Errors
/// [`Error::Unreachable`] for the endpoint tried last, [`Error::Config`] for unusable TLS files.
pub(super) async fn first<T>(
    config: &ClientConfig,
    handshake: impl Fn(Socket) -> BoxFuture<'static, Result<T, Failed>>,
) -> Result<(T, Uri), Error> {
    let mut last = Error::Config("no endpoint given".into());
    for endpoint in &config.endpoints {
        let attempt = async { handshake(socket(config, endpoint).await?).await };
        let reason = match tokio::time::timeout(config.connect_timeout, attempt).await {
            Ok(Ok(connection)) => return Ok((connection, endpoint.clone())),
            Ok(Err(Failed::Config(error))) => return Err(error),
            Ok(Err(Failed::Network(reason))) => reason,
            Err(_) => no_response(config.connect_timeout),
        };
        last = Error::Unreachable {
            endpoint: endpoint.to_string(),
            reason,
        };
    }
    Err(last)
}

async fn socket(config: &ClientConfig, endpoint: &Uri) -> Result<Socket, Failed> {
    let network = |e: std::io::Error| Failed::network(&e);
    let (host, port) = host_port(endpoint, CLIENT_PORT);
    let tcp = TcpStream::connect((host.as_str(), port))
        .await
        .map_err(network)?;
    tcp.set_nodelay(true).map_err(network)?;
    if !is_tls(endpoint) {
        return Ok(Box::new(tcp));
    }
    let connector = TlsConnector::from(config.rustls().map_err(Failed::Config)?);
    let name = ServerName::try_from(host.clone())
        .map_err(|_| Failed::Config(Error::Config(format!("{host:?} is not a server name"))))?;
    let tcp = BufReader::with_capacity(TLS_READ_BYTES, tcp);
    let tls = connector.connect(name, tcp).await.map_err(network)?;
    Ok(Box::new(tls))
}
