//! The cost of a case: memory and CPU of the servers that loadgen started and of the generator
//! itself, and the servers' own counters.
//!
//! - [`process`]: the cost of one server process
//! - [`remote`]: the same of a server that loadgen did not start, from its own metrics

mod process;
mod remote;

use std::io;
use std::time::Duration;

use measure::{
    AllocatedWatch, Highest, MachineClocks, MetricsClient, Process, ProcessError, Rounds,
    SAMPLE_EVERY, Sampler, Series, Watched, rss_resolution, socket_memory, socket_resolution,
};
use report::result::{ClientMetrics, ServerMetrics};

use process::{Metered, known, late_over_early};
use remote::Remote;

use super::Measured;
use super::profile::{Profilers, Profiling};
use crate::servers::running::Running;
use crate::to_result;

/// How often a server is asked for its allocated bytes. Building the metrics page costs the server
/// CPU time: etcd's page is large.
const ASK_ALLOCATED_EVERY: Duration = Duration::from_millis(200);
/// The same for lists that are far apart or slow: five pages a second would be most of the work of
/// such a server.
const ASK_SELDOM: Duration = Duration::from_secs(2);
/// The name of the generator's own series.
const OWN_SERIES: &str = "loadgen";

/// Why memory and CPU cannot be measured.
#[derive(Debug, thiserror::Error)]
pub(super) enum MeterError {
    /// A process cannot be inspected.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// Without samples, private memory cannot be distinguished from pages of files.
    #[error("no thread that samples memory: {0}")]
    NoSampler(#[source] io::Error),
}

/// The servers' memory at its peak.
#[derive(Debug, Clone, Copy)]
pub(super) struct PeakMemory {
    /// Private memory of all servers.
    pub(super) private: u64,
    /// Like [`ServerMetrics::peak_above_idle`].
    pub(super) above_idle: u64,
}

/// The meter of one case.
pub(super) struct Meter {
    servers: Vec<Metered>,
    /// A server that loadgen did not start and that exposes its metrics. `servers` is empty then.
    remote: Option<Remote>,
    /// Why such a server's metrics are not available.
    unmetered: Option<String>,
    /// The measurements that could not be read, each with the reason.
    missing: Vec<String>,
    own: Process,
    own_cpu_before: Duration,
    /// The machine's clocks at the start of the measured phase.
    begun: Option<MachineClocks>,
    figures: ServerMetrics,
    stored_bytes: Option<u64>,
    ask_allocated_every: Duration,
    /// Whether the load is constant throughout the phase.
    is_steady: bool,
    /// Whether the generator keeps events in memory until the phase is over.
    keeps_events: bool,
    sampler: Option<Sampler>,
    rounds: Rounds,
    /// The profilers, if profiles are asked for.
    profilers: Option<Profilers>,
    profiling: Option<Profiling>,
}

impl Meter {
    /// Waits until the servers are at rest and records their idle memory. `stored_bytes` is the
    /// size of the data that was written to them.
    ///
    /// # Errors
    /// When a server has ended.
    pub(super) async fn settled(
        running: &Running,
        stored_bytes: Option<u64>,
    ) -> Result<Self, ProcessError> {
        let mut servers = Vec::new();
        for child in running.processes() {
            let metrics_url = running.metrics_url(child.name());
            servers.push(Metered::new(child.name(), child.pid(), metrics_url)?);
        }
        let (remote, unmetered) = match running.processes() {
            [] => match Remote::open(running).await {
                Ok(remote) => (Some(remote), None),
                Err(error) => (None, Some(error.to_string())),
            },
            _ => (None, None),
        };
        let mut missing: Vec<String> = Vec::new();
        missing.extend(
            unmetered
                .iter()
                .map(|reason| format!("memory and CPU of the server: {reason}")),
        );
        let mut figures = ServerMetrics::default();
        for server in &mut servers {
            server.settle(&mut missing).await?;
        }
        if !servers.is_empty() {
            figures.rss_resolution = Some(rss_resolution() * servers.len() as u64);
            figures.socket_idle = socket_memory();
            figures.socket_resolution = Some(socket_resolution());
        }
        Ok(Self {
            servers,
            remote,
            unmetered,
            missing,
            own: Process::own()?,
            own_cpu_before: Duration::ZERO,
            begun: None,
            figures,
            stored_bytes,
            ask_allocated_every: ASK_ALLOCATED_EVERY,
            is_steady: true,
            keeps_events: false,
            sampler: None,
            rounds: Rounds::default(),
            profilers: None,
            profiling: None,
        })
    }

