//! Where requests go.

use etcd_api::client::config::ClientConfig;
use kube_api::client::KubeAccess;

/// How to reach a running target; what a client thread needs of it.
#[derive(Debug, Clone)]
pub struct TargetEndpoint {
    /// The etcd tier.
    pub etcd: Option<ClientConfig>,
    /// The Kubernetes tier.
    pub kube_url: Option<String>,
    /// What the Kubernetes tier lets clients in by.
    pub kube_access: KubeAccess,
}

impl TargetEndpoint {
    /// Returns the endpoint as it is for the client of this number: of several endpoints of an etcd
    /// each client begins at the next one.
    #[must_use]
    pub fn for_client(&self, number: usize) -> Self {
        Self {
            etcd: self.etcd.as_ref().map(|etcd| etcd.beginning_at(number)),
            ..self.clone()
        }
    }
}
