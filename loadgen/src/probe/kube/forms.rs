//! Rules of the representations of a list: protobuf, tables, metadata alone.

use http::Method;
use kube_api::client::KubeError;
use kube_api::envelope::{self, MEDIA_TYPE};
use kube_api::media_type::JSON;
use kube_api::protobuf::{Fields, Malformed, find_bytes};
use serde_json::Value;

use super::requests::{CheckError, Response, key_of};
use super::rules::*;
use super::{Checked, Probe, try_rules};
use crate::probe::{judged, lacking};

const TABLE_TYPE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PARTIAL_TYPE: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

/// Tries these rules.
///
/// # Errors
/// The error with which the API was lost.
pub(super) async fn try_all(probe: &mut Probe) -> Result<(), KubeError> {
    try_rules! { probe:
        PROTOBUF by protobuf;
        TABLE by table;
        PARTIAL by partial;
    }
    Ok(())
}

/// Requests the collection's first list in another representation.
async fn at_base(probe: &mut Probe, accept: &'static str) -> Result<Response, CheckError> {
    let n = probe.collection.base.version;
    let path = probe.path(&format!("resourceVersion={n}&resourceVersionMatch=Exact"));
    let sent = probe
        .requests
        .send(Method::GET, &path, accept, JSON, String::new());
    sent.await
}

async fn protobuf(probe: &mut Probe) -> Checked {
    let response = at_base(probe, MEDIA_TYPE).await?;
    if response.code == 406 {
        return Ok(lacking(response.shown()));
    }
    let response = response.success()?;
    let base = &probe.collection.base;
    let read = envelope::type_meta(&response.body).and_then(|(_, kind)| {
        let list = envelope::open(&response.body)?;
        Ok((kind.to_vec(), version_in(list)?, items_in(list)?))
    });
    let (kind, version, items) = read.map_err(|error| CheckError::Broken(error.to_string()))?;
    let kind = String::from_utf8_lossy(&kind).into_owned();
    let holds = kind == format!("{}List", probe.collection.kind)
        && version == base.version.to_string()
        && items == base.items.len();
    let received = format!("a {kind} of {items} items at {version}");
    Ok(judged(holds, received))
}

/// Returns `metadata.resourceVersion` of a list.
fn version_in(list: &[u8]) -> Result<String, Malformed> {
    let metadata = find_bytes(list, 1)?.unwrap_or_default();
    let version = find_bytes(metadata, 2)?.unwrap_or_default();
    Ok(String::from_utf8_lossy(version).into_owned())
}

/// Returns the number of items of a list.
fn items_in(list: &[u8]) -> Result<usize, Malformed> {
    let mut items = 0;
    for field in Fields::new(list) {
        items += usize::from(field?.number == 2);
    }
    Ok(items)
}

async fn table(probe: &mut Probe) -> Checked {
    let response = at_base(probe, TABLE_TYPE).await?;
    if response.code == 406 {
        return Ok(lacking(response.shown()));
    }
    let response = response.success()?;
    let table = &response.json;
    let columns = table["columnDefinitions"].as_array().map_or(0, Vec::len);
    let rows = table["rows"].as_array().map_or(&[][..], Vec::as_slice);
    let is_row = |(row, (key, _)): (&Value, &(String, u64))| {
        row["cells"].as_array().map_or(0, Vec::len) == columns
            && row["object"]["kind"] == "PartialObjectMetadata"
            && key_of(&row["object"]) == *key
    };
    let base = &probe.collection.base;
    let holds = table["kind"] == "Table"
        && columns > 0
        && rows.len() == base.items.len()
        && rows.iter().zip(&base.items).all(is_row);
    let kind = &table["kind"];
    let received = format!("kind {kind}, {} rows of {columns} columns", rows.len());
    Ok(judged(holds, received))
}

async fn partial(probe: &mut Probe) -> Checked {
    let response = at_base(probe, PARTIAL_TYPE).await?;
    if response.code == 406 {
        return Ok(lacking(response.shown()));
    }
    let response = response.success()?;
    let items = response.json["items"].as_array();
    let items = items.map_or(&[][..], Vec::as_slice);
    let known = ["kind", "apiVersion", "metadata"];
    let is_bare = |item: &Value| {
        let fields = item.as_object();
        fields.is_some_and(|fields| fields.keys().all(|key| known.contains(&key.as_str())))
    };
    let base = &probe.collection.base;
    let keys = items.iter().map(key_of);
    let holds = response.json["kind"] == "PartialObjectMetadataList"
        && keys.eq(base.items.iter().map(|(key, _)| key.clone()))
        && items.iter().all(is_bare);
    let kind = &response.json["kind"];
    Ok(judged(holds, format!("kind {kind}, {} items", items.len())))
}
