//! Profiles of a server's CPU time: stacks that a profiler sampled.
//!
//! - [`Pprof`]: profiles of a Go server, which samples itself on request
//! - [`perf_stacks`]: profiles of any process of this machine, by Linux's `perf`

mod perf;
mod pprof;

use std::time::Duration;

use kube_api::client::KubeError;

pub use perf::{PerfStacks, perf_folder_prefix, perf_stacks};
pub use pprof::Pprof;

/// The longest time for which a server is sampled: half a minute gives thousands of samples and
/// small files.
pub const MAX_SAMPLING_TIME: Duration = Duration::from_secs(30);

/// An error while taking a profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The server does not serve its profile.
    #[error("{0}")]
    Server(#[from] KubeError),
    /// The server accepted the request and did not respond in time.
    #[error("no profile of {seconds} s within {within} s")]
    Late {
        /// The requested duration of sampling, in seconds.
        seconds: u64,
        /// The timeout, in seconds.
        within: u64,
    },
    /// A program cannot be run.
    #[error("`{program}` cannot be run: {source}")]
    Start {
        /// The program's name.
        program: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// A program failed.
    #[error("`{program}`: {said}")]
    Failed {
        /// The program's name and subcommand.
        program: &'static str,
        /// Its status with the first line of its error output, or the time limit that it exceeded.
        said: String,
    },
    /// A temporary file cannot be created or read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}
