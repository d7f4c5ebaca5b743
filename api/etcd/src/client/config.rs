//! The settings of a client: endpoints, HTTP/2 settings, TLS files, user.
//!
//! The receiver's windows and frame size limit the speed of a list. [`Http2`] therefore sets them
//! explicitly, and every result records them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use tokio_rustls::rustls;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use super::keep_alive::PING_TIMEOUT;
use crate::error::Error;
use crate::pem::{PemError, certificates, private_key};

/// The shortest ping interval that etcd tolerates. It closes connections with more frequent pings
/// by GOAWAY (`too_many_pings`).
pub const MIN_KEEP_ALIVE: Duration = Duration::from_secs(5);

/// etcd's client port, the default port of endpoints.
pub(super) const CLIENT_PORT: u16 = 2379;
/// Files of trusted roots in several distributions, tried in this order for `https` without
/// `--cacert`.
const SYSTEM_ROOTS: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

/// HTTP/2 settings that this client announces, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Http2 {
    /// Flow-control window of one stream. Default 2 MiB. A larger one gains nothing on loopback;
    /// over a network it must cover bandwidth × delay.
    pub stream_window_bytes: u32,
    /// Flow-control window of a connection. Default 8 MiB.
    pub connection_window_bytes: u32,
    /// Largest frame accepted (16 KiB to 16 MiB − 1). Default 256 KiB: the sender needs about one
    /// system call per frame.
    pub max_frame_bytes: u32,
}

impl Default for Http2 {
    fn default() -> Self {
        Self {
            stream_window_bytes: 2 << 20,
            connection_window_bytes: 8 << 20,
            max_frame_bytes: 256 << 10,
        }
    }
}

/// PEM files for `https` endpoints, with the names of etcdctl's flags.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// `--cacert`: trusted roots; the system's if absent.
    pub ca: Option<PathBuf>,
    /// `--cert`: client certificate chain.
    pub cert: Option<PathBuf>,
    /// `--key`: client key.
    pub key: Option<PathBuf>,
}

/// `--user NAME[:PASSWORD]`.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    /// User name.
    pub name: String,
    /// Password, possibly empty.
    pub password: String,
}

impl User {
    /// Parses `NAME[:PASSWORD]`; everything after the first colon is the password.
    ///
    /// # Errors
    /// [`Error::Config`] when the name is empty.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let (name, password) = text.split_once(':').unwrap_or((text, ""));
        if name.is_empty() {
            return Err(Error::Config("user name is empty".into()));
        }
        Ok(Self {
            name: name.into(),
            password: password.into(),
        })
    }
}

impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "User({:?}, password hidden)", self.name)
    }
}

/// The configuration of a [`super::Client`] and a [`super::raw_list::RawConnection`].
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// `http://HOST:PORT` or `https://HOST:PORT`; all belong to one cluster.
    pub endpoints: Vec<Uri>,
    /// HTTP/2 settings.
    pub http2: Http2,
    /// Largest message accepted, in bytes (default 2 GiB − 1, as in Go's etcd client).
    pub max_message_bytes: usize,
    /// TLS files.
    pub tls: TlsFiles,
    /// The user to authenticate as; none by default.
    pub user: Option<User>,
    /// Interval of HTTP/2 pings while a request is in flight, at least [`MIN_KEEP_ALIVE`]; no pings
    /// by default. If a ping is not acknowledged within 10 s, the connection is dropped and its
    /// open calls fail. Connections of [`super::pipelined`] send no pings.
    pub keep_alive: Option<Duration>,
    /// Time allowed for one connection attempt. Default 5 s.
    pub connect_timeout: Duration,
}

impl ClientConfig {
    /// Parses a comma-separated list of endpoints, as given to `--endpoints`. The default scheme is
    /// `http`.
    ///
    /// # Errors
    /// [`Error::Config`] naming the part that is not a URL, or when the list is empty.
    pub fn new(endpoints: &str) -> Result<Self, Error> {
        let parsed = endpoints
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(parse_endpoint)
            .collect::<Result<Vec<_>, _>>()?;
        if parsed.is_empty() {
            return Err(Error::Config("no endpoint given".into()));
        }
        Ok(Self {
            endpoints: parsed,
            http2: Http2::default(),
            max_message_bytes: i32::MAX as usize,
            tls: TlsFiles::default(),
            user: None,
            keep_alive: None,
            connect_timeout: Duration::from_secs(5),
        })
    }

    /// Returns the same configuration with the endpoints rotated by `n`, so that successive
    /// connections are spread over all endpoints.
    #[must_use]
    pub fn with_rotated_endpoints(&self, n: usize) -> Self {
        let mut config = self.clone();
        let count = config.endpoints.len().max(1);
        config.endpoints.rotate_left(n % count);
        config
    }

