//! The metadata of a list in JSON: everything except its items.

use kube_api::ApiResource;
use serde::Deserialize;

use crate::verify::{InvalidResponse, malformed};

/// The metadata of a list.
pub(super) struct Head {
    /// The revision of the list.
    pub(super) revision: i64,
    /// The token of the next page; empty at the end.
    pub(super) continue_token: String,
    /// The number of items after this page, if the server reports it.
    pub(super) remaining: Option<u64>,
    /// The shard that the list holds, as the server names it.
    pub(super) shard: Option<String>,
}

/// The fields that a list may have besides its items.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct List {
    kind: String,
    api_version: String,
    metadata: ListMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ListMeta {
    /// Deprecated, and empty since Kubernetes 1.20.
    #[serde(default)]
    self_link: String,
    resource_version: String,
    #[serde(default)]
    r#continue: String,
    remaining_item_count: Option<u64>,
    shard_info: Option<ShardInfo>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShardInfo {
    selector: String,
}

impl Head {
    /// Reads the text of a list without its items.
    pub(super) fn read(text: &[u8], resource: &ApiResource) -> Result<Self, InvalidResponse> {
        let list: List = serde_json::from_slice(text).map_err(|e| match e.is_eof() {
            true => malformed("the body is cut short"),
            false => malformed(&format!("its head: {e}")),
        })?;
        let (kind, api_version) = (&resource.list_kind, resource.name.api_version());
        if list.kind != *kind || list.api_version != api_version {
            return Err(malformed(&format!(
                "its kind is {} of {}, and {kind} of {api_version} was asked for",
                list.kind, list.api_version
            )));
        }
        let metadata = list.metadata;
        if !metadata.self_link.is_empty() {
            return Err(malformed("it has a selfLink"));
        }
        let revision = metadata.resource_version.parse();
        let revision = revision.map_err(|_| malformed("its resourceVersion is not a number"))?;
        Ok(Self {
            revision,
            continue_token: metadata.r#continue,
            remaining: metadata.remaining_item_count,
            shard: metadata.shard_info.map(|info| info.selector),
        })
    }
}
