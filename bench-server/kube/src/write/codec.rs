//! Decodes stored objects into fields that can be changed, and encodes such fields for storage.

use bytes::Bytes;
use etcd_api::proto::mvccpb::KeyValue;
use kube_api::custom_resource::custom_resource_from_json;
use kube_api::{FromJsonError, Status, envelope, from_json, to_json};
use serde_json::{Map, Value};

use super::field_validation::prune;
use super::options::FieldValidation;
use crate::resource::Resource;

/// A stored object.
#[derive(Debug, Clone)]
pub(crate) struct StoredObject {
    /// The fields as clients see them, without `resourceVersion`.
    pub(crate) fields: Map<String, Value>,
    /// The revision of the last change.
    pub(crate) revision: i64,
    /// The stored bytes.
    pub(crate) value: Bytes,
}

impl StoredObject {
    /// Decodes a stored value.
    ///
    /// # Errors
    /// 500 if the value is not an object of the kind.
    pub(crate) fn open(resource: &'static Resource, kv: KeyValue) -> Result<Self, Status> {
        let damaged = |error: &dyn std::fmt::Display| {
            let key = kv.key.escape_ascii();
            Status::internal(format!(
                "the stored value of {key} does not decode as a {}: {error}",
                resource.kind
            ))
        };
        let json = match resource.schema() {
            Some(message) => {
                let raw = envelope::open(&kv.value).map_err(|error| damaged(&error))?;
                let mut json = Vec::with_capacity(2 * raw.len());
                to_json(message, raw, &resource.json_head(), &mut json)
                    .map_err(|error| damaged(&error))?;
                Bytes::from(json)
            }
            None => kv.value.clone(),
        };
        let mut fields: Map<String, Value> =
            serde_json::from_slice(&json).map_err(|error| damaged(&error))?;
        let metadata = fields
            .entry("metadata")
            .or_insert_with(|| Map::new().into());
        match metadata.as_object_mut() {
            Some(metadata) => metadata.remove("resourceVersion"),
            None => return Err(damaged(&"metadata is not an object")),
        };
        Ok(Self {
            fields,
            revision: kv.mod_revision,
            value: kv.value,
        })
    }

    pub(crate) fn metadata(&self) -> Option<&Map<String, Value>> {
        self.fields.get("metadata")?.as_object()
    }

    /// Returns a text field of the metadata; empty if it is not set.
    pub(crate) fn text(&self, field: &str) -> &str {
        self.metadata()
            .and_then(|metadata| metadata.get(field)?.as_str())
            .unwrap_or_default()
    }

    /// Returns whether the object has been deleted and only waits for its finalizers.
    pub(crate) fn is_being_deleted(&self) -> bool {
        !self.text("deletionTimestamp").is_empty()
    }

    /// Returns the stored bytes.
    pub(crate) fn unchanged(&self) -> EncodedObject {
        EncodedObject {
            value: self.value.clone(),
            warnings: Vec::new(),
        }
    }

    /// Returns the fields as clients see them, with `resourceVersion`. Patches are applied to them.
    pub(crate) fn visible(&self) -> Map<String, Value> {
        let mut fields = self.fields.clone();
        if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
            let version = self.revision.to_string();
            metadata.insert("resourceVersion".to_owned(), version.into());
        }
        fields
    }
}

/// An object, encoded for storage.
#[derive(Debug, Clone)]
pub(crate) struct EncodedObject {
    /// The bytes to be stored.
    pub(crate) value: Bytes,
    /// Unknown fields that were dropped, for `Warning` headers.
    pub(crate) warnings: Vec<String>,
}

/// Encodes an object for storage: in protobuf if the kind has a schema, otherwise in JSON with
/// `kind` and `apiVersion`.
///
/// # Errors
/// 400 for a value that is not of its field's type, and for unknown fields with `Strict`.
pub(crate) fn encode(
    resource: &'static Resource,
    mut fields: Map<String, Value>,
    validation: FieldValidation,
) -> Result<EncodedObject, Status> {
    let unusable = |why: &dyn std::fmt::Display| {
        Status::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {kind}: {why}",
            resource.api_version.rsplit('/').next().unwrap_or_default(),
            kind = resource.kind,
        ))
    };
    let Some(message) = resource.schema() else {
        fields.insert("kind".to_owned(), resource.kind.into());
        fields.insert("apiVersion".to_owned(), resource.api_version.into());
        let value = Value::Object(fields).to_string();
        // A value that cannot be decoded again would be stored, but never be visible.
        custom_resource_from_json(value.as_bytes()).map_err(|error| unusable(&error))?;
        return Ok(EncodedObject {
            value: value.into(),
            warnings: Vec::new(),
        });
    };
    let mut warnings = Vec::new();
    let mut raw = Vec::new();
    // Most objects have no unknown fields, and are encoded in one attempt.
    match from_json(message, &fields, &mut raw) {
        Ok(()) => {}
        Err(error @ FromJsonError::Type { .. }) => return Err(unusable(&error)),
        Err(FromJsonError::Unknown { .. }) => {
            let unknown = prune(message, &mut fields);
            let texts: Vec<_> = unknown
                .iter()
                .map(|path| format!("unknown field {path:?}"))
                .collect();
            match validation {
                FieldValidation::Strict => {
                    let why = format!("strict decoding error: {}", texts.join(", "));
                    return Err(unusable(&why));
                }
                FieldValidation::Warn => warnings = texts,
                FieldValidation::Ignore => {}
            }
            raw.clear();
            from_json(message, &fields, &mut raw).map_err(|error| unusable(&error))?;
        }
    }
    let value = envelope::seal(resource.api_version, resource.kind, &raw);
    Ok(EncodedObject {
        value: value.into(),
        warnings,
    })
}
