//! A case of workers that watch the objects together while they are written.
//!
//! First, the workers receive the initial state, as many times as lists are repeated: the case
//! measures the time until the last worker has its bookmark, and checks that all workers together
//! hold the data set. Then objects are written, and one worker loses its connection halfway. At the
//! end, every write must have reached exactly once the worker that had the object at that time, and
//! no other worker.

use std::time::{Duration, Instant};

use load::driver::watch_workers::{FinishedWatch, Synced, WatchWorkers};
use load::driver::writers::{Ledger, Writing};
use load::endpoint::TargetEndpoint;
use load::operation::list::{ListCase, ListError};
use load::record::LatencyHistogram;
use load::shards::Inventory;
use load::shards::event_ledger::{self, EventMismatch};
use load::verify::{Expected, InvalidResponse};
use report::result::Sharding;
use workloads::Strategy;
use workloads::scenario::Writes;

use super::meter::Meter;
use super::resharding::Reshared;
use super::shards::{Workers, summarise};
use super::{CaseRun, EarlyEnd, ListedData, Measured};
use crate::progress::Counted;
use crate::servers::running::Running;
use crate::to_result;

/// The default number of writes per second.
const WRITES_PER_S: f64 = 1_000.0;
/// The number of the worker that loses its connection.
const RECONNECTS: usize = 0;

impl CaseRun<'_> {
    /// Runs the measured part of a case of sharded watches.
    pub(super) async fn sharded_watch(
        &self,
        listed: &ListedData,
        running: &mut Running,
        measured: &mut Measured,
    ) -> Result<(), EarlyEnd> {
        let ListedData {
            case,
            endpoint,
            verifier,
        } = listed;
        let mut workers = self.workers(case).await?;
        if self.strategy().workers().is_none() {
            workers.cases.clear();
        }
        let (Some(etcd), Some(data), Some(expected), Some(inventory)) = (
            &endpoint.etcd,
            self.data(),
            &verifier.expected,
            &workers.inventory,
        ) else {
            let reason = "it writes, and needs a data set that the run writes".to_owned();
            return Err(EarlyEnd::NotApplicable(reason));
        };
        self.probe_shard_info(&workers, endpoint).await?;
        let watches = WatchWorkers::connect(&workers.cases, endpoint);
        let mut watches = self.unless_stopped(watches).await??;
        let writing = Writing {
            etcd: etcd.clone(),
            data: data.clone(),
            root: verifier.root.clone(),
            key: self.spec.shard_key.unwrap_or_default().into(),
            writes: self.spec.writes.unwrap_or_default(),
            per_second: self
                .spec
                .rate
                .or(self.scenario.rate)
                .unwrap_or(WRITES_PER_S),
            api: (self.spec.writes == Some(Writes::Patches))
                .then(|| (case.clone(), endpoint.clone())),
        };
        measured.case.offered_per_s = Some(writing.per_second);

        let mut meter = self.settled(running, measured).await?;
        meter.generator_keeps_events();
        if workers.cases.is_empty() {
            return self.unwatched(&writing, &mut meter, measured).await;
        }
        let mut sharding = self.sharding(&workers);
        self.states(&watches, expected, &mut meter, &mut sharding, measured)
            .await?;
        summarise(&mut sharding);
        let mut live = Live {
            run: self,
            watches: &mut watches,
            writing: &writing,
            workers: &workers,
            inventory,
            endpoint,
        };
        let outcome = live.measured(&mut meter, &mut sharding, measured).await;
        summarise(&mut sharding);
        measured.case.shards = Some(sharding);
        outcome
    }

    /// Checks that the server sends a shard when it is asked for one. Only lists report that, not
    /// watches, so this is checked by a list.
    async fn probe_shard_info(
        &self,
        workers: &Workers,
        endpoint: &TargetEndpoint,
    ) -> Result<(), EarlyEnd> {
        let Strategy::WatchSharded(number) = self.strategy() else {
            return Ok(());
        };
        let case = ListCase {
            strategy: Strategy::Sharded(number),
            ..workers.cases[0].clone()
        };
        let mut list_client = self.unless_stopped(case.connect(endpoint)).await??;
        match self.unless_stopped(list_client.revision()).await? {
            Err(not_sharded @ ListError::NotSharded) => {
                Err(EarlyEnd::NotApplicable(not_sharded.to_string()))
            }
            other => Ok(other.map(|_| ())?),
        }
    }

    /// Receives the initial state repeatedly. After the last time the workers keep watching.
    async fn states(
        &self,
        watches: &WatchWorkers,
        expected: &Expected,
        meter: &mut Meter,
        sharding: &mut Sharding,
        measured: &mut Measured,
    ) -> Result<(), EarlyEnd> {
        let title = format!("{}/{}: state", self.target.name, self.spec.name());
        let rounds = self.scenario.warmup + self.repeats();
        let phase = self
            .progress
            .phase(&title, u64::from(rounds), Counted::Rounds);
        let begun = Instant::now();
        let mut latency = LatencyHistogram::default();
        let mut cpu = Some(Duration::ZERO);
        meter.reset_peaks()?;
        for round in 0..rounds {
            let before = meter.cpu();
            let synced = self.unless_stopped(watches.sync()).await??;
            let used = meter.cpu().zip(before);
            let used = used.map(|(after, before)| after.saturating_sub(before));
            check_union(&synced, expected)?;
            for (shard, worker) in sharding.shards.iter_mut().zip(&synced) {
                shard.objects = worker.held.len() as u64;
                shard.bytes = worker.wire_bytes;
            }
            if round >= self.scenario.warmup {
                let last = synced.iter().map(|worker| worker.latency).max();
                latency.record(last.unwrap_or_default());
                cpu = cpu.zip(used).map(|(sum, used)| sum + used);
            }
            phase.advance(1);
        }
        // The peak of the initial state counts among the case's peaks, too.
        meter.note_peak();
        let case = &mut measured.case;
        case.bytes = sharding.shards.iter().map(|shard| shard.bytes).sum();
        case.objects = sharding.shards.iter().map(|shard| shard.objects).sum();
        sharding.synced_ms = to_result::quantiles_ms(&latency);
        let each = |cpu: Duration| cpu.as_secs_f64() / latency.n().max(1) as f64;
        sharding.sync_server_cpu_s = cpu.map(each);
        measured.keep("synced", self.since(begun), latency);
        phase.done(&format!("{rounds} times by {} workers", sharding.workers));
        Ok(())
    }
}

