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
    const WHAT: &str = "certificate";
    let chain: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|e| PemError::new(WHAT, path, e))?;
    if chain.is_empty() {
        return Err(PemError::new(WHAT, path, "no certificate in it"));
    }
    Ok(chain)
}

/// The first private key of a file.
///
/// # Errors
/// [`PemError`] for a file that cannot be read, is damaged, or holds no private key.
pub fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, PemError> {
    PrivateKeyDer::from_pem_file(path).map_err(|e| PemError::new("private key", path, e))
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
