//! A server's Prometheus page, fetched over one kept-alive HTTP/1.1 connection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, Uri};
use kube_api::client::{Connection, KubeAccess, KubeError, Options, read_whole};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// The longest time that a response may take.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest page that is read, in bytes. etcd's has some 100 KiB.
const LARGEST_PAGE: usize = 16 << 20;

/// The gauges of allocated bytes, by allocator: jemalloc in our servers, Go's heap in etcd and
/// kube-apiserver.
const ALLOCATED: [&str; 2] = ["jemalloc_allocated_bytes", "go_memstats_heap_inuse_bytes"];

/// A connection to a server's plain-text pages, opened when first needed and reopened after it was
/// lost.
#[derive(Debug)]
pub struct MetricsClient {
    authority: String,
    connection: Connection,
}

/// An error while fetching a page.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// The URL is not one that this client can fetch.
    #[error("`{0}` is not an http:// URL with a host and a port")]
    Url(String),
    /// The connection could not be made, or broke.
    #[error("{method} http://{authority}{path}: {reason}")]
    Connection {
        /// `GET` or `POST`.
        method: Method,
        /// Host and port.
        authority: String,
        /// The page.
        path: String,
        /// The cause.
        reason: String,
    },
    /// The status of the response is not 200.
    #[error("http://{authority}{path} returned {status}")]
    Status {
        /// Host and port.
        authority: String,
        /// The page.
        path: String,
        /// The status of the response.
        status: StatusCode,
    },
}

impl MetricsClient {
    /// Returns a client for the pages of `url`, whose path is ignored. Does not connect yet.
    ///
    /// # Errors
    /// If `url` is not `http://HOST:PORT`.
    pub fn new(url: &str) -> Result<Self, MetricsError> {
        let refused = || MetricsError::Url(url.to_owned());
        let uri: Uri = url.parse().map_err(|_| refused())?;
        let authority = uri
            .authority()
            .filter(|authority| authority.port().is_some())
            .ok_or_else(refused)?;
        if uri.scheme_str() != Some("http") {
            return Err(refused());
        }
        let connection = Connection::new(url, KubeAccess::default(), Options::default());
        let connection = connection.map_err(|_| refused())?;
        Ok(Self {
            authority: authority.to_string(),
            connection,
        })
    }

    /// Fetches the server's current metrics.
    ///
    /// # Errors
    /// If the page cannot be fetched.
    pub async fn metrics(&mut self) -> Result<MetricsText, MetricsError> {
        Ok(MetricsText(self.text(Method::GET, "/metrics").await?))
    }

    /// Fetches the text of any page.
    ///
    /// # Errors
    /// If the server cannot be reached, the status is not 200, or the response takes longer than
    /// ten seconds.
    pub async fn text(&mut self, method: Method, path: &str) -> Result<String, MetricsError> {
        let response = timeout(RESPONSE_TIMEOUT, self.exchange(&method, path)).await;
        let (status, body) = match response {
            Ok(Ok(response)) => response,
            Ok(Err(KubeError::Connection { reason, .. })) => {
                return Err(self.lost(method, path, reason));
            }
            Ok(Err(error)) => return Err(self.lost(method, path, error.to_string())),
            Err(_) => {
                let reason = format!("no response within {RESPONSE_TIMEOUT:?}");
                return Err(self.lost(method, path, reason));
            }
        };
        if status != StatusCode::OK {
            return Err(MetricsError::Status {
                authority: self.authority.clone(),
                path: path.to_owned(),
                status,
            });
        }
        Ok(body)
    }

    async fn exchange(
        &mut self,
        method: &Method,
        path: &str,
    ) -> Result<(StatusCode, String), KubeError> {
        let sent = self
            .connection
            .send(method.clone(), path, HeaderMap::new(), Bytes::new());
        let response = sent.await?;
        let status = response.status();
        let page = read_whole(response.into_body(), LARGEST_PAGE).await?;
        Ok((status, String::from_utf8_lossy(&page).into_owned()))
    }

