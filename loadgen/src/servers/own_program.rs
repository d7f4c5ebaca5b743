//! What starts servers: this program itself.

use std::path::PathBuf;

use workloads::CpuList;

/// The program that has `serve` and `guard` commands, and where it lets servers run.
#[derive(Debug, Clone)]
pub struct OwnProgram {
    /// Its path.
    pub path: PathBuf,
    /// CPUs of started servers; `None` is all that this process may use.
    pub server_cpus: Option<CpuList>,
}

impl<P: Into<PathBuf>> From<P> for OwnProgram {
    fn from(path: P) -> Self {
        Self {
            path: path.into(),
            server_cpus: None,
        }
    }
}
