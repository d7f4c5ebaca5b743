//! Restores the object that was stored from each item of a list, and passes it to the check.
//!
//! An item is the stored object with `metadata.resourceVersion` filled in. With that field emptied,
//! and in the envelope in which it was stored, it has the stored object's bytes. One fingerprint
//! thus serves both tiers, and a flipped byte shows on either. [`super::json_item`] restores an
//! item in JSON. That costs more than a server needs to write it, so it is done once per text: an
//! [`ItemCache`] holds the results for known texts.

use std::ops::Range;

use kube_api::hash::fnv1a_64;
use kube_api::protobuf::{Fields, bytes_field_len, put_bytes_header};
use kube_api::schema::{CONFIG_MAP, Message, POD};
use kube_api::shard_selector::{ShardKey, ShardSelector};
use kube_api::{ApiResource, envelope};

use super::item_cache::{Checked, Cursor, ItemCache, text_hash};
use crate::operation::kube_requests::MADE;
use crate::verify::{Check, InvalidResponse, malformed};

/// The prefix below which every data set of this tier is stored.
pub(in crate::operation) const ROOT: &str = "/registry/";

/// Converts items to stored objects, with their keys and envelopes.
#[derive(Debug)]
pub struct ItemDecoder {
    key_prefix: String,
    pub(super) resource: ApiResource,
    /// The schema of the resource, if this program knows it.
    message: Option<&'static Message>,
    item_cache: ItemCache,
    /// The shard to keep, if the client discards the rest.
    kept: Option<ShardSelector>,
    /// The key prefix of the data set's objects, if there are others, too.
    own: Option<Vec<u8>>,
    /// Whether loads create objects outside of the data set, which are not passed on.
    ignores_made: bool,
    /// The field that [`DecodedObject::shard_hash`] hashes.
    shard_key: ShardKey,
    last_key: Vec<u8>,
    key: Vec<u8>,
    pub(super) object: Vec<u8>,
    pub(super) value: Vec<u8>,
    /// The item's text as the schema writes it.
    pub(super) text: Vec<u8>,
    items: u64,
    /// The position in the list, for items in JSON.
    cursor: Cursor,
}

/// An object as it is stored, with the metadata from its list or event.
#[derive(Debug, Clone, Copy)]
pub struct DecodedObject<'r> {
    /// The key, including the registry's prefix.
    pub key: &'r [u8],
    /// The value: the envelope and the object in protobuf.
    pub value: &'r [u8],
    /// The object's resourceVersion.
    pub revision: i64,
    /// The field by which objects are sharded: the uid, unless [`ItemDecoder::hashing`] sets
    /// another.
    shard_field: &'r [u8],
}

impl DecodedObject<'_> {
    /// Returns the hash of the field by which objects are sharded. Computed on demand, because a
    /// list that is only checked needs none.
    #[must_use]
    pub fn shard_hash(&self) -> u64 {
        fnv1a_64(self.shard_field)
    }
}

/// A consumer of the objects of a list.
pub(in crate::operation) trait Sink {
    /// Consumes one object.
    ///
    /// # Errors
    /// [`InvalidResponse`] when the object cannot be in that list.
    fn take(&mut self, object: DecodedObject<'_>) -> Result<(), InvalidResponse>;
}

impl Sink for Check {
    fn take(&mut self, object: DecodedObject<'_>) -> Result<(), InvalidResponse> {
        self.visit(object.key, object.value, object.revision);
        Ok(())
    }
}

impl ItemDecoder {
    /// Returns a decoder for lists of `resource`, stored below `root`.
    pub(super) fn new(root: &str, resource: &ApiResource, item_cache: ItemCache) -> Self {
        let name = &resource.name;
        let (directory, message) = match (name.group(), name.resource()) {
            ("", "pods") => ("pods".to_owned(), Some(&POD)),
            ("", "configmaps") => ("configmaps".to_owned(), Some(&CONFIG_MAP)),
            ("", other) => (other.to_owned(), None),
            (group, resource) => (format!("{group}/{resource}"), None),
        };
        Self {
            key_prefix: format!("{root}{directory}/"),
            resource: resource.clone(),
            message,
            item_cache,
            kept: None,
            own: None,
            ignores_made: false,
            shard_key: ShardKey::Uid,
            last_key: Vec::new(),
            key: Vec::new(),
            object: Vec::new(),
            value: Vec::new(),
            text: Vec::new(),
            items: 0,
            cursor: Cursor::default(),
        }
    }

    /// Returns a decoder for objects of `resource` that arrive one by one, not in a list.
    #[must_use]
    pub fn one_by_one(resource: &ApiResource) -> Self {
        Self::new(ROOT, resource, ItemCache::default())
    }

