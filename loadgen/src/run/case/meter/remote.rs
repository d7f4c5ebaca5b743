//! Measures servers that loadgen did not start, by their own metrics: an etcd, each member of a
//! cluster, or a Kubernetes API.

use std::collections::BTreeMap;
use std::fmt::Display;

use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::proto::etcdserverpb::StatusRequest;
use futures::future::join_all;
use kube_api::client::KubeError;
use measure::{RemoteCost, RemoteServer, RemoteWork};
use report::result::{MemberMetrics, ServerMetrics};

use crate::servers::running::Running;
use crate::timeouts::in_time;

/// The members of a target, or its only server.
pub(super) struct Remote {
    members: Vec<Member>,
}

struct Member {
    url: String,
    server: RemoteServer,
    is_leader: Option<bool>,
}

impl Remote {
    /// Reads the metrics of every existing endpoint. These are the values at rest.
    ///
    /// # Errors
    /// [`KubeError`] when an endpoint does not serve them: status 403 if the user may not read
    /// metrics.
    pub(super) async fn open(running: &Running) -> Result<Self, KubeError> {
        let etcd = running.etcd.iter().flat_map(|config| &config.endpoints);
        let urls = running.kube_url.iter().cloned();
        let urls: Vec<_> = urls.chain(etcd.map(ToString::to_string)).collect();
        let leaders = match &running.etcd {
            Some(config) if config.endpoints.len() > 1 => leaders(config).await,
            _ => Vec::new(),
        };
        let mut members = Vec::new();
        for (nth, url) in urls.into_iter().enumerate() {
            members.push(Member {
                server: RemoteServer::open(&url, running.kube_access.clone()).await?,
                url,
                is_leader: leaders.get(nth).copied().flatten(),
            });
        }
        Ok(Self { members })
    }

    /// Records the clocks. Returns the measurements that will be missing, with the reasons.
    pub(super) async fn begin(&mut self) -> Vec<String> {
        let begun = join_all(self.members.iter_mut().map(|m| m.server.begin())).await;
        let begun = self.members.iter().zip(begun);
        let missing = begun.filter_map(|(member, begun)| {
            let why = begun.err()?;
            Some(member.missing("CPU time and counters", &why))
        });
        missing.collect()
    }

    /// Reads the memory, if the last reading is at least a second old.
    pub(super) async fn look_again(&mut self) {
        join_all(self.members.iter_mut().map(|m| m.server.look_again())).await;
    }

    /// Returns the measurements of a phase with `requests` requests and `in_flight` bytes of
    /// concurrent lists, and the missing measurements with the reasons. The measurements are `None`
    /// if no server serves its metrics any more. A member that does not is missing in the sums,
    /// too.
    pub(super) async fn end(
        &mut self,
        in_flight: u64,
        requests: u64,
    ) -> (Option<ServerMetrics>, Vec<String>) {
        let ended = join_all(self.members.iter_mut().map(|m| m.server.end())).await;
        let (mut members, mut costs, mut missing) = (Vec::new(), Vec::new(), Vec::new());
        for (member, cost) in self.members.iter().zip(ended) {
            match cost {
                Ok(cost) => {
                    if cost.restarted {
                        let why = "it was started again meanwhile";
                        missing.push(member.missing("CPU time and counters", &why));
                    }
                    members.push(member.figures(&cost));
                    costs.push(cost);
                }
                Err(why) => missing.push(member.missing("all", &why)),
            }
        }
        if members.is_empty() {
            return (None, missing);
        }
        let told = |of: fn(&RemoteCost) -> Option<u64>| costs.iter().map(of).sum::<Option<u64>>();
        let works = costs.iter().map(|cost| cost.work.as_ref());
        let works = works.collect::<Option<Vec<&RemoteWork>>>();
        let mut counters = BTreeMap::new();
        for (name, count) in works.iter().flatten().flat_map(|work| &work.counters) {
            *counters.entry(name.clone()).or_default() += count;
        }
        let mut figures = ServerMetrics {
            rss_idle: members.iter().map(|m| m.rss_idle).sum(),
            rss_peak: members.iter().map(|m| m.rss_peak).sum(),
            allocated_idle: told(|cost| cost.allocated_idle),
            allocated_peak: told(|cost| cost.allocated_peak),
            peak_above_idle: members.iter().map(|m| m.peak_above_idle).sum(),
            cpu_s: works.map(|works| works.iter().map(|work| work.cpu_s).sum()),
            counters,
            is_self_reported: true,
            ..ServerMetrics::default()
        };
        if self.members.len() > 1 {
            figures.members = members;
        }
        figures.settle(in_flight, requests);
        (Some(figures), missing)
    }
}

impl Member {
    /// Returns the text that measurements of this member are missing, with the reason.
    fn missing(&self, what: &str, why: &dyn Display) -> String {
        format!("{what} of {}: {why}", self.url)
    }

    fn figures(&self, cost: &RemoteCost) -> MemberMetrics {
        let resident = cost.rss_peak.saturating_sub(cost.rss_idle);
        let allocated = cost.allocated_peak.zip(cost.allocated_idle);
        let allocated = allocated.map_or(0, |(peak, idle)| peak.saturating_sub(idle));
        MemberMetrics {
            endpoint: self.url.clone(),
            is_leader: self.is_leader,
            rss_idle: cost.rss_idle,
            rss_peak: cost.rss_peak,
            allocated_idle: cost.allocated_idle,
            allocated_peak: cost.allocated_peak,
            peak_above_idle: resident.max(allocated),
            cpu_s: cost.work.as_ref().map(|work| work.cpu_s),
        }
    }
}

/// Returns for each endpoint whether its member is the leader; `None` if its status is not
/// available.
async fn leaders(config: &ClientConfig) -> Vec<Option<bool>> {
    let Ok(client) = in_time(Client::connect(config.clone())).await else {
        return Vec::new();
    };
    let leads = config.endpoints.iter().map(async |endpoint| {
        let mut maintenance = client.maintenance_of(endpoint).ok()?;
        let status = in_time(maintenance.status(StatusRequest {})).await.ok()?;
        let status = status.into_inner();
        Some(status.leader == status.header?.member_id)
    });
    join_all(leads).await
}