/// Checks that the workers together hold what was written before.
fn check_union(synced: &[Synced], expected: &Expected) -> Result<(), EarlyEnd> {
    let failed =
        |why: &dyn std::fmt::Display| EarlyEnd::Failed(format!("all shards together: {why}"));
    let held = synced.iter().map(|worker| &worker.held);
    let revisions = event_ledger::union(held, &expected.fingerprint).map_err(|e| failed(&e))?;
    let agree = expected.check_revisions(revisions);
    agree.map_err(|wrong| failed(&wrong))?;
    match synced.iter().map(|worker| worker.revision).min() {
        Some(found) if found < expected.revision => Err(failed(&InvalidResponse::Stale {
            found,
            at_least: expected.revision,
        })),
        _ => Ok(()),
    }
}

/// The part in which objects are written.
pub(super) struct Live<'l> {
    pub(super) run: &'l CaseRun<'l>,
    pub(super) watches: &'l mut WatchWorkers,
    writing: &'l Writing,
    pub(super) workers: &'l Workers,
    inventory: &'l Inventory,
    pub(super) endpoint: &'l TargetEndpoint,
}

/// The writes, and what the workers received.
struct Outcomes {
    ledger: Ledger,
    /// The resharding, if there was one.
    reshared: Option<Reshared>,
    finished: Vec<FinishedWatch>,
}

impl AsRef<Ledger> for Outcomes {
    fn as_ref(&self) -> &Ledger {
        &self.ledger
    }
}

