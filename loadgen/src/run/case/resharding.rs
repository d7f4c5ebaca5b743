//! Resharding from N workers to N + 1 while objects are written.
//!
//! All workers stop reading and report the revisions they have reached. The highest of these
//! revisions is where the old shards end and the new ones begin. Then each worker takes over its
//! new shard, including the new worker.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use load::operation::list::ShardRequest;
use load::operation::watch_worker::HeldObject;
use load::operation::watch_worker::reshard_handover::{Change, Taken};
use load::shards::Plan;
use load::shards::distribution::skew;
use report::result::{Resharding, ShardMetrics};
use workloads::scenario::Reshard;

use super::EarlyEnd;
use super::meter::Meter;
use super::sharded_watch::Live;
use super::shards::Workers;

/// The result of a resharding.
pub(super) struct Reshared {
    reshard: Reshard,
    /// The old plan is in effect up to this revision, and `next` after it.
    pub(super) revision: i64,
    pub(super) next: Plan,
    taken: Vec<Taken>,
    took: Duration,
    server_cpu: Option<Duration>,
}

impl Live<'_> {
    /// Divides the objects anew between the workers and an additional one.
    pub(super) async fn reshare(
        &mut self,
        reshard: Reshard,
        meter: &Meter,
    ) -> Result<Reshared, EarlyEnd> {
        let (plan, case) = (&self.workers.plan, &self.workers.cases[0]);
        let Some(distribution) = &self.workers.distribution else {
            let reason = "which hashes the objects have is not known".to_owned();
            return Err(EarlyEnd::NotApplicable(reason));
        };
        let next = match reshard {
            Reshard::Replan => self.run.replan(self.workers, distribution),
            Reshard::Give => plan.grown(distribution),
        };
        // Starting the new process is not part of the measured time.
        self.watches.join(case, self.endpoint).await?;
        let (begun, cpu_before) = (Instant::now(), meter.cpu());
        let seen = self.watches.pause().await?;
        let revision = seen.into_iter().max().unwrap_or_default();
        let by_server = self.run.strategy().server_shards();
        let part = |shard| ShardRequest { shard, by_server };
        let had = plan.loads(distribution).into_iter().map(|load| load > 0);
        let changes = next.shards().iter().zip(plan.gains(&next));
        let changes = changes.zip(had.chain([false]));
        let changes = changes.map(|((shard, gains), waits)| Change {
            revision,
            waits,
            part: part(shard.clone()),
            gains: gains.map(part),
        });
        let taken = self.watches.take_over(changes.collect()).await?;
        let server_cpu = meter.cpu().zip(cpu_before);
        Ok(Reshared {
            reshard,
            revision,
            next,
            taken,
            took: begun.elapsed(),
            server_cpu: server_cpu.map(|(after, before)| after.saturating_sub(before)),
        })
    }
}

impl Reshared {
    /// Returns the objects that each worker held at the revision.
    pub(super) fn held(&self) -> impl Iterator<Item = &HashMap<u64, HeldObject>> {
        self.taken.iter().map(|taken| &taken.held)
    }

    pub(super) fn figures(&self, workers: &Workers) -> Resharding {
        let distribution = workers.distribution.as_ref();
        let loads: Vec<u64> = self.held().map(|held| held.len() as u64).collect();
        let waited = self.taken.iter().map(|taken| taken.waited).max();
        let joined = self.taken.last().zip(self.next.shards().last());
        Resharding {
            plan: format!("{:?}", self.reshard).to_lowercase(),
            moved: distribution.map_or(0.0, |d| workers.plan.moved(&self.next, d)),
            objects_listed: self.taken.iter().map(|taken| taken.objects).sum(),
            bytes_listed: self.taken.iter().map(|taken| taken.wire_bytes).sum(),
            synced_ms: self.took.as_secs_f64() * 1e3,
            waited_ms: waited.unwrap_or_default().as_secs_f64() * 1e3,
            server_cpu_s: self.server_cpu.map(|cpu| cpu.as_secs_f64()),
            objects_skew: skew(&loads),
            joined: joined.map_or_else(ShardMetrics::default, |(taken, shard)| ShardMetrics {
                selector: shard.to_string(),
                objects: taken.objects,
                bytes: taken.wire_bytes,
                ..ShardMetrics::default()
            }),
        }
    }
}
