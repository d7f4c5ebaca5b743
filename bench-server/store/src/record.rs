//! A stored key as its exact bytes on the wire.
//!
//! A record is one element of `RangeResponse.kvs`: tag `0x12`, varint length, `mvccpb.KeyValue`
//! with its fields in the order of their numbers and proto3 defaults omitted, as etcd encodes it.
//! List responses reference these bytes; accessors parse them on demand.

mod allocation;
mod projection;
#[cfg(test)]
mod tests;
mod value;

use std::fmt;
use std::sync::Arc;

use bytes::{BufMut, Bytes};
use etcd_api::proto::mvccpb::KeyValue;
use prost::encoding::{encode_varint, encoded_len_varint};

use allocation::Storage;
pub use projection::Projection;
pub use value::Value;

/// Tag of `RangeResponse.kvs`: field 2, length-delimited.
const KVS: u8 = 0x12;
const KEY: u8 = 0x0a;
const CREATE_REVISION: u8 = 0x10;
const MOD_REVISION: u8 = 0x18;
const VERSION: u8 = 0x20;
const VALUE: u8 = 0x2a;
const LEASE: u8 = 0x30;

/// The fields of a key, borrowed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fields<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Revision of the creation.
    pub create_revision: i64,
    /// Revision of the last write.
    pub mod_revision: i64,
    /// Number of writes since the creation, including the creation; 0 for a tombstone.
    pub version: i64,
    /// The value.
    pub value: Value<'a>,
    /// Lease of the key; 0 is none.
    pub lease: i64,
}

/// A stored key, immutable and shared: cloning costs one reference count.
///
/// A deleted key has a *tombstone*, with only key and mod revision, which is the `kv` of a DELETE
/// event.
#[derive(Clone, PartialEq, Eq)]
pub struct Record(Storage);

impl Record {
    /// Encodes a key. Costs one allocation of the exact size (three for a large record that is
    /// split to fit the allocator's sizes) and one copy of the value.
    pub fn new(fields: Fields<'_>) -> Self {
        let message = message_len(&fields);
        let total = 1 + encoded_len_varint(message as u64) + message;
        let value_end = total - int_len(fields.lease);
        let value_begin = value_end - fields.value.len();
        if let Some(cut) = allocation::cut(total, value_begin, value_end) {
            let (mut head, mut tail) = (Vec::with_capacity(cut), Vec::with_capacity(total - cut));
            put_front(&mut head, &fields, message);
            for piece in fields.value.pieces() {
                let (now, later) = piece.split_at(piece.len().min(cut - head.len()));
                head.put_slice(now);
                tail.put_slice(later);
            }
            put_int(&mut tail, LEASE, fields.lease);
            debug_assert_eq!(head.len() + tail.len(), total);
            return Self(Storage::split(head, tail));
        }
        // Collecting from an iterator of known length allocates once, already inside the `Arc`.
        let mut wire: Arc<[u8]> = std::iter::repeat_n(0, total).collect();
        let mut buf = Arc::get_mut(&mut wire).expect("a new allocation has one owner");
        put_front(&mut buf, &fields, message);
        fields.value.put_to(&mut buf);
        put_int(&mut buf, LEASE, fields.lease);
        debug_assert!(buf.is_empty(), "message_len counts every byte written");
        Self(Storage::Whole(wire))
    }

    /// Returns the tombstone of a delete at `revision`.
    pub fn tombstone(key: &[u8], revision: i64) -> Self {
        Self::new(Fields {
            key,
            mod_revision: revision,
            ..Fields::default()
        })
    }

    /// Returns tag, length and message, as in a `RangeResponse`, in the one or two stored pieces.
    /// The second piece is usually empty.
    #[inline]
    pub fn wire(&self) -> [&[u8]; 2] {
        self.0.pieces()
    }

    /// Returns the length of [`Record::wire`], bytes.
    #[inline]
    pub fn wire_len(&self) -> usize {
        self.0.len()
    }

    /// Returns the wire bytes: a reference to this record's allocation, or a copy if it has two
    /// pieces.
    pub fn to_bytes(&self) -> Bytes {
        match &self.0 {
            Storage::Whole(bytes) => Bytes::from_owner(bytes.clone()),
            Storage::Split(_) => self.wire().concat().into(),
        }
    }

    /// Returns the part of the `KeyValue` message in the first piece: everything before the value.
    #[inline]
    fn message_head(&self) -> &[u8] {
        let head = self.0.head();
        let (_, len) = varint(&head[1..]);
        &head[1 + len..]
    }

    /// Returns the key and the rest of the first piece.
    #[inline]
    fn key_and_rest(&self) -> (&[u8], &[u8]) {
        let message = self.message_head();
        let (len, at) = varint(&message[1..]);
        message[1 + at..].split_at(len as usize)
    }

