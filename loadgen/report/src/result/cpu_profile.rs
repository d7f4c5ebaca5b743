//! Where the CPU time of a case's servers went, by profilers that ran while it was measured.

use serde::{Deserialize, Serialize};

/// Why a profiled case is not ranked, judged or compared.
pub const PROFILED: &str = "profiled: its figures include what the profiler cost";

/// The CPU profile of one server, or the reason why there is none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CpuProfile {
    /// `etcd` or `kube` of servers that the run started; the URL of an existing endpoint.
    pub process: String,
    /// What took it; null where nothing could.
    pub profiler: Option<Profiler>,
    /// How long the profiler ran, in seconds: from when the measured part began, 30 at most. 0
    /// where it never began.
    pub sampled_s: f64,
    /// Samples of a function on a CPU. Each busy core makes 100 a second by `pprof`, 99 by `perf`.
    pub samples: u64,
    /// The functions that were on a CPU in most samples, their callees not counted: five at most.
    pub hottest: Vec<HotFunction>,
    /// The stacks, as a path in the result folder: `profiles/….pb.gz` as the server sent it, or
    /// `profiles/….folded.gz` with one stack and its samples a line. The flame graph is beside it;
    /// see [`CpuProfile::flame_graph`]. Null where there is no profile.
    pub file: Option<String>,
    /// Why there is none.
    pub missing: Option<String>,
}

/// What takes profiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Profiler {
    /// A Go server itself, asked for `/debug/pprof/profile`.
    Pprof,
    /// `perf record` on the server's process.
    Perf,
}

/// A function and how much of the profile it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HotFunction {
    /// Its name, as the profiler has it.
    pub function: String,
    /// The part of all samples in which it was on a CPU.
    pub part: f64,
}

impl Profiler {
    /// Returns what the names of its files end with.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Self::Pprof => PPROF_END,
            Self::Perf => FOLDED_END,
        }
    }
}

/// The folder of profiles in a result folder.
pub(super) const PROFILES: &str = "profiles/";
/// How the names of files with stacks end.
const PPROF_END: &str = ".pb.gz";
const FOLDED_END: &str = ".folded.gz";

impl CpuProfile {
    /// Returns where the flame graph is, as a path in the result folder; `None` without a profile,
    /// and where a report that somebody wrote names a file elsewhere.
    #[must_use]
    pub fn flame_graph(&self) -> Option<String> {
        let name = self.file.as_ref()?.strip_prefix(PROFILES)?;
        let ends = [PPROF_END, FOLDED_END];
        let stem = ends.iter().find_map(|end| name.strip_suffix(end))?;
        (!stem.contains(['/', '\\'])).then(|| format!("{PROFILES}{stem}.svg"))
    }

    /// Returns whether a profiler ran, whatever came of it.
    #[must_use]
    pub fn has_run(&self) -> bool {
        self.sampled_s > 0.0
    }
}