    /// Returns the same configuration with only the endpoint at index `n` modulo their number.
    #[must_use]
    pub fn only(&self, n: usize) -> Self {
        let mut config = self.with_rotated_endpoints(n);
        config.endpoints.truncate(1);
        config
    }

    /// Returns the tonic endpoint for one URL, fully configured.
    ///
    /// # Errors
    /// [`Error::Config`] for unreadable TLS files or a ping interval that etcd does not tolerate.
    pub(super) fn tonic_endpoint(&self, uri: &Uri) -> Result<Endpoint, Error> {
        let mut endpoint = Endpoint::from(uri.clone())
            .connect_timeout(self.connect_timeout)
            .tcp_nodelay(true)
            .initial_stream_window_size(self.http2.stream_window_bytes)
            .initial_connection_window_size(self.http2.connection_window_bytes)
            .max_frame_size(self.http2.max_frame_bytes)
            .keep_alive_while_idle(false);
        if let Some(interval) = self.keep_alive_checked()? {
            endpoint = endpoint
                .http2_keep_alive_interval(interval)
                .keep_alive_timeout(PING_TIMEOUT);
        }
        if is_tls(uri) {
            let mut tls = ClientTlsConfig::new()
                .ca_certificate(Certificate::from_pem(read(&self.roots_path()?)?));
            if let Some((cert, key)) = self.identity_paths()? {
                tls = tls.identity(Identity::from_pem(read(cert)?, read(key)?));
            }
            endpoint = endpoint
                .tls_config(tls)
                .map_err(|e| Error::Config(format!("TLS for {uri}: {}", chain(&e))))?;
        }
        Ok(endpoint)
    }

    /// Returns the rustls configuration for connections that do not use tonic: ALPN `h2`, provider
    /// ring.
    ///
    /// # Errors
    /// [`Error::Config`] for files that cannot be read or hold no certificate.
    pub(super) fn rustls(&self) -> Result<Arc<rustls::ClientConfig>, Error> {
        let ca_path = self.roots_path()?;
        let mut roots = rustls::RootCertStore::empty();
        for cert in certificates(&ca_path)? {
            // A system bundle may contain roots that rustls rejects; one valid root is enough.
            if let Err(e) = roots.add(cert) {
                tracing::debug!("root in {} skipped: {e}", ca_path.display());
            }
        }
        if roots.is_empty() {
            return Err(Error::Config(format!(
                "no usable certificate in {}",
                ca_path.display()
            )));
        }
        let mut provider = rustls::crypto::ring::default_provider();
        // The first choice of Go's clients, and therefore the usual cipher of etcd's lists. rustls
        // prefers AES-256, which is slower.
        let usual = rustls::CipherSuite::TLS13_AES_128_GCM_SHA256;
        let suites = &mut provider.cipher_suites;
        suites.sort_by_key(|suite| suite.suite() != usual);
        let builder = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .map_err(|e| Error::Config(e.to_string()))?
            .with_root_certificates(roots);
        let mut config = match self.identity_paths()? {
            Some((cert, key)) => builder
                .with_client_auth_cert(certificates(cert)?, private_key(key)?)
                .map_err(|e| Error::Config(format!("client certificate: {e}")))?,
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(config))
    }

    /// Returns the ping interval, or an error for one below [`MIN_KEEP_ALIVE`].
    pub(super) fn keep_alive_checked(&self) -> Result<Option<Duration>, Error> {
        match self.keep_alive {
            Some(interval) if interval < MIN_KEEP_ALIVE => Err(Error::Config(format!(
                "keep-alive interval {interval:?} is below {MIN_KEEP_ALIVE:?}, where etcd closes the connection"
            ))),
            other => Ok(other),
        }
    }

    fn roots_path(&self) -> Result<PathBuf, Error> {
        if let Some(path) = &self.tls.ca {
            return Ok(path.clone());
        }
        SYSTEM_ROOTS
            .iter()
            .map(PathBuf::from)
            .find(|path| path.exists())
            .ok_or_else(|| {
                Error::Config(
                    "https needs --cacert: the system's trusted roots were not found".into(),
                )
            })
    }

    fn identity_paths(&self) -> Result<Option<(&Path, &Path)>, Error> {
        match (&self.tls.cert, &self.tls.key) {
            (Some(cert), Some(key)) => Ok(Some((cert, key))),
            (None, None) => Ok(None),
            _ => Err(Error::Config("--cert and --key go together".into())),
        }
    }
}

/// Returns whether an endpoint uses TLS.
pub(super) fn is_tls(uri: &Uri) -> bool {
    uri.scheme_str() == Some("https")
}

/// Returns the host and port to connect to. The brackets of an IPv6 address are removed: neither a
/// socket address nor the name in a certificate has them.
pub(super) fn host_port(uri: &Uri, default_port: u16) -> (String, u16) {
    let host = uri.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (host.to_owned(), uri.port_u16().unwrap_or(default_port))
}

