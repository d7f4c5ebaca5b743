//! What a row costs: memory and CPU of the servers that we started and of ourselves, and the servers' own counters.
//!
//! - [`remote`]: the same of a server that is not ours, by its own word
//! - [`rounds`]: round by round, and where the cores were

mod remote;
mod rounds;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;

use super::Measured;
use crate::record::{Sample, Series};
use crate::result::{ClientFigures, ServerFigures, TierFigures};
use crate::sample::{
    AllocatedWatch, CoreDistance, MetricsClient, MetricsText, Process, ProcessError, SAMPLE_EVERY,
    Sampler, Watched, cpu_used,
};
use crate::target::Running;
use remote::Remote;
pub(super) use rounds::Looks;
use rounds::{CoresWatch, Rounds};

/// How often a server is asked what it has allocated. Building the page is part of its CPU time: etcd's is large.
const ASK_ALLOCATED_EVERY: Duration = Duration::from_millis(200);
/// The same where lists are far apart or slow: five pages a second would be most of what such a server does.
const ASK_SELDOM: Duration = Duration::from_secs(2);
/// A server that has no settle page is idle when it stops shrinking for a second, or after this.
const SETTLE_WITHIN: Duration = Duration::from_secs(10);
const SETTLE_STEP: Duration = Duration::from_secs(1);
const SETTLED_BYTES: u64 = 4 << 20;
/// What a Kubernetes tier tells about the filling of its caches: nearly all of it is the data set's.
const CACHE_FILL: &str = "apiserver_watch_cache_initialization_duration_seconds_sum";
/// The kernel counts in ticks: of a shorter phase they tell nothing.
const LEAST_TOLD: Duration = Duration::from_millis(500);
/// The generator's own series.
const OWN_SERIES: &str = "loadgen";

/// One server process.
struct Metered {
    name: String,
    pid: u32,
    process: Process,
    metrics_url: Option<String>,
    cpu_before: Duration,
    counters_before: BTreeMap<String, f64>,
    figures: TierFigures,
}

/// The meter of one row.
pub(super) struct Meter {
    servers: Vec<Metered>,
    /// A server that is not ours and tells its figures; then there are no `servers`.
    remote: Option<Remote>,
    /// Why it does not.
    unmetered: Option<String>,
    own: Process,
    own_cpu_before: Duration,
    /// When the measured phase began, and what all of this machine had used then.
    begun: Option<(Instant, Duration)>,
    figures: ServerFigures,
    stored_bytes: Option<u64>,
    ask_allocated_every: Duration,
    sampler: Option<Sampler>,
    rounds: Rounds,
}

impl Meter {
    /// Waits until the servers are at rest and takes their idle figures; `stored_bytes` are what was written to them, `cores` tells
    /// where this machine's are.
    ///
    /// # Errors
    /// When a server has ended.
    pub(super) async fn settled(
        running: &Running,
        stored_bytes: Option<u64>,
        cores: Option<Arc<CoreDistance>>,
    ) -> Result<Self, ProcessError> {
        let mut servers = Vec::new();
        for child in running.processes() {
            servers.push(Metered {
                name: child.name().to_owned(),
                pid: child.pid(),
                process: Process::new(child.pid())?,
                metrics_url: running.metrics_url(child.name()),
                cpu_before: Duration::ZERO,
                counters_before: BTreeMap::new(),
                figures: TierFigures::default(),
            });
        }
        let (remote, unmetered) = match running.processes() {
            [] => match Remote::open(running).await {
                Ok(remote) => (Some(remote), None),
                Err(error) => (None, Some(error.to_string())),
            },
            _ => (None, None),
        };
        let mut figures = ServerFigures::default();
        let mut allocated = Some(0);
        for server in &mut servers {
            settle(server).await?;
            let idle = server.process.memory()?;
            server.figures.rss_idle = idle.rss;
            figures.rss_idle += idle.rss;
            *figures.rss_file_idle.get_or_insert(0) += idle.file;
            let page = page(server.metrics_url.as_deref()).await;
            let fill = page.as_ref().and_then(|page| page.sum(CACHE_FILL));
            server.figures.cache_fill_s = fill.filter(|&seconds| seconds > 0.0);
            let bytes = page.and_then(|page| page.allocated());
            allocated = allocated.zip(bytes).map(|(sum, bytes)| sum + bytes);
        }
        figures.allocated_idle = allocated.filter(|_| !servers.is_empty());
        figures.idle_per_stored_byte = stored_bytes
            .filter(|&bytes| bytes > 0)
            .map(|bytes| figures.rss_idle as f64 / bytes as f64);
        Ok(Self {
            servers,
            remote,
            unmetered,
            own: Process::own()?,
            own_cpu_before: Duration::ZERO,
            begun: None,
            figures,
            stored_bytes,
            ask_allocated_every: ASK_ALLOCATED_EVERY,
            sampler: None,
            rounds: Rounds::new(cores),
        })
    }

