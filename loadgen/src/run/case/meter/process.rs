//! The cost of one server process: its memory at rest and at its peaks, its CPU and its counters.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use measure::{
    Highest, MetricsClient, MetricsError, MetricsText, Process, ProcessError, Series, grown, settle,
};
use report::result::{Spread, TierMetrics};

/// The metric of the time in which a Kubernetes tier filled its caches: nearly all of it is for the
/// data set.
const CACHE_FILL: &str = "apiserver_watch_cache_initialization_duration_seconds_sum";

/// One server process.
pub(super) struct Metered {
    pub(super) name: String,
    pub(super) pid: u32,
    pub(super) process: Process,
    pub(super) metrics_url: Option<String>,
    pub(super) cpu_before: Duration,
    /// Its counters at the start of the measured phase; `None` if they could not be read.
    pub(super) counters_before: Option<BTreeMap<String, f64>>,
    pub(super) figures: TierMetrics,
    /// Private and allocated memory at the peak of each round.
    pub(super) round_peaks: Vec<(u64, Option<u64>)>,
}

impl Metered {
    /// Opens the process with this id.
    ///
    /// # Errors
    /// When it has ended.
    pub(super) fn new(
        name: &str,
        pid: u32,
        metrics_url: Option<String>,
    ) -> Result<Self, ProcessError> {
        Ok(Self {
            name: name.to_owned(),
            pid,
            process: Process::new(pid)?,
            metrics_url,
            cpu_before: Duration::ZERO,
            counters_before: None,
            figures: TierMetrics::default(),
            round_peaks: Vec::new(),
        })
    }

    /// Waits until the process is at rest and records its idle memory. Adds what could not be read
    /// to `missing`.
    ///
    /// # Errors
    /// When it has ended.
    pub(super) async fn settle(&mut self, missing: &mut Vec<String>) -> Result<(), ProcessError> {
        let mut client = client_of(self.metrics_url.as_deref());
        settle(&self.process, client.as_mut()).await?;
        let idle = self.process.memory()?;
        self.figures.rss_idle = idle.rss;
        self.figures.rss_anon_idle = idle.anon;
        self.figures.rss_file_idle = idle.file;
        let page = page(client.as_mut()).await;
        let what = || format!("what {} has allocated at rest", self.name);
        let page = known(page, what, missing).flatten();
        let fill = page.as_ref().and_then(|page| page.sum(CACHE_FILL));
        self.figures.cache_fill_s = fill.filter(|&seconds| seconds > 0.0);
        self.figures.allocated_idle = page.and_then(|page| page.allocated());
        Ok(())
    }

    /// Records the process's CPU time and counters at the start of the measured phase.
    ///
    /// # Errors
    /// When it has ended.
    pub(super) async fn begin(&mut self, missing: &mut Vec<String>) -> Result<(), ProcessError> {
        // Without this page there are no counters: all totals are since the server started.
        self.counters_before = self.counters(missing).await.map(|page| page.totals());
        self.cpu_before = self.process.cpu()?;
        Ok(())
    }

    /// Returns by how much the counters grew since [`Self::begin`]; empty if they could not be
    /// read.
    pub(super) async fn counters_since(&self, missing: &mut Vec<String>) -> BTreeMap<String, u64> {
        let Some(before) = &self.counters_before else {
            return BTreeMap::new();
        };
        match self.counters(missing).await {
            Some(page) => grown(before, page.totals()),
            None => BTreeMap::new(),
        }
    }

    async fn counters(&self, missing: &mut Vec<String>) -> Option<MetricsText> {
        let page = page(client_of(self.metrics_url.as_deref()).as_mut()).await;
        let what = || format!("counters of {}", self.name);
        known(page, what, missing).flatten()
    }

    /// Records the memory that the process keeps after the measured phase, when it has settled
    /// again.
    pub(super) async fn note_after(&mut self, stored_bytes: Option<u64>) {
        let mut client = client_of(self.metrics_url.as_deref());
        // A process that has ended is detected elsewhere.
        if settle(&self.process, client.as_mut()).await.is_ok()
            && let Ok(memory) = self.process.memory()
        {
            self.figures.rss_after = Some(memory.rss);
            self.figures.rss_anon_after = Some(memory.anon);
            let stored = stored_bytes.filter(|&bytes| bytes > 0);
            self.figures.after_per_stored_byte =
                stored.map(|bytes| memory.anon as f64 / bytes as f64);
        }
    }

