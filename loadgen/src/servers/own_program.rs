//! What starts servers: this program itself.

use std::path::{Path, PathBuf};

use workloads::CpuList;

/// The program that has `serve` and `exec-child` commands, and where it lets servers run.
#[derive(Debug, Clone)]
pub struct OwnProgram {
    /// Its path.
    pub path: PathBuf,
    /// CPUs of started servers; `None` is all that this process may use.
    pub server_cpus: Option<CpuList>,
    /// Another build, whose servers are started instead of this one's.
    pub build: Option<Build>,
    /// What started servers are given besides.
    pub given: Given,
}

/// A build of our servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    /// The program: `loadgen` or `bench-server`.
    pub path: PathBuf,
    /// Whether it needs the word `serve` before the flags.
    pub takes_serve: bool,
}

/// What a target's servers are given besides what all get.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Given {
    /// Flags behind ours.
    pub flags: Vec<String>,
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
