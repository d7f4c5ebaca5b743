//! An HTTPS client that reports what was negotiated in the handshake.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, StatusCode, Version};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{
    ClientConfig, HandshakeKind, ProtocolVersion, RootCertStore, SupportedProtocolVersion, crypto,
    version,
};

use test_support::identity::Identity;

/// Time limit of a response.
const LIMIT: Duration = Duration::from_secs(20);

/// TLS 1.2 only, and TLS 1.3 only.
pub(crate) const VERSIONS: [&[&SupportedProtocolVersion]; 2] =
    [&[&version::TLS12], &[&version::TLS13]];

/// The protocols that a client offers by ALPN.
pub(crate) const OFFERS: [&[&str]; 4] = [&["h2"], &["http/1.1"], &["http/1.1", "h2"], &[]];

/// Returns the configuration of a client that trusts these CAs, has this identity, and offers these
/// protocols.
pub(crate) fn config(
    trusted: &[&Path],
    identity: Option<&Identity>,
    versions: &[&'static SupportedProtocolVersion],
    offer: &[&str],
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for file in trusted {
        let cert = CertificateDer::from_pem_file(file).expect("a certificate");
        roots.add(cert).expect("a CA's certificate");
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_protocol_versions(versions)
        .expect("versions of the provider")
        .with_root_certificates(roots);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let cert = CertificateDer::from_pem_file(identity.cert()).expect("a certificate");
            let key = PrivateKeyDer::from_pem_file(identity.key()).expect("a key");
            let fit = builder.with_client_auth_cert(vec![cert], key);
            fit.expect("a key that fits its certificate")
        }
    };
    config.alpn_protocols = offer.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}

/// A response, and the properties of its connection.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: StatusCode,
    pub(crate) body: String,
    pub(crate) http: Version,
    pub(crate) alpn: Option<String>,
    pub(crate) tls: ProtocolVersion,
    pub(crate) handshake: HandshakeKind,
    /// The server's certificate, DER.
    pub(crate) server: Vec<u8>,
}

/// Sends a GET request over a new connection, by HTTP/2 if the handshake has selected it.
///
/// # Errors
/// Errors of socket, handshake and HTTP: with TLS 1.3, a client is refused after its handshake.
pub(crate) async fn get(config: &Arc<ClientConfig>, url: &str, path: &str) -> io::Result<Answer> {
    let answer = tokio::time::timeout(LIMIT, answered(config, url, path)).await;
    answer.unwrap_or_else(|_| Err(io::Error::other("no answer in time")))
}

pub(crate) fn address(url: &str) -> SocketAddr {
    let (_, authority) = url.rsplit_once("://").expect("a URL");
    authority.parse().expect("an address")
}

async fn answered(config: &Arc<ClientConfig>, url: &str, path: &str) -> io::Result<Answer> {
    let address = address(url);
    let socket = TcpStream::connect(address).await?;
    let name = ServerName::IpAddress(address.ip().into());
    let stream = TlsConnector::from(config.clone())
        .connect(name, socket)
        .await?;
    let session = stream.get_ref().1;
    let alpn = session.alpn_protocol().map(<[u8]>::to_vec);
    let tls = session.protocol_version().expect("the handshake is over");
    let handshake = session.handshake_kind().expect("the handshake is over");
    let shown = session.peer_certificates().expect("the handshake is over");
    let server = shown[0].to_vec();
    let http2 = alpn.as_deref() == Some(b"h2");
    let request = Request::get(match http2 {
        true => format!("https://{address}{path}"),
        false => path.to_owned(),
    })
    .header("host", address.to_string())
    .body(Empty::<Bytes>::new())
    .expect("a request");
    let stream = TokioIo::new(stream);
    let response = if http2 {
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), stream)
                .await
                .map_err(io::Error::other)?;
        tokio::spawn(connection);
        sender.send_request(request).await
    } else {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream)
            .await
            .map_err(io::Error::other)?;
        tokio::spawn(connection);
        sender.send_request(request).await
    };
    let response = response.map_err(io::Error::other)?;
    let (head, body) = response.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    Ok(Answer {
        code: head.status,
        body: String::from_utf8_lossy(&body).into_owned(),
        http: head.version,
        alpn: alpn.map(|name| String::from_utf8_lossy(&name).into_owned()),
        tls,
        handshake,
        server,
    })
}

/// Sends the ClientHello of a client that supports at most TLS 1.1, which the server must refuse by
/// a fatal alert.
pub(crate) async fn assert_refuses_tls_1_1(url: &str) {
    let mut hello = vec![0x03, 0x02]; // TLS 1.1
    hello.extend([7; 32]); // the client's random bytes
    hello.push(0); // no session
    hello.extend([0, 4, 0xC0, 0x13, 0x00, 0x2F]); // two cipher suites of that time
    hello.extend([1, 0]); // no compression
    let extensions: [u8; 14] = [
        0, 10, 0, 4, 0, 2, 0, 23, // groups: secp256r1
        0, 11, 0, 2, 1, 0, // points: uncompressed
    ];
    hello.extend([0, extensions.len() as u8]);
    hello.extend(extensions);
    let length = hello.len() as u8;
    let mut record = vec![22, 0x03, 0x01, 0, length + 4, 1, 0, 0, length];
    record.extend(hello);
    let exchange = async {
        let mut socket = TcpStream::connect(address(url)).await?;
        socket.write_all(&record).await?;
        let mut answer = [0; 7];
        socket.read_exact(&mut answer).await?;
        io::Result::Ok(answer)
    };
    let answer = tokio::time::timeout(LIMIT, exchange).await;
    let answer = answer.expect("in time").expect("an alert");
    let [kind, _, _, _, _, level, description] = answer;
    // The alert is handshake_failure, since rustls first checks for the signature schemes of TLS
    // 1.2, or protocol_version.
    let refused = (kind, level) == (21, 2) && [40, 70].contains(&description);
    assert!(refused, "{answer:?}");
}
