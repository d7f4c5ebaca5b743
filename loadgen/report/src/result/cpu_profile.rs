//! CPU profiles of a case's servers, taken by profilers while the case was measured.

use serde::{Deserialize, Serialize};

/// Why a profiled case is not ranked, judged or compared.
pub const PROFILED: &str = "profiled: its figures include what the profiler cost";

/// The CPU profile of one server, or the reason why there is none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CpuProfile {
    /// `etcd` or `kube` for servers that the run started; the URL of an existing endpoint.
    pub process: String,
    /// The profiler; null where none was available.
    pub profiler: Option<Profiler>,
    /// How long the profiler ran, in seconds: from the beginning of the measured phase, at most 30.
    /// 0 where it never began.
    pub sampled_s: f64,
    /// The number of samples. Each busy core yields 100 a second with `pprof`, 99 with `perf`.
    pub samples: u64,
    /// The functions that were on a CPU in most samples, without the functions they call: at most
    /// five.
    pub hottest: Vec<HotFunction>,
    /// The stacks, as a path in the result folder: `profiles/….pb.gz` as the server sent it, or
    /// `profiles/….folded.gz` with one stack and its number of samples per line. The flame graph is
    /// in the same folder; see [`CpuProfile::flame_graph`]. Null where there is no profile.
    pub file: Option<String>,
    /// Why there is no profile.
    pub missing: Option<String>,
}

/// A program that takes CPU profiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Profiler {
    /// The Go server itself, through its `/debug/pprof/profile`.
    Pprof,
    /// `perf record` on the server's process.
    Perf,
}

/// A function and its part of a profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HotFunction {
    /// The function's name, as the profiler reports it.
    pub function: String,
    /// The part of all samples in which the function itself was on a CPU, from 0 to 1.
    pub part: f64,
}

impl Profiler {
    /// Returns the ending of the profiler's file names.
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
/// The endings of the names of files with stacks.
const PPROF_END: &str = ".pb.gz";
const FOLDED_END: &str = ".folded.gz";

impl CpuProfile {
    /// Returns the path of the flame graph within the result folder; `None` without a profile, and
    /// where an edited report names a file outside the folder of profiles.
    #[must_use]
    pub fn flame_graph(&self) -> Option<String> {
        let name = self.file.as_ref()?.strip_prefix(PROFILES)?;
        let ends = [PPROF_END, FOLDED_END];
        let stem = ends.iter().find_map(|end| name.strip_suffix(end))?;
        (!stem.contains(['/', '\\'])).then(|| format!("{PROFILES}{stem}.svg"))
    }

    /// Returns whether a profiler ran, even if it yielded no profile.
    #[must_use]
    pub fn has_run(&self) -> bool {
        self.sampled_s > 0.0
    }
}
