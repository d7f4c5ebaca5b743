//! Reads protobuf fields in place: field heads, `KeyValue`s, response headers.

/// The head of a field: its tag, followed by its length or its varint value.
#[derive(Debug, Clone, Copy)]
pub(in crate::client) struct FieldHead {
    pub(in crate::client) field: u64,
    pub(in crate::client) wire_type: u64,
    /// The value of a varint field; 0 for others.
    pub(in crate::client) value: u64,
    /// Size of the head, bytes: tag and length, or tag and varint value.
    pub(super) len: usize,
    /// Number of bytes that follow the head.
    pub(super) payload_len: u64,
}

impl FieldHead {
    /// Returns the length of the whole field. Only valid for a field that fits into its message,
    /// whose length is a u32.
    pub(super) fn total(&self) -> usize {
        self.len + self.payload_len as usize
    }
}

/// The error for a head that is malformed, whatever bytes follow.
#[derive(Debug, Clone, Copy)]
pub(super) enum BadField {
    Varint,
    WireType { field: u64, wire_type: u64 },
}

/// One object of a list, borrowed from the received bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Object<'a> {
    /// Key, never empty.
    pub key: &'a [u8],
    /// Value.
    pub value: &'a [u8],
    /// Revision of the last write.
    pub mod_revision: i64,
    /// Revision of the creation.
    pub create_revision: i64,
    /// Number of writes since the creation, starting at 1.
    pub version: i64,
    /// The lease that the key is attached to; 0 for none.
    pub lease: i64,
    /// Whether the object has a field that etcd 3.7 does not have, or fields that are not in
    /// ascending order. Clients accept both; no known server sends them.
    pub is_irregular: bool,
}

/// Reads a varint; returns `Ok(None)` if the input ends inside it, and `Err` if it is too long.
#[inline]
fn varint(input: &[u8]) -> Result<Option<(u64, usize)>, BadField> {
    let mut value = 0u64;
    for (i, &byte) in input.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            // The tenth byte may contain only one bit.
            return if i == 9 && byte > 1 {
                Err(BadField::Varint)
            } else {
                Ok(Some((value, i + 1)))
            };
        }
    }
    if input.len() < 10 {
        Ok(None)
    } else {
        Err(BadField::Varint)
    }
}

/// Reads the head of the field at the start of `input`; returns `Ok(None)` if it is incomplete.
#[inline]
pub(super) fn read_field_head(input: &[u8]) -> Result<Option<FieldHead>, BadField> {
    let Some((tag, tag_len)) = varint(input)? else {
        return Ok(None);
    };
    let (field, wire_type) = (tag >> 3, tag & 7);
    let mut head = FieldHead {
        field,
        wire_type,
        value: 0,
        len: tag_len,
        payload_len: 0,
    };
    match wire_type {
        _ if field == 0 => return Err(BadField::WireType { field, wire_type }),
        0 | 2 => {
            let Some((value, len)) = varint(&input[tag_len..])? else {
                return Ok(None);
            };
            head.len += len;
            if wire_type == 0 {
                head.value = value;
            } else {
                head.payload_len = value;
            }
        }
        1 => head.payload_len = 8,
        5 => head.payload_len = 4,
        _ => return Err(BadField::WireType { field, wire_type }),
    }
    Ok(Some(head))
}

/// Reads the field at the start of a complete message; returns its head and payload, or `None` if
/// it is malformed.
///
/// Always inlined: the compiler's own decision depends on the rest of the program, and without
/// inlining validation costs a sixth more.
#[inline(always)]
pub(in crate::client) fn next_field<'a>(message: &mut &'a [u8]) -> Option<(FieldHead, &'a [u8])> {
    let head = read_field_head(message).ok()??;
    let rest = &message[head.len..];
    let len = usize::try_from(head.payload_len).ok()?;
    let payload = rest.get(..len)?;
    *message = &rest[len..];
    Some((head, payload))
}

/// Parses a `KeyValue`; returns `None` if it is malformed or has no key.
// A list calls it for each object; apart, it is 66 more instructions of some 800.
#[inline(always)]
pub(in crate::client) fn parse_object(mut message: &[u8]) -> Option<Object<'_>> {
    let mut object = Object {
        key: &[],
        value: &[],
        mod_revision: 0,
        create_revision: 0,
        version: 0,
        lease: 0,
        is_irregular: false,
    };
    let mut last_field = 0;
    while !message.is_empty() {
        let (head, payload) = next_field(&mut message)?;
        match (head.field, head.wire_type) {
            (1, 2) => object.key = payload,
            (5, 2) => object.value = payload,
            (2, 0) => object.create_revision = head.value.cast_signed(),
            (3, 0) => object.mod_revision = head.value.cast_signed(),
            (4, 0) => object.version = head.value.cast_signed(),
            (6, 0) => object.lease = head.value.cast_signed(),
            (1..=6, _) => return None,
            _ => object.is_irregular = true,
        }
        object.is_irregular |= head.field <= last_field;
        last_field = head.field;
    }
    (!object.key.is_empty()).then_some(object)
}

/// Parses a `ResponseHeader` (missing fields are 0). Also returns whether it is irregular in the
/// sense of [`Object`]. Returns `None` if it is malformed.
pub(in crate::client) fn parse_header(mut message: &[u8]) -> Option<(Header, bool)> {
    let mut header = Header::default();
    let (mut is_irregular, mut last_field) = (false, 0);
    while !message.is_empty() {
        let (head, _) = next_field(&mut message)?;
        match (head.field, head.wire_type) {
            (1, 0) => header.cluster_id = head.value,
            (2, 0) => header.member_id = head.value,
            (3, 0) => header.revision = head.value.cast_signed(),
            (4, 0) => header.raft_term = head.value,
            _ => is_irregular = true,
        }
        is_irregular |= head.field <= last_field;
        last_field = head.field;
    }
    Some((header, is_irregular))
}

/// The `ResponseHeader` of a response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Header {
    /// Id of the cluster.
    pub cluster_id: u64,
    /// Id of the member that sent the response.
    pub member_id: u64,
    /// The store's revision.
    pub revision: i64,
    /// The member's raft term.
    pub raft_term: u64,
}

/// Iterates over consecutive encoded objects (whole `RangeResponse.kvs` fields), as in
/// [`ListBatch::Objects`](crate::kubernetes::ListBatch::Objects). Yields each object with its whole
/// record (including tag and length). Malformed bytes yield `None` once and end the iteration.
pub(crate) fn objects(records: &[u8]) -> impl Iterator<Item = Option<(Object<'_>, &[u8])>> {
    let mut rest = records;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let whole = rest;
        let parsed = next_field(&mut rest).and_then(|(head, payload)| {
            ((head.field, head.wire_type) == (2, 2))
                .then(|| parse_object(payload))
                .flatten()
        });
        match parsed {
            Some(object) => Some(Some((object, &whole[..whole.len() - rest.len()]))),
            None => {
                rest = &[];
                Some(None)
            }
        }
    })
}