    /// Reads allocated bytes less often, for lists that start or are read at a given pace, between
    /// which the servers are idle.
    pub(super) fn ask_seldom(&mut self) {
        self.ask_allocated_every = ASK_SELDOM;
    }

    /// Declares that the load changes within the phase. Memory may change with it, so its growth
    /// means nothing.
    pub(super) fn load_changes(&mut self) {
        self.is_steady = false;
    }

    /// Declares that the generator keeps every event or write until the phase is over, so that its
    /// memory grows by design.
    pub(super) fn generator_keeps_events(&mut self) {
        self.keeps_events = true;
    }

    /// Profiles the servers during the measured phase, if `profilers` are given.
    pub(super) fn profile_by(&mut self, profilers: Option<Profilers>) {
        self.profilers = profilers;
    }

    /// Sets the expected duration of the measured phase, for servers that profile themselves.
    pub(super) fn expect(&mut self, measured: Duration) {
        if let Some(profilers) = &mut self.profilers {
            profilers.expect(measured);
        }
    }

    /// Begins a round of the measured phase and resets the memory peaks.
    ///
    /// # Errors
    /// Those of [`Self::reset_peaks`].
    pub(super) fn begin_round(&mut self) -> Result<(), ProcessError> {
        self.reset_peaks()?;
        self.rounds.begin(self.cpu());
        Ok(())
    }

    /// Resets the memory peaks.
    ///
    /// # Errors
    /// When the kernel refuses it: the peaks would include earlier work, such as seeding.
    pub(super) fn reset_peaks(&self) -> Result<(), ProcessError> {
        self.servers.iter().try_for_each(Metered::reset_peak)?;
        if let Some(sampler) = &self.sampler {
            // Samples until now belong to no measured interval.
            drop(sampler.take_highest());
        }
        Ok(())
    }

    /// Includes the peaks since [`Self::reset_peaks`] in the case's peaks, but not in those of its
    /// rounds.
    pub(super) fn note_peak(&mut self) {
        self.peaks(true);
    }

    /// Starts sampling for the lists before the measured phase, which are not part of the case's
    /// measurements.
    ///
    /// # Errors
    /// When a server has ended, or the sampling thread cannot be started.
    pub(super) async fn begin_warm_up(&mut self) -> Result<(), MeterError> {
        let watched = self.watched().await?;
        self.sampler = Some(sampler(watched)?);
        Ok(())
    }

    /// Returns the servers' peak memory since [`Self::reset_peaks`]; `None` if loadgen started none
    /// of them, or one has ended.
    pub(super) fn peak_of_warm_up(&mut self) -> Option<PeakMemory> {
        let peaks = self.peaks(false)?;
        let servers = self.servers.iter().zip(&peaks);
        let above =
            servers.map(|(server, &(anon, allocated))| server.figures.above_idle(anon, allocated));
        let above_idle = above.sum();
        (!peaks.is_empty()).then(|| PeakMemory {
            private: peaks.iter().map(|(anon, _)| anon).sum(),
            above_idle,
        })
    }

    /// Stops sampling after the warm-up.
    pub(super) fn end_warm_up(&mut self) {
        self.sampler = None;
    }

    /// Returns why the metrics of a server that loadgen did not start are not available.
    pub(super) fn unmetered(&self) -> Option<&str> {
        self.unmetered.as_deref()
    }

    /// Records the peak of a round. If the round is `whole`, so that nothing in it failed or was
    /// stopped, records its time and CPU, too.
    pub(super) async fn end_of_round(&mut self, whole: bool) {
        self.rounds.end(whole, self.cpu());
        if let Some(remote) = &mut self.remote {
            remote.look_again().await;
            return;
        }
        let peaks = self.peaks(true).into_iter().flatten();
        for (server, peak) in self.servers.iter_mut().zip(peaks) {
            server.round_peaks.push(peak);
        }
    }

