//! Where the CPU time of a server went: stacks that a profiler sampled.
//!
//! - [`Pprof`]: of a Go server, which samples itself when it is asked to
//! - [`perf_stacks`]: of any process of this machine, by Linux's `perf`

mod perf;
mod pprof;

use std::time::Duration;

use kube_api::client::KubeError;

pub use perf::{PerfStacks, perf_folder_prefix, perf_stacks};
pub use pprof::Pprof;

/// How long a server is sampled at most: half a minute has thousands of samples, and the files
/// stay small.
pub const SAMPLE_FOR_MOST: Duration = Duration::from_secs(30);

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The server does not serve its profile.
    #[error("{0}")]
    Server(#[from] KubeError),
    /// It took the request and sent nothing.
    #[error("no profile of {seconds} s within {within} s")]
    Late {
        /// How long it was to sample.
        seconds: u64,
        /// How long it was waited for.
        within: u64,
    },
    /// A program cannot be run.
    #[error("`{program}` cannot be run: {source}")]
    Start {
        /// Its name.
        program: &'static str,
        /// Why not.
        source: std::io::Error,
    },
    /// It ended without doing what it should.
    #[error("`{program}`: {said}")]
    Failed {
        /// Its name and first word.
        program: &'static str,
        /// What it said.
        said: String,
    },
    /// No temporary file, or one that cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}
