//! An existing etcd or Kubernetes API, measured by its own `/metrics` page.
//!
//! The page reports the memory at the time of the request, and the CPU time of everything that the
//! server does for any client, including the page itself (some 10 ms). So it is fetched between
//! lists, at most once a second, and peaks within a list are not seen.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method};
use kube_api::client::{Connection, KubeAccess, KubeError, Options, expect_success, read_whole};
use tokio::time::timeout;

use crate::metrics::{MetricsText, grown};

const PATH: &str = "/metrics";
/// The shortest interval between fetches: the page costs the server as much as a small list.
const FETCH_INTERVAL: Duration = Duration::from_secs(1);
/// The longest time that the page may take.
const PAGE_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest page that is read, in bytes; a large cluster's has some 20 MiB.
const LARGEST_PAGE: usize = 128 << 20;

/// The metrics page of an existing server.
#[derive(Debug)]
pub struct RemotePage {
    connection: Connection,
}

/// An existing server, measured by its own metrics.
#[derive(Debug)]
pub struct RemoteServer {
    page: RemotePage,
    looked: Instant,
    /// The page from which the growth of CPU time and counters is computed; `None` if it could not
    /// be fetched when the phase began.
    begin: Option<MetricsPage>,
    rss_peak: u64,
    allocated_peak: Option<u64>,
    rss_idle: u64,
    allocated_idle: Option<u64>,
}

/// The cost of a remote server, by its own metrics. Sizes are in bytes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RemoteCost {
    /// Resident size when [`RemoteServer::open`] was called.
    pub rss_idle: u64,
    /// The largest resident size that it reported.
    pub rss_peak: u64,
    /// Allocated bytes when [`RemoteServer::open`] was called; `None` if not reported.
    pub allocated_idle: Option<u64>,
    /// The most allocated bytes that it reported.
    pub allocated_peak: Option<u64>,
    /// Its work since the phase began; `None` if its page could not be fetched then, or if it was
    /// restarted since.
    pub work: Option<RemoteWork>,
    /// Whether it was restarted during the phase, which resets its counters.
    pub restarted: bool,
}

/// The work of a remote server during a phase, by its own metrics.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RemoteWork {
    /// CPU time of all its work, for any client, in seconds.
    pub cpu_s: f64,
    /// The growth of its counters.
    pub counters: BTreeMap<String, u64>,
}

/// The values of one page. Sizes are in bytes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MetricsPage {
    /// CPU time since the server started, in seconds.
    pub cpu_s: f64,
    /// When it started, in seconds of Unix time; `None` if not reported.
    pub started: Option<f64>,
    /// Resident size.
    pub rss: u64,
    /// Allocated bytes; `None` if not reported.
    pub allocated: Option<u64>,
    /// Its counters, as `name{labels}`.
    pub counters: BTreeMap<String, f64>,
}

impl RemoteServer {
    /// Fetches the metrics of the server at `url` and keeps them as its idle values.
    ///
    /// # Errors
    /// [`KubeError`] if the page cannot be fetched, with 403 if the client may not read metrics.
    pub async fn open(url: &str, access: KubeAccess) -> Result<Self, KubeError> {
        let mut page = RemotePage::new(url, access)?;
        let idle = page.read().await?;
        Ok(Self {
            page,
            looked: Instant::now(),
            rss_peak: idle.rss,
            allocated_peak: idle.allocated,
            rss_idle: idle.rss,
            allocated_idle: idle.allocated,
            begin: None,
        })
    }

    /// Begins a phase: fetches the values from which growth is computed.
    ///
    /// # Errors
    /// [`KubeError`] if the page cannot be fetched. The server's work in the phase is unknown then:
    /// an earlier page would count the work before the phase, too.
    pub async fn begin(&mut self) -> Result<(), KubeError> {
        self.begin = None;
        self.begin = Some(self.look().await?);
        Ok(())
    }

    /// Samples the memory, if the last sample is at least a second old.
    pub async fn look_again(&mut self) {
        if self.looked.elapsed() >= FETCH_INTERVAL {
            // If the server is too busy to respond, the last values stay.
            self.look().await.ok();
        }
    }

    /// Returns the server's cost since [`Self::begin`].
    ///
    /// # Errors
    /// [`KubeError`] if the page cannot be fetched any more.
    pub async fn end(&mut self) -> Result<RemoteCost, KubeError> {
        let end = self.look().await?;
        let begin = self.begin.as_ref();
        let restarted = begin.is_some_and(|begin| end.is_of_another_start(begin));
        let work = begin.filter(|_| !restarted).map(|begin| RemoteWork {
            cpu_s: end.cpu_s - begin.cpu_s,
            counters: grown(&begin.counters, end.counters),
        });
        Ok(RemoteCost {
            rss_idle: self.rss_idle,
            rss_peak: self.rss_peak,
            allocated_idle: self.allocated_idle,
            allocated_peak: self.allocated_peak,
            work,
            restarted,
        })
    }

    async fn look(&mut self) -> Result<MetricsPage, KubeError> {
        let reading = self.page.read().await?;
        self.looked = Instant::now();
        self.rss_peak = self.rss_peak.max(reading.rss);
        self.allocated_peak = self.allocated_peak.max(reading.allocated);
        Ok(reading)
    }
}

impl MetricsPage {
    /// Returns whether the server was restarted after it reported `earlier`. If it does not report
    /// its start time, a restart shows as less CPU time than before.
    #[must_use]
    pub fn is_of_another_start(&self, earlier: &Self) -> bool {
        self.started != earlier.started || self.cpu_s < earlier.cpu_s
    }
}

impl RemotePage {
    /// Returns a client for the metrics page of the server at `url`. Does not connect yet.
    ///
    /// # Errors
    /// [`KubeError::Url`].
    pub fn new(url: &str, access: KubeAccess) -> Result<Self, KubeError> {
        let connection = Connection::new(url, access, Options::default())?;
        Ok(Self { connection })
    }

    /// Fetches the page.
    ///
    /// # Errors
    /// [`KubeError`] if the page cannot be fetched within ten seconds, or lacks CPU time or
    /// resident size.
    pub async fn read(&mut self) -> Result<MetricsPage, KubeError> {
        let page = match timeout(PAGE_TIMEOUT, self.text()).await {
            Ok(page) => page?,
            Err(_) => {
                self.connection.cancel();
                let within = PAGE_TIMEOUT.as_secs();
                return Err(KubeError::Timeout(format!("no {PATH} within {within} s")));
            }
        };
        // A missing value must not be read as zero.
        let value = |name: &str| {
            let missing = || KubeError::Body(format!("{PATH} has no {name}"));
            page.sum(name).ok_or_else(missing)
        };
        Ok(MetricsPage {
            cpu_s: value("process_cpu_seconds_total")?,
            started: page.sum("process_start_time_seconds"),
            rss: value("process_resident_memory_bytes")? as u64,
            allocated: page.allocated(),
            counters: page.totals(),
        })
    }

    async fn text(&mut self) -> Result<MetricsText, KubeError> {
        let sent = self
            .connection
            .send(Method::GET, PATH, HeaderMap::new(), Bytes::new());
        let response = expect_success(Method::GET, PATH, sent.await?).await?;
        let page = read_whole(response.into_body(), LARGEST_PAGE).await?;
        let page = String::from_utf8_lossy(&page).into_owned();
        Ok(MetricsText::new(page))
    }
}

#[cfg(test)]
mod tests;