    /// Returns the key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.key_and_rest().0
    }

    /// Returns the revision of the creation; 0 for a tombstone.
    pub fn create_revision(&self) -> i64 {
        self.fields().create_revision
    }

    /// Returns the revision of the last write.
    pub fn mod_revision(&self) -> i64 {
        self.fields().mod_revision
    }

    /// Returns the number of writes since the creation; 0 for a tombstone.
    pub fn version(&self) -> i64 {
        self.fields().version
    }

    /// Returns the value.
    pub fn value(&self) -> Value<'_> {
        self.fields().value
    }

    /// Returns the lease of the key; 0 is none.
    pub fn lease(&self) -> i64 {
        self.fields().lease
    }

    /// Returns whether this is a delete.
    pub fn is_tombstone(&self) -> bool {
        // A live key has a create revision, right after the key.
        self.key_and_rest().1.first() != Some(&CREATE_REVISION)
    }

    /// Returns all fields in one pass. Constant time: the value is skipped by its length.
    pub fn fields(&self) -> Fields<'_> {
        let (mut rest, mut behind) = (self.message_head(), self.0.pieces()[1]);
        let mut fields = Fields::default();
        loop {
            let [tag, tail @ ..] = rest else {
                if behind.is_empty() {
                    return fields;
                }
                rest = std::mem::take(&mut behind);
                continue;
            };
            let (number, len) = varint(tail);
            rest = &tail[len..];
            match *tag {
                CREATE_REVISION => fields.create_revision = number as i64,
                MOD_REVISION => fields.mod_revision = number as i64,
                VERSION => fields.version = number as i64,
                LEASE => fields.lease = number as i64,
                KEY => (fields.key, rest) = rest.split_at(number as usize),
                VALUE => {
                    let here = rest.len().min(number as usize);
                    let (first, after) = rest.split_at(here);
                    let (second, after_second) = behind.split_at(number as usize - here);
                    fields.value = Value::of([first, second]);
                    (rest, behind) = (after, after_second);
                }
                _ => unreachable!("a record holds the fields of KeyValue only"),
            }
        }
    }

    /// Returns the message. Key and value share this record's allocation, or are copied if the
    /// record has two pieces.
    pub fn to_kv(&self) -> KeyValue {
        let fields = self.fields();
        let (key, value) = match &self.0 {
            Storage::Split(_) => (
                Bytes::copy_from_slice(fields.key),
                fields.value.to_vec().into(),
            ),
            Storage::Whole(bytes) => {
                let [value, _] = fields.value.pieces();
                let whole = Bytes::from_owner(bytes.clone());
                let value = match value.is_empty() {
                    true => Bytes::new(),
                    false => whole.slice_ref(value),
                };
                (whole.slice_ref(fields.key), value)
            }
        };
        KeyValue {
            key,
            value,
            create_revision: fields.create_revision,
            mod_revision: fields.mod_revision,
            version: fields.version,
            lease: fields.lease,
        }
    }
}

// === impl Record for the index ===

impl index::Item for Record {
    type Tag = ();

    fn key(&self) -> &[u8] {
        Record::key(self)
    }

    fn weight(&self) -> u64 {
        self.wire_len() as u64
    }

    fn tag(&self) {}
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fields().fmt(f)
    }
}

// === protobuf of one flat message ===

/// Returns the encoded size of the `KeyValue` message of `fields`.
fn message_len(fields: &Fields<'_>) -> usize {
    let delimited = |len: usize| 1 + encoded_len_varint(len as u64) + len;
    let value = match fields.value.len() {
        0 => 0,
        len => delimited(len),
    };
    delimited(fields.key.len())
        + int_len(fields.create_revision)
        + int_len(fields.mod_revision)
        + int_len(fields.version)
        + value
        + int_len(fields.lease)
}

fn int_len(value: i64) -> usize {
    match value {
        0 => 0,
        value => 1 + encoded_len_varint(value as u64),
    }
}

/// Writes everything before the bytes of the value.
fn put_front(buf: &mut impl BufMut, fields: &Fields<'_>, message_len: usize) {
    put_prefix(buf, KVS, message_len as u64);
    put_prefix(buf, KEY, fields.key.len() as u64);
    buf.put_slice(fields.key);
    put_int(buf, CREATE_REVISION, fields.create_revision);
    put_int(buf, MOD_REVISION, fields.mod_revision);
    put_int(buf, VERSION, fields.version);
    if !fields.value.is_empty() {
        put_prefix(buf, VALUE, fields.value.len() as u64);
    }
}

fn put_prefix(buf: &mut impl BufMut, tag: u8, number: u64) {
    buf.put_u8(tag);
    encode_varint(number, buf);
}

fn put_int(buf: &mut impl BufMut, tag: u8, value: i64) {
    if value != 0 {
        put_prefix(buf, tag, value as u64);
    }
}

/// Reads a varint that [`Record::new`] wrote; returns its value and its length, bytes.
#[inline]
fn varint(bytes: &[u8]) -> (u64, usize) {
    if bytes[0] < 0x80 {
        return (bytes[0].into(), 1);
    }
    let mut value = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return (value, at + 1);
        }
    }
    unreachable!("a record's varints are whole")
}
