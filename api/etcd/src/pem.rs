//! Certificates and keys from PEM files, for clients and servers alike.

use std::path::{Path, PathBuf};

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// A file that cannot be read, or holds nothing of the kind.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {what} from {}: {reason}", path.display())]
pub struct PemError {
    /// Certificate or private key.
    pub what: &'static str,
    /// The file.
    pub path: PathBuf,
    /// The reason.
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

/// Every certificate of a file, in its order.
///
/// # Errors
/// [`PemError`] for a file that cannot be read, is damaged, or holds no certificate.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, PemError> {
    certificates_in(&read("certificate", path)?, path)
}

/// Every certificate in the content of the file at `path`, in its order.
///
/// # Errors
/// [`PemError`] for content that is damaged or holds no certificate.
pub fn certificates_in(
    content: &[u8],
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, PemError> {
    const WHAT: &str = "certificate";
    let chain: Vec<_> = CertificateDer::pem_slice_iter(content)
        .collect::<Result<_, _>>()
        .map_err(|e| PemError::new(WHAT, path, e))?;
    if chain.is_empty() {
        return Err(PemError::new(WHAT, path, "no certificate in it"));
    }
    Ok(chain)
}

/// The content of a file that holds `what`.
///
/// # Errors
/// [`PemError`] for a file that cannot be read.
pub fn read(what: &'static str, path: &Path) -> Result<Vec<u8>, PemError> {
    std::fs::read(path).map_err(|e| PemError::new(what, path, e))
}

/// The first private key of a file.
///
/// # Errors
/// [`PemError`] for a file that cannot be read, is damaged, or holds no private key.
pub fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, PemError> {
    private_key_in(&read("private key", path)?, path)
}

/// The first private key in the content of the file at `path`.
///
/// # Errors
/// [`PemError`] for content that is damaged or holds no private key.
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
