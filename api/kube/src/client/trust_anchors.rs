//! Which server certificates a client accepts: those signed by a given CA, by one of the system's
//! roots, or any.

use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::error::KubeError;

/// The server certificates that a client accepts.
#[derive(Debug, Clone)]
pub(super) enum Trust {
    /// Certificates signed by one of these roots.
    Roots(Arc<RootCertStore>),
    /// Any certificate.
    InsecureSkipVerify,
}

impl Trust {
    /// Reads the certificates of a CA, PEM.
    ///
    /// # Errors
    /// [`KubeError::Credentials`].
    pub(super) fn of_ca(pem: &[u8]) -> Result<Self, KubeError> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|e| bad("CA", &e))?;
            roots.add(certificate).map_err(|e| bad("CA", &e))?;
        }
        match roots.is_empty() {
            true => Err(bad("CA", &"it has no certificate")),
            false => Ok(Self::Roots(Arc::new(roots))),
        }
    }

    /// Returns the system's roots (from `$SSL_CERT_FILE` and `$SSL_CERT_DIR`, if set), which are
    /// read once per process; `None` if there is no usable one.
    pub(super) fn of_system() -> Option<Self> {
        static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
        let roots = ROOTS.get_or_init(|| {
            let mut roots = RootCertStore::empty();
            // Roots that cannot be read or used are skipped; others may suffice.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            Arc::new(roots)
        });
        (!roots.is_empty()).then(|| Self::Roots(Arc::clone(roots)))
    }

    /// Returns the TLS configuration of a client with this certificate chain and key, PEM.
    ///
    /// # Errors
    /// [`KubeError::Credentials`] when they cannot be used.
    pub(super) fn client(
        &self,
        identity: Option<&(Vec<u8>, Vec<u8>)>,
    ) -> Result<Arc<ClientConfig>, KubeError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|e| bad("TLS", &e))?;
        let config = match self {
            Self::Roots(roots) => config.with_root_certificates(Arc::clone(roots)),
            Self::InsecureSkipVerify => config
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Unverified(provider))),
        };
        let Some((chain, key)) = identity else {
            return Ok(Arc::new(config.with_no_client_auth()));
        };
        let chain = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|e| bad("client certificate", &e))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| bad("client key", &e))?;
        let config = config.with_client_auth_cert(chain, key);
        config
            .map(Arc::new)
            .map_err(|e| bad("client certificate", &e))
    }
}

/// Accepts any certificate. The handshake signature is still verified: the server must have the
/// certificate's key.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, cert, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, cert, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Returns the error for an unusable credential.
pub(super) fn bad(what: &str, reason: &dyn std::fmt::Display) -> KubeError {
    KubeError::Credentials {
        what: what.to_owned(),
        reason: reason.to_string(),
    }
}
