//! Fresh servers for a row, ready to be seeded: ours, an etcd binary, or connections to what is there.
//!
//! - [`baseline`]: a server of as many bytes as a list has
//! - [`mod@bench`]: ours, with both tiers
//! - [`etcd`]: an etcd binary, and its data folder
//! - [`there`]: endpoints that are there
//! - [`running`]: what came of any of them

pub mod baseline;
mod bench;
mod etcd;
mod running;
mod there;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::error::Error as EtcdError;
use etcd_api::proto::etcdserverpb::{StatusRequest, StatusResponse};
use workloads::CpuList;
use workloads::strategy::Strategy;

use super::child::{ChildError, ChildServer};
use super::kube::{KubeAccess, KubeError};
use super::{TargetSpec, guard};
pub use etcd::folders_left;
use running::OnDisk;
pub use running::Running;

/// How long a server may take until it answers.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// How long the HTTP tier may take to fill its cache on top of that.
const CACHE_WITHIN: Duration = Duration::from_secs(120);
/// Quota of databases that we start: far beyond what a row loads, so that it never decides.
const QUOTA_BYTES: u64 = 64 << 30;

/// Why a row has no server.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The process could not be started or did not get ready.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// The endpoint could not be reached or refused.
    #[error(transparent)]
    Endpoint(#[from] EtcdError),
    /// The HTTP tier answers, but its cache does not get ready.
    #[error(
        "the cache behind {url} is not filled after {} s: {reason}; its last lines: {log}",
        CACHE_WITHIN.as_secs()
    )]
    Cache {
        /// Where it listens.
        url: String,
        /// What `/readyz` answered last.
        reason: String,
        /// The last lines of its log.
        log: String,
    },
    /// The Kubernetes API could not be reached.
    #[error(transparent)]
    Kube(#[from] KubeError),
    /// No port or folder could be had.
    #[error("cannot prepare a server: {0}")]
    Io(#[from] std::io::Error),
}

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

/// Starts what a target names.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// What starts servers.
    pub own_program: OwnProgram,
    /// Connection settings for endpoints that are there; the endpoints in it do not count.
    pub connect: ClientConfig,
    /// What Kubernetes APIs that are there let clients in by.
    pub kube_access: KubeAccess,
}

impl Launcher {
    /// Starts or connects what `target` names, for a row of this strategy. The Kubernetes tier of our own servers comes
    /// later, by [`Running::start_kube`]: its cache is filled from what was seeded.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(
        &self,
        target: &TargetSpec,
        strategy: Strategy,
    ) -> Result<Running, StartError> {
        match target {
            TargetSpec::Bench => self.start_bench(strategy).await,
            TargetSpec::EtcdBinary { path, fsync, .. } => self.start_etcd(path, *fsync).await,
            TargetSpec::Etcd(endpoints) => self.connect(endpoints).await,
            TargetSpec::Kube(_) | TargetSpec::Kubeconfig(_) => self.connect_kube(target).await,
        }
    }
}

/// Starts a server that dies with us.
fn guarded(
    name: &str,
    own_program: &OwnProgram,
    program: &Path,
    args: &[OsString],
) -> Result<ChildServer, ChildError> {
    let args = guard::arguments(own_program.server_cpus.as_ref(), program, args);
    ChildServer::spawn(name, &own_program.path, &args)
}

async fn status(config: &ClientConfig) -> Result<StatusResponse, EtcdError> {
    let client = Client::connect(config.clone()).await?;
    let status = client.maintenance().status(StatusRequest {}).await?;
    Ok(status.into_inner())
}

fn words(args: &[&str]) -> Vec<OsString> {
    args.iter().map(OsString::from).collect()
}

fn shown(args: &[OsString]) -> Vec<String> {
    args.iter()
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect()
}