    /// Returns the resource type of the objects.
    pub(in crate::operation) fn resource(&self) -> &ApiResource {
        &self.resource
    }

    /// Passes on only objects of this shard, as a client does whose server does not filter by
    /// shard.
    pub(in crate::operation) fn keeping(mut self, shard: Option<ShardSelector>) -> Self {
        self.kept = shard;
        self
    }

    /// Passes on only objects of namespaces whose names have this prefix. Objects of other clients
    /// are received, and only their order is checked.
    pub(in crate::operation) fn only_namespaces(mut self, beginning: Option<&str>) -> Self {
        self.own = beginning.map(|own| format!("{}{own}", self.key_prefix).into_bytes());
        self
    }

    /// Skips the objects that loads create outside of the data set.
    pub(in crate::operation) fn ignoring_made(mut self, ignores: bool) -> Self {
        self.ignores_made = ignores;
        self
    }

    /// Returns this decoder, set to hash this field for sharding.
    pub(in crate::operation) fn hashing(mut self, shard_key: ShardKey) -> Self {
        self.shard_key = shard_key;
        self
    }

    /// Decodes an item in protobuf, without envelope.
    pub(in crate::operation) fn protobuf(
        &mut self,
        item: &[u8],
        sink: Option<&mut impl Sink>,
    ) -> Result<(), InvalidResponse> {
        let parts = Parts::of(item)?;
        self.set_key(parts.namespace, parts.name);
        self.next_in_order()?;
        let Some(sink) = sink else {
            return Ok(());
        };
        if !self.is_own() || !parts.belong_to(self.kept.as_ref()) {
            return Ok(());
        }
        sink.take(self.stored(item, &parts)?)
    }

    /// Returns the object of an event. Events are in no order of keys. Returns `None` if the object
    /// is of another shard.
    ///
    /// # Errors
    /// [`InvalidResponse`] when the event has no valid object.
    pub fn event<'r>(
        &'r mut self,
        object: &'r [u8],
    ) -> Result<Option<DecodedObject<'r>>, InvalidResponse> {
        let parts = Parts::of(object)?;
        if !parts.belong_to(self.kept.as_ref()) {
            return Ok(None);
        }
        self.set_key(parts.namespace, parts.name);
        self.stored(object, &parts).map(Some)
    }

    /// Returns the stored form of an object whose key was set.
    fn stored<'r>(
        &'r mut self,
        object: &'r [u8],
        parts: &Parts<'r>,
    ) -> Result<DecodedObject<'r>, InvalidResponse> {
        let revision = revision(parts.version)?;
        self.value.clear();
        parts.decoder(object, &self.resource, &mut self.value);
        Ok(DecodedObject {
            key: &self.key,
            value: &self.value,
            revision,
            shard_field: match self.shard_key {
                ShardKey::Uid => parts.uid,
                ShardKey::Namespace => parts.namespace,
            },
        })
    }

    /// Checks the item that `bytes` begin with if it is the one that the cache expects here, and
    /// returns its length. Costs a hash of as many bytes as the expected item has, and no search
    /// for the end of this one.
    pub(in crate::operation) fn json_again(
        &mut self,
        bytes: &[u8],
        check: &mut Check,
    ) -> Result<Option<usize>, InvalidResponse> {
        let item_cache = &self.item_cache;
        let Some(found) = item_cache.expected(&mut self.cursor, bytes, &mut self.key) else {
            return Ok(None);
        };
        self.visit_again(found.object, check)?;
        Ok(Some(found.len))
    }

    fn visit_again(
        &mut self,
        object: Option<Checked>,
        check: &mut Check,
    ) -> Result<(), InvalidResponse> {
        self.next_in_order()?;
        if let Some(object) = object {
            check.visit_again(object.hash, object.bytes, object.revision);
        }
        Ok(())
    }

    /// Checks exactly one item in JSON. `head` is the text that a server writes before the fields:
    /// nothing in a list, [`Self::type_meta`] in an event.
    pub(in crate::operation) fn json(
        &mut self,
        item: &[u8],
        head: &str,
        check: &mut Check,
    ) -> Result<(), InvalidResponse> {
        let item_cache = self.item_cache.clone();
        let hash = text_hash(item);
        if let Some(found) = item_cache.anywhere(&mut self.cursor, item, hash, &mut self.key) {
            return self.visit_again(found.object, check);
        }
        item_cache.note_parsed();
        let revision = match self.message {
            Some(message) => self.json_by_schema(message, item, head)?,
            None => self.json_as_received(item, head)?,
        };
        let object = revision.map(|revision| Checked {
            hash: check.visit(&self.key, &self.value, revision),
            bytes: check.relative_len(&self.key) + self.value.len() as u64,
            revision,
        });
        item_cache.learn(&mut self.cursor, item, hash, &self.key, object);
        Ok(())
    }

    /// Returns the text before the fields of an object that is not in a list.
    pub(in crate::operation) fn type_meta(&self) -> String {
        let Self { resource, .. } = self;
        format!(
            "\"kind\":\"{}\",\"apiVersion\":\"{}\"",
            resource.kind,
            resource.name.api_version()
        )
    }

    pub(super) fn set_key(&mut self, namespace: &[u8], name: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(self.key_prefix.as_bytes());
        if self.resource.is_namespaced {
            self.key.extend_from_slice(namespace);
            self.key.push(b'/');
        }
        self.key.extend_from_slice(name);
    }

    /// Returns whether an object with the current key is passed on.
    pub(super) fn is_own(&self) -> bool {
        let own = self.own.as_ref();
        own.is_none_or(|own| self.key.starts_with(own)) && !(self.ignores_made && self.is_made())
    }

    /// Returns whether the current key is that of an object which a load has created.
    fn is_made(&self) -> bool {
        let name = self.key.rsplit(|byte| *byte == b'/').next();
        name.is_some_and(|name| name.starts_with(MADE.as_bytes()))
    }

    /// Checks that the current key is above the previous one, and makes it the previous one.
    pub(super) fn next_in_order(&mut self) -> Result<(), InvalidResponse> {
        if self.key <= self.last_key {
            return Err(InvalidResponse::Order {
                index: self.items,
                key: self.key.escape_ascii().to_string(),
                previous: self.last_key.escape_ascii().to_string(),
            });
        }
        self.last_key.clone_from(&self.key);
        self.items += 1;
        Ok(())
    }
}