    fn lost(&mut self, method: Method, path: &str, reason: String) -> MetricsError {
        // The rest of this response would be taken for the next one.
        self.connection.cancel();
        MetricsError::Connection {
            method,
            authority: self.authority.clone(),
            path: path.to_owned(),
            reason,
        }
    }
}

/// A Prometheus page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetricsText(String);

impl MetricsText {
    /// Wraps the text of a page.
    #[must_use]
    pub fn new(page: String) -> Self {
        Self(page)
    }

    /// Returns the sum of a metric over all its labels; `None` if the page does not have it.
    #[must_use]
    pub fn sum(&self, name: &str) -> Option<f64> {
        self.samples()
            .filter(|(found, _, _)| *found == name)
            .map(|(_, _, value)| value)
            .reduce(|sum, value| sum + value)
    }

    /// Returns the bytes that the server's allocator has handed out, from the first known gauge;
    /// `None` if the page has none.
    #[must_use]
    pub fn allocated(&self) -> Option<u64> {
        ALLOCATED
            .iter()
            .find_map(|name| self.sum(name))
            .map(|bytes| bytes as u64)
    }

    /// Returns every counter (a metric whose name ends with `_total`) with its labels, as
    /// `name{labels}`, without the counters of the server's language runtime and process.
    #[must_use]
    pub fn totals(&self) -> BTreeMap<String, f64> {
        const NOT_ITS_OWN: [&str; 3] = ["go_", "process_", "promhttp_"];
        self.samples()
            .filter(|(name, _, _)| name.ends_with("_total"))
            .filter(|(name, _, _)| !NOT_ITS_OWN.iter().any(|other| name.starts_with(other)))
            .map(|(name, labels, value)| match labels {
                "" => (name.to_owned(), value),
                labels => (format!("{name}{{{labels}}}"), value),
            })
            .collect()
    }

    /// Iterates over the page's samples: name, labels without braces, and value.
    fn samples(&self) -> impl Iterator<Item = (&str, &str, f64)> {
        let values = self.0.lines().filter(|line| !line.starts_with('#'));
        values.filter_map(|line| {
            // Label values may contain anything, spaces and braces too: the last brace ends the
            // labels.
            let (series, rest) = match line.rfind('}') {
                Some(end) => (&line[..end], &line[end + 1..]),
                None => line.split_at(line.find(' ')?),
            };
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            Some((name, labels, rest.split_whitespace().next()?.parse().ok()?))
        })
    }
}

/// Returns the growth of each counter that has grown.
#[must_use]
pub fn grown(
    before: &BTreeMap<String, f64>,
    after: BTreeMap<String, f64>,
) -> BTreeMap<String, u64> {
    after
        .into_iter()
        .filter_map(|(name, value)| {
            let grown = value - before.get(&name).copied().unwrap_or(0.0);
            (grown >= 1.0).then_some((name, grown as u64))
        })
        .collect()
}

/// Polls a server's allocated bytes, so that a sampler, which must not wait, always has the latest
/// value.
///
/// Each poll costs the server as much as building its page, and that is part of its measured CPU
/// time.
#[derive(Debug)]
pub struct AllocatedWatch {
    latest: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl AllocatedWatch {
    /// Polls once now, and then at most once per `every`. Returns `None` if the server does not
    /// report allocated bytes. Must be called within a runtime.
    pub async fn start(mut client: MetricsClient, every: Duration) -> Option<Self> {
        let first = client.metrics().await.ok()?.allocated()?;
        let latest = Arc::new(AtomicU64::new(first));
        let store = Arc::clone(&latest);
        let task = tokio::spawn(async move {
            let mut ticks = interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                // If the server is too busy to respond, the last value stays.
                if let Ok(page) = client.metrics().await
                    && let Some(bytes) = page.allocated()
                {
                    store.store(bytes, Ordering::Relaxed);
                }
            }
        });
        Some(Self { latest, task })
    }

    /// Returns the latest value, in bytes.
    #[must_use]
    pub fn latest(&self) -> u64 {
        self.latest.load(Ordering::Relaxed)
    }
}

impl Drop for AllocatedWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests;