    /// Returns the private and allocated memory of each server at its peak since the last
    /// [`Self::reset_peaks`]; `None` if one has ended. Includes the peaks in the case's if
    /// `are_noted`.
    fn peaks(&mut self, are_noted: bool) -> Option<Vec<(u64, Option<u64>)>> {
        let sampler = self.sampler.as_ref();
        let seen = sampler.map(Sampler::take_highest).unwrap_or_default();
        let seen = seen
            .into_iter()
            .chain(std::iter::repeat(Highest::default()));
        let servers = self.servers.iter_mut().zip(seen);
        let peaks = servers.map(|(server, highest)| server.peak(highest, are_noted));
        let peaks: Vec<_> = peaks.collect();
        peaks.into_iter().collect()
    }

    /// Returns the CPU time that the servers have used since they started; `None` if loadgen
    /// started none of them, or one has ended.
    pub(super) fn cpu(&self) -> Option<Duration> {
        cpu_of(&self.servers)
    }

    /// Starts sampling and records the clocks.
    ///
    /// # Errors
    /// When a server has ended, or memory cannot be sampled.
    pub(super) async fn begin(&mut self) -> Result<(), MeterError> {
        let mut watched = self.watched().await?;
        for server in &mut self.servers {
            server.begin(&mut self.missing).await?;
        }
        watched.push(Watched {
            name: OWN_SERIES.to_owned(),
            process: Process::own()?,
            allocated: None,
        });
        self.own.reset_peak()?;
        self.own_cpu_before = self.own.cpu()?;
        self.begun = Some(MachineClocks::now());
        if let Some(remote) = &mut self.remote {
            self.missing.extend(remote.begin().await);
        }
        self.sampler = Some(sampler(watched)?);
        self.profiling = self.profilers.as_ref().map(Profilers::begin);
        Ok(())
    }

    /// Returns the servers to sample.
    async fn watched(&self) -> Result<Vec<Watched>, ProcessError> {
        let mut watched = Vec::new();
        for server in &self.servers {
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
        }
        Ok(watched)
    }

    /// Ends the measured phase and records its cost. `in_flight` is the number of bytes of the
    /// lists that ran concurrently.
    pub(super) async fn end(&mut self, in_flight: u64, requests: u64, measured: &mut Measured) {
        let clocks = MachineClocks::now();
        let profiling = self.profiling.take();
        profiling.iter().for_each(Profiling::stop);
        let (server, client, series) = self.cost(in_flight, requests).await;
        let servers = self.servers.iter().map(|server| server.figures.cpu_s);
        let ours = servers.chain([client.cpu_s]).sum::<Option<f64>>();
        let ours = ours.filter(|_| !self.servers.is_empty());
        let ours = ours.map(Duration::from_secs_f64);
        let begun = self.begun.as_ref();
        let load = begun.and_then(|begun| begun.load_until(&clocks, ours));
        measured.case.machine = load.map(to_result::machine_load);
        measured.case.server = server;
        measured.case.client = Some(client);
        measured.case.missing_figures = std::mem::take(&mut self.missing);
        let case = measured.case.id();
        let series = series.into_iter();
        measured.series = series.map(|one| to_result::series(&case, one)).collect();
        let rounds = self.rounds.take().into_iter();
        measured.case.rounds = rounds.map(to_result::round).collect();
        measured.profiles = match profiling {
            Some(profiling) => profiling.taken().await,
            None => Vec::new(),
        };
    }

    /// Stops sampling and returns the cost of the phase: `None` for the servers if loadgen started
    /// none of them and their own metrics are not available.
    async fn cost(
        &mut self,
        in_flight: u64,
        requests: u64,
    ) -> (Option<ServerMetrics>, ClientMetrics, Vec<Series>) {
        let mut client = self.client_cost(requests);
        self.note_cpu_of_servers(requests);
        let series = match self.sampler.take() {
            Some(sampler) => {
                let sampled = sampler.stop();
                self.figures.socket_peak = sampled.most_socket_memory;
                sampled.series
            }
            None => Vec::new(),
        };
        if self.is_steady && !self.keeps_events {
            let own = late_over_early(&series, [OWN_SERIES]);
            client.late_over_early = own.map(|own| own.p50);
            client.late_over_early_likely = own.and_then(|own| own.likely);
        }
        if let Some(remote) = &mut self.remote {
            let (figures, missing) = remote.end(in_flight, requests).await;
            self.missing.extend(missing);
            return (figures, client, series);
        }
        if self.servers.is_empty() {
            return (None, client, series);
        }
        for server in &self.servers {
            let counters = server.counters_since(&mut self.missing).await;
            self.figures.counters.extend(counters);
        }
        if self.is_steady {
            let names = self.servers.iter().map(|server| server.name.as_str());
            let theirs = late_over_early(&series, names);
            self.figures.late_over_early = theirs.map(|theirs| theirs.p50);
            self.figures.late_over_early_likely = theirs.and_then(|theirs| theirs.likely);
        }
        for server in &mut self.servers {
            if let Some(series) = series.iter().find(|series| series.process == server.name) {
                server.note_series(series);
            }
            // A watch cache keeps memory that makes it faster the next time.
            if server.name == "kube" {
                server.note_after(self.stored_bytes).await;
            }
        }
        self.add_up();
        self.figures.settle(in_flight, requests);
        (Some(self.figures.clone()), client, series)
    }

