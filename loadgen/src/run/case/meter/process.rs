//! What one server process costs: its memory at rest and at its peaks, its CPU and its counters.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use measure::{
    Highest, MetricsClient, MetricsError, MetricsText, Process, ProcessError, Series, grown, settle,
};
use report::result::{Spread, TierFigures};

/// What a Kubernetes tier tells about the filling of its caches: nearly all of it is the data
/// set's.
const CACHE_FILL: &str = "apiserver_watch_cache_initialization_duration_seconds_sum";

/// One server process.
pub(super) struct Metered {
    pub(super) name: String,
    pub(super) pid: u32,
    pub(super) process: Process,
    pub(super) metrics_url: Option<String>,
    pub(super) cpu_before: Duration,
    /// Its counters when the measured phase began; `None` where it tells none.
    pub(super) counters_before: Option<BTreeMap<String, f64>>,
    pub(super) figures: TierFigures,
    /// Private and allocated memory at the peak of each round.
    pub(super) round_peaks: Vec<(u64, Option<u64>)>,
}

impl Metered {
    /// Looks at the process with this id.
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
            figures: TierFigures::default(),
            round_peaks: Vec::new(),
        })
    }

    /// Waits until it is at rest and takes its idle figures; what could not be read is noted in
    /// `missing`.
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

    /// Notes its clock and counters at the beginning of the measured phase.
    ///
    /// # Errors
    /// When it has ended.
    pub(super) async fn begin(&mut self, missing: &mut Vec<String>) -> Result<(), ProcessError> {
        // Without the page nothing can be counted: all totals are since the server started.
        self.counters_before = self.counters(missing).await.map(|page| page.totals());
        self.cpu_before = self.process.cpu()?;
        Ok(())
    }

    /// Returns by how much its counters grew since [`Self::begin`]; empty where it tells none.
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

    /// Notes what it keeps when it has settled again, after the measured phase.
    pub(super) async fn note_after(&mut self, stored_bytes: Option<u64>) {
        let mut client = client_of(self.metrics_url.as_deref());
        // A process that has ended is noticed elsewhere.
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

    /// Takes peaks outside of rounds, and idle figures: a server that has settled may give back
    /// some more while it is measured, and what it holds then would be hidden below that, so
    /// idle is the lowest that was seen.
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

    /// Begins a stretch with a peak of its own. A process that has ended is noticed elsewhere.
    pub(super) fn reset_peak(&self) -> Result<(), ProcessError> {
        match self.process.reset_peak() {
            Err(refused) if self.process.is_alive() => Err(refused),
            _ => Ok(()),
        }
    }

    /// Private and allocated memory at the peak of the stretch that ends now, of which samples saw
    /// the highest; `None` of a process that has ended. That of a stretch that is the case's is
    /// noted.
    pub(super) fn peak(
        &mut self,
        mut highest: Highest,
        is_noted: bool,
    ) -> Option<(u64, Option<u64>)> {
        let memory = self.process.memory().ok()?;
        // Where nothing is sampled, what is there now stands for the stretch.
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

/// Returns what these processes held late in a phase over what they held early in it, together: the
/// ratios of windows, of the first late to the first early one and so on. `None` where the series
/// of one of them does not tell.
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
    // Of each window by itself: memory that grows steadily has about the same ratio in all.
    let ratios = late.iter().zip(&early);
    Spread::of(ratios.map(|(&late, &early)| late as f64 / early as f64))
}

/// Adds what one process held in each window to what the others did.
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

/// Returns what was read; where that failed, notes what is `missing` and why.
pub(super) fn known<T>(
    read: Result<T, impl Display>,
    what: impl FnOnce() -> String,
    missing: &mut Vec<String>,
) -> Option<T> {
    read.map_err(|why| missing.push(format!("{}: {why}", what())))
        .ok()
}