pub(super) fn revision(text: &[u8]) -> Result<i64, InvalidResponse> {
    let number = std::str::from_utf8(text).ok().and_then(|t| t.parse().ok());
    number.ok_or_else(|| malformed("an item's resourceVersion is not a number"))
}

/// The parts of an item from which its key and its stored form are built.
#[derive(Debug, Default)]
struct Parts<'a> {
    /// The position of the metadata field in the item.
    meta_field: Range<usize>,
    meta: &'a [u8],
    name: &'a [u8],
    namespace: &'a [u8],
    uid: &'a [u8],
    version: &'a [u8],
    /// The position of the resourceVersion field in the metadata.
    version_field: Range<usize>,
}

impl<'a> Parts<'a> {
    fn of(item: &'a [u8]) -> Result<Self, InvalidResponse> {
        let mut parts = Self::default();
        for field in Fields::new(item) {
            let field = field.map_err(|e| malformed(&e.to_string()))?;
            if let (1, Some(meta)) = (field.number, field.wire.bytes()) {
                parts.meta = meta;
                parts.meta_field = field.start..field.end;
                break;
            }
        }
        for field in Fields::new(parts.meta) {
            let field = field.map_err(|e| malformed(&e.to_string()))?;
            match (field.number, field.wire.bytes()) {
                (1, Some(name)) => parts.name = name,
                (3, Some(namespace)) => parts.namespace = namespace,
                (5, Some(uid)) => parts.uid = uid,
                (6, Some(version)) => {
                    parts.version = version;
                    parts.version_field = field.start..field.end;
                    return Ok(parts);
                }
                _ => {}
            }
        }
        Err(malformed("an item without metadata.resourceVersion"))
    }

    fn belong_to(&self, shard: Option<&ShardSelector>) -> bool {
        let selects = |shard: &ShardSelector| {
            let key = shard.key();
            shard.selects(key.hash(self.uid, self.namespace))
        };
        shard.is_none_or(selects)
    }

    /// Writes the stored form: in an envelope, and with an empty resourceVersion, as an apiserver
    /// stores it.
    fn decoder(&self, item: &[u8], resource: &ApiResource, out: &mut Vec<u8>) {
        const EMPTY_VERSION: [u8; 2] = [6 << 3 | 2, 0];
        let (before, after) = (&item[..self.meta_field.start], &item[self.meta_field.end..]);
        let meta_len = self.meta.len() - self.version_field.len() + EMPTY_VERSION.len();
        let raw_len = before.len() + bytes_field_len(1, meta_len) + after.len();
        envelope::put_head(out, resource.name.api_version(), &resource.kind, raw_len);
        out.extend_from_slice(before);
        put_bytes_header(out, 1, meta_len);
        out.extend_from_slice(&self.meta[..self.version_field.start]);
        out.extend_from_slice(&EMPTY_VERSION);
        out.extend_from_slice(&self.meta[self.version_field.end..]);
        out.extend_from_slice(after);
        out.extend_from_slice(envelope::TAIL);
    }
}
