//! Memory and CPU of a process, the server's and the generator's own, as exactly as the kernel and
//! the allocator tell; what servers tell on their metrics pages; and the machine that they run on.
//!
//! - [`Process`], [`Memory`]: one process, read through the kernel; [`Highest`]: its peaks
//! - [`Sampler`]: processes over time, on a thread of its own
//! - [`MetricsClient`], [`MetricsText`]: a server's Prometheus page; [`AllocatedWatch`]: what it
//!   has allocated, again and again
//! - [`RemoteServer`]: a server that is somewhere else, by its own metrics; [`settle()`]: a server
//!   at rest
//! - [`Pprof`], [`perf_folder_prefix, perf_stacks`]: where a server's CPU time went
//! - [`Rounds`]: time and CPU round by round
//! - [`heap`]: what one thread of this process holds
//! - [`machine()`], [`disk`], [`MachineClocks`]: the machine, what it has left, and what it did
//!   meanwhile

pub mod heap;
mod machine;
mod metrics;
mod peaks;
mod process;
mod profile;
mod remote;
mod rounds;
mod sampler;
mod settle;

pub use machine::{
    Disk, Machine, MachineClocks, MachineError, MachineLoad, disk, free_disk_bytes,
    free_memory_bytes, machine,
};
pub use metrics::{AllocatedWatch, MetricsClient, MetricsError, MetricsText, grown};
pub use peaks::{Highest, rss_resolution, socket_memory, socket_resolution};
pub use process::{Handles, Memory, Process, ProcessError, thread_cpu};
pub use profile::{
    PerfStacks, Pprof, ProfileError, SAMPLE_FOR_MOST, perf_folder_prefix, perf_stacks,
};
pub use remote::{MetricsPage, RemoteCost, RemotePage, RemoteServer, RemoteWork};
pub use rounds::{Round, Rounds};
pub use sampler::{EarlyAndLate, SAMPLE_EVERY, Sample, Sampled, Sampler, Series, Watched};
pub use settle::settle;
