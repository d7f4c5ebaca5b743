//! The Kubernetes tier: `cached` (resourceVersion=0), `consistent` (unset), `exact`, `paged:N`
//! (limit and continue), `selector:…`, `watch-list`, and one worker's part of `sharded:N` and
//! `client-filtered:N`. Lists differ in the query of the first request and in how many pages
//! follow.
//!
//! - [`client`]: a connection, and the requests over it
//! - [`list_parameters`]: what is asked for besides the strategy; [`request`]: a request as it is
//!   sent
//! - [`pages`]: a list page by page; [`state`]: a watch that begins with the state; [`exact`]: a
//!   list of one revision
//! - [`validator`]: what reads an answer: [`protobuf`], [`json`]: validate a list as it comes in;
//!   [`events`]: over a watch that begins with the state
//! - [`stored_bytes`]: an item back to what was stored; [`json_item`]: one in JSON; [`item_cache`]:
//!   items in JSON that need not be parsed again
//! - [`frames`]: the frames of a watch
//! - [`read_your_write`]: a write, and whether a list has it

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

/// Connects a client of the Kubernetes API whose lists come like this, by requests with this query.
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
