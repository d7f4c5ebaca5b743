//! How a case was warmed up, and what its first list took.

use serde::{Deserialize, Serialize};

/// The first list on a server that has rested since it was seeded or restarted: it touches memory
/// for the first time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cold {
    /// Time until the last client had its list.
    pub ms: f64,
    /// As [`super::ServerFigures::peak_above_idle`], of this list; null where none of the servers
    /// is ours.
    pub peak_above_idle: Option<u64>,
}

/// Lists before the measured phase, of each client; the first of them is [`Cold`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WarmUp {
    /// How many.
    pub lists: u32,
    /// How long they took in all, in seconds.
    pub s: f64,
    /// Whether time and peak stood still by then: the last three lists took the same within 10 % of
    /// their median (or 1 ms), and none of the last two raised the highest peak of private memory
    /// by 2 % (or 1 MiB). False after 20 lists or 30 s without. Null where so many lists were made
    /// as the scenario says: at a pace, and on an existing endpoint.
    pub stands_still: Option<bool>,
}
