//! One row, phase by phase: can this machine hold it, start, probe, seed, settle, warm up, lists in rounds, the null sink,
//! first objects. Whatever ends it early, what was measured until then is in the case.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use etcd_api::error::Error as EtcdError;
use tokio_util::sync::CancellationToken;
use workloads::{DataSet, Scenario, Strategy, Tier};

use super::needs::Needs;
use super::plan::needs_kubernetes;
use super::{Plan, Target, described};
use crate::pace::closed::{Clients, Done, Job, Verifier};
use crate::progress::{Counted, Progress};
use crate::record::{LatencyHistogram, Series, TaggedHistogram};
use crate::result::{self, Case, Outcome, ServedFrom, ServerSetup};
use crate::sample;
use crate::seed::{Written, seed};
use crate::target::Running;
use crate::target::list::{ListError, Reach, Row};
use crate::verify::{Expected, Found};
use meter::Meter;

mod meter;

/// Error texts that a case keeps.
const KEPT_ERRORS: usize = 5;
/// How long the first-object phase may take: a server that builds its whole answer first needs seconds for each.
const FIRST_OBJECT_WITHIN: Duration = Duration::from_secs(5);
/// How long after a failed list its server may be found dead.
const DEATH_WITHIN: Duration = Duration::from_millis(500);
/// Where data sets go on servers that we start: where an apiserver would look for them.
const OWN_ROOT: &str = "/registry/";

/// Where a row's objects come from.
#[derive(Debug, Clone)]
pub(super) enum Source {
    /// Fresh servers are seeded for this row alone.
    Fresh(Arc<DataSet>),
    /// An endpoint that was seeded for all its rows.
    Seeded {
        data: Arc<DataSet>,
        root: String,
        expected: Expected,
    },
    /// Whatever is there.
    There { prefix: String },
}

/// A row to be run.
pub(super) struct RowRun<'a> {
    pub(super) plan: &'a Plan,
    pub(super) scenario: &'a Scenario,
    pub(super) target: &'a Target,
    pub(super) tier: Tier,
    pub(super) strategy: Strategy,
    pub(super) source: Source,
    pub(super) data_set: String,
    pub(super) run_begun: Instant,
    pub(super) progress: &'a Progress,
    pub(super) stop: &'a CancellationToken,
}

/// What a row came to.
pub(super) struct Measured {
    pub(super) case: Case,
    pub(super) histograms: Vec<TaggedHistogram>,
    pub(super) series: Vec<Series>,
    pub(super) setup: Option<ServerSetup>,
    pub(super) data_set: Option<result::DataSet>,
}

/// Why a row ended before its last phase.
enum Early {
    NotApplicable(String),
    Failed(String),
    Interrupted,
}