/// Returns the text of an error with its causes, on one line. tonic's own text is only "transport
/// error".
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// Returns the reason of an endpoint that has not responded in time.
pub(super) fn no_response(within: Duration) -> String {
    format!("no response within {} s", within.as_secs_f64())
}

fn parse_endpoint(text: &str) -> Result<Uri, Error> {
    // The user part is neither shown nor stored: endpoints are printed, and saved with results.
    if let Some((_, host)) = text.rsplit_once('@') {
        return Err(Error::Config(format!(
            "endpoint \"…@{host}\": a user and a password belong into --user, not into the URL"
        )));
    }
    let full = if text.contains("://") {
        text.to_owned()
    } else {
        format!("http://{text}")
    };
    let bad = |why: &str| Error::Config(format!("endpoint {text:?}: {why}"));
    let uri: Uri = full.parse().map_err(|_| bad("not a URL"))?;
    match uri.scheme_str() {
        Some("http" | "https") => {}
        _ => return Err(bad("the scheme must be http or https")),
    }
    if uri.host().is_none_or(str::is_empty) {
        return Err(bad("no host"));
    }
    let authority = match uri.port_u16() {
        Some(_) => uri.authority().map(|a| a.as_str().to_owned()),
        None => uri.host().map(|host| format!("{host}:{CLIENT_PORT}")),
    };
    let (scheme, authority) = (
        uri.scheme_str().unwrap_or("http"),
        authority.unwrap_or_default(),
    );
    format!("{scheme}://{authority}")
        .parse()
        .map_err(|_| bad("not a URL"))
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|e| Error::Config(format!("{}: {e}", path.display())))
}

impl From<PemError> for Error {
    fn from(error: PemError) -> Self {
        Self::Config(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_begin_at_one_endpoint_after_the_other() {
        let config = ClientConfig::new("a:1,b:2,c:3").expect("valid list");
        let first = |n| config.with_rotated_endpoints(n).endpoints[0].to_string();
        let firsts: Vec<_> = (0..4).map(first).collect();
        assert_eq!(
            firsts,
            ["http://a:1/", "http://b:2/", "http://c:3/", "http://a:1/"]
        );
        assert_eq!(
            config.with_rotated_endpoints(1).endpoints.len(),
            3,
            "the others stay"
        );
        assert_eq!(
            config.only(4).endpoints,
            config.with_rotated_endpoints(1).endpoints[..1]
        );
    }

    #[test]
    fn endpoints_are_split_and_completed() {
        let config = ClientConfig::new("http://a:1, https://b ,c:3").expect("valid list");
        let texts: Vec<_> = config.endpoints.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["http://a:1/", "https://b:2379/", "http://c:3/"]);
        let v6 = ClientConfig::new("http://[::1]:2379").expect("valid IPv6");
        assert_eq!(host_port(&v6.endpoints[0], 1), ("::1".to_owned(), 2379));
    }

    #[test]
    fn a_host_has_no_brackets_and_no_user() {
        for (url, expected) in [
            ("https://[::1]:6443/api", ("::1", 6443)),
            ("https://[fe80::1]", ("fe80::1", 443)),
            ("https://10.0.0.1", ("10.0.0.1", 443)),
            ("https://eve@host:1", ("host", 1)),
        ] {
            let (host, port) = host_port(&url.parse().expect("a URL"), 443);
            assert_eq!((host.as_str(), port), expected, "{url}");
        }
    }

    #[test]
    fn invalid_endpoints_are_rejected() {
        let secret = "http://root:s3cr3t@etcd:2379";
        let refused = ClientConfig::new(secret).expect_err("users are not in URLs");
        let refused = refused.to_string();
        assert!(
            refused.contains("etcd:2379") && refused.contains("--user"),
            "{refused}"
        );
        assert!(!refused.contains("s3cr3t"), "{refused}");
        for bad in ["", " , ", "ftp://a:1", "http://", "http://a b"] {
            assert!(
                matches!(ClientConfig::new(bad), Err(Error::Config(_))),
                "{bad:?} must be refused"
            );
        }
    }

    #[test]
    fn pings_faster_than_etcd_tolerates_are_rejected() {
        let mut config = ClientConfig::new("a:1").expect("valid");
        config.keep_alive = Some(Duration::from_secs(1));
        assert!(config.tonic_endpoint(&config.endpoints[0]).is_err());
        config.keep_alive = Some(MIN_KEEP_ALIVE);
        assert!(config.tonic_endpoint(&config.endpoints[0]).is_ok());
    }

    #[test]
    fn a_user_keeps_colons_in_the_password_and_hides_it() {
        let user = User::parse("root:a:b").expect("valid");
        assert_eq!(
            (user.name.as_str(), user.password.as_str()),
            ("root", "a:b")
        );
        assert!(!format!("{user:?}").contains("a:b"));
        assert!(User::parse(":x").is_err());
    }
}
