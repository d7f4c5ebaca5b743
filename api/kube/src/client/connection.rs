//! One connection to a Kubernetes API, opened on demand and reopened when it is lost.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::access::{KubeAccess, ResolvedCredentials};
use super::body::{Body, ReadPace, read_whole};
use super::error::KubeError;
use super::proxy::Proxy;

/// Limits of an error body: bytes read, and characters shown.
const ERROR_BYTES: usize = 64 << 10;
const SHOWN_CHARS: usize = 300;
/// HTTP/2 receive windows, bytes. A slow reader's is small: a large window would be filled ahead of
/// it.
const WINDOW_BYTES: u32 = 8 << 20;
const SLOW_WINDOW_BYTES: u32 = 256 << 10;
const MAX_FRAME_BYTES: u32 = 256 << 10;
/// Maximum number of cancelled streams of an HTTP/2 connection whose late frames are accepted. By
/// default h2 remembers ten, counts frames of others as errors, and closes the connection after a
/// thousand errors.
const CANCELLED_REMEMBERED: usize = 10_000;

/// The HTTP version of a client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HttpVersion {
    /// HTTP/1.1.
    #[default]
    H1,
    /// HTTP/2: negotiated by ALPN over TLS, by prior knowledge without TLS.
    H2,
}

/// HTTP version, compression and reading speed of a client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// HTTP version.
    pub http: HttpVersion,
    /// Whether the client accepts gzip.
    pub gzip: bool,
    /// Bytes that the client reads per second; `None` for no limit.
    pub read_per_s: Option<u32>,
}

/// A connection, with everything needed to reopen it.
#[derive(Debug)]
pub struct Connection {
    host: String,
    address: (String, u16),
    is_tls: bool,
    /// The proxy on the way to the host.
    proxy: Option<Proxy>,
    access: KubeAccess,
    options: Options,
    sender: Option<Sender>,
}

/// Sends many concurrent requests on one HTTP/2 connection. Cheap to clone; the clones share the
/// connection, which is not reopened when it is lost.
#[derive(Debug, Clone)]
pub struct StreamSender {
    sender: http2::SendRequest<Full<Bytes>>,
    host: String,
    /// Scheme and host, to which a request's path is appended.
    origin: String,
    access: KubeAccess,
}

#[derive(Debug)]
enum Sender {
    H1(http1::SendRequest<Full<Bytes>>),
    H2(http2::SendRequest<Full<Bytes>>),
}

