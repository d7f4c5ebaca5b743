//! Measures memory and CPU time of processes, the servers' and the generator's own, as exactly as
//! the kernel and the allocator report them; reads the metrics pages of servers; and describes the
//! machine.
//!
//! - [`Process`], [`Memory`]: the sizes of one process, read from the kernel; [`Highest`]: its
//!   peaks
//! - [`Sampler`]: samples processes over time, on a thread of its own
//! - [`MetricsClient`], [`MetricsText`]: a server's Prometheus page; [`AllocatedWatch`]: its
//!   allocated bytes, polled
//! - [`RemoteServer`]: an existing server, measured by its own metrics; [`settle()`]: waits until a
//!   server is idle
//! - [`Pprof`], [`perf_stacks`], [`perf_folder_prefix`]: where a server's CPU time went
//! - [`Rounds`]: time and CPU round by round
//! - [`heap`]: the memory that one thread of this process holds
//! - [`machine()`], [`disk`], [`MachineClocks`]: the machine, its free memory and disk, and its
//!   load during a phase

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
    MAX_SAMPLING_TIME, PerfStacks, Pprof, ProfileError, perf_folder_prefix, perf_stacks,
};
pub use remote::{MetricsPage, RemoteCost, RemotePage, RemoteServer, RemoteWork};
pub use rounds::{Round, Rounds};
pub use sampler::{EarlyAndLate, SAMPLE_EVERY, Sample, Sampled, Sampler, Series, Watched};
pub use settle::settle;