    /// Asks seldom what is allocated, since lists come or are read at a pace and the servers rest in between.
    pub(super) fn ask_seldom(&mut self) {
        self.ask_allocated_every = ASK_SELDOM;
    }

    /// Begins a round of the measured phase, with peaks of its own.
    pub(super) async fn begin_round(&mut self, looks: Looks) {
        self.reset_peaks();
        let servers = &self.servers;
        self.rounds.begin(looks, || cpu_of(servers)).await;
    }

    /// Looks where the cores are from now on, for rounds that are none of the measured phase.
    pub(super) async fn watch_cores(&self) -> CoresWatch {
        self.rounds.watch_cores(Looks::Throughout).await
    }

    /// Begins a stretch with peaks of its own. A process that has ended is noticed elsewhere.
    pub(super) fn reset_peaks(&self) {
        for server in &self.servers {
            server.process.reset_peak().ok();
        }
    }

    /// The warm-up's peak is the row's too, but not one of its repeats.
    pub(super) fn end_of_warm_up(&mut self) {
        let peak = self.peak();
        self.figures.rss_peak = self.figures.rss_peak.max(peak);
    }

    /// Why the server's figures are not known, where it could have told them.
    pub(super) fn unmetered(&self) -> Option<&str> {
        self.unmetered.as_deref()
    }

    /// Notes the peak of a round; of a `whole` one, in which nothing failed or was stopped, time, CPU, and where the cores were.
    pub(super) async fn end_of_round(&mut self, whole: bool) {
        let servers = &self.servers;
        self.rounds.end(whole, || cpu_of(servers)).await;
        if let Some(remote) = &mut self.remote {
            remote.look_again().await;
            return;
        }
        let peak = self.peak();
        self.figures.rss_peak = self.figures.rss_peak.max(peak);
        let above = peak.saturating_sub(self.figures.rss_idle);
        self.figures.peaks_above_idle.push(above);
    }

    /// CPU time that the servers have used since they started; `None` where none is ours, or one has ended.
    pub(super) fn cpu(&self) -> Option<Duration> {
        cpu_of(&self.servers)
    }

    /// Starts sampling and notes the clocks.
    ///
    /// # Errors
    /// When a server has ended.
    pub(super) async fn begin(&mut self, case: &str) -> Result<(), ProcessError> {
        let mut watched = Vec::new();
        for server in &mut self.servers {
            let client = server.metrics_url.as_deref().map(MetricsClient::new);
            let allocated = match client {
                Some(Ok(client)) => AllocatedWatch::start(client, self.ask_allocated_every).await,
                _ => None,
            };
            watched.push(Watched {
                name: server.name.clone(),
                process: Process::new(server.pid)?,
                allocated,
            });
            let page = page(server.metrics_url.as_deref()).await;
            server.counters_before = page.map(|page| page.totals()).unwrap_or_default();
            server.cpu_before = server.process.cpu()?;
        }
        watched.push(Watched {
            name: OWN_SERIES.to_owned(),
            process: Process::own()?,
            allocated: None,
        });
        self.own.reset_peak().ok();
        self.own_cpu_before = self.own.cpu()?;
        self.begun = cpu_used().map(|used| (Instant::now(), used));
        if let Some(remote) = &mut self.remote {
            remote.begin().await;
        }
        // Without a sampler thread the kernel's peaks are still there.
        self.sampler = Sampler::start(case, watched, SAMPLE_EVERY).ok();
        Ok(())
    }