    /// Includes the samples of a phase in the peaks, also those between rounds, and in the idle
    /// memory: a server that has settled may release more memory while it is measured. What it then
    /// holds would be hidden below that difference, so the lowest sample counts as idle.
    pub(super) fn note_series(&mut self, series: &Series) {
        let figures = &mut self.figures;
        for sample in &series.samples {
            figures.rss_idle = figures.rss_idle.min(sample.rss);
            figures.rss_anon_idle = figures.rss_anon_idle.min(sample.anon);
            figures.rss_anon_peak = figures.rss_anon_peak.max(sample.anon);
            figures.rss_file_peak = figures.rss_file_peak.max(sample.file);
            let allocated = figures.allocated_idle.zip(sample.allocated);
            figures.allocated_idle = match allocated {
                Some((idle, now)) => Some(idle.min(now)),
                None => figures.allocated_idle,
            };
            figures.allocated_peak = figures.allocated_peak.max(sample.allocated);
        }
    }

    /// Resets the peak of resident memory. A process that has ended is no error here; that is
    /// detected elsewhere.
    pub(super) fn reset_peak(&self) -> Result<(), ProcessError> {
        match self.process.reset_peak() {
            Err(refused) if self.process.is_alive() => Err(refused),
            _ => Ok(()),
        }
    }

    /// Returns private and allocated memory at the peak since the last reset, given the highest
    /// samples since then; `None` if the process has ended. Includes the peak in the case's peaks
    /// if `is_noted`.
    pub(super) fn peak(
        &mut self,
        mut highest: Highest,
        is_noted: bool,
    ) -> Option<(u64, Option<u64>)> {
        let memory = self.process.memory().ok()?;
        // Without sampling, the current memory stands for the whole interval.
        highest.see(&memory, None);
        let private = highest.private(memory.peak);
        if is_noted {
            let figures = &mut self.figures;
            figures.rss_peak = figures.rss_peak.max(memory.peak);
            figures.rss_anon_peak = figures.rss_anon_peak.max(private);
            figures.rss_file_peak = figures.rss_file_peak.max(highest.file);
        }
        Some((private, highest.allocated))
    }
}

/// Returns the ratio of the memory that these processes hold together late in a phase to what they
/// hold early in it. The ratios are those of windows: the first late window to the first early one,
/// and so on. `None` if the series of one of the processes is missing or too short.
pub(super) fn late_over_early<'n>(
    series: &[Series],
    processes: impl IntoIterator<Item = &'n str>,
) -> Option<Spread> {
    let (mut early, mut late) = (Vec::new(), Vec::new());
    for process in processes {
        let series = series.iter().find(|series| series.process == process)?;
        let held = series.early_and_late()?;
        add(&mut early, held.early);
        add(&mut late, held.late);
    }
    // One ratio for each window: memory that grows steadily has about the same ratio in all of
    // them.
    let ratios = late.iter().zip(&early);
    Spread::of(ratios.map(|(&late, &early)| late as f64 / early as f64))
}

/// Adds the memory of one process in each window to the sums.
fn add(sum: &mut Vec<u64>, windows: Vec<u64>) {
    sum.resize(windows.len(), 0);
    for (sum, bytes) in sum.iter_mut().zip(windows) {
        *sum += bytes;
    }
}

pub(super) fn client_of(url: Option<&str>) -> Option<MetricsClient> {
    MetricsClient::new(url?).ok()
}

/// Returns a server's metrics page; `None` where it has none.
pub(super) async fn page(
    client: Option<&mut MetricsClient>,
) -> Result<Option<MetricsText>, MetricsError> {
    match client {
        Some(client) => client.metrics().await.map(Some),
        None => Ok(None),
    }
}

/// Returns what was read. If that failed, adds `what` and the reason to `missing`.
pub(super) fn known<T>(
    read: Result<T, impl Display>,
    what: impl FnOnce() -> String,
    missing: &mut Vec<String>,
) -> Option<T> {
    read.map_err(|why| missing.push(format!("{}: {why}", what())))
        .ok()
}
