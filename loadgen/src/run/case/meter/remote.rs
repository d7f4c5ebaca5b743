//! A server that is not ours, an etcd or a Kubernetes API: what it costs is what its `/metrics` says.
//!
//! That page has the memory as it is when it is asked for, and the CPU time of everything that the server does, whoever asks for it,
//! the page itself among it (some 10 ms). So it is fetched between lists, and not more than once a second: peaks within a list are not seen.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method};
use kube_api::client::{Connection, KubeError, Options, accepted, whole};
use measure::MetricsText;
use report::result::ServerFigures;
use tokio::time::timeout;

use super::changed;
use crate::servers::running::Running;

const PATH: &str = "/metrics";
/// The page costs the server what a small list does.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long it may take to come.
const PAGE_WITHIN: Duration = Duration::from_secs(10);
/// A page beyond this is not read to its end; a large cluster's has some 20 MiB.
const LARGEST_PAGE: usize = 128 << 20;

/// The meter of one server for one row.
pub(super) struct Remote {
    connection: Connection,
    looked: Instant,
    begin: Reading,
    rss_peak: u64,
    allocated_peak: Option<u64>,
    rss_idle: u64,
    allocated_idle: Option<u64>,
}

/// What one page said.
#[derive(Debug, Clone, Default)]
struct Reading {
    cpu_s: f64,
    rss: u64,
    allocated: Option<u64>,
    counters: BTreeMap<String, f64>,
}

impl Remote {
    /// Asks an endpoint that is there for its figures, which are those at rest.
    ///
    /// # Errors
    /// [`KubeError`] when it does not tell them: with 403 where who asks may not read metrics.
    pub(super) async fn open(running: &Running) -> Result<Self, KubeError> {
        let etcd = running.etcd.iter().flat_map(|config| &config.endpoints);
        let urls = running.kube_url.iter().cloned();
        let urls: Vec<_> = urls.chain(etcd.map(ToString::to_string)).collect();
        let url = urls.first().map_or("", String::as_str);
        if urls.len() > 1 {
            return Err(KubeError::Url {
                url: url.to_owned(),
                reason: "is one of several endpoints, and nobody knows which of them does the work",
            });
        }
        let mut connection = Connection::new(url, running.kube_access.clone(), Options::default())?;
        let idle = read(&mut connection).await?;
        Ok(Self {
            connection,
            looked: Instant::now(),
            rss_peak: idle.rss,
            allocated_peak: idle.allocated,
            rss_idle: idle.rss,
            allocated_idle: idle.allocated,
            begin: idle,
        })
    }

    /// Notes the clocks.
    pub(super) async fn begin(&mut self) {
        if let Some(reading) = self.look().await {
            self.begin = reading;
        }
    }

    /// Looks at the memory, if the last look is a second ago.
    pub(super) async fn look_again(&mut self) {
        if self.looked.elapsed() >= LOOK_EVERY {
            self.look().await;
        }
    }

    /// The figures since [`Self::begin`]; `None` when the server has ceased to tell them.
    pub(super) async fn end(&mut self, in_flight: u64, requests: u64) -> Option<ServerFigures> {
        let end = self.look().await?;
        let mut figures = ServerFigures {
            rss_idle: self.rss_idle,
            rss_peak: self.rss_peak,
            allocated_idle: self.allocated_idle,
            allocated_peak: self.allocated_peak,
            cpu_s: (end.cpu_s - self.begin.cpu_s).max(0.0),
            counters: changed(&self.begin.counters, end.counters),
            is_own_word: true,
            ..ServerFigures::default()
        };
        let resident = figures.rss_peak.saturating_sub(figures.rss_idle);
        let allocated = figures.allocated_peak.zip(figures.allocated_idle);
        let allocated = allocated.map_or(0, |(peak, idle)| peak.saturating_sub(idle));
        figures.peak_above_idle = resident.max(allocated);
        figures.settle(in_flight, requests);
        Some(figures)
    }

    async fn look(&mut self) -> Option<Reading> {
        // A server that is too busy to tell has no new figure.
        let reading = read(&mut self.connection).await.ok()?;
        self.looked = Instant::now();
        self.rss_peak = self.rss_peak.max(reading.rss);
        self.allocated_peak = self.allocated_peak.max(reading.allocated);
        Some(reading)
    }
}

async fn read(connection: &mut Connection) -> Result<Reading, KubeError> {
    let page = match timeout(PAGE_WITHIN, page(connection)).await {
        Ok(page) => page?,
        Err(_) => {
            connection.cancel();
            let within = PAGE_WITHIN.as_secs();
            return Err(KubeError::Body(format!("no {PATH} within {within} s")));
        }
    };
    // Where it is not told, zero would be taken for what it is.
    let told = |name: &str| {
        let missing = || KubeError::Body(format!("{PATH} has no {name}"));
        page.sum(name).ok_or_else(missing)
    };
    Ok(Reading {
        cpu_s: told("process_cpu_seconds_total")?,
        rss: told("process_resident_memory_bytes")? as u64,
        allocated: page.allocated(),
        counters: page.totals(),
    })
}

async fn page(connection: &mut Connection) -> Result<MetricsText, KubeError> {
    let answer = connection
        .send(Method::GET, PATH, HeaderMap::new(), Bytes::new())
        .await?;
    let answer = accepted(Method::GET, PATH, answer).await?;
    let page = whole(answer.into_body(), LARGEST_PAGE).await?;
    Ok(MetricsText::new(
        String::from_utf8_lossy(&page).into_owned(),
    ))
}