impl Live<'_> {
    async fn measured(
        &mut self,
        meter: &mut Meter,
        sharding: &mut Sharding,
        measured: &mut Measured,
    ) -> Result<(), EarlyEnd> {
        let run = self.run;
        let title = format!("{}/{}: writing", run.target.name, run.spec.name());
        let phase = run.progress.phase(&title, 1, Counted::Writes);
        let work = async |meter: &Meter| self.written(meter).await;
        let (span, outcomes) = run.while_written(meter, measured, work).await?;
        phase.done(&format!("{} writes", outcomes.ledger.writes.len()));
        let (latency, proven) = self.describe(&outcomes, sharding);
        measured.keep_latency(span, latency);
        proven.map_err(|e| EarlyEnd::Failed(e.to_string()))?;
        self.check_states(&outcomes)?;
        run.note_pace(&outcomes.ledger, &mut measured.case);
        Ok(())
    }

    /// Writes until the time is over, while a worker loses its connection and, if the case asks for
    /// it, a worker is added. Waits until every worker has received the last write.
    async fn written(&mut self, meter: &Meter) -> Result<Outcomes, EarlyEnd> {
        let (run, writing) = (self.run, self.writing);
        let duration = run.writes_for();
        let meanwhile = async {
            tokio::time::sleep(duration / 4).await;
            let reshared = match run.spec.reshard {
                Some(reshard) => Some(self.reshare(reshard, meter).await?),
                None => None,
            };
            tokio::time::sleep(duration / 4).await;
            self.watches.reconnect(RECONNECTS);
            Ok::<_, EarlyEnd>(reshared)
        };
        let (ledger, reshared) = tokio::join!(writing.run(duration, run.stop), meanwhile);
        let (mut ledger, reshared) = (ledger?, reshared?);
        let plan = &self.workers.plan;
        let plan = reshared.as_ref().map_or(plan, |reshared| &reshared.next);
        let last = writing
            .write_markers(&mut ledger, self.inventory, plan)
            .await?;
        let finished = self.watches.finish(&last).await?;
        Ok(Outcomes {
            ledger,
            reshared,
            finished,
        })
    }

    /// Compares what was received with what was written. Returns the latencies from a write to its
    /// event, and whether each write reached its worker and no other.
    fn describe(
        &self,
        outcomes: &Outcomes,
        sharding: &mut Sharding,
    ) -> (LatencyHistogram, Result<(), EventMismatch>) {
        let Outcomes {
            ledger,
            reshared,
            finished,
        } = outcomes;
        let seen: Vec<_> = finished.iter().map(|w| w.log.seen.clone()).collect();
        let plan = &self.workers.plan;
        let expected = ledger.expected(|revision, hash| match reshared {
            Some(reshared) if revision > reshared.revision => reshared.next.owner(hash),
            _ => plan.owner(hash),
        });
        let (counts, latency, proven) = event_ledger::events(&expected, &seen);
        let mut events = to_result::shard_events(counts);
        sharding.resharding = reshared
            .as_ref()
            .map(|reshared| reshared.figures(self.workers));
        let joined = sharding.resharding.as_mut().map(|r| &mut r.joined);
        for (shard, worker) in sharding.shards.iter_mut().chain(joined).zip(finished) {
            shard.cpu_s = worker.cpu.as_secs_f64();
            shard.memory_bytes = worker.memory;
            shard.events = worker.log.seen.len() as u64;
            shard.event_bytes = worker.log.wire_bytes;
            events.filtered += worker.log.filtered;
            events.reconnects += worker.log.reconnects;
            events.ended += worker.log.ended;
            events.bytes_max = events.bytes_max.max(worker.log.wire_bytes);
        }
        sharding.events = Some(events);
        (latency, proven)
    }

    /// Checks that all workers together hold what was written, at the resharding and at the end.
    fn check_states(&self, outcomes: &Outcomes) -> Result<(), EarlyEnd> {
        let Outcomes {
            ledger,
            reshared,
            finished,
        } = outcomes;
        if let Some(reshared) = reshared {
            let then = ledger.result_at(self.inventory, reshared.revision);
            let union = event_ledger::union(reshared.held(), &then);
            union.map_err(|e| EarlyEnd::Failed(format!("when they shared anew: {e}")))?;
        }
        let held = finished.iter().map(|w| &w.held);
        let result = ledger.result(self.inventory);
        let union = event_ledger::union(held, &result);
        union.map_err(|e| EarlyEnd::Failed(format!("at the end: {e}")))?;
        Ok(())
    }
}
