//! The servers' cost of one shard, as a fraction of their cost of everything.
//!
//! Each worker lists alone, interleaved with a client that lists everything from the same servers:
//! two fresh servers differ by more than the fraction of a shard, and so do two minutes on one
//! machine. A round is one list of everything and one of each shard. There are as many rounds as it
//! takes until the lists of every shard have used a second of CPU in total, since single lists of
//! 30 ms vary by a third. The medians of the rounds are reported.

use std::time::Duration;

use load::driver::closed::{Clients, Job};
use report::result::{Sharding, median};

use crate::progress::Counted;
use crate::run::case::meter::Meter;
use crate::run::case::{CaseRun, EarlyEnd};

/// The CPU time of the servers that the lists of the cheapest shard must reach in total.
const MIN_CPU_TIME: Duration = Duration::from_secs(1);
/// The most rounds, however small the shards are.
const MAX_ROUNDS: u32 = 48;

/// The clients that list in turn.
pub(super) struct Turns<'r> {
    pub(super) run: &'r CaseRun<'r>,
    /// One client for each shard.
    pub(super) workers: &'r Clients,
    /// One client that lists everything.
    pub(super) whole: &'r Clients,
}

/// CPU seconds of the servers for each list, by round.
#[derive(Debug)]
pub(super) struct Alone {
    whole: Vec<f64>,
    shards: Vec<Vec<f64>>,
}

impl Turns<'_> {
    /// Lists everything and each shard in turn; `None` if loadgen started none of the servers, or
    /// one has ended.
    pub(super) async fn measured(
        &self,
        shards: usize,
        meter: &Meter,
    ) -> Result<Option<Alone>, EarlyEnd> {
        let mut alone = Alone {
            whole: Vec::new(),
            shards: vec![Vec::new(); shards],
        };
        let run = self.run;
        let title = format!("{}/{}: one by one", run.target.name, run.spec.name());
        let phase = run
            .progress
            .phase(&title, u64::from(MAX_ROUNDS), Counted::Rounds);
        let mut rounds = 0;
        while rounds < MAX_ROUNDS && (rounds < run.repeats() || !alone.is_enough()) {
            self.pin().await?;
            let Some(whole) = self.cost(self.whole, 0, meter).await? else {
                return Ok(None);
            };
            alone.whole.push(whole);
            for (worker, costs) in alone.shards.iter_mut().enumerate() {
                let Some(cost) = self.cost(self.workers, worker, meter).await? else {
                    return Ok(None);
                };
                costs.push(cost);
            }
            rounds += 1;
            phase.advance(1);
        }
        phase.done(&format!(
            "{rounds} rounds of {shards} shards and everything"
        ));
        Ok(Some(alone))
    }

    /// Makes all clients list at the current revision.
    async fn pin(&self) -> Result<(), EarlyEnd> {
        let run = self.run;
        let asked = run
            .unless_stopped(self.workers.ask(0, Job::Revision))
            .await?;
        let revision = asked.result?.map_or(0, |(listed, _)| listed.revision);
        for clients in [self.workers, self.whole] {
            run.unless_stopped(clients.round(Job::Pin(revision)))
                .await?;
        }
        Ok(())
    }

    /// Returns the servers' CPU seconds for one list; `None` if loadgen started none of them, or
    /// one has ended.
    async fn cost(
        &self,
        clients: &Clients,
        client: usize,
        meter: &Meter,
    ) -> Result<Option<f64>, EarlyEnd> {
        let Some(before) = meter.cpu() else {
            return Ok(None);
        };
        let done = clients.ask(client, Job::List);
        self.run.unless_stopped(done).await?.result?;
        let used = meter.cpu().map(|after| after.saturating_sub(before));
        Ok(used.map(|cpu| cpu.as_secs_f64()))
    }
}

impl Alone {
    fn is_enough(&self) -> bool {
        let least = self.shards.iter().map(|costs| costs.iter().sum());
        least.fold(f64::INFINITY, f64::min) >= MIN_CPU_TIME.as_secs_f64()
    }

    /// Fills in the cost of each shard, and that of the most expensive one as a fraction of
    /// everything.
    pub(super) fn describe(&self, sharding: &mut Sharding) {
        let whole = median(self.whole.iter().copied());
        for (figures, costs) in sharding.shards.iter_mut().zip(&self.shards) {
            figures.server_cpu_s = median(costs.iter().copied());
        }
        let each = sharding
            .shards
            .iter()
            .filter_map(|shard| shard.server_cpu_s);
        sharding.server_cpu_s_max = each.reduce(f64::max);
        sharding.server_cpu_s_whole = whole;
        let dearest = sharding
            .server_cpu_s_max
            .zip(whole.filter(|&whole| whole > 0.0));
        sharding.server_cpu_part_max = dearest.map(|(dearest, whole)| dearest / whole);
        sharding.alone_rounds = self.whole.len() as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::result::ShardMetrics;

    #[test]
    fn the_dearest_shard_is_a_part_of_everything_of_the_same_rounds() {
        // One round of three was disturbed.
        let alone = Alone {
            whole: vec![1.0, 4.0, 1.0],
            shards: vec![vec![0.5, 0.5, 3.0], vec![0.7, 0.9, 0.6]],
        };
        let mut sharding = Sharding {
            shards: vec![ShardMetrics::default(); 2],
            ..Sharding::default()
        };
        alone.describe(&mut sharding);
        let each = sharding.shards.iter().map(|shard| shard.server_cpu_s);
        assert_eq!(each.collect::<Vec<_>>(), [Some(0.5), Some(0.7)]);
        assert_eq!(sharding.server_cpu_s_max, Some(0.7));
        assert_eq!(sharding.server_cpu_s_whole, Some(1.0));
        assert_eq!(sharding.server_cpu_part_max, Some(0.7));
        assert_eq!(sharding.alone_rounds, 3);
    }

    #[test]
    fn rounds_are_enough_when_the_cheapest_shard_has_its_second() {
        let mut alone = Alone {
            whole: vec![4.0],
            shards: vec![vec![2.0], vec![0.6]],
        };
        assert!(!alone.is_enough());
        alone.shards[1].push(0.6);
        assert!(alone.is_enough());
    }
}
