//! How much of the machine a case had to itself.

use serde::{Deserialize, Serialize};

/// What the generator's machine did besides, over the measured phase of a case. Each is null where
/// the kernel does not tell, and of less than half a second, of which its ticks of 10 ms say
/// nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MachineLoad {
    /// CPU time of processes other than the generator and the servers, as a part of all that the
    /// cores could give. null on existing endpoints.
    pub others_cpu_part: Option<f64>,
    /// CPU time that the host of this virtual machine kept from it (steal), as a part of the same.
    pub stolen_cpu_part: Option<f64>,
    /// The part of the time in which a runnable task waited for a core, servers and generator
    /// included (pressure stall information, `some` of `/proc/pressure/cpu`).
    pub waiting_part: Option<f64>,
}