impl From<ListError> for Early {
    fn from(error: ListError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl RowRun<'_> {
    /// Runs the row to its end, or to where it had to stop.
    pub(super) async fn measure(&self) -> Measured {
        let mut case = Case::new(
            &self.data_set,
            &self.target.name,
            self.tier,
            &self.strategy.to_string(),
            Outcome::Measured,
        );
        case.clients = self.scenario.clients;
        let mut measured = Measured {
            case,
            histograms: Vec::new(),
            series: Vec::new(),
            setup: None,
            data_set: None,
        };
        if let Err(early) = self.phases(&mut measured).await {
            let case = &mut measured.case;
            case.valid = false;
            case.outcome = match early {
                Early::NotApplicable(reason) => Outcome::NotApplicable { reason },
                Early::Failed(reason) => Outcome::Failed { reason },
                Early::Interrupted => Outcome::Interrupted,
            };
        }
        measured
    }

    async fn phases(&self, measured: &mut Measured) -> Result<(), Early> {
        self.check_possible()?;
        let started = self.plan.launcher.start(&self.target.spec, self.strategy);
        let mut running = self
            .unless_stopped(started)
            .await?
            .map_err(|e| Early::Failed(e.to_string()))?;
        let outcome = self.on(&mut running, measured).await;
        running.setup.target = self.target.name.clone();
        measured.setup = Some(running.setup.clone());
        let outcome = match outcome {
            // The first cause: lists fail because the server is gone.
            Err(Early::Failed(reason)) => Err(Early::Failed(
                match running.death_within(DEATH_WITHIN).await {
                    Some(death) => format!("{death} (then: {reason})"),
                    None => reason,
                },
            )),
            Ok(()) => match running.death().await {
                Some(death) => Err(Early::Failed(death.to_string())),
                None => Ok(()),
            },
            early => early,
        };
        running.stop().await;
        outcome
    }

    /// What can be said before anything is started.
    fn check_possible(&self) -> Result<(), Early> {
        let data = match &self.source {
            Source::Fresh(data) | Source::Seeded { data, .. } => Some(data),
            Source::There { .. } => None,
        };
        let lacks = self.target.spec.lacks(self.tier);
        let lacks = lacks.or_else(|| data.and_then(|data| needs_kubernetes(data, self.tier)));
        if let Some(reason) = lacks {
            return Err(Early::NotApplicable(reason.to_owned()));
        }
        if let Source::Fresh(data) = &self.source {
            let clients = self.scenario.clients;
            let needs = Needs::of(&self.target.spec, self.tier, self.strategy, data, clients);
            // A kernel that does not tell what is free does not stop anybody.
            let memory = sample::free_memory_bytes().unwrap_or(u64::MAX);
            let disk = sample::free_disk_bytes(&std::env::temp_dir()).unwrap_or(u64::MAX);
            if let Some(reason) = needs.refuse(memory, disk, data.len()) {
                return Err(Early::NotApplicable(reason));
            }
        }
        Ok(())
    }

    async fn on(&self, running: &mut Running, measured: &mut Measured) -> Result<(), Early> {
        let row = self.row();
        if let Some(reason) = row.refused_by(running) {
            return Err(Early::NotApplicable(reason));
        }
        measured.case.encoding = Some(row.encoding(running).to_owned());
        measured.case.served_from = row.served_from();
        if self.tier == Tier::Etcd {
            self.probe(&row, running).await?;
        }
        let verifier = self.load(running, measured).await?;
        if self.tier == Tier::Kube {
            let started = self.unless_stopped(running.start_kube()).await?;
            started.map_err(|e| Early::Failed(e.to_string()))?;
        }
        let reach = Reach::from(&*running);
        let clients = Clients::connect(self.scenario.clients, &row, &reach, verifier);
        let clients = self.unless_stopped(clients).await??;
        let meter = Meter::settled(running).await;
        let mut meter = meter.map_err(|e| Early::Failed(e.to_string()))?;
        self.rounds(&clients, &mut meter, running, measured).await
    }

    fn row(&self) -> Row {
        let (prefix, resource) = match &self.source {
            Source::Fresh(data) => (format!("{OWN_ROOT}{}", data.prefix()), data.prefix()),
            Source::Seeded { data, root, .. } => {
                (format!("{root}{}", data.prefix()), data.prefix())
            }
            Source::There { prefix } => (prefix.clone(), "pods/"),
        };
        Row {
            tier: self.tier,
            strategy: self.strategy,
            prefix,
            resource: resource.trim_end_matches('/').to_owned(),
        }
    }

    /// Whether the target knows the call, before anything is written to it for nothing.
    async fn probe(&self, row: &Row, running: &Running) -> Result<(), Early> {
        let reach = Reach::from(running);
        let probe = async {
            let mut lister = row.connect(&reach).await?;
            lister.first_object().await
        };
        match self.unless_stopped(probe).await? {
            // Only RangeStream can be unknown to an etcd.
            Err(ListError::Etcd(EtcdError::Unimplemented(text))) => Err(Early::NotApplicable(
                format!("{} has no RangeStream: {text}", running.setup.program),
            )),
            other => Ok(other?),
        }
    }

    /// Seeds fresh servers; answers against what lists are checked.
    async fn load(&self, running: &Running, measured: &mut Measured) -> Result<Verifier, Early> {
        match &self.source {
            Source::Fresh(data) => {
                let config = running.etcd.as_ref();
                let config = config.ok_or_else(|| Early::Failed("nothing to seed".to_owned()))?;
                let title = format!("{}/{}: seeding", self.target.name, self.strategy);
                let phase = self.progress.phase(&title, data.len(), Counted::Objects);
                let written = Arc::new(Written::default());
                let begun = Instant::now();
                let seeded = seed(config, data, OWN_ROOT, &written, &phase);
                let expected = self.unless_stopped(seeded).await?;
                let expected = expected.map_err(|e| Early::Failed(format!("seeding: {e}")))?;
                phase.done(&format!("{:.1} s", begun.elapsed().as_secs_f64()));
                measured.data_set = Some(described(data, &expected.fingerprint));
                Ok(Verifier {
                    root: OWN_ROOT.to_owned(),
                    expected: Some(expected),
                })
            }
            Source::Seeded {
                data,
                root,
                expected,
            } => {
                measured.data_set = Some(described(data, &expected.fingerprint));
                Ok(Verifier {
                    root: root.clone(),
                    expected: Some(expected.clone()),
                })
            }
            Source::There { .. } => Ok(Verifier {
                root: String::new(),
                expected: None,
            }),
        }
    }

    /// The measured part.
    async fn rounds(
        &self,
        clients: &Clients,
        meter: &mut Meter,
        running: &mut Running,
        measured: &mut Measured,
    ) -> Result<(), Early> {
        let total = u64::from(self.scenario.repeats) * u64::from(self.scenario.clients);
        let title = format!("{}/{}: listing", self.target.name, self.strategy);
        let phase = self.progress.phase(&title, total, Counted::Lists);
        meter.reset_peaks();
        for _ in 0..self.scenario.warmup {
            let done = self.unless_stopped(clients.round(Job::List)).await?;
            for done in done {
                done.result?;
            }
            meter.end_of_warm_up();
        }

        let case_id = measured.case.id();
        let mut lists = Lists::new();
        let begun = meter.begin(&case_id).await;
        begun.map_err(|e| Early::Failed(e.to_string()))?;
        let mut early = Ok(());
        for _ in 0..self.scenario.repeats {
            meter.reset_peaks();
            match self.unless_stopped(clients.round(Job::List)).await {
                Ok(done) => lists.take(done),
                Err(stopped) => {
                    early = Err(stopped);
                    break;
                }
            }
            meter.end_of_round();
            phase.advance(u64::from(self.scenario.clients));
            if running.death().await.is_some() {
                break;
            }
        }
        let elapsed = lists.begun.elapsed();
        let in_flight = lists.bytes_of_one() * u64::from(self.scenario.clients);
        let (figures, client, series) = meter.end(in_flight, lists.requests).await;
        measured.series = series;
        measured.case.server = figures;
        measured.case.client = Some(client);
        if self.tier == Tier::Kube {
            measured.case.served_from = served_from(measured.case.server.as_ref());
        }
        lists.describe(&mut measured.case, elapsed);
        let latency = lists.tagged("latency", &case_id, self.run_begun, elapsed);
        measured.histograms.push(latency);
        early?;
        if let Some(reason) = measured.case.error_samples.first() {
            return Err(Early::Failed(format!(
                "{} of {} lists failed: {reason}",
                measured.case.errors, measured.case.requests
            )));
        }
        phase.done(&format!("{} lists", lists.requests));
        self.null_sink(clients, &case_id, measured).await?;
        self.first_objects(clients, &case_id, measured).await?;
        measured.case.valid = true;
        measured.case.mark_client_limited();
        Ok(())
    }

    async fn null_sink(
        &self,
        clients: &Clients,
        case_id: &str,
        measured: &mut Measured,
    ) -> Result<(), Early> {
        let mut lists = Lists::new();
        for _ in 0..self.scenario.repeats {
            let done = self.unless_stopped(clients.round(Job::Drain)).await?;
            for done in done {
                lists.latency.record(done.latency);
                done.result?;
            }
        }
        let elapsed = lists.begun.elapsed();
        measured.case.null_sink_ms = Some(lists.latency.quantiles_ms());
        let tagged = lists.tagged("null_sink", case_id, self.run_begun, elapsed);
        measured.histograms.push(tagged);
        Ok(())
    }

    /// Lists cancelled after their first object: as many as the scenario wants, or as the time allows.
    async fn first_objects(
        &self,
        clients: &Clients,
        case_id: &str,
        measured: &mut Measured,
    ) -> Result<(), Early> {
        let wanted = u64::from(self.scenario.first_chunk_streams);
        if wanted == 0 {
            return Ok(());
        }
        let mut lists = Lists::new();
        while lists.latency.n() < wanted && lists.begun.elapsed() < FIRST_OBJECT_WITHIN {
            let done = self.unless_stopped(clients.round(Job::FirstObject)).await?;
            for done in done {
                lists.latency.record(done.latency);
                done.result?;
            }
        }
        let elapsed = lists.begun.elapsed();
        measured.case.first_chunk_ms = Some(lists.latency.quantiles_ms());
        let tagged = lists.tagged("first_chunk", case_id, self.run_begun, elapsed);
        measured.histograms.push(tagged);
        Ok(())
    }

    async fn unless_stopped<T>(&self, work: impl Future<Output = T>) -> Result<T, Early> {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(Early::Interrupted),
            done = work => Ok(done),
        }
    }
}

