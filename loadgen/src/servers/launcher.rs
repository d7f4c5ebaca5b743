//! Starts or connects what a target names.

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

/// How long a server may take until it answers.
pub(super) const READY_WITHIN: Duration = Duration::from_secs(30);
/// How long the HTTP tier may take to fill its cache on top of that.
pub(super) const CACHE_WITHIN: Duration = Duration::from_secs(120);
/// Quota of databases that we start: far beyond what a case loads, so that it never decides.
pub(super) const QUOTA_BYTES: u64 = 64 << 30;

/// Why a case has no server.
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

/// Starts what a target names.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// What starts servers.
    pub own_program: OwnProgram,
    /// Connection settings for existing endpoints; the endpoints in it do not count.
    pub connect: ClientConfig,
    /// Credentials for existing Kubernetes APIs.
    pub kube_access: KubeAccess,
    /// Those of contexts of kubeconfigs, once they were read: a credential plugin then runs once
    /// for all cases.
    pub contexts: Contexts,
    /// Whether etcds are started with their profiles served.
    pub serves_profiles: bool,
}

impl Launcher {
    /// Returns a launcher for one target, whose servers may be another build and are given
    /// something besides.
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

    /// Starts or connects what `target` names, for a case of this strategy. The Kubernetes tier of
    /// our own servers comes later, by [`Running::start_kube`]: its cache is filled from what was
    /// seeded.
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

/// Starts a server that dies with us.
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
            // `env` becomes the program, as `exec-child` does: one process.
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
