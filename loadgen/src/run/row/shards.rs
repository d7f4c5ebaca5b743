//! A row of workers that list the objects together: all at one revision, each its shard, until the last one has it.
//!
//! The revision is what a consistent list of one object says, and that request is part of the time; then every worker lists
//! exactly that state. Each answer is held against what its shard must hold, and all together against the data set. Then each
//! worker lists by itself, so that what one shard costs the server can be told.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use workloads::scenario::ShardPlan;

use super::lists::served_from;
use super::meter::Meter;
use super::{Early, Measured, RowRun, Source};
use crate::compare::surely_differ;
use crate::pace::closed::{Clients, Done, Job, Verifier};
use crate::progress::Counted;
use crate::record::{LatencyHistogram, TaggedHistogram};
use crate::result::{ShardFigures, Sharding};
use crate::shards::distribution::skew;
use crate::shards::{Distribution, Inventory, Plan};
use crate::target::Running;
use crate::target::list::{ListError, Listed, Part, Reach, Row};
use crate::verify::{Expected, Found};

/// The workers of a row and what each must hold.
pub(super) struct Workers {
    pub(super) plan: Plan,
    /// What the objects are, where they are ours.
    pub(super) inventory: Option<Arc<Inventory>>,
    pub(super) distribution: Option<Distribution>,
    /// What a worker lists, or watches.
    pub(super) rows: Vec<Row>,
}

