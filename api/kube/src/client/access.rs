//! How a Kubernetes API is reached: its CA, a client certificate, a bearer token, a proxy.
//! Credentials are fixed, or renewed while the program runs.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::{HeaderValue, Uri};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use super::credential_refresh::{RefreshedCredentials, Source};
use super::error::KubeError;
use super::exec::ExecPlugin;
use super::proxy::{Proxies, Proxy};
use super::trust_anchors::{Trust, bad};

/// Validated credentials for one API, and the proxies on the way to it. The default has none and
/// allows only plain HTTP. Clones share renewed credentials.
#[derive(Clone, Default)]
pub struct KubeAccess {
    fixed: ResolvedCredentials,
    server_name: Option<ServerName<'static>>,
    renewed: Option<Arc<RefreshedCredentials>>,
    proxies: Proxies,
}

/// Credentials in the form that connections and requests use.
#[derive(Clone, Default)]
pub(super) struct ResolvedCredentials {
    /// TLS configuration; `None` if no CA is known, which allows only `http://`.
    pub(super) tls: Option<Arc<ClientConfig>>,
    /// `Authorization` header.
    pub(super) authorization: Option<HeaderValue>,
}

/// Credentials before validation: PEM texts, and a token or its source.
#[derive(Clone, Default)]
pub struct Credentials {
    /// The CA's certificates, PEM; the system's roots if `None`.
    pub ca: Option<Vec<u8>>,
    /// Whether any server certificate is accepted.
    pub insecure: bool,
    /// Name that the server's certificate must have, if it is not the URL's host.
    pub server_name: Option<String>,
    /// The client's certificate chain and key, PEM.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// Bearer token.
    pub token: Option<String>,
    /// A file with the token, read again once a minute. Ignored if `token` is set.
    pub token_file: Option<PathBuf>,
    /// A program that returns a token or a certificate. Ignored if `token` or `token_file` is set.
    pub exec: Option<ExecPlugin>,
    /// The proxy to the API: `http://` or `socks5://`; those of the environment if `None`.
    pub proxy_url: Option<String>,
}

/// Shows which credentials there are, but no token, key or plugin, nor the URL of the proxy, which
/// may hold a password.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("ca", &self.ca.is_some())
            .field("insecure", &self.insecure)
            .field("server_name", &self.server_name)
            .field("identity", &self.identity.is_some())
            .field("token", &self.token.is_some())
            .field("token_file", &self.token_file)
            .field("exec", &self.exec.is_some())
            .field("proxy_url", &self.proxy_url.is_some())
            .finish()
    }
}

impl Credentials {
    /// Reads credentials from files. The token file is read again once a minute.
    ///
    /// # Errors
    /// [`KubeError::Credentials`] naming the file.
    pub fn from_files(
        ca: Option<&PathBuf>,
        identity: Option<(&PathBuf, &PathBuf)>,
        token: Option<&PathBuf>,
    ) -> Result<Self, KubeError> {
        Ok(Self {
            ca: ca.map(|path| read(path)).transpose()?,
            identity: match identity {
                Some((cert, key)) => Some((read(cert)?, read(key)?)),
                None => None,
            },
            token_file: token.cloned(),
            ..Self::default()
        })
    }

    /// Validates the credentials and prepares them for connections. Reads a token file, and the
    /// environment's proxies; a plugin runs only when the first connection needs it.
    ///
    /// # Errors
    /// [`KubeError::Credentials`] naming the invalid credential.
    pub fn access(&self) -> Result<KubeAccess, KubeError> {
        let trust = match (&self.ca, self.insecure) {
            (_, true) => Some(Trust::InsecureSkipVerify),
            (Some(ca), false) => Some(Trust::of_ca(ca)?),
            (None, false) => Trust::of_system(),
        };
        let tls = trust.as_ref().map(|it| it.client(self.identity.as_ref()));
        let fixed = ResolvedCredentials {
            tls: tls.transpose()?,
            authorization: self.token.as_deref().map(bearer).transpose()?,
        };
        let server_name = self.server_name.clone().map(ServerName::try_from);
        let server_name = server_name.transpose();
        let source = match (&self.token, &self.token_file, &self.exec) {
            (Some(_), ..) | (None, None, None) => None,
            (None, Some(path), _) => Some(Source::TokenFile(path.clone())),
            (None, None, Some(plugin)) => Some(Source::Exec {
                plugin: plugin.clone(),
                trust,
            }),
        };
        Ok(KubeAccess {
            renewed: source
                .map(|source| RefreshedCredentials::new(source, fixed.clone()))
                .transpose()?
                .map(Arc::new),
            fixed,
            server_name: server_name.map_err(|e| bad("tls-server-name", &e))?,
            proxies: Proxies::of_cluster(self.proxy_url.as_deref())?,
        })
    }
}

