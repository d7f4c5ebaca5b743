//! An existing etcd or Kubernetes API: its cost is what its `/metrics`
//! says.
//!
//! That page has the memory as it is when it is asked for, and the CPU time of everything that the
//! server does, whoever asks for it, the page itself among it (some 10 ms). So it is fetched
//! between lists, and not more than once a second: peaks within a list are not seen.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method};
use kube_api::client::{Connection, KubeAccess, KubeError, Options, expect_success, read_whole};
use tokio::time::timeout;

use crate::metrics::{MetricsText, grown};

const PATH: &str = "/metrics";
/// The page costs the server what a small list does.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long it may take to come.
const PAGE_WITHIN: Duration = Duration::from_secs(10);
/// A page beyond this is not read to its end; a large cluster's has some 20 MiB.
const LARGEST_PAGE: usize = 128 << 20;

/// The metrics page of a server that is somewhere else.
#[derive(Debug)]
pub struct RemotePage {
    connection: Connection,
}

/// A server that is somewhere else, measured by its own metrics.
#[derive(Debug)]
pub struct RemoteServer {
    page: RemotePage,
    looked: Instant,
    /// What CPU time and counters are counted from; `None` where it could not be read when the
    /// phase began.
    begin: Option<MetricsPage>,
    rss_peak: u64,
    allocated_peak: Option<u64>,
    rss_idle: u64,
    allocated_idle: Option<u64>,
}

/// What a remote server cost, by its own metrics. Sizes are in bytes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RemoteCost {
    /// Resident size when it was opened.
    pub rss_idle: u64,
    /// The largest that it told.
    pub rss_peak: u64,
    /// Allocated bytes when it was opened; `None` where it does not tell.
    pub allocated_idle: Option<u64>,
    /// The most that it told.
    pub allocated_peak: Option<u64>,
    /// What it did since the phase began; `None` where its page could not be read then, or it was
    /// started again since.
    pub work: Option<RemoteWork>,
    /// Whether it was started again in the phase: its counters began anew.
    pub restarted: bool,
}

/// What a remote server did in a phase, by its own metrics.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RemoteWork {
    /// CPU time of all that it did, for anybody, in seconds.
    pub cpu_s: f64,
    /// By how much its counters grew.
    pub counters: BTreeMap<String, u64>,
}

/// What one page said. Sizes are in bytes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MetricsPage {
    /// CPU time since the server started, in seconds.
    pub cpu_s: f64,
    /// When it started, in seconds of Unix time; `None` where it does not tell.
    pub started: Option<f64>,
    /// Resident size.
    pub rss: u64,
    /// Allocated bytes; `None` where it does not tell.
    pub allocated: Option<u64>,
    /// Its counters, as `name{labels}`.
    pub counters: BTreeMap<String, f64>,
}

impl RemoteServer {
    /// Asks the server at `url` for its figures, which are those at rest.
    ///
    /// # Errors
    /// [`KubeError`] when it does not tell them: with 403 where who asks may not read metrics.
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

    /// Notes the clocks: the phase begins.
    ///
    /// # Errors
    /// [`KubeError`] when the page cannot be had. What the server does in the phase is not known
    /// then: an earlier page would count the work before it, too.
    pub async fn begin(&mut self) -> Result<(), KubeError> {
        self.begin = None;
        self.begin = Some(self.look().await?);
        Ok(())
    }

    /// Looks at the memory, if the last look is a second ago.
    pub async fn look_again(&mut self) {
        if self.looked.elapsed() >= LOOK_EVERY {
            // A server that is too busy to tell has no new figure.
            self.look().await.ok();
        }
    }

    /// Returns what it cost since [`Self::begin`].
    ///
    /// # Errors
    /// [`KubeError`] when the server has ceased to tell.
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
    /// Returns whether the server was started again after it told `earlier`. Where it does not tell
    /// when it was, less CPU time than before is the sign.
    fn is_of_another_start(&self, earlier: &Self) -> bool {
        self.started != earlier.started || self.cpu_s < earlier.cpu_s
    }
}

impl RemotePage {
    /// The page of the server at `url`. Opens nothing yet.
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
    /// [`KubeError`] when it cannot be had within ten seconds, or lacks CPU time or resident size.
    pub async fn read(&mut self) -> Result<MetricsPage, KubeError> {
        let page = match timeout(PAGE_WITHIN, self.text()).await {
            Ok(page) => page?,
            Err(_) => {
                self.connection.cancel();
                let within = PAGE_WITHIN.as_secs();
                return Err(KubeError::Body(format!("no {PATH} within {within} s")));
            }
        };
        // Where it is not told, zero would be taken for what it is.
        let told = |name: &str| {
            let missing = || KubeError::Body(format!("{PATH} has no {name}"));
            page.sum(name).ok_or_else(missing)
        };
        Ok(MetricsPage {
            cpu_s: told("process_cpu_seconds_total")?,
            started: page.sum("process_start_time_seconds"),
            rss: told("process_resident_memory_bytes")? as u64,
            allocated: page.allocated(),
            counters: page.totals(),
        })
    }

    async fn text(&mut self) -> Result<MetricsText, KubeError> {
        let sent = self
            .connection
            .send(Method::GET, PATH, HeaderMap::new(), Bytes::new());
        let answer = expect_success(Method::GET, PATH, sent.await?).await?;
        let page = read_whole(answer.into_body(), LARGEST_PAGE).await?;
        let page = String::from_utf8_lossy(&page).into_owned();
        Ok(MetricsText::new(page))
    }
}

#[cfg(test)]
mod tests;
