//! One row, phase by phase: start, probe, can this machine hold it, seed, settle, and then what its strategy's shape says.
//! Whatever ends it early, what was measured until then is in the case.
//!
//! - [`lists`]: whole lists in rounds, first objects; [`drained`]: by turns with lists that nobody checks; [`yardstick`]: by turns
//!   with their bytes without meaning
//! - [`shards`]: the objects between several workers; [`sharded_watch`]: the same while they are written; [`resharding`]: and
//!   shared anew by one worker more; [`writing`]: the part in which they are written, and rows where nobody watches that
//! - [`requests`]: small requests, in a closed or an open loop
//! - [`delivery`]: puts that must reach watchers
//! - [`beside`]: loads that run beside the row
//! - [`meter`]: memory, CPU and counters meanwhile

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use etcd_api::error::Error as EtcdError;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use workloads::scenario::Background;
use workloads::{DataSet, Kind, RowSpec, Scenario, Selector, Shape, Strategy, Tier};

use super::needs::Needs;
use super::possible::never;
use super::{Plan, Target, described};
use crate::pace::closed::Verifier;
use crate::pace::writers::WriteError;
use crate::progress::{Counted, Progress};
use crate::record::{Series, TaggedHistogram};
use crate::result::{self, Case, Outcome, ServerSetup};
use crate::sample;
use crate::seed::kube::Loaded;
use crate::seed::{Written, seed};
use crate::target::Running;
use crate::target::kube::Options;
use crate::target::list::{Asks, ListError, Reach, Row};
use crate::target::silence::ANSWERS_WITHIN;
use crate::verify::Expected;
use meter::Meter;

mod beside;
mod delivery;
mod drained;
mod lists;
mod meter;
mod requests;
mod resharding;
mod sharded_watch;
mod shards;
mod writing;
mod yardstick;

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
    /// A Kubernetes API into which it was loaded for all its rows.
    Loaded(Arc<Loaded>),
    /// Whatever is there.
    There { prefix: String },
}

/// What is listed of an API that is there: what the scenario's data set would be.
pub(super) fn resource_there(scenario: &Scenario, data_set: &str) -> &'static str {
    let mut specs = scenario.data_sets.iter();
    match specs.find(|spec| spec.name == data_set) {
        Some(spec) if spec.kind == Kind::ConfigMaps => "configmaps/",
        _ => "pods/",
    }
}

/// A row to be run.
pub(super) struct RowRun<'a> {
    pub(super) plan: &'a Plan,
    pub(super) scenario: &'a Scenario,
    pub(super) target: &'a Target,
    pub(super) tier: Tier,
    pub(super) spec: &'a RowSpec,
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
    /// The servers' idle figures, until the strategy goes on with them.
    idle: Option<Meter>,
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

impl From<WriteError> for Early {
    fn from(error: WriteError) -> Self {
        Self::Failed(format!("writing: {error}"))
    }
}

