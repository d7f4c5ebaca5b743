//! Server certificates, by etcd's flag names.

use std::path::PathBuf;
use std::sync::Arc;

use etcd_api::pem::{self, PemError};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

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
