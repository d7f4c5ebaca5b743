//! The endpoint that requests go to.

use etcd_api::client::config::ClientConfig;
use kube_api::client::KubeAccess;

/// The endpoint of a running target, with everything that a client thread needs to connect.
#[derive(Debug, Clone)]
pub struct TargetEndpoint {
    /// The etcd tier.
    pub etcd: Option<ClientConfig>,
    /// The URL of the Kubernetes tier.
    pub kube_url: Option<String>,
    /// The credentials for the Kubernetes tier.
    pub kube_access: KubeAccess,
}

impl TargetEndpoint {
    /// Returns the endpoint for client `number`. If an etcd has several endpoints, each client
    /// starts at the next one.
    #[must_use]
    pub fn for_client(&self, number: usize) -> Self {
        Self {
            etcd: self
                .etcd
                .as_ref()
                .map(|etcd| etcd.with_rotated_endpoints(number)),
            ..self.clone()
        }
    }
}
