//! What a server needs of an object's metadata, read and written in the encoded object.
//!
//! Every kind has `ObjectMeta` as its field 1, so none of this depends on the kind.

use crate::protobuf::{
    Fields, Malformed, bytes_field_len, find_bytes, put_bytes, put_bytes_header,
};

const METADATA: u32 = 1;
const NAME: u32 = 1;
const NAMESPACE: u32 = 3;
const UID: u32 = 5;
const RESOURCE_VERSION: u32 = 6;

/// The identifying fields of an object, as parts of its encoding; empty where absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Metadata<'a> {
    /// `metadata.name`.
    pub name: &'a [u8],
    /// `metadata.namespace`.
    pub namespace: &'a [u8],
    /// `metadata.uid`.
    pub uid: &'a [u8],
    /// `metadata.resourceVersion`; empty in a stored object.
    pub resource_version: &'a [u8],
}

impl<'a> Metadata<'a> {
    /// Reads the metadata of an encoded object (without envelope); stops behind `resourceVersion`.
    ///
    /// # Errors
    /// The object is no protobuf message up to there.
    pub fn read(object: &'a [u8]) -> Result<Self, Malformed> {
        let mut found = Self::default();
        for field in Fields::new(find_bytes(object, METADATA)?.unwrap_or_default()) {
            let field = field?;
            let Some(bytes) = field.wire.bytes() else {
                continue;
            };
            match field.number {
                NAME => found.name = bytes,
                NAMESPACE => found.namespace = bytes,
                UID => found.uid = bytes,
                RESOURCE_VERSION => {
                    found.resource_version = bytes;
                    break;
                }
                _ => {}
            }
        }
        Ok(found)
    }
}

/// The object as a field of its list (`0x12`, length, object) with another `resourceVersion`, in one exact
/// allocation: what a cache keeps, and what a list in protobuf is made of.
///
/// An apiserver never stores `resourceVersion` inside the value: it is the key's revision, and is put into
/// the object whenever it is read. An empty text restores the stored object.
///
/// # Errors
/// The object or its metadata is no protobuf message.
pub fn list_item(object: &[u8], resource_version: &str) -> Result<Vec<u8>, Malformed> {
    // Metadata is copied up to the old resourceVersion, then behind it: fields are in ascending order, so
    // where it is absent it belongs before the first higher number.
    let (mut start, mut end, mut metadata) = (0, 0, &[][..]);
    for field in Fields::new(object) {
        let field = field?;
        if field.number == METADATA {
            (start, end) = (field.start, field.end);
            metadata = field.wire.bytes().ok_or(Malformed {
                at: start,
                what: "metadata is no message",
            })?;
            break;
        }
    }
    let (mut cut, mut resume) = (metadata.len(), metadata.len());
    for field in Fields::new(metadata) {
        let field = field?;
        if field.number >= RESOURCE_VERSION {
            cut = field.start;
            resume = if field.number == RESOURCE_VERSION {
                field.end
            } else {
                field.start
            };
            break;
        }
    }

    let version = resource_version.as_bytes();
    let metadata_len =
        cut + bytes_field_len(RESOURCE_VERSION, version.len()) + metadata.len() - resume;
    let object_len = start + bytes_field_len(METADATA, metadata_len) + object.len() - end;
    let mut out = Vec::with_capacity(bytes_field_len(crate::list::ITEMS, object_len));
    put_bytes_header(&mut out, crate::list::ITEMS, object_len);
    out.extend_from_slice(&object[..start]);
    put_bytes_header(&mut out, METADATA, metadata_len);
    out.extend_from_slice(&metadata[..cut]);
    put_bytes(&mut out, RESOURCE_VERSION, version);
    out.extend_from_slice(&metadata[resume..]);
    out.extend_from_slice(&object[end..]);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::POD;
    use crate::{from_json, to_json};
    use serde_json::json;

    fn pod(metadata: serde_json::Value) -> Vec<u8> {
        let pod = json!({"metadata": metadata, "spec": {"containers": [{"name": "c"}]}});
        let mut out = Vec::new();
        from_json(&POD, pod.as_object().expect("an object"), &mut out).expect("a pod");
        out
    }

    fn object(item: &[u8]) -> &[u8] {
        find_bytes(item, crate::list::ITEMS)
            .expect("well formed")
            .expect("an item")
    }

    #[test]
    fn the_version_is_spliced_in_and_out_again() {
        // Lengths on both sides of where a length prefix grows.
        for padding in [0, 40, 60, 80, 16_000, 16_300, 16_400] {
            let stored = pod(
                json!({"name": "n", "namespace": "s", "uid": "u", "labels": {"l": "x".repeat(padding)}}),
            );
            for version in ["1", "1234567", "9223372036854775807"] {
                let item = list_item(&stored, version).expect("a pod");
                assert_eq!(item.capacity(), item.len(), "one exact allocation");
                let expected = pod(
                    json!({"name": "n", "namespace": "s", "uid": "u", "resourceVersion": version, "labels": {"l": "x".repeat(padding)}}),
                );
                assert!(
                    object(&item) == expected,
                    "padding {padding}, version {version}"
                );
                let metadata = Metadata::read(object(&item)).expect("well formed");
                assert_eq!(
                    metadata,
                    Metadata {
                        name: b"n",
                        namespace: b"s",
                        uid: b"u",
                        resource_version: version.as_bytes()
                    }
                );
                assert!(object(&list_item(object(&item), "").expect("a pod")) == stored);
            }
        }
    }

    #[test]
    fn objects_of_other_encoders_get_a_version_too() {
        // Without empty fields, as proto3 libraries write: metadata{name, labels}, then metadata missing.
        let metadata = [&[0x0a, 1, b'n'][..], &[0x5a, 4, 0x0a, 0, 0x12, 0]].concat();
        let mut stored = Vec::new();
        put_bytes(&mut stored, 1, &metadata);
        for stored in [stored, Vec::new()] {
            let item = list_item(&stored, "7").expect("a message");
            assert_eq!(
                Metadata::read(object(&item))
                    .expect("well formed")
                    .resource_version,
                b"7"
            );
            let mut out = Vec::new();
            to_json(&POD, object(&item), "", &mut out).expect("still a pod");
        }
    }

    #[test]
    fn a_cut_object_is_refused() {
        let stored = pod(json!({"name": "a-name-of-some-length"}));
        assert!(list_item(&stored[..12], "1").is_err());
        assert!(Metadata::read(&stored[..12]).is_err());
    }
}
