//! File headers and records as bytes. `docs/durability.md` has the layout as tables.

use crc32c::{crc32c, crc32c_append};

/// Most bytes of a record's payload: a length above it is not believed.
pub const MAX_PAYLOAD_BYTES: usize = 1 << 30;

/// First bytes of every file; the last of them is the version of the format.
const MAGIC: [u8; 8] = *b"benchlg1";
pub(crate) const FILE_HEADER_BYTES: usize = 64;
pub(crate) const RECORD_HEADER_BYTES: usize = 20;
/// Records begin at multiples of this, so that no length is ever cut by a sector's end.
const ALIGNMENT: usize = 8;

const SNAPSHOT: u32 = 1;
const PREVIOUS_SYNCED: u32 = 2;

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Segment,
    Snapshot,
}

/// The first 64 bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileHeader {
    pub(crate) kind: Kind,
    /// Of a segment its place; of a snapshot that of the first segment that it does not stand for.
    pub(crate) number: u64,
    /// Different in every file: what stood in its blocks before never verifies.
    pub(crate) salt: u64,
    /// Where the chain of checksums stood at the end of the segment before.
    pub(crate) previous: u32,
    /// Whether everything before this file was durable when it was made.
    pub(crate) previous_synced: bool,
}

impl FileHeader {
    pub(crate) fn to_bytes(self) -> [u8; FILE_HEADER_BYTES] {
        let snapshot = match self.kind {
            Kind::Segment => 0,
            Kind::Snapshot => SNAPSHOT,
        };
        let flags = snapshot
            | if self.previous_synced {
                PREVIOUS_SYNCED
            } else {
                0
            };
        let mut bytes = [0; FILE_HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.salt.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.previous.to_le_bytes());
        bytes[28..32].copy_from_slice(&flags.to_le_bytes());
        let crc = crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads a header; the reason why the bytes are none.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        if bytes.len() < FILE_HEADER_BYTES {
            return Err("the file is shorter than its header of 64 bytes");
        }
        if bytes[..8] != MAGIC {
            return Err("the file does not begin with `benchlg1`");
        }
        if crc32c(&bytes[..60]) != u32_at(bytes, 60) {
            return Err("the header's checksum is wrong");
        }
        let flags = u32_at(bytes, 28);
        Ok(Self {
            kind: match flags & SNAPSHOT {
                0 => Kind::Segment,
                _ => Kind::Snapshot,
            },
            number: u64_at(bytes, 8),
            salt: u64_at(bytes, 16),
            previous: u32_at(bytes, 24),
            previous_synced: flags & PREVIOUS_SYNCED != 0,
        })
    }

    /// Returns where the chain of checksums begins: the header's own checksum.
    pub(crate) fn chain(self) -> u32 {
        u32_at(&self.to_bytes(), 60)
    }

    pub(crate) fn salted(self) -> Salted {
        Salted(crc32c(&self.salt.to_le_bytes()))
    }
}

/// Checksums of one file: all begin with its salt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Salted(u32);

/// The 20 bytes before a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    /// Bytes of the payload.
    pub(crate) length: u32,
    /// Where the chain stood before this record: the checksum of the header before.
    pub(crate) previous: u32,
    /// Offset in this file below which everything was durable when this record was written.
    pub(crate) synced: u32,
    /// Checksum of the payload.
    pub(crate) payload: u32,
    /// Checksum of the fields above, and so of the record: where the chain stands after it.
    pub(crate) chain: u32,
}

impl RecordHeader {
    fn fields(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        for (at, field) in [self.length, self.previous, self.synced, self.payload]
            .into_iter()
            .enumerate()
        {
            bytes[4 * at..4 * at + 4].copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }

    /// Reads a header whose checksum is right, at the beginning of `bytes`.
    pub(crate) fn parse(bytes: &[u8], salted: Salted) -> Option<Self> {
        let bytes = bytes.first_chunk::<RECORD_HEADER_BYTES>()?;
        let header = Self {
            length: u32_at(bytes, 0),
            previous: u32_at(bytes, 4),
            synced: u32_at(bytes, 8),
            payload: u32_at(bytes, 12),
            chain: u32_at(bytes, 16),
        };
        // The cheapest question first: a search for headers asks it everywhere.
        let believed = header.length as usize <= MAX_PAYLOAD_BYTES;
        (believed && crc32c_append(salted.0, &bytes[..16]) == header.chain).then_some(header)
    }

    /// Returns whether these bytes are the payload that was written.
    pub(crate) fn verifies(&self, payload: &[u8], salted: Salted) -> bool {
        crc32c_append(salted.0, payload) == self.payload
    }

    /// Returns the bytes from the record's begin to the next one's.
    pub(crate) fn record_bytes(&self) -> u64 {
        record_bytes(self.length as usize)
    }
}

/// Returns the bytes that a record takes in a file: header, payload, and zeros up to a multiple of
/// eight.
pub(crate) fn record_bytes(payload: usize) -> u64 {
    // The file header is a multiple of eight, too.
    (RECORD_HEADER_BYTES + payload).next_multiple_of(ALIGNMENT) as u64
}

/// Returns the offset at which a record may begin, at or after `at`.
pub(crate) fn aligned(at: u64) -> u64 {
    at.next_multiple_of(ALIGNMENT as u64)
}

/// Appends a record and returns where the chain stands then.
pub(crate) fn put_record(
    out: &mut Vec<u8>,
    salted: Salted,
    previous: u32,
    synced: u64,
    payload: &[u8],
) -> u32 {
    let mut header = RecordHeader {
        length: u32::try_from(payload.len()).expect("payloads are limited"),
        previous,
        // Only snapshots are longer, and nothing in them is synced before the whole.
        synced: u32::try_from(synced).unwrap_or(0),
        payload: crc32c_append(salted.0, payload),
        chain: 0,
    };
    let fields = header.fields();
    header.chain = crc32c_append(salted.0, &fields);
    out.extend_from_slice(&fields);
    out.extend_from_slice(&header.chain.to_le_bytes());
    out.extend_from_slice(payload);
    out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
    header.chain
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
