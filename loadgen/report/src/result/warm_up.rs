//! The warm-up of a case, and its first list.

use serde::{Deserialize, Serialize};

/// The first list on a server that has rested since it was seeded or restarted, so that the list
/// touches memory for the first time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cold {
    /// Time until the last client had its list.
    pub ms: f64,
    /// As [`super::ServerMetrics::peak_above_idle`], of this list; null where loadgen started no
    /// server.
    pub peak_above_idle: Option<u64>,
}

/// The lists of each client before the measured phase. The first of them is [`Cold`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WarmUp {
    /// The number of lists.
    pub lists: u32,
    /// Their total duration, in seconds.
    pub s: f64,
    /// Whether time and peak were steady at the end: the last three lists took the same within 10 %
    /// of their median (or 1 ms), and neither of the last two raised the highest peak of private
    /// memory by 2 % (or 1 MiB). False if that was not reached within 20 lists or 30 s. Null where
    /// the scenario gives the number of lists: with paced requests, and on an existing endpoint.
    pub stands_still: Option<bool>,
}