    /// Ends the measured phase and notes what it cost. `in_flight` are the bytes of the lists that ran at the same time.
    pub(super) async fn end(&mut self, in_flight: u64, requests: u64, measured: &mut Measured) {
        let (server, client, series) = self.cost(in_flight, requests).await;
        measured.case.server = server;
        measured.case.client = Some(client);
        measured.series = series;
        measured.case.rounds = self.rounds.take();
    }

    /// Stops sampling and answers what the phase cost; `None` for the server where none is ours.
    async fn cost(
        &mut self,
        in_flight: u64,
        requests: u64,
    ) -> (Option<ServerFigures>, ClientFigures, Vec<Series>) {
        let own_cpu = self.own.cpu().unwrap_or_default();
        let own_cpu = own_cpu.saturating_sub(self.own_cpu_before);
        let own_cpu_s = own_cpu.as_secs_f64();
        let all_cpu = cpu_used();
        let mut client = ClientFigures {
            program: None,
            cpu_s: own_cpu_s,
            cpu_s_per_request: (requests > 0).then(|| own_cpu_s / requests as f64),
            stall_ms: None,
            rss_peak: self.own.memory().map_or(0, |memory| memory.peak),
            lag_ms: None,
            others_cpu_part: None,
        };
        for server in &mut self.servers {
            let cpu = server.process.cpu().unwrap_or(server.cpu_before);
            let figures = &mut server.figures;
            figures.cpu_s = cpu.saturating_sub(server.cpu_before).as_secs_f64();
            figures.cpu_s_per_request = (requests > 0).then(|| figures.cpu_s / requests as f64);
            figures.peak_above_idle = figures.rss_peak.saturating_sub(figures.rss_idle);
            self.figures.cpu_s += figures.cpu_s;
        }
        if !self.servers.is_empty() {
            client.others_cpu_part = self.others(own_cpu_s + self.figures.cpu_s, all_cpu);
        }
        let series = match self.sampler.take() {
            Some(sampler) => sampler.stop().0,
            None => Vec::new(),
        };
        if let Some(remote) = &mut self.remote {
            let figures = remote.end(in_flight, requests).await;
            return (figures, client, series);
        }
        if self.servers.is_empty() {
            return (None, client, series);
        }
        for server in &self.servers {
            if let Some(page) = page(server.metrics_url.as_deref()).await {
                let changed = changed(&server.counters_before, page.totals());
                self.figures.counters.extend(changed);
            }
        }
        self.note_tiers().await;
        self.note_series_peaks(&series);
        self.lower_idle(&series);
        self.figures.settle(in_flight, requests);
        (Some(self.figures.clone()), client, series)
    }

    /// What neither we nor the servers had of the machine, as a part of what it could give.
    fn others(&self, ours_s: f64, all: Option<Duration>) -> Option<f64> {
        let (begun, before) = self.begun?;
        let elapsed = begun.elapsed();
        if elapsed < LEAST_TOLD {
            return None;
        }
        let cores = std::thread::available_parallelism().ok()?.get();
        let all_s = all?.saturating_sub(before).as_secs_f64();
        Some((all_s - ours_s).max(0.0) / (elapsed.as_secs_f64() * cores as f64))
    }

    /// Each process by itself, and what the Kubernetes tier's keeps when it has settled again.
    async fn note_tiers(&mut self) {
        for server in &mut self.servers {
            if server.name != "kube" {
                self.figures.etcd = Some(server.figures.clone());
                continue;
            }
            // A process that has ended is noticed elsewhere.
            if settle(server).await.is_ok()
                && let Ok(memory) = server.process.memory()
            {
                server.figures.rss_after = Some(memory.rss);
                let stored = self.stored_bytes.filter(|&bytes| bytes > 0);
                server.figures.after_per_stored_byte =
                    stored.map(|bytes| memory.rss as f64 / bytes as f64);
            }
            self.figures.kube = Some(server.figures.clone());
        }
    }