impl RowRun<'_> {
    /// Cuts the objects into shards.
    pub(super) async fn workers(&self, row: &Row) -> Result<Workers, Early> {
        let number = self.strategy().workers().unwrap_or(NonZeroU32::MIN);
        let key = self.spec.shard_key.unwrap_or_default().into();
        let inventory = match (&self.source, self.data()) {
            (Source::Loaded(loaded), _) => Some(loaded.inventory(key)),
            (_, Some(data)) => {
                let data = Arc::clone(data);
                let made = tokio::task::spawn_blocking(move || Inventory::new(&data, key));
                let made = self.unless_stopped(made).await?;
                let made = made.map_err(|e| Early::Failed(format!("hashing: {e}")))?;
                Some(made.map_err(|e| Early::Failed(format!("hashing: {e}")))?)
            }
            (_, None) => None,
        };
        let distribution = inventory.as_ref().map(Inventory::distribution);
        let plan = match (self.spec.shard_plan.unwrap_or_default(), &distribution) {
            (ShardPlan::Equal, _) => Plan::equal(key, number),
            (ShardPlan::Weighted, Some(distribution)) => Plan::weighted(distribution, number),
            (ShardPlan::Weighted, None) => {
                let reason = "which hashes the objects have is known only of data that was seeded";
                return Err(Early::NotApplicable(reason.to_owned()));
            }
        };
        let by_server = self.strategy().server_shards();
        let rows = plan.shards().iter().map(|shard| {
            let mut row = row.clone();
            row.asks.part = Some(Part {
                shard: shard.clone(),
                by_server,
            });
            row
        });
        Ok(Workers {
            rows: rows.collect(),
            plan,
            inventory: inventory.map(Arc::new),
            distribution,
        })
    }

    /// The measured part of a row of shards.
    pub(super) async fn shards(
        &self,
        row: &Row,
        reach: &Reach,
        verifier: Verifier,
        running: &mut Running,
        measured: &mut Measured,
    ) -> Result<(), Early> {
        let workers = self.workers(row).await?;
        let clients = workers.rows.iter().zip(workers.plan.shards());
        let clients = clients.map(|(row, shard)| {
            let mut own = verifier.clone();
            // Each latest list is another shard's: they are held against each other here.
            own.latest = Arc::default();
            if let (Some(expected), Some(inventory)) = (&mut own.expected, &workers.inventory) {
                expected.fingerprint = inventory.expected(shard);
                expected.revisions = None;
            }
            (row.clone(), own)
        });
        let clients: Vec<_> = clients.collect();
        let clients = Clients::connect_each(clients, reach);
        let clients = self.unless_stopped(clients).await??;
        self.probe_shards(&clients).await?;
        let union = match verifier.expected {
            Some(expected) => Union::Known(expected),
            None => Union::Listed(Box::new(self.unsharded(row, reach, verifier).await?)),
        };

        let mut meter = self.settled(running, measured).await?;
        let mut set = Set::new(workers.rows.len());
        let mut rounds = Rounds {
            run: self,
            clients: &clients,
            union: &union,
        };
        let checked = rounds.measured(&mut set, &mut meter, measured).await?;
        let drained = rounds.drained(measured).await?;
        // Where every worker lists everything, one costs what each costs.
        let costs = match self.strategy().server_shards() {
            true => rounds.one_by_one(&set, &meter).await?,
            false => None,
        };
        let mut sharding = self.sharding(&workers);
        set.describe(&mut sharding, costs);
        measured.case.shards = Some(sharding);
        measured.case.valid = true;
        measured
            .case
            .mark_client_limited(surely_differ(&checked, &drained));
        Ok(())
    }

    /// Whether the server sends a shard where one is asked for.
    async fn probe_shards(&self, clients: &Clients) -> Result<(), Early> {
        match self
            .unless_stopped(clients.ask(0, Job::Revision))
            .await?
            .result
        {
            Err(not_sharded @ ListError::NotSharded) => {
                Err(Early::NotApplicable(not_sharded.to_string()))
            }
            other => Ok(other.map(|_| ())?),
        }
    }

    /// A client that lists everything: where nobody knows what is there, the shards must be as much.
    async fn unsharded(
        &self,
        row: &Row,
        reach: &Reach,
        verifier: Verifier,
    ) -> Result<Clients, Early> {
        let clients = Clients::connect(1, row, reach, verifier);
        Ok(self.unless_stopped(clients).await??)
    }

    /// The row's own plan for one worker more.
    pub(super) fn replan(&self, workers: &Workers, distribution: &Distribution) -> Plan {
        let number = u32::try_from(workers.rows.len()).unwrap_or(u32::MAX);
        let more = NonZeroU32::MIN.saturating_add(number);
        match self.spec.shard_plan.unwrap_or_default() {
            ShardPlan::Equal => Plan::equal(distribution.key(), more),
            ShardPlan::Weighted => Plan::weighted(distribution, more),
        }
    }

    /// What can be said of the shards before anything was listed.
    pub(super) fn sharding(&self, workers: &Workers) -> Sharding {
        let name = |value: &dyn std::fmt::Debug| format!("{value:?}").to_lowercase();
        let number = self.strategy().workers().unwrap_or(NonZeroU32::MIN);
        let next = workers.distribution.as_ref();
        let next = next.map(|distribution| self.replan(workers, distribution));
        let moved = |next: &Plan, distribution| workers.plan.moved(next, distribution);
        let distribution = workers.distribution.as_ref();
        let shards = workers.plan.shards().iter().map(|shard| ShardFigures {
            selector: shard.to_string(),
            ..ShardFigures::default()
        });
        Sharding {
            key: name(&self.spec.shard_key.unwrap_or_default()),
            plan: name(&self.spec.shard_plan.unwrap_or_default()),
            workers: number.get(),
            moved_to_next: next.zip(distribution).map(|(next, d)| moved(&next, d)),
            least_moved: distribution.map(|d| moved(&workers.plan.grown(d), d)),
            shards: shards.collect(),
            ..Sharding::default()
        }
    }
}

/// What all shards together must be.
enum Union {
    /// What was written.
    Known(Expected),
    /// What a client sees that asks for everything.
    Listed(Box<Clients>),
}

/// One kind of round after the other.
struct Rounds<'r> {
    run: &'r RowRun<'r>,
    clients: &'r Clients,
    union: &'r Union,
}

