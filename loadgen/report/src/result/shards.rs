//! The results of workers that share the objects between them, of each worker and of all together.

use serde::{Deserialize, Serialize};

use super::quantiles::Quantiles;

/// The shards of a case.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sharding {
    /// The field whose hash determines an object's shard: `uid` or `namespace`.
    pub key: String,
    /// How the hash range was divided: into `equal` ranges, or into ranges `weighted` by their
    /// objects.
    pub plan: String,
    /// The number of workers. Each has one shard.
    pub workers: u32,
    /// Objects in the largest shard.
    pub objects_max: u64,
    /// `objects_max` divided by the mean.
    pub objects_skew: f64,
    /// Bytes received by the worker that received most, for one list or for the initial state of a
    /// watch.
    pub bytes_max: u64,
    /// `bytes_max` divided by the mean.
    pub bytes_skew: f64,
    /// CPU time of the servers for the list of the most expensive shard, listed by itself; null for
    /// watches, and where every worker lists everything.
    #[serde(default)]
    pub server_cpu_s_max: Option<f64>,
    /// CPU time of the same servers for a list of everything, interleaved with the lists of single
    /// shards.
    #[serde(default)]
    pub server_cpu_s_whole: Option<f64>,
    /// `server_cpu_s_max` divided by `server_cpu_s_whole`: the cost of one shard as a part of the
    /// whole, from 0 to 1.
    #[serde(default)]
    pub server_cpu_part_max: Option<f64>,
    /// Rounds in which each shard was listed by itself. The CPU times of single shards are medians
    /// over these rounds. 0 where there was none.
    #[serde(default)]
    pub alone_rounds: u32,
    /// CPU time of the busiest worker's thread for one list, or for the events of a watch after its
    /// initial state.
    pub worker_cpu_s_max: f64,
    /// Memory of the worker with most; null where the allocator does not count by thread.
    #[serde(default)]
    pub worker_memory_max: Option<u64>,
    /// Watches: time until the last worker had the whole initial state.
    #[serde(default)]
    pub synced_ms: Option<Quantiles>,
    /// Watches: CPU time of the servers until then.
    #[serde(default)]
    pub sync_server_cpu_s: Option<f64>,
    /// Part of the objects that would move to another worker if one worker were added with the same
    /// kind of plan, from 0 to 1. Null where loadgen did not generate the objects.
    #[serde(default)]
    pub moved_to_next: Option<f64>,
    /// The same part with a plan in which objects only move to the new worker.
    #[serde(default)]
    pub least_moved: Option<f64>,
    /// Watches: the events after the initial state.
    #[serde(default)]
    pub events: Option<ShardEvents>,
    /// Watches: how one worker was added while objects were written.
    #[serde(default)]
    pub resharding: Option<Resharding>,
    /// One entry per worker.
    pub shards: Vec<ShardMetrics>,
}

/// One worker and its shard.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ShardMetrics {
    /// The selector that the worker requested, or that it applied to the whole list.
    pub selector: String,
    /// Objects in the worker's shard.
    pub objects: u64,
    /// Bytes received for one list, or for the initial state of a watch.
    pub bytes: u64,
    /// Median time of the worker's list while the others list too; null for watches.
    #[serde(default)]
    pub list_ms: Option<f64>,
    /// CPU time of the servers for the worker's list by itself; null for watches, where the worker
    /// lists everything, and where loadgen started no server.
    #[serde(default)]
    pub server_cpu_s: Option<f64>,
    /// CPU time of the worker's thread for one list, or for the events of a watch after its initial
    /// state.
    pub cpu_s: f64,
    /// Most bytes that the worker's thread had allocated at a time, by the allocator's counters of
    /// that thread, above the bytes it had when the list or the watch began. These are buffers, and
    /// for a watch the revision and hash of each object, not the objects. All workers are threads
    /// of one process, so a single worker has no resident size. Null where the allocator does not
    /// count by thread.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// Watches: events of the worker's own objects.
    #[serde(default)]
    pub events: u64,
    /// Watches: bytes received after the initial state.
    #[serde(default)]
    pub event_bytes: u64,
}

/// The change from N workers to N + 1 while objects are written. The old shards are valid up to one
/// revision, the new ones after it. Each worker lists the objects that are new to it at that
/// revision.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Resharding {
    /// `replan`: the same plan, computed for one worker more. `give`: each worker gave the new one
    /// its excess over the new mean.
    pub plan: String,
    /// Part of the objects that moved to another worker, from 0 to 1.
    pub moved: f64,
    /// Objects that were listed again.
    pub objects_listed: u64,
    /// Bytes received for those lists.
    pub bytes_listed: u64,
    /// Time from the order to reshard until the last worker held its new shard and could watch it.
    /// No worker sees events of this time before it is over.
    pub synced_ms: f64,
    /// Time until the last worker had all events up to that revision: part of `synced_ms`.
    pub waited_ms: f64,
    /// CPU time of the servers until then, including writes; null where loadgen started no server.
    #[serde(default)]
    pub server_cpu_s: Option<f64>,
    /// Objects of the largest new shard divided by the mean.
    pub objects_skew: f64,
    /// The added worker. Its objects and bytes are those that it listed.
    pub joined: ShardMetrics,
}

/// The events of all workers, compared with the writes. Each event must reach the worker that has
/// the object, exactly once, and no other worker.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ShardEvents {
    /// Acknowledged writes.
    pub writes: u64,
    /// Writes whose event reached the right worker.
    pub delivered: u64,
    /// Writes whose event did not reach the right worker.
    pub dropped: u64,
    /// Events that were received twice, or by the wrong worker.
    pub superfluous: u64,
    /// Events that workers received and then discarded because the object belongs to another
    /// worker.
    pub filtered: u64,
    /// Bytes of the events of the worker that received most.
    pub bytes_max: u64,
    /// How often a worker lost its connection on purpose and resumed.
    pub reconnects: u64,
    /// How often the server ended a watch, as it does with a client that falls behind. The worker
    /// resumed.
    #[serde(default)]
    pub ended: u64,
}
