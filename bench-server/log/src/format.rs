//! The bytes of file headers and records. `docs/durability.md` has the layout as tables.

use crc32c::{crc32c, crc32c_append};

/// Maximum bytes of a record's payload. A larger length is rejected as invalid.
pub const MAX_PAYLOAD_BYTES: usize = 1 << 30;

/// First bytes of every file; the last byte is the version of the format.
const MAGIC: [u8; 8] = *b"benchlg1";
pub(crate) const FILE_HEADER_BYTES: usize = 64;
pub(crate) const RECORD_HEADER_BYTES: usize = 20;
/// Records begin at multiples of this, so that the end of a sector never splits a length field.
const ALIGNMENT: usize = 8;

const SNAPSHOT: u32 = 1;
const PREVIOUS_SYNCED: u32 = 2;

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Segment,
    Snapshot,
}

/// The first 64 bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileHeader {
    pub(crate) kind: Kind,
    /// The number of a segment, or for a snapshot the number of the first segment that it does not
    /// replace.
    pub(crate) number: u64,
    /// Random and different in every file, so that earlier contents of its blocks never verify.
    pub(crate) salt: u64,
    /// The chain of checksums at the end of the previous segment.
    pub(crate) previous: u32,
    /// Whether everything before this file was durable when the file was created.
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

    /// Parses a header. Returns the reason if the bytes are not a header.
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

    /// Returns the start of the chain of checksums: the header's own checksum.
    pub(crate) fn chain(self) -> u32 {
        u32_at(&self.to_bytes(), 60)
    }

    pub(crate) fn salted(self) -> SaltedCrc {
        SaltedCrc(crc32c(&self.salt.to_le_bytes()))
    }
}

/// Computes the checksums of one file, all of which begin with its salt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SaltedCrc(u32);

/// The header of a record: the 20 bytes before the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    /// Length of the payload, bytes.
    pub(crate) length: u32,
    /// The chain before this record: the checksum of the previous header.
    pub(crate) previous: u32,
    /// The offset in this file below which everything was durable when this record was written.
    pub(crate) synced: u32,
    /// Checksum of the payload.
    pub(crate) payload: u32,
    /// Checksum of the fields above, and thereby of the record: the chain after it.
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

    /// Parses a header at the start of `bytes`; `None` if its checksum is wrong.
    pub(crate) fn parse(bytes: &[u8], salted: SaltedCrc) -> Option<Self> {
        let bytes = bytes.first_chunk::<RECORD_HEADER_BYTES>()?;
        let header = Self {
            length: u32_at(bytes, 0),
            previous: u32_at(bytes, 4),
            synced: u32_at(bytes, 8),
            payload: u32_at(bytes, 12),
            chain: u32_at(bytes, 16),
        };
        // The cheapest check comes first, because a search for headers checks every offset.
        let believed = header.length as usize <= MAX_PAYLOAD_BYTES;
        (believed && crc32c_append(salted.0, &bytes[..16]) == header.chain).then_some(header)
    }

    /// Returns whether `payload` has the checksum of the written payload.
    pub(crate) fn verifies(&self, payload: &[u8], salted: SaltedCrc) -> bool {
        crc32c_append(salted.0, payload) == self.payload
    }

    /// Returns the bytes from the start of the record to the start of the next one.
    pub(crate) fn record_bytes(&self) -> u64 {
        record_bytes(self.length as usize)
    }
}

/// Returns the bytes of a record in a file: header, payload, and zeros up to a multiple of eight.
pub(crate) fn record_bytes(payload: usize) -> u64 {
    // The length of the file header is a multiple of eight, too.
    (RECORD_HEADER_BYTES + payload).next_multiple_of(ALIGNMENT) as u64
}

/// Returns the first offset at or after `at` at which a record may begin.
pub(crate) fn aligned(at: u64) -> u64 {
    at.next_multiple_of(ALIGNMENT as u64)
}

/// Appends a record; returns the chain after it.
pub(crate) fn put_record(
    out: &mut Vec<u8>,
    salted: SaltedCrc,
    previous: u32,
    synced: u64,
    payload: &[u8],
) -> u32 {
    let mut header = RecordHeader {
        length: u32::try_from(payload.len()).expect("payloads are limited"),
        previous,
        // Only snapshots can exceed 4 GiB, and a snapshot is synced only when it is complete.
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