impl Rounds<'_> {
    /// Every worker at once: the time until the last one has its shard, and what each answered.
    async fn round(&self, job: Job) -> Result<(Duration, Vec<Done>), Early> {
        let asked = self
            .run
            .unless_stopped(self.clients.ask(0, Job::Revision))
            .await?;
        let revision = asked.result?.map(|(listed, _)| listed.revision);
        let pin = Job::Pin(revision.unwrap_or_default());
        self.run.unless_stopped(self.clients.round(pin)).await?;
        let done = self.run.unless_stopped(self.clients.round(job)).await?;
        let last = done.iter().map(|done| done.latency).max();
        Ok((asked.latency + last.unwrap_or_default(), done))
    }

    async fn measured(
        &mut self,
        set: &mut Set,
        meter: &mut Meter,
        measured: &mut Measured,
    ) -> Result<LatencyHistogram, Early> {
        let run = self.run;
        let title = format!("{}/{}: listing", run.target.name, run.spec.name());
        let phase = run
            .progress
            .phase(&title, u64::from(run.repeats()), Counted::Lists);
        meter.reset_peaks();
        for _ in 0..run.scenario.warmup {
            for done in self.round(Job::List).await?.1 {
                done.result?;
            }
            meter.end_of_warm_up();
        }
        let case_id = measured.case.id();
        let begun = meter.begin(&case_id).await;
        begun.map_err(|e| Early::Failed(e.to_string()))?;
        let mut latency = LatencyHistogram::default();
        let (start, first) = (run.run_begun.elapsed(), Instant::now());
        let mut outcome = Ok(());
        for _ in 0..run.repeats() {
            meter.reset_peaks();
            outcome = match self.round(Job::List).await {
                Ok((time, done)) => {
                    latency.record(time);
                    self.take(set, done).await
                }
                Err(early) => Err(early),
            };
            meter.end_of_round().await;
            phase.advance(1);
            if outcome.is_err() {
                break;
            }
        }
        let duration = first.elapsed();
        let bytes = set.bytes_of_one();
        let (figures, client, series) = meter.end(bytes, latency.n()).await;
        let case = &mut measured.case;
        measured.series = series;
        case.served_from = served_from(figures.as_ref());
        case.server = figures;
        case.client = Some(client);
        case.requests = latency.n();
        case.bytes = bytes;
        case.latency_ms = (latency.n() > 0).then(|| latency.quantiles_ms());
        case.throughput_bytes_per_s =
            Some((bytes * latency.n()) as f64 / duration.as_secs_f64().max(f64::MIN_POSITIVE));
        case.verified = set.found.as_ref().map(Found::verified);
        case.objects = case.verified.as_ref().map_or(0, |v| v.objects);
        if let Err(Early::Failed(reason)) = &outcome {
            case.errors = 1;
            case.error_samples = vec![reason.clone()];
        }
        let tagged = |measure: &str, histogram: &LatencyHistogram| TaggedHistogram {
            measure: measure.to_owned(),
            case: case_id.clone(),
            start,
            duration,
            histogram: histogram.clone(),
        };
        measured.histograms.push(tagged("latency", &latency));
        outcome?;
        phase.done(&format!(
            "{} times by {} workers",
            latency.n(),
            set.shards.len()
        ));
        Ok(latency)
    }

    /// Takes what the workers of one round answered.
    async fn take(&self, set: &mut Set, done: Vec<Done>) -> Result<(), Early> {
        let mut union = Found::default();
        let mut revision = None;
        for (shard, done) in set.shards.iter_mut().zip(done) {
            let Some((listed, Some(found))) = done.result? else {
                continue;
            };
            if *revision.get_or_insert(listed.revision) != listed.revision {
                let reason = "workers that asked for one revision were answered with several";
                return Err(Early::Failed(reason.to_owned()));
            }
            shard.take(&listed, &found, done.latency, done.cpu);
            shard.memory = shard.memory.max(done.memory);
            union.merge(&found);
        }
        let listed = Listed {
            revision: revision.unwrap_or_default(),
            ..Listed::default()
        };
        match self.union {
            Union::Known(expected) => {
                let wrong = union.compare(&listed, expected);
                wrong.map_err(|e| Early::Failed(format!("all shards together: {e}")))?;
            }
            Union::Listed(unsharded) => {
                unsharded.ask(0, Job::Pin(listed.revision)).await.result?;
                let whole = self.run.unless_stopped(unsharded.ask(0, Job::List)).await?;
                let whole = whole.result?.and_then(|(_, found)| found);
                if whole.as_ref() != Some(&union) {
                    let whole = whole.unwrap_or_default().fingerprint;
                    return Err(Early::Failed(format!(
                        "all shards together are {}, and a list of the same revision is {whole}",
                        union.fingerprint
                    )));
                }
            }
        }
        set.found = Some(union);
        Ok(())
    }

    /// The same lists by workers that look at nothing.
    async fn drained(&self, measured: &mut Measured) -> Result<LatencyHistogram, Early> {
        let mut latency = LatencyHistogram::default();
        let (start, first) = (self.run.run_begun.elapsed(), Instant::now());
        for _ in 0..self.run.repeats() {
            let (time, done) = self.round(Job::Drain).await?;
            for done in done {
                done.result?;
            }
            latency.record(time);
        }
        measured.case.null_sink_ms = Some(latency.quantiles_ms());
        measured.histograms.push(TaggedHistogram {
            measure: "null_sink".to_owned(),
            case: measured.case.id(),
            start,
            duration: first.elapsed(),
            histogram: latency.clone(),
        });
        Ok(latency)
    }

    /// One worker after the other: the servers' CPU time for each shard, the least of all repeats. `None` where no server is
    /// ours.
    async fn one_by_one(&self, set: &Set, meter: &Meter) -> Result<Option<Vec<f64>>, Early> {
        let mut least = vec![f64::INFINITY; set.shards.len()];
        for _ in 0..self.run.repeats() {
            for (worker, least) in least.iter_mut().enumerate() {
                let Some(before) = meter.cpu() else {
                    return Ok(None);
                };
                let done = self.clients.ask(worker, Job::Drain);
                self.run.unless_stopped(done).await?.result?;
                let after = meter.cpu().unwrap_or(before);
                *least = least.min(after.saturating_sub(before).as_secs_f64());
            }
        }
        Ok(Some(least))
    }
}

