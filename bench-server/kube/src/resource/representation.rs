//! The representation of objects in a response: whole, as partial metadata or as rows of a table,
//! in JSON or protobuf, single or as items of a list.

use kube_api::protobuf::{bytes_field_len, find_bytes, put_bytes, put_bytes_header};
use kube_api::schema::PARTIAL_OBJECT_METADATA;
use kube_api::{JsonDeltaWriter, ToJsonError, envelope, list, to_json};

use super::Resource;
use super::media_type::{Encoding, MediaType, ResponseKind};
use super::object::Object;
use super::table;

/// The content of a table's rows in addition to their cells (`includeObject`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// Partial metadata. The default.
    #[default]
    Metadata,
    /// The whole object.
    Object,
}

/// The representation of objects in a response. Two equal representations encode an object as the
/// same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Representation {
    /// The encoding.
    pub encoding: Encoding,
    /// The form of the objects.
    pub kind: ResponseKind,
    /// The API version of partial metadata and tables.
    api_version: &'static str,
    /// The content of a table's rows. Used for tables only.
    include: IncludeObject,
}

/// The field number of `metadata` in every object.
pub(super) const METADATA: u32 = 1;

impl Representation {
    /// Returns the representation for a media type and `includeObject`.
    pub fn new(media_type: MediaType, include: IncludeObject) -> Self {
        Self {
            encoding: media_type.encoding,
            kind: media_type.kind,
            api_version: media_type.api_version,
            include,
        }
    }

    /// Returns the API version and kind of a list.
    pub fn list_type(&self, resource: &Resource) -> (&'static str, &'static str) {
        match self.kind {
            ResponseKind::Object => (resource.api_version, resource.list_kind),
            ResponseKind::PartialMetadata => (self.api_version, "PartialObjectMetadataList"),
            ResponseKind::Table => (self.api_version, "Table"),
        }
    }

    /// Appends a single object: JSON without a newline, or protobuf in an envelope. `columns` says
    /// whether a table defines its columns, as only the first table of a watch does.
    ///
    /// # Errors
    /// The encoded object is malformed. `out` then ends with a part of it.
    pub fn put_object(
        &self,
        resource: &'static Resource,
        object: &Object,
        columns: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), ToJsonError> {
        let encoded = object.encoded();
        match (self.encoding, self.kind) {
            (Encoding::Json, ResponseKind::Object) => {
                out.reserve(2 * encoded.len());
                resource.put_json(encoded, &resource.json_head(), out)
            }
            (Encoding::Protobuf, ResponseKind::Object) => {
                let (api_version, kind) = (resource.api_version, resource.kind);
                out.reserve_exact(envelope::sealed_len(api_version, kind, encoded.len()));
                envelope::put_head(out, api_version, kind, encoded.len());
                out.extend_from_slice(encoded);
                out.extend_from_slice(envelope::TAIL);
                Ok(())
            }
            (Encoding::Json, ResponseKind::PartialMetadata) => {
                // The schema has only field 1, so every other field is skipped.
                to_json(&PARTIAL_OBJECT_METADATA, encoded, &self.partial_head(), out)
            }
            (Encoding::Protobuf, ResponseKind::PartialMetadata) => {
                let metadata = metadata(encoded)?;
                let length = bytes_field_len(METADATA, metadata.len());
                envelope::put_head(out, self.api_version, "PartialObjectMetadata", length);
                put_bytes(out, METADATA, metadata);
                out.extend_from_slice(envelope::TAIL);
                Ok(())
            }
            (_, ResponseKind::Table) => {
                let version = kube_api::Metadata::read(encoded)
                    .map_err(|source| malformed(resource, source))?
                    .resource_version;
                table::put_head(self.api_version, resource, version, columns, out);
                self.item_encoder(resource).put(object, out)?;
                out.extend_from_slice(b"]}");
                Ok(())
            }
        }
    }