    fn note_series_peaks(&mut self, series: &[Series]) {
        let servers = series.iter().filter(|series| series.process != OWN_SERIES);
        let mut allocated = Some(0);
        for series in servers {
            let highest = |of: fn(&Sample) -> u64| series.samples.iter().map(of).max().unwrap_or(0);
            self.figures.rss_anon_peak += highest(|sample| sample.anon);
            self.figures.rss_file_peak += highest(|sample| sample.file);
            let highest = series.samples.iter().filter_map(|s| s.allocated).max();
            allocated = allocated.zip(highest).map(|(sum, bytes)| sum + bytes);
        }
        self.figures.allocated_peak = allocated.filter(|_| self.figures.allocated_idle.is_some());
    }

    /// A server that has settled may give back some more while it is measured, and what it holds then would be hidden below
    /// that: idle is the lowest that was seen.
    fn lower_idle(&mut self, series: &[Series]) {
        let servers = || series.iter().filter(|series| series.process != OWN_SERIES);
        if servers().count() != self.servers.len() {
            return;
        }
        let lowest = |of: fn(&Sample) -> Option<u64>| {
            let each = servers().map(|series| series.samples.iter().filter_map(of).min());
            each.sum::<Option<u64>>()
        };
        let figures = &mut self.figures;
        if let Some(lowest) = lowest(|sample| Some(sample.rss)) {
            let lower = figures.rss_idle.saturating_sub(lowest);
            figures.rss_idle -= lower;
            for above in &mut figures.peaks_above_idle {
                *above += lower;
            }
        }
        let allocated = figures
            .allocated_idle
            .zip(lowest(|sample| sample.allocated));
        if let Some((idle, lowest)) = allocated {
            figures.allocated_idle = Some(idle.min(lowest));
        }
    }

    fn peak(&mut self) -> u64 {
        let mut sum = 0;
        for server in &mut self.servers {
            let peak = server.process.memory().map_or(0, |memory| memory.peak);
            server.figures.rss_peak = server.figures.rss_peak.max(peak);
            sum += peak;
        }
        sum
    }
}

/// CPU time that all of them have used since they started; `None` without any, or where one has ended.
fn cpu_of(servers: &[Metered]) -> Option<Duration> {
    let each = servers.iter().map(|server| server.process.cpu().ok());
    let sum = each.sum::<Option<Duration>>();
    sum.filter(|_| !servers.is_empty())
}

/// Asks a server to give back what it does not use; waits where it cannot be asked.
async fn settle(server: &Metered) -> Result<(), ProcessError> {
    if let Some(Ok(mut client)) = server.metrics_url.as_deref().map(MetricsClient::new)
        && client.text(Method::POST, "/debug/settle").await.is_ok()
    {
        return Ok(());
    }
    let begun = Instant::now();
    let mut before = server.process.memory()?.rss;
    while begun.elapsed() < SETTLE_WITHIN {
        tokio::time::sleep(SETTLE_STEP).await;
        let now = server.process.memory()?.rss;
        if now.abs_diff(before) < SETTLED_BYTES {
            break;
        }
        before = now;
    }
    Ok(())
}

async fn page(url: Option<&str>) -> Option<MetricsText> {
    MetricsClient::new(url?).ok()?.metrics().await.ok()
}

/// By how much each counter has grown, where it has.
fn changed(before: &BTreeMap<String, f64>, after: BTreeMap<String, f64>) -> BTreeMap<String, u64> {
    after
        .into_iter()
        .filter_map(|(name, value)| {
            let grown = value - before.get(&name).copied().unwrap_or(0.0);
            (grown >= 1.0).then_some((name, grown as u64))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_counters_that_grew_are_kept() {
        let of = |pairs: &[(&str, f64)]| {
            let pairs = pairs.iter();
            pairs
                .map(|&(name, value)| (name.to_owned(), value))
                .collect()
        };
        let before: BTreeMap<String, f64> = of(&[("a_total", 3.0), ("b_total", 5.0)]);
        let after = of(&[("a_total", 3.0), ("b_total", 9.0), ("c_total", 1.0)]);
        let expected = BTreeMap::from([("b_total".to_owned(), 4), ("c_total".to_owned(), 1)]);
        assert_eq!(changed(&before, after), expected);
    }
}
