//! One stored key as the exact bytes that go on the wire.
//!
//! A record is one element of `RangeResponse.kvs`: tag `0x12`, varint length, `mvccpb.KeyValue`
//! with its fields in number order and proto3 defaults left out, as etcd encodes it. Lists are
//! answered by pointing at these bytes; accessors parse them on demand.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use etcd_api::proto::mvccpb::KeyValue;
use prost::encoding::{encode_varint, encoded_len_varint};

/// Tag of `RangeResponse.kvs`: field 2, length-delimited.
const KVS: u8 = 0x12;
const KEY: u8 = 0x0a;
const CREATE_REVISION: u8 = 0x10;
const MOD_REVISION: u8 = 0x18;
const VERSION: u8 = 0x20;
const VALUE: u8 = 0x2a;
const LEASE: u8 = 0x30;

/// The fields of a key, borrowed: what a [`Record`] is built from and what it parses back to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fields<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Revision that created this life of the key.
    pub create_revision: i64,
    /// Revision that wrote it last.
    pub mod_revision: i64,
    /// Writes since creation; 1 for the creating one, 0 for a tombstone.
    pub version: i64,
    /// The value.
    pub value: &'a [u8],
    /// Lease that it is attached to; 0 is none.
    pub lease: i64,
}

/// One stored key, immutable and shared: cloning costs one reference count.
///
/// A deleted key is recorded too, as a *tombstone*: key and mod revision only, which is exactly the
/// `kv` of a DELETE event.
#[derive(Clone, PartialEq, Eq)]
pub struct Record(Arc<[u8]>);

impl Record {
    /// Encodes a key. Costs one allocation of the exact size and one copy of the value.
    pub fn new(fields: Fields<'_>) -> Self {
        let message = message_len(&fields);
        let total = 1 + encoded_len_varint(message as u64) + message;
        // Collecting from an iterator of known length allocates once, already inside the `Arc`.
        let mut wire: Arc<[u8]> = std::iter::repeat_n(0, total).collect();
        let mut buf = Arc::get_mut(&mut wire).expect("a new allocation has one owner");
        put_prefix(&mut buf, KVS, message as u64);
        put_prefix(&mut buf, KEY, fields.key.len() as u64);
        put_bytes(&mut buf, fields.key);
        put_int(&mut buf, CREATE_REVISION, fields.create_revision);
        put_int(&mut buf, MOD_REVISION, fields.mod_revision);
        put_int(&mut buf, VERSION, fields.version);
        if !fields.value.is_empty() {
            put_prefix(&mut buf, VALUE, fields.value.len() as u64);
            put_bytes(&mut buf, fields.value);
        }
        put_int(&mut buf, LEASE, fields.lease);
        debug_assert!(buf.is_empty(), "message_len counts every byte written");
        Self(wire)
    }

    /// What a delete at `revision` leaves in the history.
    pub fn tombstone(key: &[u8], revision: i64) -> Self {
        Self::new(Fields {
            key,
            mod_revision: revision,
            ..Fields::default()
        })
    }

    /// Tag, length and message: ready to be put into a `RangeResponse`.
    pub fn wire(&self) -> &[u8] {
        &self.0
    }

    /// The `KeyValue` message alone.
    pub fn message(&self) -> &[u8] {
        let (_, len) = varint(&self.0[1..]);
        &self.0[1 + len..]
    }

    /// The wire bytes as `Bytes`, sharing this record's allocation.
    pub fn to_bytes(&self) -> Bytes {
        Bytes::from_owner(self.clone())
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        let message = self.message();
        let (len, at) = varint(&message[1..]);
        &message[1 + at..1 + at + len as usize]
    }

    /// Revision that created this life of the key; 0 for a tombstone.
    pub fn create_revision(&self) -> i64 {
        self.fields().create_revision
    }

    /// Revision that wrote it last.
    pub fn mod_revision(&self) -> i64 {
        self.fields().mod_revision
    }

    /// Writes since creation; 0 for a tombstone.
    pub fn version(&self) -> i64 {
        self.fields().version
    }

    /// The value.
    pub fn value(&self) -> &[u8] {
        self.fields().value
    }

    /// Lease that it is attached to; 0 is none.
    pub fn lease(&self) -> i64 {
        self.fields().lease
    }

    /// Whether this is a delete.
    pub fn is_tombstone(&self) -> bool {
        self.version() == 0
    }

