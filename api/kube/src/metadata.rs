//! Reads and writes the metadata of an encoded object.
//!
//! Every kind has `ObjectMeta` as its field 1, so this does not depend on the kind.

use crate::protobuf::{
    Fields, Malformed, bytes_field_len, find_bytes, put_bytes, put_bytes_header,
};

const METADATA: u32 = 1;
const NAME: u32 = 1;
const NAMESPACE: u32 = 3;
const UID: u32 = 5;
const RESOURCE_VERSION: u32 = 6;
const DELETION_TIMESTAMP: u32 = 9;

/// The identifying fields of an object, as slices of its encoding; empty if absent.
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
    /// Reads the metadata of an encoded object (without envelope) up to `resourceVersion`.
    ///
    /// # Errors
    /// [`Malformed`] when that part of the object is not a protobuf message.
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

/// Returns whether an encoded object (without envelope) is being deleted: it has
/// `metadata.deletionTimestamp`. An apiserver sets that before it deletes a pod, even if the
/// request asked for no grace period.
///
/// # Errors
/// [`Malformed`] when its metadata is not a protobuf message.
pub fn is_being_deleted(object: &[u8]) -> Result<bool, Malformed> {
    let metadata = find_bytes(object, METADATA)?.unwrap_or_default();
    find_bytes(metadata, DELETION_TIMESTAMP).map(|marked| marked.is_some())
}

/// An object encoded as an item of a protobuf list (`0x12`, length, object), with its
/// `resourceVersion` replaced. A cache holds objects in this form.
///
/// An apiserver does not store `resourceVersion` in the value: it is the key's revision and is
/// inserted on each read. An empty version restores the stored object.
#[derive(Debug, Clone, Copy)]
pub struct ListItem<'a> {
    object: &'a [u8],
    version: &'a [u8],
    uid: &'a [u8],
    /// Position of the field `metadata` in the object.
    start: usize,
    end: usize,
    metadata: &'a [u8],
    /// The part of `metadata` that is replaced by the new version.
    cut: usize,
    resume: usize,
}

impl<'a> ListItem<'a> {
    /// Finds the position of the version. Costs a pass over the metadata up to that position.
    ///
    /// # Errors
    /// [`Malformed`] when that part of the object or of its metadata is not a protobuf message.
    pub fn new(object: &'a [u8], resource_version: &'a str) -> Result<Self, Malformed> {
        let (mut start, mut end, mut metadata) = (0, 0, &[][..]);
        for field in Fields::new(object) {
            let field = field?;
            if field.number == METADATA {
                (start, end) = (field.start, field.end);
                let not_message = Malformed {
                    at: start,
                    what: "metadata is no message",
                };
                metadata = field.wire.bytes().ok_or(not_message)?;
                break;
            }
        }
        // Fields are in ascending order, so a missing version belongs before the first field with a
        // higher number.
        let (mut cut, mut resume) = (metadata.len(), metadata.len());
        let mut uid = &[][..];
        for field in Fields::new(metadata) {
            let field = field?;
            if field.number == UID {
                uid = field.wire.bytes().unwrap_or_default();
            }
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
        Ok(Self {
            object,
            version: resource_version.as_bytes(),
            uid,
            start,
            end,
            metadata,
            cut,
            resume,
        })
    }

    /// Returns the object's `metadata.uid`; empty if absent.
    pub fn uid(&self) -> &'a [u8] {
        self.uid
    }

    fn metadata_len(&self) -> usize {
        self.cut + bytes_field_len(RESOURCE_VERSION, self.version.len()) + self.metadata.len()
            - self.resume
    }

    fn object_len(&self) -> usize {
        self.start + bytes_field_len(METADATA, self.metadata_len()) + self.object.len() - self.end
    }

