//! A scenario like an etcd that holds a cluster's objects: how many there are of each resource, how
//! large, in how many namespaces, and how long a request takes. It counts and samples, writes
//! nothing, and keeps no name that anybody chose.
//!
//! - [`resources`]: which resources there are, and what they hold
//! - [`scenario`]: the file that `loadgen run` takes
//! - [`answer`]: what RangeStream, pages and shards would save

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

/// Small reads that the time of a request is the median of.
const READS: usize = 21;

/// Why nothing was captured.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The endpoint did not respond, or refused.
    #[error(transparent)]
    Etcd(#[from] Error),
    /// There is nothing like a cluster's objects.
    #[error("there is no key below `{0}`: --prefix says where objects are")]
    Nothing(String),
}

/// What was captured.
#[derive(Debug, Clone, PartialEq)]
pub struct Captured {
    /// Version of the etcd, and whether the rest is of one.
    version: String,
    /// Median time of a small linearizable read.
    round_trip: Duration,
    /// Those that hold most, the largest first.
    resources: Vec<Resource>,
    /// Keys of all other resources together.
    other_keys: u64,
    /// Nodes of the cluster; 0 where none are registered.
    nodes: u64,
}

/// Counts and samples what is below `prefix`.
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

/// Median time of a small linearizable read, one after the other.
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