/// What the workers of a row answered.
struct Set {
    shards: Vec<ShardTally>,
    /// All shards of the latest round together.
    found: Option<Found>,
}

#[derive(Default)]
struct ShardTally {
    objects: u64,
    bytes: u64,
    latency: LatencyHistogram,
    cpu: Duration,
    memory: Option<u64>,
}

impl ShardTally {
    fn take(&mut self, listed: &Listed, found: &Found, latency: Duration, cpu: Duration) {
        self.objects = found.fingerprint.objects;
        self.bytes = listed.wire_bytes;
        self.latency.record(latency);
        self.cpu += cpu;
    }
}

impl Set {
    fn new(workers: usize) -> Self {
        Self {
            shards: (0..workers).map(|_| ShardTally::default()).collect(),
            found: None,
        }
    }

    /// Bytes that all workers received in one round.
    fn bytes_of_one(&self) -> u64 {
        self.shards.iter().map(|shard| shard.bytes).sum()
    }

    fn describe(&self, sharding: &mut Sharding, server_cpu_s: Option<Vec<f64>>) {
        for (n, (figures, tally)) in sharding.shards.iter_mut().zip(&self.shards).enumerate() {
            figures.objects = tally.objects;
            figures.bytes = tally.bytes;
            figures.list_ms = tally.latency.quantiles_ms().p50;
            figures.cpu_s = tally.cpu.as_secs_f64() / tally.latency.n().max(1) as f64;
            figures.memory_bytes = tally.memory;
            figures.server_cpu_s = server_cpu_s.as_ref().map(|each| each[n]);
        }
        summarise(sharding);
        let each = server_cpu_s.iter().flatten().copied();
        sharding.server_cpu_s_max = each.reduce(f64::max);
    }
}

/// Fills in what follows from the workers' own figures.
pub(super) fn summarise(sharding: &mut Sharding) {
    let shards = &sharding.shards;
    let objects: Vec<u64> = shards.iter().map(|shard| shard.objects).collect();
    let bytes: Vec<u64> = shards.iter().map(|shard| shard.bytes).collect();
    let most = |of: &[u64]| of.iter().max().copied().unwrap_or(0);
    sharding.objects_max = most(&objects);
    sharding.objects_skew = skew(&objects);
    sharding.bytes_max = most(&bytes);
    sharding.bytes_skew = skew(&bytes);
    sharding.worker_memory_max = shards.iter().filter_map(|shard| shard.memory_bytes).max();
    sharding.worker_cpu_s_max = shards.iter().map(|shard| shard.cpu_s).fold(0.0, f64::max);
}