    /// Returns the number of bytes that [`Self::write`] appends.
    #[expect(
        clippy::len_without_is_empty,
        reason = "an item has at least its tag and length"
    )]
    pub fn len(&self) -> usize {
        bytes_field_len(crate::list::ITEMS, self.object_len())
    }

    /// Appends the list item.
    pub fn write(&self, out: &mut Vec<u8>) {
        put_bytes_header(out, crate::list::ITEMS, self.object_len());
        out.extend_from_slice(&self.object[..self.start]);
        put_bytes_header(out, METADATA, self.metadata_len());
        out.extend_from_slice(&self.metadata[..self.cut]);
        put_bytes(out, RESOURCE_VERSION, self.version);
        out.extend_from_slice(&self.metadata[self.resume..]);
        out.extend_from_slice(&self.object[self.end..]);
    }
}

/// Returns an encoded [`ListItem`] in one exact allocation.
///
/// # Errors
/// As [`ListItem::new`].
pub fn list_item(object: &[u8], resource_version: &str) -> Result<Vec<u8>, Malformed> {
    let item = ListItem::new(object, resource_version)?;
    let mut out = Vec::with_capacity(item.len());
    item.write(&mut out);
    Ok(out)
}

/// Returns the object of a list item; empty if there is none.
pub fn item_object(item: &[u8]) -> &[u8] {
    find_bytes(item, crate::list::ITEMS)
        .ok()
        .flatten()
        .unwrap_or_default()
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

    #[test]
    fn an_object_is_being_deleted_when_it_says_since_when() {
        let plain = pod(json!({"name": "n", "creationTimestamp": "2026-01-01T00:00:00Z"}));
        assert_eq!(is_being_deleted(&plain), Ok(false));
        let marked = pod(json!({"name": "n", "deletionTimestamp": "2026-01-01T00:00:00Z"}));
        assert_eq!(is_being_deleted(&marked), Ok(true));
        assert!(is_being_deleted(&marked[..4]).is_err(), "metadata is cut");
    }

    #[test]
    fn the_version_is_spliced_in_and_out_again() {
        // Lengths close to those at which a length prefix takes another byte.
        for padding in [0, 40, 60, 80, 16_000, 16_300, 16_400] {
            let stored = pod(
                json!({"name": "n", "namespace": "s", "uid": "u", "labels": {"l": "x".repeat(padding)}}),
            );
            for version in ["1", "1234567", "9223372036854775807"] {
                let item = ListItem::new(&stored, version).expect("a pod");
                assert_eq!(item.uid(), b"u");
                let item = list_item(&stored, version).expect("a pod");
                assert_eq!(item.capacity(), item.len(), "one exact allocation");
                let expected = pod(
                    json!({"name": "n", "namespace": "s", "uid": "u", "resourceVersion": version, "labels": {"l": "x".repeat(padding)}}),
                );
                assert!(
                    item_object(&item) == expected,
                    "padding {padding}, version {version}"
                );
                let metadata = Metadata::read(item_object(&item)).expect("well formed");
                assert_eq!(
                    metadata,
                    Metadata {
                        name: b"n",
                        namespace: b"s",
                        uid: b"u",
                        resource_version: version.as_bytes()
                    }
                );
                assert!(item_object(&list_item(item_object(&item), "").expect("a pod")) == stored);
            }
        }
    }

    #[test]
    fn objects_of_other_encoders_get_a_version_too() {
        // First an object without empty fields, as proto3 libraries write it: metadata{name,
        // labels}. Then one without metadata.
        let metadata = [&[0x0a, 1, b'n'][..], &[0x5a, 4, 0x0a, 0, 0x12, 0]].concat();
        let mut stored = Vec::new();
        put_bytes(&mut stored, 1, &metadata);
        for stored in [stored, Vec::new()] {
            let item = list_item(&stored, "7").expect("a message");
            assert_eq!(
                Metadata::read(item_object(&item))
                    .expect("well formed")
                    .resource_version,
                b"7"
            );
            let mut out = Vec::new();
            to_json(&POD, item_object(&item), "", &mut out).expect("still a pod");
        }
    }

    #[test]
    fn a_cut_object_is_refused() {
        let stored = pod(json!({"name": "a-name-of-some-length"}));
        assert!(list_item(&stored[..12], "1").is_err());
        assert!(Metadata::read(&stored[..12]).is_err());
    }
}
