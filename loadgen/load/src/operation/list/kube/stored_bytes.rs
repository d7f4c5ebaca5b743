//! Turns each item of a list back into the object that was stored, and shows it to the check.
//!
//! An item is the stored object with `metadata.resourceVersion` filled in; emptied again, and put
//! back into the envelope in which it was stored, it has the stored object's bytes, so one
//! fingerprint serves both tiers and a flipped byte shows on either. An item in JSON is turned back
//! as [`super::json_item`] says. That costs more than a server takes to make it, so it is done once
//! for a text: a [`ItemCache`] says what one that was seen before came to.

use std::ops::Range;

use kube_api::hash::fnv1a_64;
use kube_api::protobuf::{Fields, bytes_field_len, put_bytes_header};
use kube_api::schema::{CONFIG_MAP, Message, POD};
use kube_api::shard_selector::{ShardKey, ShardSelector};
use kube_api::{ApiResource, envelope};

use super::item_cache::{Checked, Cursor, ItemCache, text_hash};
use crate::operation::kube_requests::MADE;
use crate::verify::{Check, InvalidResponse, not_a_list};

/// Where every data set of this tier is stored.
pub(in crate::operation) const ROOT: &str = "/registry/";

/// What turns an item into the stored object: its key's beginning, and its envelope.
#[derive(Debug)]
pub struct ItemDecoder {
    key_prefix: String,
    pub(super) resource: ApiResource,
    /// Its fields, where this program knows them.
    message: Option<&'static Message>,
    item_cache: ItemCache,
    /// What is kept, where the rest is thrown away here.
    kept: Option<ShardSelector>,
    /// What the keys of our own objects begin with, where others are there too.
    own: Option<Vec<u8>>,
    /// Whether loads make objects outside of the data set, which are not shown.
    ignores_made: bool,
    /// The field that [`DecodedObject::shard_hash`] hashes.
    shard_key: ShardKey,
    last_key: Vec<u8>,
    key: Vec<u8>,
    pub(super) object: Vec<u8>,
    pub(super) value: Vec<u8>,
    /// An item's text as the schema makes it.
    pub(super) text: Vec<u8>,
    items: u64,
    /// Where in the list the reader is, where items come in JSON.
    cursor: Cursor,
}

/// An object as it is stored, and what its list or event says about it.
#[derive(Debug, Clone, Copy)]
pub struct DecodedObject<'r> {
    /// Its key, from the registry's prefix on.
    pub key: &'r [u8],
    /// Its value: the envelope and the object in protobuf.
    pub value: &'r [u8],
    /// Its resourceVersion.
    pub revision: i64,
    /// The field that shards are cut by: its uid, or what [`ItemDecoder::hashing`] says.
    shard_field: &'r [u8],
}

impl DecodedObject<'_> {
    /// Returns the hash of the field that shards are cut by. Made when asked for, since a list that
    /// is only checked needs none.
    #[must_use]
    pub fn shard_hash(&self) -> u64 {
        fnv1a_64(self.shard_field)
    }
}

/// Who is shown the objects of a list.
pub(in crate::operation) trait Sink {
    /// Takes one.
    ///
    /// # Errors
    /// [`InvalidResponse`] when it cannot be in that list.
    fn take(&mut self, object: DecodedObject<'_>) -> Result<(), InvalidResponse>;
}

impl Sink for Check {
    fn take(&mut self, object: DecodedObject<'_>) -> Result<(), InvalidResponse> {
        self.visit(object.key, object.value, object.revision);
        Ok(())
    }
}

impl ItemDecoder {
    /// Returns a reader for lists of `resource`, stored below `root`.
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

    /// Returns a reader for objects of `resource` that come one by one, and not in a list.
    #[must_use]
    pub fn one_by_one(resource: &ApiResource) -> Self {
        Self::new(ROOT, resource, ItemCache::default())
    }

