//! Reads certificates and keys from PEM files, for clients and servers.

use std::path::{Path, PathBuf};

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// The error for a file that cannot be read or does not contain what was expected.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {what} from {}: {reason}", path.display())]
pub struct PemError {
    /// The expected content: certificate or private key.
    pub what: &'static str,
    /// The file.
    pub path: PathBuf,
    /// The reason why it cannot be read.
    pub reason: String,
}

impl PemError {
    fn new(what: &'static str, path: &Path, reason: impl ToString) -> Self {
        Self {
            what,
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }
}

/// Reads all certificates in a file, in order.
///
/// # Errors
/// [`PemError`] for a file that cannot be read, is damaged, or contains no certificate.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, PemError> {
    certificates_in(&read("certificate", path)?, path)
}

/// Reads all certificates in the content of the file at `path`, in order.
///
/// # Errors
/// [`PemError`] for content that is damaged or contains no certificate.
pub fn certificates_in(
    content: &[u8],
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, PemError> {
    const WHAT: &str = "certificate";
    let chain: Vec<_> = CertificateDer::pem_slice_iter(content)
        .collect::<Result<_, _>>()
        .map_err(|e| PemError::new(WHAT, path, e))?;
    if chain.is_empty() {
        return Err(PemError::new(WHAT, path, "it has no certificate"));
    }
    Ok(chain)
}

/// Reads the content of a file that should contain `what`.
///
/// # Errors
/// [`PemError`] for a file that cannot be read.
pub fn read(what: &'static str, path: &Path) -> Result<Vec<u8>, PemError> {
    std::fs::read(path).map_err(|e| PemError::new(what, path, e))
}

/// Reads the first private key in a file.
///
/// # Errors
/// [`PemError`] for a file that cannot be read, is damaged, or contains no private key.
pub fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, PemError> {
    private_key_in(&read("private key", path)?, path)
}

/// Reads the first private key in the content of the file at `path`.
///
/// # Errors
/// [`PemError`] for content that is damaged or contains no private key.
pub fn private_key_in(content: &[u8], path: &Path) -> Result<PrivateKeyDer<'static>, PemError> {
    PrivateKeyDer::from_pem_slice(content).map_err(|e| PemError::new("private key", path, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_pem_is_named() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        for error in [
            certificates(&path).unwrap_err(),
            private_key(&path).unwrap_err(),
            certificates(Path::new("/nowhere.pem")).unwrap_err(),
        ] {
            let text = error.to_string();
            assert!(text.contains(&error.path.display().to_string()), "{text}");
            assert!(text.starts_with("cannot read"), "{text}");
        }
    }
}
