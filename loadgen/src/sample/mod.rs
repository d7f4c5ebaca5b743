//! Memory and CPU of a process, the server's and the generator's own, as exactly as the kernel and the allocator tell; and the
//! machine that they run on.

pub mod heap;
mod machine;
mod memory;
mod metrics;
mod process;
mod sampler;

pub use machine::{
    MachineClocks, MachineError, disk, environment, free_disk_bytes, free_memory_bytes,
};
pub use memory::{Highest, rss_resolution, socket_memory, socket_resolution};
pub use metrics::{AllocatedWatch, MetricsClient, MetricsError, MetricsText};
pub use process::{Memory, Process, ProcessError, thread_cpu};
pub use sampler::{SAMPLE_EVERY, Sampler, Watched};