    /// All fields in one pass. Constant time: the value is skipped by its length.
    pub fn fields(&self) -> Fields<'_> {
        let mut rest = self.message();
        let mut fields = Fields::default();
        while let [tag, tail @ ..] = rest {
            let (number, len) = varint(tail);
            rest = &tail[len..];
            match *tag {
                CREATE_REVISION => fields.create_revision = number as i64,
                MOD_REVISION => fields.mod_revision = number as i64,
                VERSION => fields.version = number as i64,
                LEASE => fields.lease = number as i64,
                tag => {
                    let (bytes, tail) = rest.split_at(number as usize);
                    rest = tail;
                    match tag {
                        KEY => fields.key = bytes,
                        VALUE => fields.value = bytes,
                        _ => unreachable!("a record holds the fields of KeyValue only"),
                    }
                }
            }
        }
        fields
    }

    /// As a message; key and value share this record's allocation.
    pub fn to_kv(&self) -> KeyValue {
        let fields = self.fields();
        let whole = self.to_bytes();
        KeyValue {
            key: whole.slice_ref(fields.key),
            value: if fields.value.is_empty() {
                Bytes::new()
            } else {
                whole.slice_ref(fields.value)
            },
            create_revision: fields.create_revision,
            mod_revision: fields.mod_revision,
            version: fields.version,
            lease: fields.lease,
        }
    }

    /// As a message without the value, for `keys_only`. The key is copied, so that the answer does
    /// not pin the value.
    pub fn to_kv_without_value(&self) -> KeyValue {
        let fields = self.fields();
        KeyValue {
            key: Bytes::copy_from_slice(fields.key),
            value: Bytes::new(),
            create_revision: fields.create_revision,
            mod_revision: fields.mod_revision,
            version: fields.version,
            lease: fields.lease,
        }
    }
}

// === impl Record: what shared buffers and the index need ===

impl AsRef<[u8]> for Record {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl super::index::Item for Record {
    fn key(&self) -> &[u8] {
        Record::key(self)
    }

    fn weight(&self) -> u64 {
        self.0.len() as u64
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fields().fmt(f)
    }
}

// === protobuf, as far as one flat message needs it ===

/// Encoded size of the `KeyValue` message of `fields`.
fn message_len(fields: &Fields<'_>) -> usize {
    let delimited = |len: usize| 1 + encoded_len_varint(len as u64) + len;
    let int = |value: i64| match value {
        0 => 0,
        value => 1 + encoded_len_varint(value as u64),
    };
    let value = match fields.value.len() {
        0 => 0,
        len => delimited(len),
    };
    delimited(fields.key.len())
        + int(fields.create_revision)
        + int(fields.mod_revision)
        + int(fields.version)
        + value
        + int(fields.lease)
}

fn put_prefix(buf: &mut &mut [u8], tag: u8, number: u64) {
    put_bytes(buf, &[tag]);
    encode_varint(number, buf);
}

fn put_int(buf: &mut &mut [u8], tag: u8, value: i64) {
    if value != 0 {
        put_prefix(buf, tag, value as u64);
    }
}

fn put_bytes(buf: &mut &mut [u8], bytes: &[u8]) {
    let (head, tail) = std::mem::take(buf).split_at_mut(bytes.len());
    head.copy_from_slice(bytes);
    *buf = tail;
}

/// Reads a varint that [`Record::new`] wrote: its value and its length in bytes.
fn varint(bytes: &[u8]) -> (u64, usize) {
    let mut value = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return (value, at + 1);
        }
    }
    unreachable!("a record's varints are whole")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::Message;

    use super::*;

    proptest! {
        #[test]
        fn a_record_is_what_prost_encodes_and_parses_back(
            key in prop::collection::vec(any::<u8>(), 1..200),
            value in prop::collection::vec(any::<u8>(), 0..400),
            numbers in any::<[u32; 3]>(),
            lease in prop_oneof![Just(0), any::<i64>()],
        ) {
            let fields = Fields {
                key: &key,
                create_revision: numbers[0].into(),
                mod_revision: numbers[1].into(),
                version: numbers[2].into(),
                value: &value,
                lease,
            };
            let record = Record::new(fields);
            prop_assert_eq!(record.fields(), fields);
            prop_assert_eq!(record.key(), &key[..]);
            let kv = record.to_kv();
            prop_assert_eq!(record.message(), &kv.encode_to_vec()[..]);
            let response = etcd_api::proto::etcdserverpb::RangeResponse {
                kvs: vec![kv],
                ..Default::default()
            };
            prop_assert_eq!(record.wire(), &response.encode_to_vec()[..]);
        }
    }

    #[test]
    fn a_tombstone_is_the_kv_of_a_delete_event() {
        let tombstone = Record::tombstone(b"k", 7);
        assert!(tombstone.is_tombstone());
        let kv = KeyValue {
            key: Bytes::from_static(b"k"),
            mod_revision: 7,
            ..Default::default()
        };
        assert_eq!(tombstone.to_kv(), kv);
    }
}
