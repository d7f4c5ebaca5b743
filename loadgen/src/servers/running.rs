//! Servers that are up, until they are stopped.

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

/// Servers that are up, or an existing endpoint.
#[derive(Debug)]
pub struct Running {
    /// How to reach the etcd tier; `None` for an existing Kubernetes API.
    pub etcd: Option<ClientConfig>,
    /// URL of the Kubernetes API, once there is one.
    pub kube_url: Option<String>,
    /// What the Kubernetes API lets clients in by.
    pub kube_access: KubeAccess,
    /// How it was set up, for the result.
    pub setup: ServerSetup,
    /// How unary answers are encoded.
    pub unary_encoding: &'static str,
    pub(super) processes: Vec<ChildServer>,
    /// Of a server that keeps its data on disk.
    pub(super) on_disk: Option<OnDisk>,
    pub(super) own_program: OwnProgram,
}

/// Where a server that we started keeps its data, and what starts it there again.
#[derive(Debug)]
pub(super) struct OnDisk {
    /// The data; removed with this.
    pub(super) folder: TempDir,
    pub(super) program: PathBuf,
    pub(super) args: Vec<OsString>,
}

impl Running {
    /// Returns the processes that we started, etcd tier first.
    #[must_use]
    pub fn processes(&self) -> &[ChildServer] {
        &self.processes
    }

    /// Returns where a process serves its metrics: the URL of its tier.
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

    /// Returns where an etcd that we started keeps its data.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.on_disk.as_ref().map(|disk| disk.folder.path())
    }

    /// Returns the first process found dead.
    pub async fn death(&mut self) -> Option<Death> {
        for process in &mut self.processes {
            if let Some(death) = process.died().await {
                return Some(death);
            }
        }
        None
    }

    /// Returns the process that is dead, or dies within this time: a connection breaks a moment
    /// before its server has ended.
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

    /// Kills what was started, the HTTP tier first, and waits until it is gone.
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
