//! TLS of accepted connections: the files of a tier, the server configuration made from them, and
//! the handshake.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use etcd_api::pem::{self, PemError};
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::{RootCertStore, ServerConfig, ServerConnection};
use tokio_rustls::server::TlsStream;

/// Buffer of a session, bytes: large enough for a whole frame of ours, so that the frame leaves in
/// one write.
const SESSION_BYTES: usize = 512 * 1024;

/// Read buffer of a socket, bytes. The session itself reads 4 KiB at a time.
const READ_BYTES: usize = 16 * 1024;

/// The PEM files of a tier's https:// listeners, and the policy for client certificates.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// Server certificate chain.
    pub cert: Option<PathBuf>,
    /// Private key of the server certificate.
    pub key: Option<PathBuf>,
    /// CA of client certificates.
    pub client_ca: Option<PathBuf>,
    /// Policy for client certificates.
    pub clients: ClientCertificates,
    /// The flags that name the files, for messages.
    pub flags: TlsFlags,
}

/// A listener's policy for client certificates. A certificate of another CA is always refused,
/// unless client certificates are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Certificates are not requested.
    Ignored,
    /// Certificates are optional.
    Requested,
    /// Certificates are required.
    Required,
}

/// The flags that name the files: etcd's or kube-apiserver's.
#[derive(Debug, Clone, Copy)]
pub struct TlsFlags {
    /// Flag of the certificate.
    pub cert: &'static str,
    /// Flag of the private key.
    pub key: &'static str,
    /// Flag of the CA.
    pub client_ca: &'static str,
}

/// The error of setting up TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A flag is missing.
    #[error("an https:// listen URL needs {flag}")]
    Missing {
        /// The flag.
        flag: &'static str,
    },
    /// A file cannot be read or lacks PEM of the right kind.
    #[error(transparent)]
    File(#[from] PemError),
    /// The files do not fit together.
    #[error("TLS settings are not usable: {0}")]
    Settings(String),
}

/// Performs the handshake on an accepted socket.
///
/// # Errors
/// Errors of the socket and of the handshake.
pub(super) async fn accept(
    acceptor: &TlsAcceptor,
    socket: TcpStream,
) -> std::io::Result<TlsStream<BufReader<TcpStream>>> {
    let socket = BufReader::with_capacity(READ_BYTES, socket);
    let settings = |session: &mut ServerConnection| session.set_buffer_limit(Some(SESSION_BYTES));
    acceptor.accept_with(socket, settings).await
}

/// The contents of the files.
#[derive(PartialEq, Eq)]
pub(super) struct Contents {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl TlsFiles {
    fn cert(&self) -> Result<&Path, TlsError> {
        let flag = self.flags.cert;
        self.cert.as_deref().ok_or(TlsError::Missing { flag })
    }

    fn key(&self) -> Result<&Path, TlsError> {
        let flag = self.flags.key;
        self.key.as_deref().ok_or(TlsError::Missing { flag })
    }

    /// Reads every file.
    ///
    /// # Errors
    /// [`TlsError`] with the flag or the file.
    pub(super) fn read(&self) -> Result<Contents, TlsError> {
        const WHAT: &str = "certificate";
        let client_ca = self.client_ca.as_deref();
        Ok(Contents {
            cert: pem::read(WHAT, self.cert()?)?,
            key: pem::read("private key", self.key()?)?,
            client_ca: client_ca.map(|path| pem::read(WHAT, path)).transpose()?,
        })
    }

    /// Returns a server configuration that offers HTTP/2 and HTTP/1.1 over TLS 1.2 and 1.3.
    ///
    /// # Errors
    /// [`TlsError`] with the flag or the file.
    pub(super) fn server_config(&self, contents: &Contents) -> Result<ServerConfig, TlsError> {
        let chain = pem::certificates_in(&contents.cert, self.cert()?)?;
        let key = pem::private_key_in(&contents.key, self.key()?)?;
        let settings = |e: &dyn std::fmt::Display| TlsError::Settings(e.to_string());
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|e| settings(&e))?;
        let verified = self.clients != ClientCertificates::Ignored;
        let builder = if verified {
            let flag = self.flags.client_ca;
            let missing = TlsError::Missing { flag };
            let (Some(path), Some(ca)) = (&self.client_ca, &contents.client_ca) else {
                return Err(missing);
            };
            let mut roots = RootCertStore::empty();
            for cert in pem::certificates_in(ca, path)? {
                roots.add(cert).map_err(|e| settings(&e))?;
            }
            let mut verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            if self.clients == ClientCertificates::Requested {
                verifier = verifier.allow_unauthenticated();
            }
            builder.with_client_cert_verifier(verifier.build().map_err(|e| settings(&e))?)
        } else {
            builder.with_no_client_auth()
        };
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|e| settings(&e))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        if verified {
            // A resumed session keeps the certificate of the first one, which may have expired
            // since.
            config.session_storage = Arc::new(NoServerSessionStorage {});
        }
        Ok(config)
    }
}
