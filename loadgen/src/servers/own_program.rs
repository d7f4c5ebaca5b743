//! The program that starts servers: this program itself.

use std::path::{Path, PathBuf};

use workloads::CpuList;

/// The program with the commands `serve` and `exec-child`, and the settings of the servers that it
/// starts.
#[derive(Debug, Clone)]
pub struct OwnProgram {
    /// Its path.
    pub path: PathBuf,
    /// The CPUs of started servers; `None` means all that this process may use.
    pub server_cpus: Option<CpuList>,
    /// Another build, whose servers are started instead of this program's.
    pub build: Option<Build>,
    /// Further flags and environment variables of started servers.
    pub given: Given,
}

/// A build of our servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    /// The program: `loadgen` or `bench-server`.
    pub path: PathBuf,
    /// Whether the command `serve` must precede the flags.
    pub takes_serve: bool,
}

/// The flags and environment variables of a target's servers besides those that all servers get.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Given {
    /// Flags of the server with the etcd API, after loadgen's own.
    pub flags: Vec<String>,
    /// Flags of our Kubernetes tier, likewise.
    pub kube_flags: Vec<String>,
    /// Environment variables, as `NAME=VALUE`.
    pub environment: Vec<String>,
}

impl OwnProgram {
    /// Returns the program whose servers are started, and the words before its flags.
    pub(super) fn servers(&self) -> (&Path, &'static [&'static str]) {
        match &self.build {
            Some(build) if !build.takes_serve => (&build.path, &[]),
            Some(build) => (&build.path, &["serve"]),
            None => (&self.path, &["serve"]),
        }
    }
}

impl<P: Into<PathBuf>> From<P> for OwnProgram {
    fn from(path: P) -> Self {
        Self {
            path: path.into(),
            server_cpus: None,
            build: None,
            given: Given::default(),
        }
    }
}

/// Returns whether a flag is among those given, as `--name value` or `--name=value`.
pub(crate) fn is_given(name: &str, given: &[String]) -> bool {
    given.iter().any(|flag| {
        let value = flag.strip_prefix(name);
        value.is_some_and(|value| value.is_empty() || value.starts_with('='))
    })
}
