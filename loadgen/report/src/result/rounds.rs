//! The rounds of a case.

use serde::{Deserialize, Serialize};

/// One measured round, in which every client completes its list or its requests. Rounds in which a
/// request failed and a round that was stopped are left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Round {
    /// Wall-clock time until the last client finished.
    pub ms: f64,
    /// CPU time of all servers meanwhile; null where loadgen started none.
    pub server_cpu_ms: Option<f64>,
}
