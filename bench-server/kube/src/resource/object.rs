//! An object as the cache holds it: one buffer that a list in protobuf points at.

use std::fmt;
use std::hint::black_box;
use std::sync::Arc;

use index::Item;
use kube_api::custom::{CustomError, custom_from_json};
use kube_api::envelope::{self, EnvelopeError};
use kube_api::hash::fnv1a_64;
use kube_api::protobuf::Malformed;
use kube_api::{ListItem, Metadata, item_object};
use wire::part::Part;

use super::Resource;

/// Bytes of the hash that a buffer begins with.
const HASH: usize = size_of::<u64>();
/// Memory that the processor fetches ahead by itself ends with a page.
const PAGE_BYTES: usize = 4 << 10;
/// Of a large object, this many: copying the rest takes longer than waiting for its pages.
const PREFETCHED_PAGES: usize = 8;
/// What the processor fetches at once.
const LINE_BYTES: usize = 64;
/// Lines in which the labels of most objects end: the key, and of the metadata names, uid, version and times lie before them.
const LABELLED_LINES: usize = 6;

/// One object: the hash of its uid, its key below the resource's prefix, and its encoding as a field of a list
/// with `resourceVersion` put in. All lie in one exact allocation, behind the reference count that cloning costs.
///
/// The hash lies with its lowest byte first, so that its highest one is next to the key: both together are
/// the key of the index that shards are read from, and nothing is kept twice for it.
#[derive(Clone)]
pub struct Object {
    buffer: Arc<[u8]>,
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
    /// Reads a stored value: enveloped protobuf, or JSON for a custom resource. One that is not stored, at
    /// revision 0, is shown without a version. Costs two allocations, of which one stays, and two copies of the value; JSON is
    /// parsed.
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

    /// Whether [`Self::decode`] would read the value, without a copy of it.
    pub(crate) fn is_readable(resource: &Resource, value: &[u8]) -> bool {
        let item = |object: &[u8]| ListItem::new(object, "").is_ok();
        match resource.message {
            Some(_) => envelope::open(value).is_ok_and(item),
            None => custom_from_json(value).is_ok_and(|object| item(&object)),
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

    /// The same object under another revision: how its end is told.
    ///
    /// # Errors
    /// None for an object that was decoded before.
    pub fn at_revision(&self, mod_revision: i64) -> Result<Self, DecodeError> {
        Self::at(self.key(), self.encoded(), mod_revision)
    }

    /// Key below the resource's prefix: `NAMESPACE/NAME`, or `NAME` where there are no namespaces.
    pub fn key(&self) -> &[u8] {
        &self.buffer[HASH..self.item_at()]
    }

    fn item_at(&self) -> usize {
        HASH + self.key_len as usize
    }

    /// The hash of its uid, by which shards are cut. It was computed when the object was decoded.
    pub fn uid_hash(&self) -> u64 {
        self.buffer
            .first_chunk()
            .map_or(0, |hash| u64::from_le_bytes(*hash))
    }

    /// Has the processor fetch what sending the object reads first, the reference count among it, without waiting for it: its own
    /// fetching ahead ends with each page of memory.
    pub(crate) fn prefetch(&self) {
        self.prefetch_every(PAGE_BYTES, PREFETCHED_PAGES);
    }

    /// The same of what a label selector reads.
    pub(crate) fn prefetch_labels(&self) {
        self.prefetch_every(LINE_BYTES, LABELLED_LINES);
    }

    #[inline]
    fn prefetch_every(&self, bytes: usize, most: usize) {
        let first = self.buffer.iter().step_by(bytes).take(most);
        // One sum is fewer instructions than a value that somebody looks at each time.
        black_box(first.fold(0, |sum, byte| sum ^ byte));
    }

    /// The highest byte of [`Self::uid_hash`], then the key.
    pub(crate) fn bucket_and_key(&self) -> &[u8] {
        &self.buffer[HASH - 1..self.item_at()]
    }

    /// Its uid; empty in an object that has none. Costs a walk over the metadata up to there.
    pub fn uid(&self) -> &[u8] {
        Metadata::read(self.encoded()).unwrap_or_default().uid
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
    pub fn item(&self) -> Part<'_> {
        Part::new(&self.buffer, self.item_at()..self.buffer.len())
    }

    /// The encoded object alone, as a part of the buffer, of which it is the end.
    pub fn encoded_part(&self) -> Part<'_> {
        let start = self.buffer.len() - self.encoded().len();
        Part::new(&self.buffer, start..self.buffer.len())
    }

    /// The encoded object alone: protobuf, or what [`kube_api::custom`] makes of a custom object.
    pub fn encoded(&self) -> &[u8] {
        item_object(&self.buffer[self.item_at()..])
    }
}

impl Item for Object {
    /// The higher half of [`Object::uid_hash`], by which most objects of other shards are passed over without a look
    /// at them or their buffers.
    type Tag = u32;

    fn key(&self) -> &[u8] {
        Object::key(self)
    }

    /// Bytes in a list, so that the tree's sums are the lengths of protobuf lists.
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
