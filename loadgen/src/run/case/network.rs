//! The network that a case asks for: its clients reach the servers through a relay.

use std::net::SocketAddr;

use http::Uri;
use load::endpoint::TargetEndpoint;
use load::shaper::{Link, Shaper};
use tokio::net::lookup_host;
use workloads::scenario::Network;

use super::{CaseRun, EarlyEnd};

impl CaseRun<'_> {
    /// Returns the endpoint of the same servers through the case's network, and the relays, which
    /// must be kept alive.
    pub(super) async fn through_network(
        &self,
        mut endpoint: TargetEndpoint,
    ) -> Result<(TargetEndpoint, Vec<Shaper>), EarlyEnd> {
        let Some(network) = self.spec.network else {
            return Ok((endpoint, Vec::new()));
        };
        let mut shapers = Vec::new();
        if let Some(etcd) = &mut endpoint.etcd {
            let endpoint = etcd.endpoints.first().cloned().unwrap_or_default();
            let (relayed, shaper) = relayed(&endpoint, network).await?;
            etcd.endpoints = vec![relayed];
            shapers.push(shaper);
        }
        if let Some(url) = &mut endpoint.kube_url {
            if let Some(proxy) = endpoint.kube_access.proxy_of(url) {
                return Err(EarlyEnd::NotApplicable(format!(
                    "`{url}`: a network is emulated for direct connections only, and this goes through the proxy {proxy}"
                )));
            }
            let endpoint: Uri = url.parse().unwrap_or_default();
            let (relayed, shaper) = relayed(&endpoint, network).await?;
            // Strip the path `/`, which a URI has and a base URL does not.
            *url = relayed.to_string().trim_end_matches('/').to_owned();
            shapers.push(shaper);
        }
        Ok((endpoint, shapers))
    }
}

/// Starts a relay to an endpoint and returns the relay's URL.
async fn relayed(endpoint: &Uri, network: Network) -> Result<(Uri, Shaper), EarlyEnd> {
    if endpoint.scheme_str() != Some("http") || endpoint.path() != "/" {
        return Err(EarlyEnd::NotApplicable(format!(
            "`{endpoint}`: a network is emulated for plain HTTP only, and certificates name the server"
        )));
    }
    let failed = |why: String| EarlyEnd::Failed(format!("{endpoint}: {why}"));
    let authority = endpoint.authority().map(ToString::to_string);
    let authority = authority.unwrap_or_default();
    let addresses: Vec<SocketAddr> = match lookup_host(&authority).await {
        Ok(addresses) => addresses.collect(),
        Err(error) => return Err(failed(error.to_string())),
    };
    let to = addresses.first().copied();
    let to = to.ok_or_else(|| failed("it has no address".to_owned()))?;
    let link = Link {
        rtt: network.rtt.unwrap_or_default(),
        bandwidth: network.bandwidth.map(|bandwidth| bandwidth.bytes_per_s()),
        client_read_rate: network.client_read_rate.map(|rate| rate.0.into()),
    };
    let shaper = Shaper::start(to, link).await;
    let shaper = shaper.map_err(|error| EarlyEnd::Failed(error.to_string()))?;
    let relayed = format!("http://{}", shaper.address()).parse();
    let relayed = relayed.map_err(|_| failed("the relay has no URL".to_owned()))?;
    Ok((relayed, shaper))
}
