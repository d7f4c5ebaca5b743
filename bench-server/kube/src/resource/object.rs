//! An object in the cache: a single buffer, a part of which is sent in protobuf lists.

use std::fmt;
use std::hint::black_box;
use std::sync::Arc;

use index::Item;
use kube_api::custom_resource::{CustomResourceError, custom_resource_from_json};
use kube_api::envelope::{self, EnvelopeError};
use kube_api::hash::fnv1a_64;
use kube_api::protobuf::Malformed;
use kube_api::{ListItem, Metadata, item_object};
use memory::in_flight;
use wire::buffer_slice::BufferSlice;

use super::Resource;

/// The number of bytes of the hash at the start of a buffer.
const HASH: usize = size_of::<u64>();
/// The number of bytes of a memory page, at whose end the processor's own prefetching stops.
const PAGE_BYTES: usize = 4 << 10;
/// The number of pages of a large object that are prefetched. Copying the rest takes longer than
/// waiting for its pages.
const PREFETCHED_PAGES: usize = 8;
/// The number of bytes of a cache line.
const LINE_BYTES: usize = 64;
/// The number of cache lines within which the labels of most objects end. The key, and the names,
/// uid, version and times of the metadata precede the labels.
const LABELLED_LINES: usize = 6;

/// An object: the hash of its uid, its key without the resource's prefix, and its encoding as a
/// field of a list, with `resourceVersion` inserted. All of them are in one allocation, after the
/// reference count.
///
/// The hash is stored with its lowest byte first, so that its highest byte is next to the key.
/// Together they are the key in the index on uids, for which nothing has to be stored twice.
#[derive(Clone)]
pub struct Object {
    buffer: Arc<[u8]>,
    key_len: u32,
}

/// The error that a stored value is not an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The value has no envelope.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    /// The envelope does not contain an object.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The value is not a custom object.
    #[error(transparent)]
    Custom(#[from] CustomResourceError),
}

impl Object {
    /// Decodes a stored value: protobuf in an envelope, or JSON for a custom resource. With
    /// revision 0, of an object that is not stored, `resourceVersion` is not set. Takes two
    /// allocations, of which one is kept, and two copies of the value. JSON is parsed.
    ///
    /// # Errors
    /// The value is not an object.
    pub fn decode(
        resource: &Resource,
        key: &[u8],
        value: &[u8],
        mod_revision: i64,
    ) -> Result<Self, DecodeError> {
        match resource.message {
            Some(_) => Self::at(key, envelope::open(value)?, mod_revision),
            None => Self::at(key, &custom_resource_from_json(value)?, mod_revision),
        }
    }

    /// Returns whether [`Self::decode`] would succeed, without copying the value.
    pub(crate) fn is_readable(resource: &Resource, value: &[u8]) -> bool {
        let item = |object: &[u8]| ListItem::new(object, "").is_ok();
        match resource.message {
            Some(_) => envelope::open(value).is_ok_and(item),
            None => custom_resource_from_json(value).is_ok_and(|object| item(&object)),
        }
    }

    fn at(key: &[u8], object: &[u8], mod_revision: i64) -> Result<Self, DecodeError> {
        let mut digits = itoa::Buffer::new();
        let version = match mod_revision {
            0 => "",
            revision => digits.format(revision),
        };
        let item = ListItem::new(object, version)?;
        let mut buffer = Vec::with_capacity(HASH + key.len() + item.len());
        buffer.extend_from_slice(&fnv1a_64(item.uid()).to_le_bytes());
        buffer.extend_from_slice(key);
        item.write(&mut buffer);
        Ok(Self {
            buffer: buffer.into(),
            key_len: key.len() as u32,
        })
    }

    /// Returns the object with another revision, for reporting its deletion.
    ///
    /// # Errors
    /// Cannot fail for an object that was decoded.
    pub fn at_revision(&self, mod_revision: i64) -> Result<Self, DecodeError> {
        Self::at(self.key(), self.encoded(), mod_revision)
    }

