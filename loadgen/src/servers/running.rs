//! Running servers, until they are stopped.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use etcd_api::client::config::ClientConfig;
use futures::future::select_all;
use kube_api::client::KubeAccess;
use load::child::{ChildServer, Death};
use load::endpoint::TargetEndpoint;
use report::result::ServerSetup;
use tempfile::TempDir;

use super::own_program::OwnProgram;

/// Running servers, or an existing endpoint.
#[derive(Debug)]
pub struct Running {
    /// The connection settings of the etcd tier; `None` for an existing Kubernetes API.
    pub etcd: Option<ClientConfig>,
    /// URL of the Kubernetes API, once there is one.
    pub kube_url: Option<String>,
    /// The credentials of the Kubernetes API.
    pub kube_access: KubeAccess,
    /// The setup of the servers, for the result.
    pub setup: ServerSetup,
    /// The encoding of unary responses.
    pub unary_encoding: &'static str,
    pub(super) processes: Vec<ChildServer>,
    /// The data folder of a server that keeps its data on disk.
    pub(super) on_disk: Option<OnDisk>,
    pub(super) own_program: OwnProgram,
}

/// The data folder of a started server, and the command that restarts it there.
#[derive(Debug)]
pub(super) struct OnDisk {
    /// The folder, which is removed when this is dropped.
    pub(super) folder: TempDir,
    pub(super) program: PathBuf,
    pub(super) args: Vec<OsString>,
}

impl Running {
    /// Returns the started processes, the etcd tier first.
    #[must_use]
    pub fn processes(&self) -> &[ChildServer] {
        &self.processes
    }

    /// Returns the URL at which a process serves its metrics: that of its tier.
    #[must_use]
    pub fn metrics_url(&self, process: &str) -> Option<String> {
        match process {
            "kube" => self.kube_url.clone(),
            _ => self
                .etcd
                .as_ref()?
                .endpoints
                .first()
                .map(ToString::to_string),
        }
    }

    /// Returns the data folder of a started server, if it has one.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.on_disk.as_ref().map(|disk| disk.folder.path())
    }

    /// Returns the death of the first process that is found dead.
    pub async fn death(&mut self) -> Option<Death> {
        for process in &mut self.processes {
            if let Some(death) = process.died().await {
                return Some(death);
            }
        }
        None
    }

    /// Returns the death of a process that is dead, or dies within this time: a connection breaks a
    /// moment before its server has ended.
    pub async fn death_within(&mut self, within: Duration) -> Option<Death> {
        if self.processes.is_empty() {
            return None;
        }
        let deaths = self.processes.iter_mut();
        let first = select_all(deaths.map(|process| Box::pin(process.death_comes())));
        tokio::time::timeout(within, first)
            .await
            .ok()
            .map(|(death, ..)| death)
    }

    /// Kills the started processes, the HTTP tier first, and waits until they have ended.
    pub async fn stop(mut self) {
        while let Some(process) = self.processes.pop() {
            process.stop().await;
        }
    }
}

impl From<&Running> for TargetEndpoint {
    fn from(running: &Running) -> Self {
        Self {
            etcd: running.etcd.clone(),
            kube_url: running.kube_url.clone(),
            kube_access: running.kube_access.clone(),
        }
    }
}
