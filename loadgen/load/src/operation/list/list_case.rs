//! What is listed, and as what.

use kube_api::ApiResource;
use workloads::GoClient;
use workloads::strategy::{Strategy, Tier};

use super::kube::list_parameters::ListParameters;
use crate::clients::go_clients::GoClients;

/// What a case lists, and as what.
#[derive(Debug, Clone)]
pub struct ListCase {
    /// Which protocol.
    pub tier: Tier,
    /// Which way.
    pub strategy: Strategy,
    /// Key prefix of the etcd tier, as `/registry/pods/`.
    pub prefix: String,
    /// Resource type of the Kubernetes tier, as `pods`.
    pub resource: ApiResource,
    /// How clients of the Kubernetes tier ask.
    pub parameters: ListParameters,
    /// Where the programs of cases by Go clients are.
    pub go_clients: GoClients,
}

impl ListCase {
    /// Returns the case by our own client that asks for the same.
    #[must_use]
    pub fn by_our_client(&self) -> Self {
        let client = self.strategy.go_client();
        Self {
            strategy: client.map_or(self.strategy, GoClient::same_request),
            ..self.clone()
        }
    }
}