impl KubeAccess {
    /// Returns whether `https://` is possible: a CA is known, or any certificate is accepted.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        self.fixed.tls.is_some()
    }

    /// Returns whether requests carry a token, or may carry one once a plugin has run.
    #[must_use]
    pub fn has_token(&self) -> bool {
        self.fixed.authorization.is_some() || self.renewed.is_some()
    }

    /// Returns the same access without its token and its proxies, for servers that are not a
    /// Kubernetes API.
    #[must_use]
    pub fn without_token(self) -> Self {
        Self {
            fixed: ResolvedCredentials {
                authorization: None,
                ..self.fixed
            },
            renewed: None,
            proxies: Proxies::None,
            ..self
        }
    }

    /// Returns the proxy through which connections to `url` go, without user and password; `None`
    /// without one.
    #[must_use]
    pub fn proxy_of(&self, url: &str) -> Option<String> {
        let proxy = self.proxy_to(&url.parse().ok()?)?;
        Some(proxy.to_string())
    }

    /// Returns the proxy on the way to this destination.
    pub(super) fn proxy_to(&self, destination: &Uri) -> Option<Proxy> {
        self.proxies.to(destination)
    }

    /// Returns the name that the certificate of a server at `host` must have.
    pub(super) fn server_name(
        &self,
        host: &str,
    ) -> Result<ServerName<'static>, rustls::pki_types::InvalidDnsNameError> {
        match &self.server_name {
            Some(name) => Ok(name.clone()),
            None => ServerName::try_from(host.to_owned()),
        }
    }

    /// Returns the current credentials. Waits only if renewed credentials have expired or were
    /// never obtained.
    ///
    /// # Errors
    /// [`KubeError::Credentials`] when they cannot be obtained.
    pub(super) async fn current(&self) -> Result<ResolvedCredentials, KubeError> {
        match &self.renewed {
            None => Ok(self.fixed.clone()),
            Some(renewed) => renewed.current().await,
        }
    }

    /// Returns the renewed credentials, if there are any.
    #[cfg(test)]
    pub(super) fn renewed(&self) -> Option<&Arc<RefreshedCredentials>> {
        self.renewed.as_ref()
    }

    /// Records that the server has refused these credentials. Returns whether to retry with others.
    pub(super) fn refused(&self, used: &ResolvedCredentials) -> bool {
        let renewed = self.renewed.as_ref();
        renewed.is_some_and(|renewed| renewed.refused(used))
    }
}

/// Returns the header of a bearer token, marked as sensitive so that no log shows it.
pub(super) fn bearer(token: &str) -> Result<HeaderValue, KubeError> {
    let value = HeaderValue::from_str(&format!("Bearer {token}"));
    // The error does not contain the token.
    let mut value = value.map_err(|e| bad("token", &e))?;
    value.set_sensitive(true);
    Ok(value)
}

impl fmt::Debug for KubeAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeAccess")
            .field("tls", &self.has_tls())
            .field("token", &self.has_token())
            .finish_non_exhaustive()
    }
}

fn read(path: &Path) -> Result<Vec<u8>, KubeError> {
    std::fs::read(path).map_err(|e| bad(&path.display().to_string(), &e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_not_shown() {
        let credentials = Credentials {
            identity: Some((b"chain".to_vec(), b"secret-key".to_vec())),
            token: Some("secret-token".to_owned()),
            proxy_url: Some("http://user:secret@proxy".to_owned()),
            ..Credentials::default()
        };
        let shown = format!("{credentials:?}");
        assert!(
            !shown.contains("secret") && shown.contains("token: true"),
            "{shown}"
        );
    }
}
