//! Connections to existing endpoints: an etcd, or a Kubernetes API.

use std::collections::HashMap;
use std::sync::Arc;

use etcd_api::client::config::ClientConfig;
use kube_api::client::config::Context;
use kube_api::client::{Connection, KubeAccess, KubeError, Options};
use kube_api::media_type::JSON;
use parking_lot::Mutex;
use report::result::ServerSetup;

use super::launcher::{Launcher, StartError, status};
use super::running::Running;
use super::target_spec::TargetSpec;
use crate::timeouts::{RESPONSE_TIMEOUT, in_time};

/// The contexts of kubeconfigs that were read: URL and credentials by name. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Contexts(Arc<Mutex<HashMap<String, (String, KubeAccess)>>>);

impl Contexts {
    /// Returns the API of a context. The context is read when it is first requested.
    fn named(&self, name: &str) -> Result<(String, KubeAccess), KubeError> {
        let mut read = self.0.lock();
        if let Some(known) = read.get(name) {
            return Ok(known.clone());
        }
        let context = Context::named(name)?;
        let api = (context.server, context.credentials.access()?);
        read.insert(name.to_owned(), api.clone());
        Ok(api)
    }
}

impl Launcher {
    /// Returns the URL and the credentials of an existing Kubernetes API.
    ///
    /// # Errors
    /// [`KubeError`] if kubectl's configuration file has no such context, or cannot be read.
    pub fn kube_of(&self, target: &TargetSpec) -> Result<(String, KubeAccess), KubeError> {
        match target {
            TargetSpec::Kubeconfig(name) => self.contexts.named(name),
            TargetSpec::Kube(url) => Ok((url.clone(), self.kube_access.clone())),
            other => Err(KubeError::Url {
                url: other.to_string(),
                reason: "is no Kubernetes API",
            }),
        }
    }

    /// Connects to an existing endpoint once, to check that it can be reached. Requests one object
    /// of the collection at a path from a Kubernetes API, in this media type, to check that it may
    /// be read.
    ///
    /// # Errors
    /// [`StartError`] if it cannot be reached, or refuses.
    pub async fn reach(
        &self,
        target: &TargetSpec,
        collection: &str,
        accept: &str,
    ) -> Result<(), StartError> {
        if let TargetSpec::Kube(_) | TargetSpec::Kubeconfig(_) = target {
            let (url, access) = self.kube_of(target)?;
            let mut connection = Connection::new(&url, access, Options::default())?;
            let path = format!("{collection}?limit=1");
            connection.get(&path, accept).await?.discard().await?;
        } else if let TargetSpec::Etcd(endpoints) = target {
            self.connect(endpoints).await?;
        }
        Ok(())
    }

    pub(super) async fn connect_kube(&self, target: &TargetSpec) -> Result<Running, StartError> {
        let (url, kube_access) = self.kube_of(target)?;
        let version = kube_version(&url, &kube_access);
        let version = tokio::time::timeout(RESPONSE_TIMEOUT, version).await;
        let version = version.ok().flatten().map(|version| format!(" {version}"));
        Ok(Running {
            etcd: None,
            kube_url: Some(url.trim_end_matches('/').to_owned()),
            kube_access,
            setup: ServerSetup {
                program: format!("Kubernetes API{}", version.unwrap_or_default()),
                ..ServerSetup::default()
            },
            unary_encoding: "unknown",
            processes: Vec::new(),
            on_disk: None,
            own_program: self.own_program.clone(),
        })
    }

    pub(super) async fn connect(&self, endpoints: &str) -> Result<Running, StartError> {
        let config = ClientConfig {
            endpoints: ClientConfig::new(endpoints)?.endpoints,
            ..self.connect.clone()
        };
        let status = in_time(status(&config)).await?;
        Ok(Running {
            etcd: Some(config),
            kube_url: None,
            // The credentials of its metrics page, without a token, which is for Kubernetes APIs
            // only.
            kube_access: self.kube_access.clone().without_token(),
            setup: ServerSetup {
                program: format!("etcd {}", status.version),
                quota_bytes: u64::try_from(status.db_size_quota).ok().filter(|&q| q > 0),
                ..ServerSetup::default()
            },
            unary_encoding: "unknown",
            processes: Vec::new(),
            on_disk: None,
            own_program: self.own_program.clone(),
        })
    }
}

/// Returns the version of a Kubernetes API; `None` if it does not report one.
async fn kube_version(url: &str, access: &KubeAccess) -> Option<String> {
    let mut connection = Connection::new(url, access.clone(), Options::default()).ok()?;
    let mut body = connection.get("/version", JSON).await.ok()?;
    let mut text = Vec::new();
    while let Some(part) = body.next().await.ok()? {
        text.extend_from_slice(&part);
    }
    let version: serde_json::Value = serde_json::from_slice(&text).ok()?;
    version["gitVersion"].as_str().map(str::to_owned)
}
