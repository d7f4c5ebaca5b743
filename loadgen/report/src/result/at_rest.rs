//! What servers hold at rest between rounds of the same loads.

use serde::{Deserialize, Serialize};

/// What the servers of a case held at rest, before its first round and after each.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AtRest {
    /// The rounds, in order.
    pub rounds: Vec<LoadRound>,
    /// Each process and kind.
    pub held: Vec<Held>,
}

/// One round of the loads of a case.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LoadRound {
    /// Requests and lists of all loads, those of the warm-up left out.
    pub requests: u64,
    /// Events at all watchers, each once and in order.
    pub events: u64,
    /// How often connections of watchers were cut.
    pub cuts: u64,
    /// Time from its first connection to its last check, in seconds.
    pub elapsed_s: f64,
}

/// One kind of things that a process held at rest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Held {
    /// `etcd` or `kube`.
    pub process: String,
    /// What.
    pub kind: HeldKind,
    /// How much: before the first round, then after each. Memory is in bytes.
    pub at_rest: Vec<u64>,
    /// How much more there is after the last round than after the first, by the median slope.
    pub growth: f64,
    /// How much `growth` may be. Zero where each value must equal the first.
    pub allowed: f64,
    /// The probability that values without a trend rise as steadily as these; null where each
    /// must equal the first.
    pub chance: Option<f64>,
    /// What follows.
    pub verdict: Verdict,
}

/// What a process can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HeldKind {
    /// Bytes that its allocator has handed out, by its own word.
    Allocated,
    /// Resident bytes of anonymous pages.
    PrivateMemory,
    /// Open file descriptors that are no sockets.
    Files,
    /// Open sockets.
    Sockets,
    /// Threads.
    Threads,
    /// Tasks of the server's runtime; of a Go program goroutines.
    Tasks,
    /// Connections of clients.
    Connections,
    /// Watchers.
    Watchers,
    /// Earlier states that a watch cache keeps for pages and exact lists.
    PastSnapshots,
    /// Leases.
    Leases,
    /// Keys.
    Keys,
}

/// Whether what is held at rest returns to where it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It returns.
    Returned,
    /// It does not.
    NotReturned,
    /// It moves too much for an answer.
    CannotTell,
}