impl RowRun<'_> {
    /// Runs the row to its end, or to where it had to stop.
    pub(super) async fn measure(&self) -> Measured {
        let mut case = Case::new(
            &self.data_set,
            &self.target.name,
            self.tier,
            &self.strategy().to_string(),
            Outcome::Measured,
        );
        case.row = self.spec.name();
        case.clients = self.clients();
        case.beside = self.beside();
        case.frame_bytes = self.spec.frame.map(|size| size.0);
        case.kube_options = self.spec.kube_options();
        let mut measured = Measured {
            case,
            histograms: Vec::new(),
            series: Vec::new(),
            setup: None,
            data_set: None,
            idle: None,
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
        let started = self.plan.launcher.start(&self.target.spec, self.strategy());
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
        let loaded = self.data().map(|data| data.spec().kind);
        match never(
            &self.target.spec,
            self.scenario,
            self.tier,
            self.spec,
            loaded,
        ) {
            Some(reason) => Err(Early::NotApplicable(reason.to_owned())),
            None => Ok(()),
        }
    }

    /// Whether this machine holds the row. What the target cannot do at all is found out before, so that a row is N/A for
    /// the reason that more memory would not change.
    fn check_fits(&self) -> Result<(), Early> {
        let Source::Fresh(data) = &self.source else {
            return Ok(());
        };
        let workers = self.strategy().workers();
        let clients = workers.map_or(self.clients(), std::num::NonZeroU32::get);
        let target = &self.target.spec;
        let needs = Needs::of(target, self.tier, self.strategy(), data, clients);
        // A kernel that does not tell what is free does not stop anybody.
        let memory = sample::free_memory_bytes().unwrap_or(u64::MAX);
        let disk = sample::free_disk_bytes(&std::env::temp_dir()).unwrap_or(u64::MAX);
        match needs.refuse(memory, disk, data.len()) {
            Some(reason) => Err(Early::NotApplicable(reason)),
            None => Ok(()),
        }
    }

    async fn on(&self, running: &mut Running, measured: &mut Measured) -> Result<(), Early> {
        let mut row = self.row();
        if let Some(reason) = row.refused_by(running) {
            return Err(Early::NotApplicable(reason));
        }
        measured.case.encoding = Some(row.encoding(running).to_owned());
        measured.case.served_from = row.served_from();
        // An empty store has no bytes to send without meaning.
        let is_list = self.strategy().shape() == Shape::List;
        if self.tier == Tier::Etcd && is_list && self.strategy() != Strategy::Opaque {
            self.probe(&row, running).await?;
        }
        self.check_fits()?;
        let mut verifier = self.load(running, measured).await?;
        if let Strategy::Selector(selector) = self.strategy() {
            row.asks.nodes = self.select(selector, &mut verifier).await?;
        }
        if self.tier == Tier::Kube {
            let started = running.start_kube(&self.spec.server);
            let started = self.unless_stopped(started).await?;
            started.map_err(|e| Early::Failed(e.to_string()))?;
        }
        let reach = self.reach(running);
        if let Some(expected) = &mut verifier.expected
            && self.backgrounds().any(Background::rewrites_data)
        {
            // The same objects, at revisions that nobody knows before.
            expected.revisions = None;
        }
        if !self.spec.beside.is_empty() {
            // What the loads hold is part of what is above idle, too.
            measured.idle = Some(self.settled(running, measured).await?);
        }
        let loads = self.start_beside(&row, &reach, &verifier).await?;
        let measured_part = match self.strategy().shape() {
            Shape::List => self.lists(&row, &reach, verifier, running, measured).await,
            Shape::Shards => self.shards(&row, &reach, verifier, running, measured).await,
            Shape::ShardedWatch => {
                self.sharded_watch(&row, &reach, &verifier, running, measured)
                    .await
            }
            Shape::Requests => self.requests(&reach, &verifier, running, measured).await,
            Shape::Delivery => {
                self.deliveries(&reach, &verifier.root, running, measured)
                    .await
            }
            // A scenario that measures nothing has been refused.
            Shape::Idle => Ok(()),
        };
        // Also where the row has failed: the loads' own errors may say why.
        measured.case.beside = loads.stop().await;
        let broken = measured.case.beside.iter().find(|load| load.errors > 0);
        match (measured_part, broken) {
            (Ok(()), Some(load)) => Err(Early::Failed(format!(
                "background {}: {} of {} requests failed",
                load.name, load.errors, load.requests
            ))),
            (outcome, _) => outcome,
        }
    }

    /// Waits until the servers are at rest, and takes their idle figures; once for a row.
    async fn settled(&self, running: &Running, measured: &mut Measured) -> Result<Meter, Early> {
        if let Some(meter) = measured.idle.take() {
            return Ok(meter);
        }
        let stored = measured.data_set.as_ref().map(|data| data.bytes);
        let meter = self.unless_stopped(Meter::settled(running, stored)).await?;
        let mut meter = meter.map_err(|e| Early::Failed(e.to_string()))?;
        if self.spec.every.is_some() || self.spec.read_per_s.is_some() {
            meter.ask_seldom();
        }
        if let Some(reason) = meter.unmetered() {
            let target = self.target;
            self.progress
                .say(&format!("{target}: no figures of the server: {reason}"));
        }
        Ok(meter)
    }

    fn strategy(&self) -> Strategy {
        self.spec.strategy
    }

    /// Requests at the same time.
    fn clients(&self) -> u32 {
        if self.strategy().shape() == Shape::Delivery || self.strategy().workers().is_some() {
            return 1;
        }
        let own = self.spec.clients.map(std::num::NonZeroU32::get);
        own.unwrap_or(self.scenario.clients)
    }

    /// Connections that small requests or watchers share.
    fn connections(&self) -> u32 {
        self.spec.connections.map_or(1, std::num::NonZeroU32::get)
    }

    /// The data set, where it is ours.
    fn data(&self) -> Option<&Arc<DataSet>> {
        match &self.source {
            Source::Fresh(data) | Source::Seeded { data, .. } => Some(data),
            Source::Loaded(loaded) => Some(loaded.data()),
            Source::There { .. } => None,
        }
    }

    /// How this row's clients reach the target.
    fn reach(&self, running: &Running) -> Reach {
        let mut reach = Reach::from(running);
        if let (Some(etcd), Some(frame)) = (&mut reach.etcd, self.spec.frame) {
            etcd.http2.max_frame_bytes = frame.0;
        }
        reach
    }

    fn row(&self) -> Row {
        let (prefix, resource) = match &self.source {
            Source::Fresh(data) => (format!("{OWN_ROOT}{}", data.prefix()), data.prefix()),
            Source::Seeded { data, root, .. } => {
                (format!("{root}{}", data.prefix()), data.prefix())
            }
            Source::Loaded(loaded) => {
                let data = loaded.data();
                (format!("{OWN_ROOT}{}", data.prefix()), data.prefix())
            }
            Source::There { prefix } => (
                prefix.clone(),
                resource_there(self.scenario, &self.data_set),
            ),
        };
        let mut asks = Asks::new(
            self.spec.media.unwrap_or_default(),
            Options {
                http: self.spec.http.unwrap_or_default(),
                gzip: self.spec.gzip,
                read_per_s: self.spec.read_per_s.map(|size| size.0),
            },
        );
        if let Source::Loaded(loaded) = &self.source {
            asks.namespace.clone_from(&loaded.only_namespace);
            asks.own_namespaces = Some(loaded.names_begin.clone());
        }
        Row {
            tier: self.tier,
            strategy: self.strategy(),
            prefix,
            resource: resource.trim_end_matches('/').to_owned(),
            asks,
        }
    }

    /// Narrows what is expected to what a selector selects; the nodes that lists ask for in turn, where it has one.
    async fn select(
        &self,
        selector: Selector,
        verifier: &mut Verifier,
    ) -> Result<Arc<[String]>, Early> {
        if let Source::Loaded(loaded) = &self.source {
            return self.select_loaded(loaded, selector, verifier).await;
        }
        let (Source::Fresh(data) | Source::Seeded { data, .. }) = &self.source else {
            if selector.is_per_node() {
                let reason = "whose nodes these are is known only of data that was seeded";
                return Err(Early::NotApplicable(reason.to_owned()));
            }
            return Ok(Arc::default());
        };
        let data = Arc::clone(data);
        let selected = tokio::task::spawn_blocking(move || selector.select(&data));
        let selected = self.unless_stopped(selected).await?;
        let selected = selected.map_err(|e| Early::Failed(format!("selecting: {e}")))?;
        if let Some(expected) = &mut verifier.expected {
            expected.fingerprint = selected.all;
            expected.revisions = None;
        }
        let mut nodes: Vec<String> = selected.by_node.keys().cloned().collect();
        nodes.sort();
        verifier.by_node = selected.by_node;
        Ok(nodes.into())
    }

    /// Likewise of what was loaded through an API: labels are kept there, fields are the server's.
    async fn select_loaded(
        &self,
        loaded: &Arc<Loaded>,
        selector: Selector,
        verifier: &mut Verifier,
    ) -> Result<Arc<[String]>, Early> {
        if selector.is_field() {
            let reason = "a pod that is loaded is on no node, and its fields are the server's to fill: only labels can be selected by";
            return Err(Early::NotApplicable(reason.to_owned()));
        }
        let loaded = Arc::clone(loaded);
        let selected = tokio::task::spawn_blocking(move || loaded.select(selector));
        let selected = self.unless_stopped(selected).await?;
        let selected = selected.map_err(|e| Early::Failed(format!("selecting: {e}")))?;
        if let Some(expected) = &mut verifier.expected {
            expected.fingerprint = selected;
            expected.revisions = None;
        }
        Ok(Arc::default())
    }

    /// Whether the target knows the call, before anything is written to it for nothing.
    async fn probe(&self, row: &Row, running: &Running) -> Result<(), Early> {
        let reach = Reach::from(running);
        let probe = async {
            let mut lister = row.connect(&reach).await?;
            lister.first_object().await
        };
        let probe = timeout(ANSWERS_WITHIN, probe);
        let probed = self.unless_stopped(probe).await?;
        match probed.unwrap_or(Err(ListError::Slow(ANSWERS_WITHIN))) {
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
                let title = format!("{}/{}: seeding", self.target.name, self.spec.name());
                let phase = self.progress.phase(&title, data.len(), Counted::Objects);
                let written = Arc::new(Written::default());
                let begun = Instant::now();
                let seeded = seed(config, data, OWN_ROOT, &written, &phase);
                let expected = self.unless_stopped(seeded).await?;
                let expected = expected.map_err(|e| Early::Failed(format!("seeding: {e}")))?;
                let seed_s = begun.elapsed().as_secs_f64();
                measured.case.seed_s = Some(seed_s);
                phase.done(&format!("{seed_s:.1} s"));
                measured.data_set = Some(described(data, &expected.fingerprint));
                Ok(Verifier {
                    root: OWN_ROOT.to_owned(),
                    expected: Some(expected),
                    by_node: HashMap::new(),
                    latest: Arc::default(),
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
                    by_node: HashMap::new(),
                    latest: Arc::default(),
                })
            }
            Source::Loaded(loaded) => {
                let expected = &loaded.expected;
                measured.data_set = Some(described(loaded.data(), &expected.fingerprint));
                Ok(Verifier {
                    root: OWN_ROOT.to_owned(),
                    expected: Some(expected.clone()),
                    by_node: HashMap::new(),
                    latest: Arc::default(),
                })
            }
            Source::There { .. } => Ok(Verifier {
                root: String::new(),
                expected: None,
                by_node: HashMap::new(),
                latest: Arc::default(),
            }),
        }
    }

    async fn unless_stopped<T>(&self, work: impl Future<Output = T>) -> Result<T, Early> {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(Early::Interrupted),
            done = work => Ok(done),
        }
    }
}
