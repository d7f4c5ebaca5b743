//! Starts the servers of a target, or connects to it.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::error::Error as EtcdError;
use etcd_api::proto::etcdserverpb::{StatusRequest, StatusResponse};
use kube_api::client::{KubeAccess, KubeError};
use load::child::{ChildError, ChildServer, parent_death};
use workloads::strategy::Strategy;

use super::attached::Contexts;
use super::own_program::{Build, Given, OwnProgram};
use super::running::Running;
use super::target_spec::TargetSpec;

/// The longest time that a server may take until it responds.
pub(super) const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest time that the HTTP tier may take to fill its cache after that.
pub(super) const CACHE_READY_TIMEOUT: Duration = Duration::from_secs(120);
/// The quota of started databases, in bytes: far beyond what a case loads, so that it never
/// matters.
pub(super) const QUOTA_BYTES: u64 = 64 << 30;

/// An error while starting the servers of a case.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The process could not be started or did not become ready.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// The endpoint could not be reached or refused a request.
    #[error(transparent)]
    Endpoint(#[from] EtcdError),
    /// The HTTP tier responds, but its cache does not become ready.
    #[error(
        "the cache behind {url} is not filled after {} s: {reason}; its last lines: {log}",
        CACHE_READY_TIMEOUT.as_secs()
    )]
    Cache {
        /// Its URL.
        url: String,
        /// The last error of `/readyz`.
        reason: String,
        /// The last lines of its log.
        log: String,
    },
    /// The Kubernetes API could not be reached.
    #[error(transparent)]
    Kube(#[from] KubeError),
    /// A port or folder could not be allocated.
    #[error("cannot prepare a server: {0}")]
    Io(#[from] std::io::Error),
}

/// Starts the servers of targets.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// The program that starts servers.
    pub own_program: OwnProgram,
    /// Connection settings for existing endpoints; its list of endpoints is ignored.
    pub connect: ClientConfig,
    /// Credentials for existing Kubernetes APIs.
    pub kube_access: KubeAccess,
    /// The contexts of kubeconfigs that were read, so that a credential plugin runs once for all
    /// cases.
    pub contexts: Contexts,
    /// Whether etcds are started so that they serve profiles.
    pub serves_profiles: bool,
}

impl Launcher {
    /// Returns a launcher for one target, whose servers may be another build and get further flags
    /// and environment variables.
    #[must_use]
    pub fn of_target(self, build: Option<Build>, given: Given) -> Self {
        Self {
            own_program: OwnProgram {
                build,
                given,
                ..self.own_program
            },
            ..self
        }
    }

    /// Starts the servers of `target`, or connects to it, for a case of this strategy. The
    /// Kubernetes tier of our own servers is started later, by [`Running::start_kube`]: its cache
    /// is filled from the seeded objects.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(
        &self,
        target: &TargetSpec,
        strategy: Strategy,
    ) -> Result<Running, StartError> {
        match target {
            TargetSpec::Bench | TargetSpec::BenchBinary(_) => {
                self.start_bench(strategy, None).await
            }
            TargetSpec::BenchLog { fsync, .. } => self.start_bench(strategy, Some(*fsync)).await,
            TargetSpec::EtcdBinary { path, fsync, .. } => self.start_etcd(path, *fsync).await,
            TargetSpec::Etcd(endpoints) => self.connect(endpoints).await,
            TargetSpec::Kube(_) | TargetSpec::Kubeconfig(_) => self.connect_kube(target).await,
        }
    }
}

/// Starts a server that dies with this process.
pub(super) fn spawn_child(
    name: &str,
    own_program: &OwnProgram,
    program: &Path,
    args: &[OsString],
) -> Result<ChildServer, ChildError> {
    let cpus = own_program.server_cpus.as_ref();
    let environment = &own_program.given.environment;
    let args = match environment.is_empty() {
        true => parent_death::arguments(cpus, program, args),
        false => {
            // `env` replaces itself by the program, as `exec-child` does: one process.
            let mut all: Vec<OsString> = environment.iter().map(OsString::from).collect();
            all.push(program.into());
            all.extend_from_slice(args);
            parent_death::arguments(cpus, Path::new("env"), &all)
        }
    };
    ChildServer::spawn(name, &own_program.path, &args)
}

pub(super) async fn status(config: &ClientConfig) -> Result<StatusResponse, EtcdError> {
    let client = Client::connect(config.clone()).await?;
    let status = client.maintenance().status(StatusRequest {}).await?;
    Ok(status.into_inner())
}

pub(super) fn words(args: &[&str]) -> Vec<OsString> {
    args.iter().map(OsString::from).collect()
}

pub(super) fn shown(args: &[OsString]) -> Vec<String> {
    args.iter()
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect()
}
