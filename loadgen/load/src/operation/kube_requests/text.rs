//! The JSON text of objects: what is sent, and what is read from a response.
//!
//! An update sends the text received from the server, with the value of one annotation overwritten
//! in place: all its values have the same length. That costs a copy and no parsing, and the server
//! gets back every field that it has added. The text is parsed if the annotation cannot be found
//! like this, because the server writes spaces or escapes, or because another client has written
//! the value.

use bytes::Bytes;
use kube_api::GroupVersionResource;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The annotation that updates and patches change.
const CHANGE: &str = "loadgen.test/change";
/// The text of the annotation's name and the beginning of its value.
const CHANGE_VALUE: &[u8] = br#""loadgen.test/change":""#;
/// The length of the annotation's value.
const CHANGE_LEN: usize = 16;
/// The annotation that holds a given value in kinds other than ConfigMap.
const VALUE: &str = "loadgen.test/value";
/// The label that all objects of one load have.
pub(super) const LABEL: &str = "loadgen.test/load";
/// Placeholders for the name and the value in the text of a prototype.
const NAME_MARK: &str = "@name@";
const VALUE_MARK: &str = "@value@";

/// The template from which objects are made.
#[derive(Debug)]
pub(super) struct Prototype {
    /// The path that objects are posted to.
    pub(super) collection: String,
    text: String,
}

impl Prototype {
    /// Returns a template modelled on `object`, labelled with the load's tag. If it has a value of
    /// its own, a ConfigMap has no other data.
    pub(super) fn new(
        mut object: Map<String, Value>,
        resource: &str,
        kind: &str,
        tag: &str,
        is_valued: bool,
    ) -> Self {
        object.insert("apiVersion".to_owned(), "v1".into());
        object.insert("kind".to_owned(), kind.into());
        if is_valued && kind == "ConfigMap" {
            object.insert("data".to_owned(), json!({ "value": VALUE_MARK }));
        }
        let metadata = entry(&mut object, "metadata");
        metadata.insert("name".to_owned(), NAME_MARK.into());
        metadata.remove("generateName");
        entry(metadata, "labels").insert(LABEL.to_owned(), tag.into());
        let annotations = entry(metadata, "annotations");
        annotations.insert(CHANGE.to_owned(), "0".repeat(CHANGE_LEN).into());
        if is_valued && kind != "ConfigMap" {
            annotations.insert(VALUE.to_owned(), VALUE_MARK.into());
        }
        let namespace = metadata.get("namespace").and_then(Value::as_str);
        let namespace = namespace.unwrap_or_default();
        Self {
            collection: GroupVersionResource::core(resource).collection(Some(namespace)),
            text: Value::Object(object).to_string(),
        }
    }

    /// Returns the text of an object with this name and value.
    pub(super) fn text(&self, name: &str, value: &str) -> Bytes {
        let named = self.text.replacen(NAME_MARK, name, 1);
        named.replacen(VALUE_MARK, value, 1).into()
    }
}

/// Returns the object in a field. Inserts an empty one if there is none.
fn entry<'o>(object: &'o mut Map<String, Value>, field: &str) -> &'o mut Map<String, Value> {
    let value = object.entry(field).or_insert(Value::Null);
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("it is one now")
}

/// Returns the value that operation `n` writes. It differs for each operation, and from that of a
/// new object, because a server does not write what changes nothing.
pub(super) fn change(n: u64) -> String {
    format!("{:0CHANGE_LEN$x}", n.wrapping_add(1))
}

/// Returns the text with the value that operation `n` writes; `None` if the text is no object.
pub(super) fn changed(text: &[u8], n: u64) -> Option<Bytes> {
    in_place(text, n).or_else(|| parsed(text, n))
}

/// Overwrites the value in place. Returns `None` unless `text` has exactly one such value in the
/// form that loadgen writes.
fn in_place(text: &[u8], n: u64) -> Option<Bytes> {
    let mut found = memchr::memmem::find_iter(text, CHANGE_VALUE);
    let (Some(at), None) = (found.next(), found.next()) else {
        return None;
    };
    let value = at + CHANGE_VALUE.len()..at + CHANGE_VALUE.len() + CHANGE_LEN;
    let is_ours = text.get(value.clone())?.iter().all(u8::is_ascii_hexdigit);
    if !is_ours || text.get(value.end) != Some(&b'"') {
        return None;
    }
    let mut changed = text.to_vec();
    changed[value].copy_from_slice(change(n).as_bytes());
    Some(changed.into())
}

/// Changes the value by parsing the text.
fn parsed(text: &[u8], n: u64) -> Option<Bytes> {
    let mut object: Map<String, Value> = serde_json::from_slice(text).ok()?;
    let annotations = entry(entry(&mut object, "metadata"), "annotations");
    annotations.insert(CHANGE.to_owned(), change(n).into());
    Some(Value::Object(object).to_string().into())
}

/// Returns the merge patch that operation `n` sends.
pub(super) fn merge_patch(n: u64) -> Bytes {
    let patch = json!({ "metadata": { "annotations": { CHANGE: change(n) } } });
    patch.to_string().into()
}

/// Returns the options of a deletion, which takes effect at once because no kubelet runs the pod.
pub(super) fn delete_options() -> Bytes {
    Bytes::from_static(br#"{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0}"#)
}

/// The parts of an object that are read from a response.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) revision: i64,
    /// The value of the annotation that updates change.
    pub(super) change: String,
}

#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: Metadata,
    /// The object that a Status is about.
    #[serde(default)]
    details: Details,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: String,
    resource_version: String,
    annotations: Annotations,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "loadgen.test/change")]
    change: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Details {
    name: String,
}

/// The reason and message of a Status that refuses a request.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Refusal {
    pub(super) reason: String,
    pub(super) message: String,
}

impl Refusal {
    /// Reads the Status in a body; empty if the body is no Status.
    pub(super) fn of(body: &[u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_default()
    }
}

impl Read {
    /// Reads a body that must be the object of this kind and name.
    ///
    /// # Errors
    /// A description of how the body differs.
    pub(super) fn of(body: &[u8], kind: &str, name: &str) -> Result<Self, String> {
        let head: Head = serde_json::from_slice(body).map_err(|e| e.to_string())?;
        is_object(&head, kind, name)?;
        let version = &head.metadata.resource_version;
        let revision = version.parse().ok().filter(|revision| *revision > 0);
        Ok(Self {
            revision: revision.ok_or_else(|| format!("its resourceVersion is `{version}`"))?,
            change: head.metadata.annotations.change,
        })
    }
}

/// Checks that a body is the deleted object, or a Status about it.
///
/// # Errors
/// A description of how the body differs.
pub(super) fn check_deletion(body: &[u8], kind: &str, name: &str) -> Result<(), String> {
    let head: Head = serde_json::from_slice(body).map_err(|e| e.to_string())?;
    match head.kind == "Status" && head.details.name == name {
        true => Ok(()),
        false => is_object(&head, kind, name),
    }
}

fn is_object(head: &Head, kind: &str, name: &str) -> Result<(), String> {
    match head.kind == kind && head.metadata.name == name {
        true => Ok(()),
        // With the other object's name, each error text would be different.
        false if head.kind == kind => Err(format!("a {kind} of another name")),
        false => Err(format!("its kind is `{}`", head.kind)),
    }
}

/// Returns the resourceVersion of an object; `None` if it has none.
pub(super) fn revision(body: &[u8]) -> Option<i64> {
    let head: Head = serde_json::from_slice(body).ok()?;
    head.metadata.resource_version.parse().ok()
}