    /// Returns an encoder for the items of one list.
    pub fn item_encoder(&self, resource: &'static Resource) -> ItemEncoder {
        let whole = |head| Some(JsonDeltaWriter::new(resource.message?, head));
        let partial = || {
            Some(JsonDeltaWriter::new(
                &PARTIAL_OBJECT_METADATA,
                self.partial_head(),
            ))
        };
        let json = match (self.encoding, self.kind, self.include) {
            (Encoding::Json, ResponseKind::Object, _) => whole(String::new()),
            (Encoding::Json, ResponseKind::PartialMetadata, _)
            | (_, ResponseKind::Table, IncludeObject::Metadata) => partial(),
            (_, ResponseKind::Table, IncludeObject::Object) => whole(resource.json_head()),
            _ => None,
        };
        ItemEncoder {
            representation: *self,
            resource,
            json,
        }
    }

    /// Returns how many bytes [`ItemEncoder::put`] appends for partial metadata in protobuf.
    pub(crate) fn partial_item_len(object: &Object) -> usize {
        let length = metadata(object.encoded()).map_or(0, <[u8]>::len);
        bytes_field_len(list::ITEMS, bytes_field_len(METADATA, length))
    }

    fn partial_head(&self) -> String {
        format!(
            "\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"{}\"",
            self.api_version
        )
    }
}

/// An encoder of the items of one list, in which consecutive items are mostly similar.
#[derive(Debug)]
pub struct ItemEncoder {
    representation: Representation,
    resource: &'static Resource,
    /// The JSON encoder of objects with a schema; `None` if no such JSON is needed.
    json: Option<JsonDeltaWriter>,
}

impl ItemEncoder {
    /// Appends the next item: JSON without the comma, or protobuf with tag and length.
    ///
    /// # Errors
    /// Those of [`Representation::put_object`].
    pub fn put(&mut self, object: &Object, out: &mut Vec<u8>) -> Result<(), ToJsonError> {
        let encoded = object.encoded();
        match (self.representation.encoding, self.representation.kind) {
            (Encoding::Json, ResponseKind::Object | ResponseKind::PartialMetadata) => {
                self.put_json(encoded, out)
            }
            (Encoding::Protobuf, ResponseKind::Object) => {
                out.extend_from_slice(&object.item());
                Ok(())
            }
            (Encoding::Protobuf, ResponseKind::PartialMetadata) => {
                let metadata = metadata(encoded)?;
                let length = bytes_field_len(METADATA, metadata.len());
                put_bytes_header(out, list::ITEMS, length);
                put_bytes(out, METADATA, metadata);
                Ok(())
            }
            (_, ResponseKind::Table) => {
                out.extend_from_slice(b"{\"cells\":");
                table::put_cells(self.resource, encoded, out);
                out.extend_from_slice(b",\"object\":");
                match self.representation.include {
                    IncludeObject::None => out.extend_from_slice(b"null"),
                    IncludeObject::Metadata | IncludeObject::Object => {
                        self.put_json(encoded, out)?
                    }
                }
                out.push(b'}');
                Ok(())
            }
        }
    }

    fn put_json(&mut self, encoded: &[u8], out: &mut Vec<u8>) -> Result<(), ToJsonError> {
        match &mut self.json {
            Some(json) => json.put(encoded, out),
            // A custom object, which contains its kind and API version.
            None => self.resource.put_json(encoded, "", out),
        }
    }
}

fn metadata(encoded: &[u8]) -> Result<&[u8], ToJsonError> {
    let found = find_bytes(encoded, METADATA).map_err(|source| ToJsonError::Malformed {
        message: PARTIAL_OBJECT_METADATA.name(),
        source,
    })?;
    Ok(found.unwrap_or_default())
}

fn malformed(resource: &Resource, source: kube_api::protobuf::Malformed) -> ToJsonError {
    ToJsonError::Malformed {
        message: resource.kind,
        source,
    }
}
