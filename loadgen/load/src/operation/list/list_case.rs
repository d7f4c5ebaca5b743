//! The objects that a case lists, and its strategy.

use kube_api::ApiResource;
use workloads::GoClient;
use workloads::strategy::{Strategy, Tier};

use super::kube::list_parameters::ListParameters;
use crate::clients::go_clients::GoClients;

/// The objects that a case lists, and its strategy.
#[derive(Debug, Clone)]
pub struct ListCase {
    /// The protocol.
    pub tier: Tier,
    /// The strategy.
    pub strategy: Strategy,
    /// The key prefix on the etcd tier, as in `/registry/pods/`.
    pub prefix: String,
    /// The resource type on the Kubernetes tier, as in `pods`.
    pub resource: ApiResource,
    /// The parameters of requests on the Kubernetes tier.
    pub parameters: ListParameters,
    /// The location of the Go clients' programs.
    pub go_clients: GoClients,
}

impl ListCase {
    /// Returns the case in which loadgen's own client sends the same request.
    #[must_use]
    pub fn by_our_client(&self) -> Self {
        let client = self.strategy.go_client();
        Self {
            strategy: client.map_or(self.strategy, GoClient::same_request),
            ..self.clone()
        }
    }
}
