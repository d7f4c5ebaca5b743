//! What workers that share the objects between them came to, each and together.

use serde::{Deserialize, Serialize};

use super::quantiles::Quantiles;

/// The shards of a case.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sharding {
    /// The field whose hash decides: `uid` or `namespace`.
    pub key: String,
    /// How hashes were cut: `equal` ranges, or `weighted` by the objects that they hold.
    pub plan: String,
    /// Workers, each with one shard.
    pub workers: u32,
    /// Objects of the largest shard.
    pub objects_max: u64,
    /// `objects_max` over the mean.
    pub objects_skew: f64,
    /// Bytes that the worker with most received for one list, or for the state that a watch begins
    /// with.
    pub bytes_max: u64,
    /// `bytes_max` over the mean.
    pub bytes_skew: f64,
    /// CPU time of the servers for the list of the most expensive shard, listed by itself; null for
    /// watches, and where every worker lists everything.
    #[serde(default)]
    pub server_cpu_s_max: Option<f64>,
    /// CPU time of the same servers for a list of everything, in turn with those of the shards by
    /// themselves.
    #[serde(default)]
    pub server_cpu_s_whole: Option<f64>,
    /// `server_cpu_s_max` over `server_cpu_s_whole`: what one shard costs as a part of everything,
    /// from 0 to 1.
    #[serde(default)]
    pub server_cpu_part_max: Option<f64>,
    /// Rounds in which each shard was listed by itself; the figures are medians of them. 0 where
    /// there was none.
    #[serde(default)]
    pub alone_rounds: u32,
    /// CPU time of the busiest worker's thread for one list, or for the live part of a watch.
    pub worker_cpu_s_max: f64,
    /// Memory of the largest worker; null where the allocator does not count by thread.
    #[serde(default)]
    pub worker_memory_max: Option<u64>,
    /// Watches: time until the last worker had the whole state.
    #[serde(default)]
    pub synced_ms: Option<Quantiles>,
    /// Watches: CPU time of the servers until then.
    #[serde(default)]
    pub sync_server_cpu_s: Option<f64>,
    /// Part of the objects that would change hands with one worker more and the same kind of plan,
    /// from 0 to 1. Null where the objects are not ours.
    #[serde(default)]
    pub moved_to_next: Option<f64>,
    /// The same with a plan in which objects only move to the new worker.
    #[serde(default)]
    pub least_moved: Option<f64>,
    /// Watches: what happened behind the state.
    #[serde(default)]
    pub events: Option<ShardEvents>,
    /// Watches: how one worker more took part while objects were written.
    #[serde(default)]
    pub resharding: Option<Resharding>,
    /// Each worker.
    pub shards: Vec<ShardFigures>,
}

/// One worker and its shard.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ShardFigures {
    /// What it asked for, or kept of everything.
    pub selector: String,
    /// Objects that it had.
    pub objects: u64,
    /// Bytes that it received for one list, or for the state that a watch begins with.
    pub bytes: u64,
    /// Median time of its list among the others'; null for watches.
    #[serde(default)]
    pub list_ms: Option<f64>,
    /// CPU time of the servers for its list by itself; null for watches, where it lists everything,
    /// and where no server is ours.
    #[serde(default)]
    pub server_cpu_s: Option<f64>,
    /// CPU time of its thread for one list, or for the live part of a watch.
    pub cpu_s: f64,
    /// Most bytes that its thread had allocated at a time, by the allocator's counters of the
    /// thread, above what it had when the list, or the watch, began: buffers, and for a watch the
    /// revision and hash of each object, not the objects. All workers are threads of one process,
    /// so there is no resident size of one. Null where the allocator does not count by thread.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// Watches: events of its own objects.
    #[serde(default)]
    pub events: u64,
    /// Watches: bytes that came behind the state.
    #[serde(default)]
    pub event_bytes: u64,
}

/// From N workers to N + 1 while objects are written. The old shards hold up to one revision, the
/// new ones behind it; each worker lists what is new to it at that revision.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Resharding {
    /// `replan`: shards for one worker more by the same plan; `give`: each worker gave the new one
    /// what it had above the new mean.
    pub plan: String,
    /// Part of the objects that changed hands, from 0 to 1.
    pub moved: f64,
    /// Objects that were listed again.
    pub objects_listed: u64,
    /// Bytes received for those lists.
    pub bytes_listed: u64,
    /// From the order to share anew until the last worker held its new shard and could watch it.
    /// Nobody sees events of this time before it is over.
    pub synced_ms: f64,
    /// Until the last worker missed nothing up to that revision: part of `synced_ms`.
    pub waited_ms: f64,
    /// CPU time of the servers until then, writes included; null where no server is ours.
    #[serde(default)]
    pub server_cpu_s: Option<f64>,
    /// Objects of the largest new shard over the mean.
    pub objects_skew: f64,
    /// The new worker. Its objects and bytes are those that it listed.
    pub joined: ShardFigures,
}

/// Events of all workers, compared with the writes: each must reach the worker that has its object,
/// once, and no other.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ShardEvents {
    /// Acknowledged writes.
    pub writes: u64,
    /// Writes whose event came to the right worker.
    pub delivered: u64,
    /// Writes whose event did not.
    pub dropped: u64,
    /// Events that came again, or at another worker's.
    pub superfluous: u64,
    /// Events that workers threw away because the object is another's, which they had to read
    /// first.
    pub filtered: u64,
    /// Bytes of the events of the worker that received most.
    pub bytes_max: u64,
    /// Times that a worker lost its connection on purpose and resumed.
    pub reconnects: u64,
    /// Times that the server ended a watch, as it does with a reader that falls behind; the worker
    /// resumed.
    #[serde(default)]
    pub ended: u64,
}
