//! The totals of the workers of a case over its rounds, and the measurements of all workers
//! together.

use std::time::Duration;

use load::record::LatencyHistogram;
use load::shards::distribution::skew;
use load::verify::{Contents, Listed};
use report::result::Sharding;

use super::alone::Alone;
use crate::to_result;

/// The totals of all workers of a case.
pub(super) struct Set {
    pub(super) shards: Vec<ShardTally>,
    /// All shards of the latest round together.
    pub(super) found: Option<Contents>,
}

/// The totals of one worker.
#[derive(Default)]
pub(super) struct ShardTally {
    objects: u64,
    bytes: u64,
    latency: LatencyHistogram,
    cpu: Duration,
    memory: Option<u64>,
}

impl ShardTally {
    /// Adds what the worker listed in one round, and its cost.
    pub(super) fn take(&mut self, listed: &Listed, found: &Contents, took: Took) {
        self.objects = found.fingerprint.objects;
        self.bytes = listed.wire_bytes;
        self.latency.record(took.latency);
        self.cpu += took.cpu;
        self.memory = self.memory.max(took.memory);
    }
}

/// The cost of one list to its worker.
pub(super) struct Took {
    pub(super) latency: Duration,
    pub(super) cpu: Duration,
    pub(super) memory: Option<u64>,
}

impl Set {
    pub(super) fn new(workers: usize) -> Self {
        Self {
            shards: (0..workers).map(|_| ShardTally::default()).collect(),
            found: None,
        }
    }

    /// Returns the bytes that all workers received in one round.
    pub(super) fn bytes_of_one(&self) -> u64 {
        self.shards.iter().map(|shard| shard.bytes).sum()
    }

    /// Fills in the workers' measurements. `alone` is what each shard costs the servers by itself,
    /// if that was measured.
    pub(super) fn describe(&self, sharding: &mut Sharding, alone: Option<&Alone>) {
        for (figures, tally) in sharding.shards.iter_mut().zip(&self.shards) {
            figures.objects = tally.objects;
            figures.bytes = tally.bytes;
            figures.list_ms =
                to_result::quantiles_ms(&tally.latency).and_then(|latency| latency.p50);
            figures.cpu_s = tally.cpu.as_secs_f64() / tally.latency.n().max(1) as f64;
            figures.memory_bytes = tally.memory;
        }
        summarise(sharding);
        if let Some(alone) = alone {
            alone.describe(sharding);
        }
    }
}

/// Computes the maxima and skews from the workers' own measurements.
pub(in crate::run::case) fn summarise(sharding: &mut Sharding) {
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
