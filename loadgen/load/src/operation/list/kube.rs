//! The Kubernetes tier: `cached` (resourceVersion=0), `consistent` (unset), `exact`, `paged:N`
//! (limit and continue), `selector:…`, `watch-list`, and one worker's shard of `sharded:N` and
//! `client-filtered:N`. Lists differ in the query of the first request and in how many pages
//! follow.
//!
//! - [`client`]: a connection, and the requests over it
//! - [`list_parameters`]: the parameters of a list besides its strategy; [`request`]: a request as
//!   it is sent
//! - [`pages`]: a list page by page; [`state`]: a watch that begins with the initial state;
//!   [`exact`]: a list of one revision
//! - [`validator`]: chooses the validator of a response; [`protobuf`], [`json`]: validate a list
//!   while it streams in; [`events`]: validates a watch that begins with the initial state
//! - [`stored_bytes`]: restores the stored bytes of an item; [`json_item`]: the same for an item in
//!   JSON; [`item_cache`]: caches items in JSON, so that they are not parsed again
//! - [`frames`]: the frames of a watch
//! - [`read_your_write`]: a write, and whether the next list contains it

pub(crate) mod client;
mod events;
mod exact;
pub(crate) mod frames;
mod item_cache;
mod json;
mod json_item;
pub(crate) mod list_parameters;
mod pages;
mod protobuf;
mod read_your_write;
pub(crate) mod request;
pub(crate) mod response;
mod state;
pub(crate) mod stored_bytes;
mod validator;

use workloads::strategy::{Strategy, Tier};

use self::client::{Exchange, Kube};
use super::error::ListError;
use super::list_case::ListCase;
use super::list_client::ListClient;
use crate::endpoint::TargetEndpoint;

/// Connects a client of the Kubernetes API. Its lists use this exchange, and its requests this
/// query.
pub(super) async fn connect(
    case: &ListCase,
    endpoint: &TargetEndpoint,
    exchange: Exchange,
    query: String,
) -> Result<Box<dyn ListClient>, ListError> {
    let mut list_client = Kube::connect(case, endpoint).await?;
    list_client.exchange = exchange;
    list_client.query = query;
    if case.strategy == Strategy::Exact {
        let revision = list_client.current_revision().await?;
        list_client.ask_exactly(revision);
    }
    if case.strategy == Strategy::ReadYourWrite {
        let config = endpoint.etcd.clone();
        let config = config.ok_or_else(|| case.no_endpoint(Tier::Etcd))?;
        let etcd = etcd_api::client::Client::connect(config).await?;
        return Ok(Box::new(read_your_write::ReadYourWrite::new(
            list_client,
            etcd,
        )));
    }
    Ok(Box::new(list_client))
}