    /// Returns the resource type of its objects.
    pub(in crate::operation) fn resource(&self) -> &ApiResource {
        &self.resource
    }

    /// Shows only objects of this shard to checks: what a client does whose server does not shard.
    pub(in crate::operation) fn keeping(mut self, shard: Option<ShardSelector>) -> Self {
        self.kept = shard;
        self
    }

    /// Shows only objects of namespaces whose names begin with this to checks: others' objects are
    /// received, and nothing is known about them but their order.
    pub(in crate::operation) fn only_namespaces(mut self, beginning: Option<&str>) -> Self {
        self.own = beginning.map(|own| format!("{}{own}", self.key_prefix).into_bytes());
        self
    }

    /// Leaves out the objects that loads make outside of the data set.
    pub(in crate::operation) fn ignoring_made(mut self, ignores: bool) -> Self {
        self.ignores_made = ignores;
        self
    }

    /// Returns a reader for objects that are cut into shards by this field.
    pub(in crate::operation) fn hashing(mut self, shard_key: ShardKey) -> Self {
        self.shard_key = shard_key;
        self
    }

    /// Takes an item in protobuf, without envelope.
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

    /// Returns the object of an event, which comes in no order of keys; `None` where it is not
    /// kept.
    ///
    /// # Errors
    /// [`InvalidResponse`] when it is no object.
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

    /// Returns an object whose key was set.
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

    /// Takes the item that `bytes` begin with, where it is the one that is expected here; returns
    /// its length. Costs a hash of as many bytes as that item has, and the end of this one is not
    /// looked for.
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

    /// Takes an item in JSON, whole and nothing else. `head` is what a server writes before its
    /// fields: nothing in a list, [`Self::type_meta`] in an event.
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

    /// Returns what stands before the fields of an object that is not in a list.
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

    /// Returns whether the key is that of an object which is shown.
    pub(super) fn is_own(&self) -> bool {
        let own = self.own.as_ref();
        own.is_none_or(|own| self.key.starts_with(own)) && !(self.ignores_made && self.is_made())
    }

    /// Returns whether the key is that of an object which a load has made.
    fn is_made(&self) -> bool {
        let name = self.key.rsplit(|byte| *byte == b'/').next();
        name.is_some_and(|name| name.starts_with(MADE.as_bytes()))
    }

    /// Checks that the key is above the one before; it is the one before from now on.
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
    number.ok_or_else(|| not_a_list("an item's resourceVersion is not a number"))
}

/// The parts of an item that its key and its stored form are made of.
#[derive(Debug, Default)]
struct Parts<'a> {
    /// Where the field with the metadata stands in the item.
    meta_field: Range<usize>,
    meta: &'a [u8],
    name: &'a [u8],
    namespace: &'a [u8],
    uid: &'a [u8],
    version: &'a [u8],
    /// Where the field with the resourceVersion stands in the metadata.
    version_field: Range<usize>,
}

impl<'a> Parts<'a> {
    fn of(item: &'a [u8]) -> Result<Self, InvalidResponse> {
        let mut parts = Self::default();
        for field in Fields::new(item) {
            let field = field.map_err(|e| not_a_list(&e.to_string()))?;
            if let (1, Some(meta)) = (field.number, field.wire.bytes()) {
                parts.meta = meta;
                parts.meta_field = field.start..field.end;
                break;
            }
        }
        for field in Fields::new(parts.meta) {
            let field = field.map_err(|e| not_a_list(&e.to_string()))?;
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
        Err(not_a_list("an item without metadata.resourceVersion"))
    }

    fn belong_to(&self, shard: Option<&ShardSelector>) -> bool {
        let selects = |shard: &ShardSelector| {
            let key = shard.key();
            shard.selects(key.hash(self.uid, self.namespace))
        };
        shard.is_none_or(selects)
    }

    /// Writes the stored form: resourceVersion empty, as an apiserver stores it, and the envelope
    /// around it.
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
