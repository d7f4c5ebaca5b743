//! What a server tells about itself: its Prometheus page, fetched over one kept connection of
//! HTTP/1.1.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, Uri};
use kube_api::client::{Connection, KubeAccess, KubeError, Options, read_whole};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// How long a server may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// A page beyond this is not read to its end. etcd's has some 100 KiB.
const LARGEST_PAGE: usize = 16 << 20;

/// The gauges that tell what is allocated, by allocator: jemalloc in our servers, Go's heap in etcd
/// and kube-apiserver.
const ALLOCATED: [&str; 2] = ["jemalloc_allocated_bytes", "go_memstats_heap_inuse_bytes"];

/// A connection to a server's plain-text pages, opened when first needed and again when it was
/// lost.
#[derive(Debug)]
pub struct MetricsClient {
    authority: String,
    connection: Connection,
}

/// Why a page could not be had.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// Not a URL that this client can fetch.
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
        /// What happened.
        reason: String,
    },
    /// The server answered something else than 200.
    #[error("http://{authority}{path} answers {status}")]
    Status {
        /// Host and port.
        authority: String,
        /// The page.
        path: String,
        /// What it answered.
        status: StatusCode,
    },
}

impl MetricsClient {
    /// Returns a client for the pages of `url`, whose path is ignored. Opens nothing yet.
    ///
    /// # Errors
    /// When `url` is not `http://HOST:PORT`.
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

    /// Returns the server's figures as of now.
    ///
    /// # Errors
    /// When the page cannot be had.
    pub async fn metrics(&mut self) -> Result<MetricsText, MetricsError> {
        Ok(MetricsText(self.text(Method::GET, "/metrics").await?))
    }

    /// Returns any page's text.
    ///
    /// # Errors
    /// When the server cannot be reached, answers anything but 200, or takes longer than ten
    /// seconds.
    pub async fn text(&mut self, method: Method, path: &str) -> Result<String, MetricsError> {
        let answer = timeout(ANSWER_WITHIN, self.exchange(&method, path)).await;
        let (status, body) = match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(KubeError::Connection { reason, .. })) => {
                return Err(self.lost(method, path, reason));
            }
            Ok(Err(error)) => return Err(self.lost(method, path, error.to_string())),
            Err(_) => {
                return Err(self.lost(method, path, format!("no answer within {ANSWER_WITHIN:?}")));
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
        // What is left of an answer would be taken for the next one's.
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
    /// Returns a page that was fetched.
    #[must_use]
    pub fn new(page: String) -> Self {
        Self(page)
    }

    /// Returns the sum of a metric over all its labels; `None` when the page does not have it.
    #[must_use]
    pub fn sum(&self, name: &str) -> Option<f64> {
        self.samples()
            .filter(|(found, _, _)| *found == name)
            .map(|(_, _, value)| value)
            .reduce(|sum, value| sum + value)
    }

    /// Returns the bytes that the server's allocator has handed out, by the first gauge that we
    /// know; `None` when there is none.
    #[must_use]
    pub fn allocated(&self) -> Option<u64> {
        ALLOCATED
            .iter()
            .find_map(|name| self.sum(name))
            .map(|bytes| bytes as u64)
    }

    /// Returns every counter (its name ends with `_total`) with its labels, as `name{labels}`;
    /// those of the server's language and process left out.
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

    /// Name, labels without braces, and value of each line.
    fn samples(&self) -> impl Iterator<Item = (&str, &str, f64)> {
        let values = self.0.lines().filter(|line| !line.starts_with('#'));
        values.filter_map(|line| {
            // Labels may hold anything, spaces and braces too: the last brace ends them.
            let (series, rest) = match line.rfind('}') {
                Some(end) => (&line[..end], &line[end + 1..]),
                None => line.split_at(line.find(' ')?),
            };
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            Some((name, labels, rest.split_whitespace().next()?.parse().ok()?))
        })
    }
}

/// Returns by how much each counter has grown, where it has.
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

/// Asks a server again and again what is allocated, so that a sampler, which may not wait, always
/// has the latest answer.
///
/// Each question costs the server what building its page costs, and that is part of its measured
/// CPU time.
#[derive(Debug)]
pub struct AllocatedWatch {
    latest: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl AllocatedWatch {
    /// Asks now, and from then on at most once per `every`. `None` when the server does not tell
    /// what is allocated. Must be called within a runtime.
    pub async fn start(mut client: MetricsClient, every: Duration) -> Option<Self> {
        let first = client.metrics().await.ok()?.allocated()?;
        let latest = Arc::new(AtomicU64::new(first));
        let store = Arc::clone(&latest);
        let task = tokio::spawn(async move {
            let mut ticks = interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                // A server that is too busy to answer has no new figure; the old one stays.
                if let Ok(page) = client.metrics().await
                    && let Some(bytes) = page.allocated()
                {
                    store.store(bytes, Ordering::Relaxed);
                }
            }
        });
        Some(Self { latest, task })
    }

    /// Returns the latest answer, in bytes.
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
