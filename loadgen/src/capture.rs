//! Captures a scenario from an etcd that holds a cluster's objects: how many objects there are of
//! each resource, how large they are, in how many namespaces, and how long a request takes. Counts
//! and samples, writes nothing, and keeps no name that a user chose.
//!
//! - [`resources`]: finds the resources, and counts and samples their objects
//! - [`scenario`]: writes the scenario file that `loadgen run` takes
//! - [`answer`]: estimates what RangeStream, pages and shards would save

mod answer;
mod resources;
mod scenario;

use std::time::{Duration, Instant};

use bytes::Bytes;
use etcd_api::client::Client;
use etcd_api::client::config::ClientConfig;
use etcd_api::error::Error;
use etcd_api::proto::etcdserverpb::RangeRequest;

use crate::safety::identity::Identity;
use crate::timeouts::in_time;
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
}

/// Counts and samples the objects below `prefix`.
///
/// # Errors
/// [`CaptureError`].
pub async fn capture(config: &ClientConfig, prefix: &str) -> Result<Captured, CaptureError> {
    let client = in_time(Client::connect(config.clone())).await?;
    let identity = in_time(Identity::ask(&client)).await?;
    let round_trip = round_trip(&client, prefix).await?;
    let found = resources::find(&client, prefix, identity.in_use_bytes).await?;
    if found.largest.is_empty() {
        return Err(CaptureError::Nothing(prefix.to_owned()));
    }
    Ok(Captured {
        version: identity.version,
        round_trip,
        resources: found.largest,
        other_keys: found.other_keys,
        nodes: found.nodes,
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