impl Connection {
    /// Returns a connection to the API at `url`, not yet open.
    ///
    /// # Errors
    /// [`KubeError::Url`] when `url` is not `http[s]://HOST[:PORT]`, is `https://` and no CA is
    /// known, or cannot be reached through its proxy.
    pub fn new(url: &str, access: KubeAccess, options: Options) -> Result<Self, KubeError> {
        let bad = |reason| KubeError::Url {
            url: url.to_owned(),
            reason,
        };
        // The user part is neither shown nor stored: URLs are printed, and saved with results.
        if let Some((_, host)) = url.rsplit_once('@') {
            return Err(KubeError::Url {
                url: format!("…@{host}"),
                reason: "holds a user: no apiserver takes passwords since 1.19",
            });
        }
        let uri: Uri = url.parse().map_err(|_| bad("is not a URL"))?;
        let authority = uri.authority().ok_or_else(|| bad("has no host"))?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") if access.has_tls() => true,
            Some("https") => {
                return Err(bad(
                    "needs the CA of the API (--cacert): the system has no certificates of any",
                ));
            }
            _ => return Err(bad("is neither http:// nor https://")),
        };
        let proxy = access.proxy_to(&uri);
        if let Some(reason) = proxy.as_ref().and_then(|proxy| proxy.refuses(&uri)) {
            return Err(bad(reason));
        }
        Ok(Self {
            host: authority.to_string(),
            proxy,
            address: host_port(&uri, if is_tls { 443 } else { 80 }),
            is_tls,
            access,
            options,
            sender: None,
        })
    }

    /// Opens the connection, if it is not open.
    ///
    /// # Errors
    /// [`KubeError::Connection`].
    pub async fn open(&mut self) -> Result<(), KubeError> {
        self.sender().await.map(|_| ())
    }

    /// Sends one request and returns the response, whatever its status. If the server refuses the
    /// credentials (401) and others can be obtained, sends the request once more.
    ///
    /// # Errors
    /// [`KubeError::Connection`], and [`KubeError::Credentials`] when the credentials have expired
    /// and others cannot be obtained.
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, KubeError> {
        let used = self.access.current().await?;
        let again = (method.clone(), headers.clone(), body.clone());
        let response = self.send_with(&used, method, path, headers, body).await?;
        if response.status() != StatusCode::UNAUTHORIZED || !self.access.refused(&used) {
            return Ok(response);
        }
        drop(response);
        // A client certificate is part of its connection, so another one needs a new connection.
        self.sender = None;
        let others = self.access.current().await?;
        let (method, headers, body) = again;
        self.send_with(&others, method, path, headers, body).await
    }

    async fn send_with(
        &mut self,
        credentials: &ResolvedCredentials,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, KubeError> {
        let mut request = Request::new(Full::new(body));
        let connection_error = self.connection_error();
        *request.method_mut() = method;
        *request.uri_mut() = match self.options.http {
            HttpVersion::H1 => path.parse().map_err(|e| connection_error(&e))?,
            HttpVersion::H2 => format!("{}://{}{path}", self.scheme(), self.host)
                .parse()
                .map_err(|e| connection_error(&e))?,
        };
        *request.headers_mut() = headers;
        if self.options.http == HttpVersion::H1 {
            let host = HeaderValue::from_str(&self.host).map_err(|e| connection_error(&e))?;
            request.headers_mut().insert(header::HOST, host);
        }
        if let Some(authorization) = &credentials.authorization {
            let headers = request.headers_mut();
            headers.insert(header::AUTHORIZATION, authorization.clone());
        }
        let response = match self.sender().await? {
            Sender::H1(sender) => sender.send_request(request).await,
            Sender::H2(sender) => sender.send_request(request).await,
        };
        response.map_err(|e| connection_error(&e))
    }

    /// Opens the connection, if it is not open, and returns a sender of concurrent requests on it.
    ///
    /// # Errors
    /// [`KubeError::Connection`], also for an HTTP/1.1 connection.
    pub async fn stream_sender(&mut self) -> Result<StreamSender, KubeError> {
        let (host, origin) = (
            self.host.clone(),
            format!("{}://{}", self.scheme(), self.host),
        );
        let access = self.access.clone();
        let no_streams = self.connection_error();
        match self.sender().await? {
            Sender::H2(sender) => Ok(StreamSender {
                sender: sender.clone(),
                host,
                origin,
                access,
            }),
            Sender::H1(_) => Err(no_streams(&"HTTP/1.1 has no streams")),
        }
    }

    /// Sends a GET request that accepts this media type; returns the body, which is decompressed.
    ///
    /// # Errors
    /// Any [`KubeError`]; a status other than 200 or 201 is [`KubeError::Refused`].
    pub async fn get(&mut self, path: &str, accept: &str) -> Result<Body, KubeError> {
        let connection_error = self.connection_error();
        let mut headers = HeaderMap::new();
        let accept = HeaderValue::from_str(accept).map_err(|e| connection_error(&e))?;
        headers.insert(header::ACCEPT, accept);
        if self.options.gzip {
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        }
        let response = self.send(Method::GET, path, headers, Bytes::new()).await?;
        let response = expect_success(Method::GET, path, response).await?;
        let gzip = response
            .headers()
            .get(header::CONTENT_ENCODING)
            .is_some_and(|coding| coding == "gzip");
        let pace = self.options.read_per_s.map(ReadPace::new);
        Ok(Body::new(response.into_body(), gzip, pace))
    }

    /// Cancels the current response by closing the connection, if it is HTTP/1.1. Over HTTP/2,
    /// dropping the body has already cancelled it.
    pub fn cancel(&mut self) {
        if self.options.http == HttpVersion::H1 {
            self.sender = None;
        }
    }

    fn scheme(&self) -> &'static str {
        if self.is_tls { "https" } else { "http" }
    }

    fn connection_error(&self) -> impl Fn(&dyn std::fmt::Display) -> KubeError + 'static {
        let host = self.host.clone();
        move |reason| KubeError::Connection {
            host: host.clone(),
            reason: reason.to_string(),
        }
    }

    async fn sender(&mut self) -> Result<&mut Sender, KubeError> {
        // A connection whose last response was dropped half-way closes a moment later. This waits
        // until the connection is closed or ready.
        let is_open = match &mut self.sender {
            Some(Sender::H1(sender)) => sender.ready().await.is_ok(),
            Some(Sender::H2(sender)) => sender.ready().await.is_ok(),
            None => false,
        };
        if !is_open {
            self.sender = Some(self.connect().await?);
        }
        let connection_error = self.connection_error();
        self.sender
            .as_mut()
            .ok_or_else(|| connection_error(&"closed"))
    }

    async fn connect(&self) -> Result<Sender, KubeError> {
        let connection_error = self.connection_error();
        let (host, port) = (self.address.0.as_str(), self.address.1);
        let socket = match &self.proxy {
            Some(proxy) => {
                let through = proxy.connect(host, port).await;
                through.map_err(|e| connection_error(&e))?
            }
            None => {
                let direct = TcpStream::connect((host, port)).await;
                direct.map_err(|e| connection_error(&e))?
            }
        };
        socket.set_nodelay(true).map_err(|e| connection_error(&e))?;
        if !self.is_tls {
            return self.handshake(socket).await;
        }
        let tls = self.access.current().await?.tls;
        let tls = tls.ok_or_else(|| connection_error(&"no CA is known"))?;
        let mut config = rustls::ClientConfig::clone(&tls);
        config.alpn_protocols = vec![match self.options.http {
            HttpVersion::H1 => b"http/1.1".to_vec(),
            HttpVersion::H2 => b"h2".to_vec(),
        }];
        let name = self.access.server_name(&self.address.0);
        let name = name.map_err(|e| connection_error(&e))?;
        let connector = TlsConnector::from(Arc::new(config));
        let socket = connector.connect(name, socket).await;
        self.handshake(socket.map_err(|e| connection_error(&e))?)
            .await
    }

    async fn handshake(
        &self,
        socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<Sender, KubeError> {
        let connection_error = self.connection_error();
        let io = TokioIo::new(socket);
        // The task ends when its sender is dropped; the sender reports the errors.
        Ok(match self.options.http {
            HttpVersion::H1 => {
                let (sender, connection) = http1::handshake(io)
                    .await
                    .map_err(|e| connection_error(&e))?;
                tokio::spawn(async move { connection.await.unwrap_or_default() });
                Sender::H1(sender)
            }
            HttpVersion::H2 => {
                let window = match self.options.read_per_s {
                    Some(_) => SLOW_WINDOW_BYTES,
                    None => WINDOW_BYTES,
                };
                let (sender, connection) = http2::Builder::new(TokioExecutor::new())
                    .initial_stream_window_size(window)
                    .initial_connection_window_size(window)
                    .max_frame_size(MAX_FRAME_BYTES)
                    .max_concurrent_reset_streams(CANCELLED_REMEMBERED)
                    .max_local_error_reset_streams(None)
                    .handshake(io)
                    .await
                    .map_err(|e| connection_error(&e))?;
                tokio::spawn(async move { connection.await.unwrap_or_default() });
                Sender::H2(sender)
            }
        })
    }
}

