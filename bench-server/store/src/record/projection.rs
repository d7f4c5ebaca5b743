//! The fields of a key in a response: all of them, or all but the value.

use bytes::Bytes;
use etcd_api::proto::mvccpb::KeyValue;
use prost::encoding::encoded_len_varint;

use super::{Fields, LEASE, Record, Value, message_len, put_front, put_int};

/// The fields of a key in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Projection {
    /// All of them: the stored bytes.
    Everything,
    /// All but the value.
    KeysOnly {
        /// The lease is omitted, too, unless this is set.
        lease: bool,
    },
}

impl Projection {
    fn fields(self, record: &Record) -> Fields<'_> {
        let fields = record.fields();
        match self {
            Self::Everything => fields,
            Self::KeysOnly { lease } => Fields {
                value: Value::default(),
                lease: if lease { fields.lease } else { 0 },
                ..fields
            },
        }
    }

    /// Returns the size of the record in a response, bytes. Constant time.
    #[inline]
    pub fn wire_len(self, record: &Record) -> usize {
        if self == Self::Everything {
            return record.wire_len();
        }
        let message = message_len(&self.fields(record));
        1 + encoded_len_varint(message as u64) + message
    }

    /// Appends the projection of the record, [`Projection::wire_len`] bytes.
    pub fn put_wire(self, record: &Record, out: &mut Vec<u8>) {
        if self == Self::Everything {
            for piece in record.wire() {
                out.extend_from_slice(piece);
            }
            return;
        }
        let fields = self.fields(record);
        put_front(out, &fields, message_len(&fields));
        fields.value.put_to(out);
        put_int(out, LEASE, fields.lease);
    }

    /// Returns the projection as a message. Without the value the key is copied, so that the
    /// response does not keep the value in memory.
    pub fn kv(self, record: &Record) -> KeyValue {
        if self == Self::Everything {
            return record.to_kv();
        }
        let fields = self.fields(record);
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
