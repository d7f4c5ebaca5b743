//! Rules of compacted resourceVersions. Every etcd of a running cluster has compacted its first
//! revision; otherwise, these rules are not tried.

use kube_api::client::KubeError;
use kube_api::continue_token::ContinueToken;
use kube_api::media_type::JSON;
use serde_json::Value;

use super::list::List;
use super::requests::in_query;
use super::rules::*;
use super::{Checked, Probe, try_rules};
use crate::probe::{judged, not_tried};

const NOT_COMPACTED: &str = "nothing was compacted yet: resourceVersion 1 is there";

/// Tries these rules.
///
/// # Errors
/// The error with which the API was lost.
pub(super) async fn try_all(probe: &mut Probe) -> Result<(), KubeError> {
    try_rules! { probe:
        GONE by list;
        GONE_TOKEN by token;
        GONE_WATCH by watch;
    }
    Ok(())
}

async fn list(probe: &mut Probe) -> Checked {
    let query = "resourceVersion=1&resourceVersionMatch=Exact&limit=1";
    let response = probe.get(query).await?;
    if response.code == 200 && response.version() == 1 {
        return Ok(not_tried(NOT_COMPACTED));
    }
    Ok(judged(response.is_status(410, "Expired"), response.shown()))
}

async fn token(probe: &mut Probe) -> Checked {
    let last = probe.collection.name(1);
    // The token's key is relative to the collection, as in a server's token for a list of one
    // namespace.
    let token = in_query(&ContinueToken::after(1, &last).encode());
    let response = probe.get(&format!("limit=1&continue={token}")).await?;
    match response.code {
        200 if response.version() == 1 => return Ok(not_tried(NOT_COMPACTED)),
        400 => return Ok(not_tried("its tokens are of another form")),
        _ => {}
    }
    let next = response.json["metadata"]["continue"].as_str();
    let next = in_query(next.unwrap_or_default());
    if !response.is_status(410, "Expired") || next.is_empty() {
        return Ok(judged(
            false,
            format!("{}, token `{next}`", response.shown()),
        ));
    }
    let rest = probe.get(&format!("limit=1&continue={next}")).await?;
    let received = format!("{}; then {}", response.shown(), rest.shown());
    let rest = List::read(rest)?;
    let (base, due) = (&probe.collection.base, &probe.collection.base.items[2].0);
    let is_next = rest.items.first().is_some_and(|(key, _)| key == due);
    Ok(judged(is_next && rest.version >= base.version, received))
}

async fn watch(probe: &mut Probe) -> Checked {
    let path = probe.path("watch=true&resourceVersion=1");
    let is_event = |event: &Value| event["type"] != "ERROR";
    let watched = probe.requests.watch(&path, JSON, is_event).await?;
    let watched = watched.accepted()?;
    let Some(first) = watched.events.first() else {
        return Ok(not_tried(NOT_COMPACTED));
    };
    let object = &first["object"];
    if first["type"] != "ERROR" && object["kind"] == probe.collection.kind.as_str() {
        return Ok(not_tried(NOT_COMPACTED));
    }
    let is_last = watched.ended && watched.events.len() == 1;
    let is_expired = object["code"] == 410 && object["reason"] == "Expired";
    let message = object["message"].as_str().unwrap_or_default();
    let received = format!(
        "{}, {} {}: {message}; {}",
        first["type"],
        object["code"],
        object["reason"],
        if is_last { "it ended" } else { "it went on" }
    );
    let holds = first["type"] == "ERROR" && is_expired && is_last;
    Ok(judged(holds, received))
}
