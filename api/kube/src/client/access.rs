//! Credentials of a Kubernetes API: its CA, a client certificate, a bearer token.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::HeaderValue;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::error::KubeError;

/// Checked credentials of one API; the default is none, over plain HTTP.
#[derive(Clone, Default)]
pub struct KubeAccess {
    /// TLS configuration; `None` without a CA, which allows only `http://`.
    pub tls: Option<Arc<ClientConfig>>,
    /// `Authorization` header.
    pub authorization: Option<HeaderValue>,
}

/// Unchecked credentials: PEM texts and a token.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    /// The CA's certificates, PEM.
    pub ca: Option<Vec<u8>>,
    /// The client's certificate chain and key, PEM.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// Bearer token.
    pub token: Option<String>,
}

impl Credentials {
    /// Reads credentials from files.
    ///
    /// # Errors
    /// [`KubeError::Credentials`] naming the file.
    pub fn from_files(
        ca: Option<&PathBuf>,
        identity: Option<(&PathBuf, &PathBuf)>,
        token: Option<&PathBuf>,
    ) -> Result<Self, KubeError> {
        let token = token.map(|path| read(path)).transpose()?;
        Ok(Self {
            ca: ca.map(|path| read(path)).transpose()?,
            identity: match identity {
                Some((cert, key)) => Some((read(cert)?, read(key)?)),
                None => None,
            },
            token: token.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned()),
        })
    }

    /// Checks the credentials and prepares them for connections.
    ///
    /// # Errors
    /// [`KubeError::Credentials`] naming what is invalid.
    pub fn access(&self) -> Result<KubeAccess, KubeError> {
        let bad = |what: &str, reason: &dyn std::fmt::Display| KubeError::Credentials {
            what: what.to_owned(),
            reason: reason.to_string(),
        };
        let tls = match &self.ca {
            None => None,
            Some(ca) => {
                let mut roots = RootCertStore::empty();
                for certificate in CertificateDer::pem_slice_iter(ca) {
                    let certificate = certificate.map_err(|e| bad("CA", &e))?;
                    roots.add(certificate).map_err(|e| bad("CA", &e))?;
                }
                if roots.is_empty() {
                    return Err(bad("CA", &"it has no certificate"));
                }
                let config = ClientConfig::builder_with_provider(Arc::new(
                    rustls::crypto::ring::default_provider(),
                ))
                .with_safe_default_protocol_versions()
                .map_err(|e| bad("TLS", &e))?
                .with_root_certificates(roots);
                Some(Arc::new(match &self.identity {
                    None => config.with_no_client_auth(),
                    Some((chain, key)) => {
                        let chain = CertificateDer::pem_slice_iter(chain)
                            .collect::<Result<Vec<_>, _>>()
                            .map_err(|e| bad("client certificate", &e))?;
                        let key = PrivateKeyDer::from_pem_slice(key)
                            .map_err(|e| bad("client key", &e))?;
                        config
                            .with_client_auth_cert(chain, key)
                            .map_err(|e| bad("client certificate", &e))?
                    }
                }))
            }
        };
        let authorization = self.token.as_ref().map(|token| {
            let mut value =
                HeaderValue::from_str(&format!("Bearer {token}")).map_err(|e| bad("token", &e))?;
            value.set_sensitive(true);
            Ok(value)
        });
        Ok(KubeAccess {
            tls,
            authorization: authorization.transpose()?,
        })
    }
}

impl std::fmt::Debug for KubeAccess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubeAccess")
            .field("tls", &self.tls.is_some())
            .field("token", &self.authorization.is_some())
            .finish()
    }
}

fn read(path: &Path) -> Result<Vec<u8>, KubeError> {
    std::fs::read(path).map_err(|e| KubeError::Credentials {
        what: path.display().to_string(),
        reason: e.to_string(),
    })
}
