//! A case of workers that list the objects together: all at one revision, each its own shard. The
//! latency is the time until the last worker has its shard.
//!
//! The revision comes from a consistent list of one object, whose time is included. Then every
//! worker lists exactly that revision. Each response is compared with the objects that its shard
//! must contain, and all responses together with the data set. Then each worker lists alone, which
//! shows what one shard costs the server.
//!
//! - [`rounds`]: lists of all workers at once
//! - [`alone`]: lists of each worker alone, interleaved with lists of everything
//! - [`tally`]: the totals of the workers

mod alone;
mod rounds;
mod tally;

use std::num::NonZeroU32;
use std::sync::Arc;

use load::driver::closed::{Clients, Job};
use load::operation::list::{ListCase, ListError, ShardRequest};
use load::shards::{Distribution, Inventory, Plan};
use report::result::{ShardMetrics, Sharding};
use workloads::scenario::ShardPlan;

use self::alone::Turns;
use self::rounds::{Rounds, Union};
use self::tally::Set;
pub(super) use self::tally::summarise;
use super::{CaseRun, EarlyEnd, ListedData, Measured, ObjectSource};
use crate::servers::running::Running;

/// The workers of a case and what each must hold.
pub(super) struct Workers {
    pub(super) plan: Plan,
    /// All objects, if loadgen wrote them.
    pub(super) inventory: Option<Arc<Inventory>>,
    pub(super) distribution: Option<Distribution>,
    /// The list or watch of each worker.
    pub(super) cases: Vec<ListCase>,
}

impl CaseRun<'_> {
    /// Divides the objects into shards.
    pub(super) async fn workers(&self, case: &ListCase) -> Result<Workers, EarlyEnd> {
        let number = self.strategy().workers().unwrap_or(NonZeroU32::MIN);
        let key = self.spec.shard_key.unwrap_or_default().into();
        let inventory = match (&self.source, self.data()) {
            (ObjectSource::SeededNamespaces(loaded), _) => loaded.inventory(key),
            (_, Some(data)) => {
                let data = Arc::clone(data);
                let made = tokio::task::spawn_blocking(move || Inventory::new(&data, key));
                let made = self.unless_stopped(made).await?;
                let made = made.map_err(|e| EarlyEnd::Failed(format!("hashing: {e}")))?;
                Some(made.map_err(|e| EarlyEnd::Failed(format!("hashing: {e}")))?)
            }
            (_, None) => None,
        };
        let distribution = inventory.as_ref().map(Inventory::distribution);
        let plan = match (self.spec.shard_plan.unwrap_or_default(), &distribution) {
            (ShardPlan::Equal, _) => Plan::equal(key, number),
            (ShardPlan::Weighted, Some(distribution)) => Plan::weighted(distribution, number),
            (ShardPlan::Weighted, None) => {
                let reason = "which hashes the objects have is known only of data that was seeded";
                return Err(EarlyEnd::NotApplicable(reason.to_owned()));
            }
        };
        let by_server = self.strategy().server_shards();
        let cases = plan.shards().iter().map(|shard| {
            let mut case = case.clone();
            case.parameters.part = Some(ShardRequest {
                shard: shard.clone(),
                by_server,
            });
            case
        });
        Ok(Workers {
            cases: cases.collect(),
            plan,
            inventory: inventory.map(Arc::new),
            distribution,
        })
    }

    /// Runs the measured part of a case of shards.
    pub(super) async fn shards(
        &self,
        listed: &ListedData,
        running: &mut Running,
        measured: &mut Measured,
    ) -> Result<(), EarlyEnd> {
        let workers = self.workers(&listed.case).await?;
        let clients = workers.cases.iter().zip(workers.plan.shards());
        let clients = clients.map(|(case, shard)| {
            let mut own = listed.verifier.clone();
            // The latest list of each worker is of another shard, so workers are not compared with
            // each other. The shards are compared together here.
            own.latest = Arc::default();
            if let (Some(expected), Some(inventory)) = (&mut own.expected, &workers.inventory) {
                expected.fingerprint = inventory.expected(shard);
                expected.revisions = None;
            }
            (case.clone(), own)
        });
        let clients: Vec<_> = clients.collect();
        let clients = Clients::connect_each(clients, &listed.endpoint);
        let clients = self.unless_stopped(clients).await??;
        self.probe_shards(&clients).await?;
        let whole = self.unsharded(listed).await?;

        let mut meter = self.settled(running, measured).await?;
        let mut set = Set::new(workers.cases.len());
        let rounds = Rounds {
            run: self,
            clients: &clients,
            union: match listed.verifier.expected.clone() {
                Some(expected) => Union::Known(expected),
                None => Union::Listed(&whole),
            },
        };
        rounds.measured(&mut set, &mut meter, measured).await?;
        let list = async |job| Ok(vec![rounds.timed(job).await?]);
        self.unchecked(measured, list).await?;
        let turns = Turns {
            run: self,
            workers: &clients,
            whole: &whole,
        };
        // If every worker lists everything and filters it, each costs the server the same.
        let alone = match self.strategy().server_shards() && self.care.is_none() {
            true => turns.measured(workers.cases.len(), &meter).await?,
            false => None,
        };
        let mut sharding = self.sharding(&workers);
        set.describe(&mut sharding, alone.as_ref());
        measured.case.shards = Some(sharding);
        measured.case.valid = true;
        Ok(())
    }

    /// Checks that the server sends a shard when it is asked for one.
    async fn probe_shards(&self, clients: &Clients) -> Result<(), EarlyEnd> {
        match self
            .unless_stopped(clients.ask(0, Job::Revision))
            .await?
            .result
        {
            Err(not_sharded @ ListError::NotSharded) => {
                Err(EarlyEnd::NotApplicable(not_sharded.to_string()))
            }
            other => Ok(other.map(|_| ())?),
        }
    }

    /// Returns a client that lists everything: the baseline of the shards' cost, and what all
    /// shards together must be if the objects are not known otherwise.
    async fn unsharded(&self, listed: &ListedData) -> Result<Clients, EarlyEnd> {
        let verifier = listed.verifier.clone();
        let clients = Clients::connect(1, &listed.case, &listed.endpoint, verifier);
        Ok(self.unless_stopped(clients).await??)
    }

    /// Returns the plan that the case would use with one more worker.
    pub(super) fn replan(&self, workers: &Workers, distribution: &Distribution) -> Plan {
        let number = u32::try_from(workers.cases.len()).unwrap_or(u32::MAX);
        let more = NonZeroU32::MIN.saturating_add(number);
        match self.spec.shard_plan.unwrap_or_default() {
            ShardPlan::Equal => Plan::equal(distribution.key(), more),
            ShardPlan::Weighted => Plan::weighted(distribution, more),
        }
    }

    /// Returns what is known of the shards before anything was listed.
    pub(super) fn sharding(&self, workers: &Workers) -> Sharding {
        let name = |value: &dyn std::fmt::Debug| format!("{value:?}").to_lowercase();
        let number = self.strategy().workers().unwrap_or(NonZeroU32::MIN);
        let next = workers.distribution.as_ref();
        let next = next.map(|distribution| self.replan(workers, distribution));
        let moved = |next: &Plan, distribution| workers.plan.moved(next, distribution);
        let distribution = workers.distribution.as_ref();
        let shards = workers.plan.shards().iter().map(|shard| ShardMetrics {
            selector: shard.to_string(),
            ..ShardMetrics::default()
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
