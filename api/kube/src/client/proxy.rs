//! Proxies between a client and a Kubernetes API, chosen as client-go does: that of the cluster in
//! the kubeconfig (`proxy-url`), else one of the environment.
//!
//! `HTTPS_PROXY` applies to `https://`, `HTTP_PROXY` to `http://`, except for hosts that `NO_PROXY`
//! lists; each may be in lower case. `localhost` and loopback addresses are never reached through a
//! proxy of the environment. A connection through an HTTP proxy is a tunnel (`CONNECT`), so that
//! the certificate is that of the API. A SOCKS5 proxy also resolves the host's name.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::Uri;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower::Service as _;

use super::connection::host_port;
use super::error::KubeError;
use super::trust_anchors::bad;

/// The variables of the environment that name proxies.
const VARIABLES: [&str; 2] = ["HTTPS_PROXY", "HTTP_PROXY"];

/// The proxies that connections to one API may use. The default uses none.
#[derive(Debug, Clone, Default)]
pub(super) enum Proxies {
    #[default]
    None,
    /// This proxy for every host.
    OfCluster(Arc<Matcher>),
    /// Those of the environment, which depend on the host.
    OfEnvironment(Arc<Matcher>),
}

/// A proxy that a connection goes through.
#[derive(Clone)]
pub(super) struct Proxy(Intercept);

impl Proxies {
    /// Returns the cluster's own proxy, else those of the environment.
    ///
    /// # Errors
    /// [`KubeError::Credentials`] for a URL or a variable that names no proxy.
    pub(super) fn of_cluster(proxy_url: Option<&str>) -> Result<Self, KubeError> {
        match proxy_url {
            Some(url) => Ok(Self::OfCluster(Arc::new(checked("proxy-url", url)?))),
            None => Self::of_variables(|name| std::env::var(name).ok()),
        }
    }

    fn of_variables(read: impl Fn(&str) -> Option<String>) -> Result<Self, KubeError> {
        let value = |name: &str| {
            let of = |name: &str| read(name).filter(|value| !value.is_empty());
            of(name)
                .or_else(|| of(&name.to_lowercase()))
                .unwrap_or_default()
        };
        let [https, http] = VARIABLES.map(value);
        for (name, url) in VARIABLES.into_iter().zip([&https, &http]) {
            if !url.is_empty() {
                checked(name, url)?;
            }
        }
        let rules = Matcher::builder().https(https).http(http);
        let rules = rules.no(value("NO_PROXY"));
        Ok(Self::OfEnvironment(Arc::new(rules.build())))
    }

    /// Returns the proxy on the way to this destination, if there is one.
    pub(super) fn to(&self, destination: &Uri) -> Option<Proxy> {
        let intercept = match self {
            Self::None => None,
            Self::OfCluster(proxy) => proxy.intercept(destination),
            Self::OfEnvironment(_) if is_this_machine(destination) => None,
            Self::OfEnvironment(rules) => rules.intercept(destination),
        };
        intercept.map(Proxy)
    }
}

impl Proxy {
    /// Returns a reason if connections to this destination cannot go through the proxy.
    pub(super) fn refuses(&self, destination: &Uri) -> Option<&'static str> {
        match (self.0.uri().scheme_str(), destination.scheme_str()) {
            (Some("http"), Some("https")) | (Some("socks5" | "socks5h"), _) => None,
            (Some("http"), _) => Some(
                "would go through an HTTP proxy, which takes https:// only: change proxy-url, or name the host in NO_PROXY",
            ),
            _ => Some("would go through a proxy that is neither http:// nor socks5://"),
        }
    }

    /// Connects to a host, an IPv6 address without brackets, through the proxy.
    ///
    /// # Errors
    /// The reason: the proxy cannot be reached, or does not connect.
    pub(super) async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, String> {
        let failed = |reason: &dyn fmt::Display| format!("proxy {self}: {reason}");
        let proxy = self.0.uri().clone();
        let is_http = proxy.scheme_str() == Some("http");
        let own_port = if is_http { 80 } else { 1080 };
        let stream = TcpStream::connect(host_port(&proxy, own_port)).await;
        let mut stream = Some(TokioIo::new(stream.map_err(|e| failed(&e))?));
        // The connection is there, and is passed on once.
        let dialled = tower::service_fn(move |_: Uri| {
            let stream = stream.take();
            async move { stream.ok_or(std::io::Error::from(std::io::ErrorKind::NotConnected)) }
        });
        let host = match host.contains(':') {
            true => format!("[{host}]"),
            false => host.to_owned(),
        };
        // Of the URL, only host and port are used.
        let destination = format!("https://{host}:{port}");
        let destination: Uri = destination.parse().map_err(|e| failed(&e))?;
        let stream = if is_http {
            let mut tunnel = Tunnel::new(proxy, dialled);
            if let Some(user) = self.0.basic_auth() {
                tunnel = tunnel.with_auth(user.clone());
            }
            tunnel.call(destination).await.map_err(|e| failed(&e))
        } else {
            let mut socks = SocksV5::new(proxy, dialled);
            if let Some((user, password)) = self.0.raw_auth() {
                socks = socks.with_auth(user.to_owned(), password.to_owned());
            }
            socks.call(destination).await.map_err(|e| failed(&e))
        };
        Ok(stream?.into_inner())
    }
}

