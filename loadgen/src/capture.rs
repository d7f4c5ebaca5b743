//! Captures a scenario from an etcd that holds a cluster's objects: how many objects there are of
//! each resource, how large they are, in how many namespaces, how long a request takes, and what
//! clients ask. Counts and samples, writes nothing, and keeps no name that a user chose.
//!
//! - [`resources`]: finds the resources, and counts and samples their objects
//! - [`requests`]: measures the requests to the etcd, by its metrics
//! - [`audit_log`]: counts the requests to an apiserver, by its audit log
//! - [`scenario`]: writes the scenario file that `loadgen run` takes
//! - [`cases`]: writes its cases of requests
//! - [`answer`]: estimates what RangeStream, pages and shards would save

mod answer;
pub mod audit_log;
mod cases;
mod requests;
mod resources;
mod scenario;

use std::time::{Duration, Instant};

use bytes::Bytes;
use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::error::Error;
use etcd_api::proto::etcdserverpb::RangeRequest;
use kube_api::client::KubeAccess;

use crate::progress::Progress;
use crate::safety::identity::Identity;
use crate::timeouts::in_time;
use audit_log::AuditLog;
pub use requests::RequestRates;
pub use resources::Resource;

/// The number of small reads whose median is the time of a request.
const READS: usize = 21;

/// An error while capturing.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The endpoint did not respond, or refused a request.
    #[error(transparent)]
    Etcd(#[from] Error),
    /// There are no keys below the prefix.
    #[error("there is no key below `{0}`: --prefix says where objects are")]
    Nothing(String),
}

/// The captured description of an etcd's contents.
#[derive(Debug, Clone, PartialEq)]
pub struct Captured {
    /// Version of the etcd.
    version: String,
    /// Median time of a small linearizable read.
    round_trip: Duration,
    /// The resources with the most bytes, the largest first.
    resources: Vec<Resource>,
    /// Keys of all other resources together.
    other_keys: u64,
    /// Nodes of the cluster; 0 if none are registered.
    nodes: u64,
    /// The number of resources.
    resource_count: u64,
    /// The number of members of the cluster, and of those whose metrics were read. A store that
    /// lists no members has one.
    members: (usize, usize),
    /// The requests to the etcd, or why they are not known; `None` if they were not observed.
    requests: Option<Result<RequestRates, String>>,
    /// The requests to an apiserver.
    audit_log: Option<AuditLog>,
}

impl Captured {
    /// Returns what the requests lack; `None` if the metrics of every member were read.
    fn members_left_out(&self) -> Option<String> {
        let (members, read) = self.members;
        (read < members).then(|| {
            format!(
                "{read} of {members} members: reads, keep-alives and watchers of the others are not counted; name all endpoints"
            )
        })
    }
}

/// What is captured.
#[derive(Debug, Clone, Default)]
pub struct CaptureOptions {
    /// The prefix of the objects' keys.
    pub prefix: String,
    /// The time between the two readings of the metrics that count requests; zero to read none.
    pub observe: Duration,
    /// The requests to an apiserver of this etcd.
    pub audit_log: Option<AuditLog>,
}

/// Counts and samples the objects of an etcd, and observes the requests to it. `access` is that to
/// the metrics of its members; if they cannot be read, the requests are unknown.
///
/// # Errors
/// [`CaptureError`].
pub async fn capture(
    config: &ClientConfig,
    access: &KubeAccess,
    options: CaptureOptions,
    progress: &Progress,
) -> Result<Captured, CaptureError> {
    let prefix = &options.prefix[..];
    let client = in_time(Client::connect(config.clone())).await?;
    let identity = in_time(Identity::ask(&client)).await?;
    let round_trip = round_trip(&client, prefix).await?;
    let found = resources::find(&client, prefix, identity.in_use_bytes).await?;
    if found.largest.is_empty() {
        return Err(CaptureError::Nothing(prefix.to_owned()));
    }
    // Only now, so that the requests of the capture are not among them.
    let requests = match options.observe.is_zero() {
        true => None,
        false => {
            let over = humantime::format_duration(options.observe);
            progress.say(&format!("requests are counted for {over}"));
            let urls: Vec<_> = config.endpoints.iter().map(ToString::to_string).collect();
            let rates = requests::observe(&urls, access, options.observe).await;
            Some(rates.map_err(|error| error.to_string()))
        }
    };
    Ok(Captured {
        version: identity.version,
        round_trip,
        resources: found.largest,
        other_keys: found.other_keys,
        nodes: found.nodes,
        resource_count: found.count,
        members: (identity.members.len().max(1), config.endpoints.len()),
        requests,
        audit_log: options.audit_log,
    })
}

/// Returns the median time of small linearizable reads, sent one after the other.
async fn round_trip(client: &Client, prefix: &str) -> Result<Duration, Error> {
    let mut times = Vec::with_capacity(READS);
    for _ in 0..READS {
        let request = RangeRequest {
            key: Bytes::copy_from_slice(prefix.as_bytes()),
            ..RangeRequest::default()
        };
        let begun = Instant::now();
        in_time(client.kv().range(request)).await?;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    Ok(times[READS / 2])
}