    /// Returns the key without the resource's prefix: `NAMESPACE/NAME`, or `NAME` for a
    /// cluster-scoped kind.
    pub fn key(&self) -> &[u8] {
        &self.buffer[HASH..self.item_at()]
    }

    fn item_at(&self) -> usize {
        HASH + self.key_len as usize
    }

    /// Returns the hash of the uid, which decides the object's shard. It is computed when the
    /// object is decoded.
    pub fn uid_hash(&self) -> u64 {
        self.buffer
            .first_chunk()
            .map_or(0, |hash| u64::from_le_bytes(*hash))
    }

    /// Prefetches the memory that is read first to send the object, including its reference count,
    /// into the processor's cache, without waiting for it. One byte per memory page is read,
    /// because the processor's own prefetching stops at the end of a page.
    pub(crate) fn prefetch(&self) {
        self.prefetch_every(PAGE_BYTES, PREFETCHED_PAGES);
    }

    /// Prefetches the memory that a label selector reads.
    pub(crate) fn prefetch_labels(&self) {
        self.prefetch_every(LINE_BYTES, LABELLED_LINES);
    }

    #[inline]
    fn prefetch_every(&self, bytes: usize, most: usize) {
        let first = self.buffer.iter().step_by(bytes).take(most);
        // A sum takes fewer instructions than a `black_box` for each byte.
        black_box(first.fold(0, |sum, byte| sum ^ byte));
    }

    /// Returns the highest byte of [`Self::uid_hash`], followed by the key.
    pub(crate) fn bucket_and_key(&self) -> &[u8] {
        &self.buffer[HASH - 1..self.item_at()]
    }

    /// Returns the uid; empty if there is none. Reads the metadata up to the uid.
    pub fn uid(&self) -> &[u8] {
        Metadata::read(self.encoded()).unwrap_or_default().uid
    }

    /// Returns the revision of the last change; 0 if there is none.
    pub fn mod_revision(&self) -> i64 {
        let metadata = Metadata::read(self.encoded()).unwrap_or_default();
        let text = std::str::from_utf8(metadata.resource_version);
        text.ok().and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// Returns the namespace; empty for a cluster-scoped kind.
    pub fn namespace(&self) -> &[u8] {
        let slash = self.key().iter().position(|byte| *byte == b'/');
        &self.key()[..slash.unwrap_or(0)]
    }

    /// Returns the name.
    pub fn name(&self) -> &[u8] {
        let slash = self.key().iter().position(|byte| *byte == b'/');
        &self.key()[slash.map_or(0, |slash| slash + 1)..]
    }

    /// Returns whether the object does not fit in a small frame.
    pub(crate) fn is_large(&self) -> bool {
        self.item().len() > in_flight::SMALL_FRAME_BYTES
    }

    /// Returns the object as a field of a list: tag, length, object.
    pub fn item(&self) -> BufferSlice<'_> {
        BufferSlice::new(&self.buffer, self.item_at()..self.buffer.len())
    }

    /// Returns the encoded object, as the last part of the buffer.
    pub fn encoded_slice(&self) -> BufferSlice<'_> {
        let start = self.buffer.len() - self.encoded().len();
        BufferSlice::new(&self.buffer, start..self.buffer.len())
    }

    /// Returns the encoded object: protobuf, or a custom object as [`kube_api::custom_resource`]
    /// encodes it.
    pub fn encoded(&self) -> &[u8] {
        item_object(&self.buffer[self.item_at()..])
    }
}

impl Item for Object {
    /// The upper half of [`Object::uid_hash`], by which most objects of other shards are skipped
    /// without reading their buffers.
    type Tag = u32;

    fn key(&self) -> &[u8] {
        Object::key(self)
    }

    /// Returns the number of bytes in a protobuf list, so that sums over the tree are the lengths
    /// of such lists.
    fn weight(&self) -> u64 {
        (self.buffer.len() - self.item_at()) as u64
    }

    fn tag(&self) -> u32 {
        (self.uid_hash() >> 32) as u32
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