/// Shows the proxy without its user and password.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uri = self.0.uri();
        let scheme = uri.scheme_str().unwrap_or_default();
        let host = uri.authority().map_or("", |authority| authority.as_str());
        write!(f, "{scheme}://{host}")
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self})")
    }
}

/// Returns rules with this proxy for every host.
fn checked(name: &str, url: &str) -> Result<Matcher, KubeError> {
    let rules = Matcher::builder().all(url.to_owned()).build();
    let somewhere = Uri::from_static("https://apiserver");
    match rules.intercept(&somewhere) {
        Some(_) => Ok(rules),
        // The URL may hold a password, so it is not shown.
        None => Err(bad(
            name,
            &"is not the URL of an http:// or socks5:// proxy",
        )),
    }
}

/// Returns whether the destination is a loopback address or `localhost`.
fn is_this_machine(destination: &Uri) -> bool {
    let (host, _) = host_port(destination, 0);
    let is_loopback = |address: IpAddr| address.is_loopback();
    host == "localhost" || host.parse().is_ok_and(is_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(proxies: &Proxies, destination: &'static str) -> Option<String> {
        let proxy = proxies.to(&Uri::from_static(destination));
        proxy.map(|proxy| proxy.to_string())
    }

    fn environment(all: &[(&str, &str)]) -> Result<Proxies, KubeError> {
        Proxies::of_variables(|name| {
            let found = all.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_environment_names_a_proxy_for_each_scheme_with_exceptions() {
        let proxies = environment(&[
            ("HTTPS_PROXY", "http://user:secret@proxy:3128"),
            ("http_proxy", "socks5://other"),
            ("NO_PROXY", "near.example, 10.0.0.0/8"),
        ]);
        let proxies = proxies.expect("proxies");
        let https = Some("http://proxy:3128".to_owned());
        for (destination, expected) in [
            ("https://far.example:6443", https),
            ("http://far.example", Some("socks5://other".to_owned())),
            ("https://near.example", None),
            ("https://api.near.example", None),
            ("https://10.1.2.3:6443", None),
            ("https://127.0.0.1:6443", None),
            ("https://[::1]:6443", None),
            ("https://localhost:6443", None),
        ] {
            assert_eq!(shown(&proxies, destination), expected, "{destination}");
        }
        assert!(!format!("{proxies:?}").contains("secret"));
    }

    #[test]
    fn a_cluster_has_one_proxy_for_all_and_wins() {
        let proxies = Proxies::of_cluster(Some("http://10.0.0.1:3128")).expect("a proxy");
        for destination in ["https://127.0.0.1:6443", "https://far.example"] {
            let expected = Some("http://10.0.0.1:3128".to_owned());
            assert_eq!(shown(&proxies, destination), expected);
        }
    }

    #[test]
    fn what_names_no_proxy_is_an_error_that_shows_no_password() {
        let wrong = Proxies::of_cluster(Some("ftp://user:secret@proxy"));
        let wrong = wrong.expect_err("not a proxy").to_string();
        assert_eq!(
            wrong,
            "proxy-url: is not the URL of an http:// or socks5:// proxy"
        );
        let wrong = environment(&[("https_proxy", "not a URL")]);
        assert!(
            wrong
                .expect_err("not a URL")
                .to_string()
                .starts_with("HTTPS_PROXY")
        );
    }

    #[test]
    fn an_http_proxy_takes_https_and_socks_takes_both() {
        let [http, socks, tls] = ["http://p", "socks5://p", "https://p"].map(|url| {
            let proxies = Proxies::of_cluster(Some(url)).expect("a proxy");
            proxies
                .to(&Uri::from_static("https://far"))
                .expect("always")
        });
        let [plain, secure] = ["http://far", "https://far"].map(Uri::from_static);
        assert!(http.refuses(&secure).is_none() && http.refuses(&plain).is_some());
        assert!(socks.refuses(&secure).is_none() && socks.refuses(&plain).is_none());
        assert!(tls.refuses(&secure).is_some());
    }
}
