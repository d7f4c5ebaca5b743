//! Certificates and keys for tests, as files.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use tempfile::TempDir;

/// A certificate for 127.0.0.1, self-signed or signed by a CA, and its key.
#[derive(Debug)]
pub struct Identity {
    folder: TempDir,
}

impl Identity {
    /// Returns a self-signed identity.
    ///
    /// # Panics
    /// If its files cannot be written.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "each is another key")]
    pub fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]);
        let made = made.expect("a certificate for an address");
        Self::of(&made.cert.pem(), &made.signing_key)
    }

    fn of(cert: &str, key: &KeyPair) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let this = Self { folder };
        std::fs::write(this.cert(), cert).expect("a file");
        std::fs::write(this.key(), key.serialize_pem()).expect("a file");
        this
    }

    /// Returns the folder of the files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the path of the certificate.
    #[must_use]
    pub fn cert(&self) -> PathBuf {
        self.folder().join("cert.pem")
    }

    /// Returns the path of the key.
    #[must_use]
    pub fn key(&self) -> PathBuf {
        self.folder().join("key.pem")
    }
}

/// A certificate authority.
#[derive(Debug)]
pub struct Ca {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

impl Ca {
    /// Returns an authority with a new key.
    ///
    /// # Panics
    /// If its certificate cannot be written.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "each is another key")]
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let this = Self { issuer, folder };
        std::fs::write(this.cert(), this.issuer.pem()).expect("a file");
        this
    }

    /// Returns the path of the CA's own certificate.
    #[must_use]
    pub fn cert(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Returns a certificate for server and client authentication that this CA has signed, for
    /// 127.0.0.1 and with this common name.
    ///
    /// # Panics
    /// If its files cannot be written.
    #[must_use]
    pub fn sign(&self, name: &str) -> Identity {
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).expect("an address");
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate().expect("a key");
        let cert = params.signed_by(&key, &self.issuer).expect("a certificate");
        Identity::of(&cert.pem(), &key)
    }
}
