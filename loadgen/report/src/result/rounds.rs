//! The rounds of a case one by one.

use serde::{Deserialize, Serialize};

/// One measured round: every client has its list, or its requests. Rounds in which something
/// failed, and one that was stopped, are none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Round {
    /// Wall-clock time until the last client was done.
    pub ms: f64,
    /// CPU time of all servers meanwhile; null where loadgen started none.
    pub server_cpu_ms: Option<f64>,
}
