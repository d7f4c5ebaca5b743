//! A server that is not ours, an etcd or a Kubernetes API: where it tells its figures, and what
//! they come to.

use kube_api::client::KubeError;
use measure::{RemoteCost, RemoteServer};
use report::result::ServerFigures;

use crate::servers::running::Running;

/// Asks an endpoint that is there for its figures, which are those at rest.
///
/// # Errors
/// [`KubeError`] when it does not tell them: with 403 where who asks may not read metrics.
pub(super) async fn open(running: &Running) -> Result<RemoteServer, KubeError> {
    let etcd = running.etcd.iter().flat_map(|config| &config.endpoints);
    let urls = running.kube_url.iter().cloned();
    let urls: Vec<_> = urls.chain(etcd.map(ToString::to_string)).collect();
    let url = urls.first().map_or("", String::as_str);
    if urls.len() > 1 {
        return Err(KubeError::Url {
            url: url.to_owned(),
            reason: "is one of several endpoints, and nobody knows which of them does the work",
        });
    }
    RemoteServer::open(url, running.kube_access.clone()).await
}

/// The figures of a phase of so many requests with `in_flight` bytes of lists at the same time;
/// `None` when the server has ceased to tell them.
pub(super) fn figures(
    cost: Option<RemoteCost>,
    in_flight: u64,
    requests: u64,
) -> Option<ServerFigures> {
    let cost = cost?;
    let mut figures = ServerFigures {
        rss_idle: cost.rss_idle,
        rss_peak: cost.rss_peak,
        allocated_idle: cost.allocated_idle,
        allocated_peak: cost.allocated_peak,
        cpu_s: cost.cpu_s,
        counters: cost.counters,
        is_own_word: true,
        ..ServerFigures::default()
    };
    let resident = figures.rss_peak.saturating_sub(figures.rss_idle);
    let allocated = figures.allocated_peak.zip(figures.allocated_idle);
    let allocated = allocated.map_or(0, |(peak, idle)| peak.saturating_sub(idle));
    figures.peak_above_idle = resident.max(allocated);
    figures.settle(in_flight, requests);
    Some(figures)
}