    /// Returns the generator's CPU time of the phase, and its peak memory.
    fn client_cost(&mut self, requests: u64) -> ClientMetrics {
        let missing = &mut self.missing;
        let cpu = || "CPU time of the generator".to_owned();
        let memory = || "memory of the generator".to_owned();
        let cpu_s = known(self.own.cpu(), cpu, missing);
        let cpu_s = cpu_s.map(|now| seconds_since(self.own_cpu_before, now));
        let memory = known(self.own.memory(), memory, missing);
        ClientMetrics {
            program: None,
            cpu_s,
            cpu_s_per_request: cpu_s.and_then(|cpu_s| per_request(cpu_s, requests)),
            stall_ms: None,
            rss_peak: memory.map(|memory| memory.peak),
            late_over_early: None,
            late_over_early_likely: None,
            lag_ms: None,
        }
    }

    fn note_cpu_of_servers(&mut self, requests: u64) {
        for server in &mut self.servers {
            let what = || format!("CPU time of {}", server.name);
            let cpu = known(server.process.cpu(), what, &mut self.missing);
            let cpu_s = cpu.map(|now| seconds_since(server.cpu_before, now));
            server.figures.cpu_s = cpu_s;
            server.figures.cpu_s_per_request = cpu_s.and_then(|cpu_s| per_request(cpu_s, requests));
        }
    }

    /// Adds up the measurements of the processes, and records those of each tier separately, too.
    fn add_up(&mut self) {
        let tiers = self.servers.iter_mut().map(|server| &mut server.figures);
        self.figures.add_up(tiers);
        let stored = self.stored_bytes.filter(|&bytes| bytes > 0);
        let idle = self.figures.rss_anon_idle.zip(stored);
        self.figures.idle_per_stored_byte = idle.map(|(idle, bytes)| idle as f64 / bytes as f64);
        let rounds = self.servers.iter().map(|server| server.round_peaks.len());
        let rounds = rounds.min().unwrap_or(0);
        let above = |round: usize| {
            let servers = self.servers.iter();
            let each = servers.map(|server| {
                let (anon, allocated) = server.round_peaks[round];
                server.figures.above_idle(anon, allocated)
            });
            each.sum()
        };
        self.figures.peaks_above_idle = (0..rounds).map(above).collect();
        for server in &self.servers {
            let figures = Some(server.figures.clone());
            match server.name.as_str() {
                "kube" => self.figures.kube = figures,
                _ => self.figures.etcd = figures,
            }
        }
    }
}

/// Returns the CPU time that all servers have used since they started; `None` without servers, or
/// if one has ended.
fn cpu_of(servers: &[Metered]) -> Option<Duration> {
    let each = servers.iter().map(|server| server.process.cpu().ok());
    let sum = each.sum::<Option<Duration>>();
    sum.filter(|_| !servers.is_empty())
}

fn sampler(watched: Vec<Watched>) -> Result<Sampler, MeterError> {
    Sampler::start(watched, SAMPLE_EVERY).map_err(MeterError::NoSampler)
}

fn seconds_since(before: Duration, now: Duration) -> f64 {
    now.saturating_sub(before).as_secs_f64()
}

fn per_request(cpu_s: f64, requests: u64) -> Option<f64> {
    (requests > 0).then(|| cpu_s / requests as f64)
}

#[cfg(test)]
mod tests;
