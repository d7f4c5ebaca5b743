//! Serves the generator's `/metrics` during a run (`--listen-metrics`).

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bench_server::memory::metrics::{CONTENT_TYPE, encode};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::LiveLoads;
use super::metrics::registry;

/// The most concurrent connections; further ones wait.
const CONNECTIONS: usize = 16;
/// The longest time of a connection, from the first byte to the last.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause after a failed `accept`, as when no descriptors are left.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// The address at which metrics are served: `PORT` on the loopback interface, or `IP:PORT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricsAddress(pub SocketAddr);

impl FromStr for MetricsAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let port = text.strip_prefix(':').unwrap_or(text).parse::<u16>();
        let on_loopback = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        match (port, text.parse()) {
            (Ok(port), _) => Ok(Self(on_loopback(port))),
            (_, Ok(address)) => Ok(Self(address)),
            _ => Err(format!(
                "`{text}` is neither a port, which is one of 127.0.0.1, nor an address as 127.0.0.1:9100"
            )),
        }
    }
}

impl fmt::Display for MetricsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A port that is bound and not served yet. It is bound before the run enters a network namespace,
/// since a socket stays in the namespace in which it was created.
#[derive(Debug)]
pub struct MetricsListener {
    listener: std::net::TcpListener,
    address: SocketAddr,
}

impl MetricsListener {
    /// Binds the port.
    ///
    /// # Errors
    /// The system's error, as when another program uses the port.
    pub fn bind(address: MetricsAddress) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(address.0)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Returns the bound address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves `/metrics` until its task is dropped. Must be called within a runtime.
    ///
    /// # Errors
    /// The system's error if the socket cannot be registered with the runtime.
    pub async fn serve(self, loads: LiveLoads) -> io::Result<Infallible> {
        let listener = TcpListener::from_std(self.listener)?;
        let registry = Arc::new(registry(loads));
        let free = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let permit = Arc::clone(&free).acquire_owned().await;
            let Ok((socket, _)) = listener.accept().await else {
                sleep(RETRY_AFTER).await;
                continue;
            };
            let registry = Arc::clone(&registry);
            tokio::spawn(async move {
                let answer = service_fn(|request| {
                    let response = response(&registry, &request);
                    async { Ok::<_, Infallible>(response) }
                });
                let mut http = http1::Builder::new();
                let connection = http
                    .keep_alive(false)
                    .serve_connection(TokioIo::new(socket), answer);
                // A client that disconnects or is slow gets no response; others are not affected.
                timeout(CONNECTION_TIMEOUT, connection).await.ok();
                drop(permit);
            });
        }
    }
}

fn response(registry: &Registry, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let (status, kind, body) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => (StatusCode::OK, CONTENT_TYPE, encode(registry)),
        (_, "/metrics") => (
            StatusCode::METHOD_NOT_ALLOWED,
            "text/plain",
            "only GET\n".to_owned(),
        ),
        _ => (
            StatusCode::NOT_FOUND,
            "text/plain",
            "there is only /metrics\n".to_owned(),
        ),
    };
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::Labels;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    #[test]
    fn a_port_alone_is_one_of_the_loopback_interface() {
        let address = |text: &str| text.parse::<MetricsAddress>().map(|it| it.to_string());
        assert_eq!(address("9100").as_deref(), Ok("127.0.0.1:9100"));
        assert_eq!(address(":9100").as_deref(), Ok("127.0.0.1:9100"));
        assert_eq!(address("0.0.0.0:80").as_deref(), Ok("0.0.0.0:80"));
        assert_eq!(address("[::1]:80").as_deref(), Ok("[::1]:80"));
        for bad in ["", "localhost", "1.2.3.4", "99999", "a:b"] {
            let error = address(bad).expect_err("no address");
            assert!(error.contains(bad) && error.contains("9100"), "{error}");
        }
    }

    async fn get(address: SocketAddr, line: &str) -> String {
        let mut socket = TcpStream::connect(address).await.expect("it listens");
        let request = format!("{line} HTTP/1.1\r\nHost: loadgen\r\n\r\n");
        socket
            .write_all(request.as_bytes())
            .await
            .expect("it reads");
        let mut response = String::new();
        socket.read_to_string(&mut response).await.expect("text");
        response
    }

    #[tokio::test]
    async fn what_has_been_counted_by_then_is_served() {
        let loads = LiveLoads::default();
        let any: MetricsAddress = "0".parse().expect("a port");
        let listener = MetricsListener::bind(any).expect("a port");
        let address = listener.address();
        assert!(address.ip().is_loopback());
        tokio::spawn(listener.serve(loads.clone()));
        let load = loads.add(Labels::default());
        load.counts().ended(Duration::from_millis(1));
        let all = get(address, "GET /metrics").await;
        assert!(all.starts_with("HTTP/1.1 200"), "{all}");
        assert!(all.contains("application/openmetrics-text"), "{all}");
        assert!(all.contains("loadgen_requests_total{"), "{all}");
        assert!(
            get(address, "POST /metrics")
                .await
                .starts_with("HTTP/1.1 405")
        );
        assert!(get(address, "GET /").await.starts_with("HTTP/1.1 404"));
    }
}