impl StreamSender {
    /// Returns whether the connection has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Sends one request and returns the response, whatever its status.
    ///
    /// # Errors
    /// [`KubeError::Connection`].
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, KubeError> {
        let failed = |reason: &dyn std::fmt::Display| KubeError::Connection {
            host: self.host.clone(),
            reason: reason.to_string(),
        };
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        let uri = format!("{}{path}", self.origin);
        *request.uri_mut() = uri.parse().map_err(|e| failed(&e))?;
        *request.headers_mut() = headers;
        if let Some(authorization) = self.access.current().await?.authorization {
            request
                .headers_mut()
                .insert(header::AUTHORIZATION, authorization);
        }
        let response = self.sender.clone().send_request(request).await;
        response.map_err(|e| failed(&e))
    }
}

/// Returns the response, if its status is 200 or 201.
///
/// # Errors
/// [`KubeError::Refused`] with the beginning of its body.
pub async fn expect_success(
    method: Method,
    path: &str,
    response: Response<Incoming>,
) -> Result<Response<Incoming>, KubeError> {
    let status = response.status();
    if matches!(status, StatusCode::OK | StatusCode::CREATED) {
        return Ok(response);
    }
    let body = read_whole(response.into_body(), ERROR_BYTES).await;
    Err(error_from_response(
        method,
        path,
        status,
        &body.unwrap_or_default(),
    ))
}

/// Returns the error for a response, with the message of its `Status` or the beginning of its body.
#[must_use]
pub fn error_from_response(
    method: Method,
    path: &str,
    status: StatusCode,
    body: &[u8],
) -> KubeError {
    let status_object: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let message = status_object
        .as_ref()
        .and_then(|object| object["message"].as_str());
    let text = message.map_or_else(|| String::from_utf8_lossy(body).into_owned(), str::to_owned);
    KubeError::Refused {
        method,
        path: path.to_owned(),
        status,
        text: text
            .chars()
            .filter(|c| !c.is_control())
            .take(SHOWN_CHARS)
            .collect(),
    }
}

/// Returns the host and port to connect to. The brackets of an IPv6 address are removed: neither a
/// socket address nor the name in a certificate has them.
pub(super) fn host_port(uri: &Uri, default_port: u16) -> (String, u16) {
    let host = uri.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (host.to_owned(), uri.port_u16().unwrap_or(default_port))
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::ServerName;
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn a_url_with_a_password_is_refused_without_showing_it() {
        let url = "https://admin:s3cr3t@apiserver:6443";
        let refused = Connection::new(url, KubeAccess::default(), Options::default());
        let refused = refused.expect_err("it holds a user").to_string();
        assert!(
            refused.starts_with("`…@apiserver:6443` holds a user"),
            "{refused}"
        );
    }

    /// `[::1]` with brackets is neither a socket address nor the name in a certificate.
    #[tokio::test]
    async fn an_ipv6_address_is_connected_to() {
        let Ok(listener) = TcpListener::bind("[::1]:0").await else {
            eprintln!("no IPv6 on this machine");
            return;
        };
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let new = Connection::new(&url, KubeAccess::default(), Options::default());
        let mut connection = new.expect("a URL");
        connection.open().await.expect("somebody listens");
        assert!(
            url.ends_with(&connection.host),
            "the Host header keeps its brackets"
        );
        let name = ServerName::try_from(connection.address.0);
        assert!(matches!(name, Ok(ServerName::IpAddress(_))), "{name:?}");
    }
}
