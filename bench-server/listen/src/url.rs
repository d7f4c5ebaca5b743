//! Listen URLs in the format of etcd's flags: `http://HOST:PORT`.

use std::str::FromStr;

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenUrl {
    /// Whether the scheme is `https`.
    pub tls: bool,
    /// Host name or address, without brackets.
    pub host: String,
    /// Port; 0 lets the system pick one.
    pub port: u16,
}

/// An invalid listen URL.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{url:?} is not a listen URL ({reason}); expected http://HOST:PORT or https://HOST:PORT")]
pub struct UrlError {
    url: String,
    reason: &'static str,
}

impl FromStr for ListenUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let error = |reason| UrlError {
            url: text.to_owned(),
            reason,
        };
        let (scheme, rest) = text.split_once("://").ok_or(error("no scheme"))?;
        let tls = match scheme {
            "http" => false,
            "https" => true,
            _ => return Err(error("scheme is neither http nor https")),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = rest.rsplit_once(':').ok_or(error("no port"))?;
        let port = port.parse().map_err(|_| error("bad port"))?;
        let host = host
            .strip_prefix('[')
            .map_or(Some(host), |h| h.strip_suffix(']'))
            .ok_or(error("unclosed bracket"))?;
        if host.is_empty() || host.contains('/') {
            return Err(error("bad host"));
        }
        Ok(Self {
            tls,
            host: host.to_owned(),
            port,
        })
    }
}

impl ListenUrl {
    /// Returns `host:port`, with brackets around an IPv6 address.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Returns the URL with the port that was bound.
    pub fn with_port(&self, port: u16) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        let url = Self {
            port,
            ..self.clone()
        };
        format!("{scheme}://{}", url.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_written_back() {
        for text in [
            "http://127.0.0.1:2379",
            "https://localhost:0",
            "http://[::1]:80",
        ] {
            let url: ListenUrl = text.parse().unwrap();
            assert_eq!(url.with_port(url.port), text);
        }
    }

    #[test]
    fn bad_urls_name_themselves() {
        for (text, reason) in [
            ("127.0.0.1:2379", "no scheme"),
            ("unix://x:1", "neither"),
            ("http://127.0.0.1", "port"),
            ("http://:80", "bad host"),
            ("http://[::1:80", "unclosed"),
        ] {
            let error = text.parse::<ListenUrl>().unwrap_err().to_string();
            assert!(error.contains(text) && error.contains(reason), "{error}");
        }
    }
}
