//! An object as the cache holds it: one buffer that a list in protobuf points at.

use std::fmt;

use bytes::Bytes;
use kube_api::custom::{CustomError, custom_from_json};
use kube_api::envelope::{self, EnvelopeError};
use kube_api::protobuf::Malformed;
use kube_api::{ListItem, Metadata, item_object};

use super::resource::Resource;
use crate::store::index::Item;

/// One object: its key below the resource's prefix, and its encoding as a field of a list with
/// `resourceVersion` put in. Both lie in one exact allocation; cloning costs a reference count.
#[derive(Clone)]
pub struct Object {
    buffer: Bytes,
    key_len: u32,
}

/// A stored value that is no object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The value has no envelope.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    /// What is in the envelope is no object.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// It should be a custom object.
    #[error(transparent)]
    Custom(#[from] CustomError),
}

impl Object {
    /// Reads a stored value: enveloped protobuf, or JSON for a custom resource. Costs one allocation and one
    /// copy of the value; JSON is parsed.
    ///
    /// # Errors
    /// The value is no such object.
    pub fn decode(
        resource: &Resource,
        key: &[u8],
        value: &[u8],
        mod_revision: i64,
    ) -> Result<Self, DecodeError> {
        match resource.message {
            Some(_) => Self::at(key, envelope::open(value)?, mod_revision),
            None => Self::at(key, &custom_from_json(value)?, mod_revision),
        }
    }

    fn at(key: &[u8], object: &[u8], mod_revision: i64) -> Result<Self, DecodeError> {
        let mut digits = itoa::Buffer::new();
        let item = ListItem::new(object, digits.format(mod_revision))?;
        let mut buffer = Vec::with_capacity(key.len() + item.len());
        buffer.extend_from_slice(key);
        item.write(&mut buffer);
        let buffer = Bytes::from(buffer);
        // The first clone allocates the shared count; made now, it is part of the memory at rest and not
        // of the first list.
        drop(buffer.clone());
        Ok(Self {
            buffer,
            key_len: key.len() as u32,
        })
    }

    /// The same object under another revision: how its end is told.
    ///
    /// # Errors
    /// None for an object that was decoded before.
    pub fn at_revision(&self, mod_revision: i64) -> Result<Self, DecodeError> {
        Self::at(self.key(), self.encoded(), mod_revision)
    }

    /// Key below the resource's prefix: `NAMESPACE/NAME`, or `NAME` where there are no namespaces.
    pub fn key(&self) -> &[u8] {
        &self.buffer[..self.key_len as usize]
    }

    /// Revision of its last change; 0 in an object that names none.
    pub fn mod_revision(&self) -> i64 {
        let metadata = Metadata::read(self.encoded()).unwrap_or_default();
        let text = std::str::from_utf8(metadata.resource_version);
        text.ok().and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// Its namespace; empty where there are none.
    pub fn namespace(&self) -> &[u8] {
        let slash = self.key().iter().position(|byte| *byte == b'/');
        &self.key()[..slash.unwrap_or(0)]
    }

    /// Its name.
    pub fn name(&self) -> &[u8] {
        let slash = self.key().iter().position(|byte| *byte == b'/');
        &self.key()[slash.map_or(0, |slash| slash + 1)..]
    }

    /// The object as a field of a list: tag, length, object.
    pub fn item(&self) -> Bytes {
        self.buffer.slice(self.key_len as usize..)
    }

    /// The encoded object alone, sharing the buffer.
    pub fn encoded_bytes(&self) -> Bytes {
        self.buffer.slice_ref(self.encoded())
    }

    /// The encoded object alone: protobuf, or what [`kube_api::custom`] makes of a custom object.
    pub fn encoded(&self) -> &[u8] {
        item_object(&self.buffer[self.key_len as usize..])
    }
}

impl Item for Object {
    fn key(&self) -> &[u8] {
        Object::key(self)
    }

    /// Bytes in a list, so that the tree's sums are the lengths of protobuf lists.
    fn weight(&self) -> u64 {
        self.buffer.len() as u64 - u64::from(self.key_len)
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Object({}, {} bytes)",
            self.key().escape_ascii(),
            self.weight()
        )
    }
}
