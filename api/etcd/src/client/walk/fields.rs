//! Protobuf fields read in place: heads, `KeyValue`s, response headers.

/// A field's head.
#[derive(Debug, Clone, Copy)]
pub(in crate::client) struct Scan {
    pub(in crate::client) field: u64,
    pub(in crate::client) wire_type: u64,
    /// The value of a varint field, else 0.
    pub(in crate::client) value: u64,
    /// Bytes of tag and length (of tag and value, for a varint).
    pub(super) head: usize,
    /// Bytes that follow the head.
    pub(super) payload: u64,
}

impl Scan {
    /// Length of the whole field; only asked for once it is known to fit into its message, whose
    /// length is a u32.
    pub(super) fn total(&self) -> usize {
        self.head + self.payload as usize
    }
}

/// Why a head cannot be read, however many bytes follow.
#[derive(Debug, Clone, Copy)]
pub(super) enum BadField {
    Varint,
    WireType { field: u64, wire_type: u64 },
}

/// One object of a list, borrowed from the bytes that came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Object<'a> {
    /// Key, never empty.
    pub key: &'a [u8],
    /// Value.
    pub value: &'a [u8],
    /// Revision of its last change.
    pub mod_revision: i64,
    /// Revision of its creation.
    pub create_revision: i64,
    /// Writes since then, the first included.
    pub version: i64,
    /// The lease that it is bound to, or 0.
    pub lease: i64,
    /// Whether it has a field that etcd 3.7 does not know, or fields in another order than encoders write them: nothing of
    /// that changes what it means to a client, and no server has a reason for it.
    pub is_irregular: bool,
}

/// Reads a varint: `Ok(None)` when the input ends inside it, `Err` when it is too long.
#[inline]
fn varint(input: &[u8]) -> Result<Option<(u64, usize)>, BadField> {
    let mut value = 0u64;
    for (i, &byte) in input.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            // The tenth byte holds one bit.
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

/// Reads the head of the field at the start of `input`; `Ok(None)` when it is incomplete.
#[inline]
pub(super) fn scan_field(input: &[u8]) -> Result<Option<Scan>, BadField> {
    let Some((tag, tag_len)) = varint(input)? else {
        return Ok(None);
    };
    let (field, wire_type) = (tag >> 3, tag & 7);
    let mut scan = Scan {
        field,
        wire_type,
        value: 0,
        head: tag_len,
        payload: 0,
    };
    match wire_type {
        _ if field == 0 => return Err(BadField::WireType { field, wire_type }),
        0 | 2 => {
            let Some((value, len)) = varint(&input[tag_len..])? else {
                return Ok(None);
            };
            scan.head += len;
            if wire_type == 0 {
                scan.value = value;
            } else {
                scan.payload = value;
            }
        }
        1 => scan.payload = 8,
        5 => scan.payload = 4,
        _ => return Err(BadField::WireType { field, wire_type }),
    }
    Ok(Some(scan))
}

/// The field at the start of a complete message, and its payload; `None` when it does not fit.
///
/// Always inlined: left to the compiler it is or is not, by what else is in the program, and a walk costs a sixth more where it is not.
#[inline(always)]
pub(in crate::client) fn next_field<'a>(message: &mut &'a [u8]) -> Option<(Scan, &'a [u8])> {
    let scan = scan_field(message).ok()??;
    let rest = &message[scan.head..];
    let len = usize::try_from(scan.payload).ok()?;
    let payload = rest.get(..len)?;
    *message = &rest[len..];
    Some((scan, payload))
}

/// Reads a `KeyValue`; `None` when it is malformed or has no key.
#[inline]
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
        let (scan, payload) = next_field(&mut message)?;
        match (scan.field, scan.wire_type) {
            (1, 2) => object.key = payload,
            (5, 2) => object.value = payload,
            (2, 0) => object.create_revision = scan.value.cast_signed(),
            (3, 0) => object.mod_revision = scan.value.cast_signed(),
            (4, 0) => object.version = scan.value.cast_signed(),
            (6, 0) => object.lease = scan.value.cast_signed(),
            (1..=6, _) => return None,
            _ => object.is_irregular = true,
        }
        object.is_irregular |= scan.field <= last_field;
        last_field = scan.field;
    }
    (!object.key.is_empty()).then_some(object)
}

/// A `ResponseHeader` (zeros for what it has not), and whether it is irregular as an [`Object`] may be; `None` when it is
/// malformed.
pub(in crate::client) fn parse_header(mut message: &[u8]) -> Option<(Header, bool)> {
    let mut header = Header::default();
    let (mut is_irregular, mut last_field) = (false, 0);
    while !message.is_empty() {
        let (scan, _) = next_field(&mut message)?;
        match (scan.field, scan.wire_type) {
            (1, 0) => header.cluster_id = scan.value,
            (2, 0) => header.member_id = scan.value,
            (3, 0) => header.revision = scan.value.cast_signed(),
            (4, 0) => header.raft_term = scan.value,
            _ => is_irregular = true,
        }
        is_irregular |= scan.field <= last_field;
        last_field = scan.field;
    }
    Some((header, is_irregular))
}

/// What a response says about the server that sent it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Header {
    /// Of the cluster.
    pub cluster_id: u64,
    /// Of its member.
    pub member_id: u64,
    /// The store's revision.
    pub revision: i64,
    /// The member's raft term.
    pub raft_term: u64,
}

/// Walks a run of encoded objects (`RangeResponse.kvs` fields, whole ones only), as
/// [`ListBatch::Objects`](crate::kubernetes::ListBatch::Objects) holds them. Yields each object
/// with its whole record (tag and length included); ends early with `None` for malformed bytes.
pub(crate) fn objects(run: &[u8]) -> impl Iterator<Item = Option<(Object<'_>, &[u8])>> {
    let mut rest = run;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let whole = rest;
        let parsed = next_field(&mut rest).and_then(|(scan, payload)| {
            ((scan.field, scan.wire_type) == (2, 2))
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