/// What the lists of a phase came to.
struct Lists {
    begun: Instant,
    latency: LatencyHistogram,
    requests: u64,
    errors: u64,
    error_counts: HashMap<String, u64>,
    wire_bytes: u64,
    chunks: Option<u64>,
    found: Option<Found>,
}

impl Lists {
    fn new() -> Self {
        Self {
            begun: Instant::now(),
            latency: LatencyHistogram::default(),
            requests: 0,
            errors: 0,
            error_counts: HashMap::new(),
            wire_bytes: 0,
            chunks: None,
            found: None,
        }
    }

    fn take(&mut self, round: Vec<Done>) {
        for done in round {
            self.requests += 1;
            match done.result {
                Ok(Some((listed, found))) => {
                    self.latency.record(done.latency);
                    self.wire_bytes += listed.wire_bytes;
                    self.chunks = Some(listed.chunks);
                    self.found = Some(found);
                }
                Ok(None) => {}
                Err(error) => {
                    self.errors += 1;
                    *self.error_counts.entry(error.to_string()).or_default() += 1;
                }
            }
        }
    }

    /// Bytes of one list as received; 0 before there was one.
    fn bytes_of_one(&self) -> u64 {
        self.wire_bytes / (self.requests - self.errors).max(1)
    }

    fn describe(&self, case: &mut Case, elapsed: Duration) {
        case.requests = self.requests;
        case.errors = self.errors;
        case.bytes = self.bytes_of_one();
        case.chunks = self.chunks;
        case.latency_ms = (self.latency.n() > 0).then(|| self.latency.quantiles_ms());
        case.throughput_bytes_per_s =
            (self.wire_bytes > 0).then(|| self.wire_bytes as f64 / elapsed.as_secs_f64());
        case.verified = self.found.as_ref().map(Found::verified);
        case.objects = case.verified.as_ref().map_or(0, |v| v.objects);
        let mut errors: Vec<_> = self.error_counts.iter().collect();
        errors.sort_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.cmp(b.0)));
        let texts = errors.into_iter().take(KEPT_ERRORS);
        case.error_samples = texts.map(|(text, _)| text.clone()).collect();
    }

    fn tagged(
        &self,
        measure: &str,
        case: &str,
        run_begun: Instant,
        duration: Duration,
    ) -> TaggedHistogram {
        TaggedHistogram {
            measure: measure.to_owned(),
            case: case.to_owned(),
            start: self.begun.saturating_duration_since(run_begun),
            duration,
            histogram: self.latency.clone(),
        }
    }
}

/// Which part of the Kubernetes tier answered, by its own counters of the measured phase.
fn served_from(server: Option<&result::ServerFigures>) -> ServedFrom {
    let Some(server) = server else {
        return ServedFrom::Unknown;
    };
    let counted = |part: &str| {
        let matching = server.counters.iter();
        matching
            .filter(|(name, _)| {
                name.starts_with("apiserver_storage_list_total") && name.contains(part)
            })
            .map(|(_, count)| count)
            .sum::<u64>()
    };
    match (
        counted("storage=\"watchcache\""),
        counted("storage=\"etcd\""),
    ) {
        (0, 0) => ServedFrom::Unknown,
        (_, 0) => ServedFrom::WatchCache,
        (0, _) => ServedFrom::Store,
        _ => ServedFrom::Unknown,
    }
}
