//! The memory and other resources that servers hold at rest between rounds of the same loads.

use serde::{Deserialize, Serialize};

/// What the servers of a case held at rest, before the first round and after each.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AtRest {
    /// The rounds, in order.
    pub rounds: Vec<LoadRound>,
    /// One entry per process and kind.
    pub held: Vec<Held>,
}

/// One round of a case's loads.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LoadRound {
    /// Requests and lists of all loads, without those of the warm-up.
    pub requests: u64,
    /// Events that all watchers received, each once and in order.
    pub events: u64,
    /// How often connections of watchers were cut.
    pub cuts: u64,
    /// Time from the round's first connection to its last check, in seconds.
    pub elapsed_s: f64,
}

/// One kind of resource that a process held at rest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Held {
    /// `etcd` or `kube`.
    pub process: String,
    /// The kind of resource.
    pub kind: HeldKind,
    /// The amount: before the first round, then after each. Memory is in bytes.
    pub at_rest: Vec<u64>,
    /// By how much the amount after the last round exceeds that after the first, by the median
    /// slope.
    pub growth: f64,
    /// The largest permitted `growth`. Zero where each value must equal the first.
    pub allowed: f64,
    /// The probability that values without a trend rise as steadily as these. Null where each must
    /// equal the first.
    pub chance: Option<f64>,
    /// The verdict that follows from these values.
    pub verdict: Verdict,
}

/// A kind of resource that a process can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HeldKind {
    /// Bytes that the process's allocator has handed out, as the process reports them.
    Allocated,
    /// Resident bytes of anonymous pages.
    PrivateMemory,
    /// Open file descriptors other than sockets.
    Files,
    /// Open sockets.
    Sockets,
    /// Threads.
    Threads,
    /// Tasks of the server's runtime; in a Go program, goroutines.
    Tasks,
    /// Connections of clients.
    Connections,
    /// Watchers.
    Watchers,
    /// Earlier snapshots that a watch cache retains for pages and lists at an exact revision.
    PastSnapshots,
    /// Leases.
    Leases,
    /// Keys.
    Keys,
}

/// Whether what is held at rest returns to its earlier level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It returns.
    Returned,
    /// It does not return.
    NotReturned,
    /// The values vary too much to tell.
    CannotTell,
}
