//! TLS of accepted connections: server certificates, by etcd's flag names, and sessions.

use std::path::PathBuf;
use std::sync::Arc;

use etcd_api::pem::{self, PemError};
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, ServerConnection};
use tokio_rustls::server::TlsStream;

/// Bytes of records that a session may hold: a whole frame of ours, so that it leaves in one write.
const SESSION_BYTES: usize = 512 * 1024;

/// Bytes that one read of a socket may bring. The session asks for 4 KiB at a time.
const READ_BYTES: usize = 16 * 1024;

/// The files behind `--cert-file`, `--key-file`, `--trusted-ca-file`, `--client-cert-auth`.
#[derive(Debug, Clone, Default)]
pub struct TlsFiles {
    /// Server certificate chain, PEM.
    pub cert: Option<PathBuf>,
    /// Private key, PEM.
    pub key: Option<PathBuf>,
    /// CA for client certificates, PEM.
    pub trusted_ca: Option<PathBuf>,
    /// Refuse clients without a certificate.
    pub client_cert_auth: bool,
}

/// Why TLS could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A flag is missing.
    #[error("an https:// listen URL needs {flag}")]
    Missing {
        /// The flag.
        flag: &'static str,
    },
    /// A file cannot be read or holds no PEM of the right kind.
    #[error(transparent)]
    File(#[from] PemError),
    /// The pieces do not fit together.
    #[error("TLS settings are not usable: {0}")]
    Settings(String),
}

/// Shakes hands on an accepted socket.
///
/// # Errors
/// Those of the socket, and the peer's and ours of the handshake.
pub(super) async fn accept(
    acceptor: &TlsAcceptor,
    socket: TcpStream,
) -> std::io::Result<TlsStream<BufReader<TcpStream>>> {
    let socket = BufReader::with_capacity(READ_BYTES, socket);
    let settings = |session: &mut ServerConnection| session.set_buffer_limit(Some(SESSION_BYTES));
    acceptor.accept_with(socket, settings).await
}

impl TlsFiles {
    /// A server configuration that offers HTTP/2 and HTTP/1.1.
    ///
    /// # Errors
    /// [`TlsError`], with the flag or the file.
    pub fn server_config(&self) -> Result<ServerConfig, TlsError> {
        let cert_path = self.cert.as_deref().ok_or(TlsError::Missing {
            flag: "--cert-file",
        })?;
        let key_path = self
            .key
            .as_deref()
            .ok_or(TlsError::Missing { flag: "--key-file" })?;
        let chain = pem::certificates(cert_path)?;
        let key = pem::private_key(key_path)?;
        let settings = |e: &dyn std::fmt::Display| TlsError::Settings(e.to_string());
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|e| settings(&e))?;
        let builder = match (&self.trusted_ca, self.client_cert_auth) {
            (None, false) => builder.with_no_client_auth(),
            (None, true) => {
                return Err(TlsError::Missing {
                    flag: "--trusted-ca-file",
                });
            }
            (Some(ca), required) => {
                let mut roots = RootCertStore::empty();
                for cert in pem::certificates(ca)? {
                    roots.add(cert).map_err(|e| settings(&e))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = if required {
                    verifier
                } else {
                    verifier.allow_unauthenticated()
                };
                builder.with_client_cert_verifier(verifier.build().map_err(|e| settings(&e))?)
            }
        };
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|e| settings(&e))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}
