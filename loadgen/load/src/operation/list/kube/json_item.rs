//! Restores the stored bytes of an item in JSON.
//!
//! An item whose schema is known is converted to the stored object by that schema, and must equal
//! the text that the schema makes of the object again. Of every other item, such as a custom
//! resource, only the metadata is read. Its value is the text that was received, so another text is
//! another object.

use std::borrow::Cow;

use kube_api::metadata::{item_object, list_item};
use kube_api::schema::Message;
use kube_api::{envelope, from_json, to_json};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::stored_bytes::{ItemDecoder, revision};
use crate::verify::{InvalidResponse, malformed};

/// The fields that are read of an item whose schema is unknown.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item<'i> {
    /// In lists, only items of custom resources have it.
    api_version: Option<String>,
    kind: Option<String>,
    #[serde(borrow)]
    metadata: ItemMeta<'i>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ItemMeta<'i> {
    #[serde(borrow)]
    name: Cow<'i, str>,
    #[serde(borrow, default)]
    namespace: Cow<'i, str>,
    #[serde(borrow)]
    resource_version: Cow<'i, str>,
}

impl ItemDecoder {
    /// Writes the stored object to `value` and returns its revision; `None` for an item that is not
    /// checked.
    pub(super) fn json_by_schema(
        &mut self,
        message: &'static Message,
        item: &[u8],
        head: &str,
    ) -> Result<Option<i64>, InvalidResponse> {
        let mut object: Map<String, Value> =
            serde_json::from_slice(item).map_err(|e| malformed(&format!("an item: {e}")))?;
        let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
        let metadata = metadata.ok_or_else(|| malformed("an item without metadata"))?;
        let version = metadata.remove("resourceVersion").unwrap_or_default();
        let version = version.as_str().unwrap_or_default();
        let revision = revision(version.as_bytes())?;
        let text = |name: &str| {
            metadata
                .get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let (namespace, name) = (text("namespace").to_owned(), text("name").to_owned());
        self.set_key(namespace.as_bytes(), name.as_bytes());
        self.next_in_order()?;
        if !self.is_own() {
            return Ok(None);
        }
        let bad = |e: &dyn std::fmt::Display| malformed(&format!("item {namespace}/{name}: {e}"));
        self.object.clear();
        from_json(message, &object, &mut self.object).map_err(|e| bad(&e))?;
        let stored = list_item(&self.object, version).map_err(|e| bad(&e))?;
        self.text.clear();
        to_json(message, item_object(&stored), head, &mut self.text).map_err(|e| bad(&e))?;
        if !is_same_text(item, &self.text) {
            return Err(bad(&"its text is not that of its object"));
        }
        let resource = &self.resource;
        let api_version = resource.name.api_version();
        self.value.clear();
        envelope::put_head(
            &mut self.value,
            api_version,
            &resource.kind,
            self.object.len(),
        );
        self.value.extend_from_slice(&self.object);
        self.value.extend_from_slice(envelope::TAIL);
        Ok(Some(revision))
    }

    /// Writes the text to `value` and returns its revision; `None` for an item that is not checked.
    /// In an event, the type (`head`) is removed if the server added it.
    pub(super) fn json_as_received(
        &mut self,
        item: &[u8],
        head: &str,
    ) -> Result<Option<i64>, InvalidResponse> {
        let object: Item<'_> =
            serde_json::from_slice(item).map_err(|e| malformed(&format!("an item: {e}")))?;
        let metadata = &object.metadata;
        let revision = revision(metadata.resource_version.as_bytes())?;
        let resource = &self.resource;
        let is_typed = !head.is_empty();
        let is = |found: Option<&str>, own: &str| match found {
            Some(found) => found == own,
            None => !is_typed,
        };
        if !is(object.kind.as_deref(), &resource.kind)
            || !is(object.api_version.as_deref(), resource.name.api_version())
        {
            return Err(malformed(&format!(
                "an item of kind {} of {}, and {} of {} was asked for",
                object.kind.unwrap_or_default(),
                object.api_version.unwrap_or_default(),
                resource.kind,
                resource.name.api_version()
            )));
        }
        self.set_key(metadata.namespace.as_bytes(), metadata.name.as_bytes());
        self.next_in_order()?;
        if !self.is_own() {
            return Ok(None);
        }
        self.value.clear();
        match fields_behind(item, head) {
            Some(fields) => {
                self.value.push(b'{');
                self.value.extend_from_slice(fields);
            }
            None => self.value.extend_from_slice(item),
        }
        Ok(Some(revision))
    }
}

/// Returns the text after the type that a server writes before an object's fields in an event, so
/// that the object is the same as in a list; `None` if the type is missing.
fn fields_behind<'i>(item: &'i [u8], head: &str) -> Option<&'i [u8]> {
    if head.is_empty() {
        return None;
    }
    let typed = item.strip_prefix(b"{")?.strip_prefix(head.as_bytes())?;
    typed.strip_prefix(b",")
}

/// Returns whether two JSON texts are equal except for the order of fields, which servers may
/// choose in what they store as text (`managedFields`). A duplicate field makes one of them longer.
fn is_same_text(found: &[u8], made: &[u8]) -> bool {
    let value = |text| serde_json::from_slice::<Value>(text).ok();
    found == made || (found.len() == made.len() && value(found) == value(made))
}
