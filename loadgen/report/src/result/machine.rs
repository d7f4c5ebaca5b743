//! How much of the machine's CPU was available to a case.

use serde::{Deserialize, Serialize};

/// Other activity on the generator's machine during the measured phase of a case. Each is null
/// where the kernel does not report it, and where the phase is shorter than half a second, for
/// which the kernel's ticks of 10 ms are too coarse.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MachineLoad {
    /// CPU time of processes other than the generator and the servers, as a part of what all cores
    /// offer. Null on existing endpoints.
    pub others_cpu_part: Option<f64>,
    /// CPU time that the host of this virtual machine withheld from it (steal), as a part of the
    /// same.
    pub stolen_cpu_part: Option<f64>,
    /// The part of the time in which a runnable task waited for a core, servers and generator
    /// included (pressure stall information, `some` of `/proc/pressure/cpu`).
    pub waiting_part: Option<f64>,
}
