//! HPACK (RFC 7541): encodes the header blocks of requests and decodes those of responses.

use std::collections::VecDeque;

use super::huffman;
use crate::client::pipelined::Rpc;

/// Overhead of a table entry, bytes (RFC 7541, section 4.1).
const ENTRY_BYTES: usize = 32;

/// Default size of the dynamic table, bytes.
pub(super) const DEFAULT_TABLE_BYTES: usize = 4096;

/// Index of the newest entry of the dynamic table.
const DYNAMIC: usize = STATIC.len() + 1;

const METHOD_POST: u8 = 3;
const NAME_AUTHORITY: u8 = 1;
const NAME_PATH: u8 = 4;
const SCHEME_HTTP: u8 = 6;
const SCHEME_HTTPS: u8 = 7;
const NAME_CONTENT_TYPE: u8 = 31;
const INDEXED: u8 = 0x80;
const WITH_INDEXING: u8 = 0x40;

/// The static table (RFC 7541, appendix A).
#[rustfmt::skip]
const STATIC: [(&str, &str); 61] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"),
    (":path", "/index.html"), (":scheme", "http"), (":scheme", "https"), (":status", "200"),
    (":status", "204"), (":status", "206"), (":status", "304"), (":status", "400"),
    (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""),
    ("accept", ""), ("access-control-allow-origin", ""), ("age", ""), ("allow", ""),
    ("authorization", ""), ("cache-control", ""), ("content-disposition", ""),
    ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""),
    ("date", ""), ("etag", ""), ("expect", ""), ("expires", ""), ("from", ""), ("host", ""),
    ("if-match", ""), ("if-modified-since", ""), ("if-none-match", ""), ("if-range", ""),
    ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""), ("location", ""),
    ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""),
    ("via", ""), ("www-authenticate", ""),
];

/// Encodes the headers of requests. Each value is sent once and referenced by its index afterwards.
/// There are so few values that the table never evicts one.
#[derive(Debug)]
pub(super) struct Encoder {
    scheme: u8,
    authority: String,
    token: Option<Vec<u8>>,
    /// Paths in the table, each with the number of entries that precede it.
    paths: Vec<(Rpc, usize)>,
    /// Number of entries in the table.
    entries: usize,
    /// Number of entries that precede the headers common to all requests, once these are in the
    /// table.
    common: Option<usize>,
}

impl Encoder {
    pub(super) fn new(tls: bool, authority: &str, token: Option<&[u8]>) -> Self {
        Self {
            scheme: if tls { SCHEME_HTTPS } else { SCHEME_HTTP },
            authority: authority.to_owned(),
            token: token.map(<[u8]>::to_vec),
            paths: Vec::new(),
            entries: 0,
            common: None,
        }
    }

    /// Returns an upper bound for the table size that all entries need together, bytes.
    pub(super) fn table_bytes(&self) -> usize {
        let fixed = self.authority.len() + self.token.as_ref().map_or(0, Vec::len);
        // Names, values and eight paths, each shorter than 40 bytes.
        fixed + 12 * (ENTRY_BYTES + 40)
    }

    /// Appends the header block of one request.
    pub(super) fn write(&mut self, rpc: Rpc, out: &mut Vec<u8>) {
        out.extend_from_slice(&[INDEXED | METHOD_POST, INDEXED | self.scheme]);
        match self.paths.iter().find(|(known, _)| *known == rpc) {
            Some(&(_, before)) => self.index(before, out),
            None => {
                self.paths.push((rpc, self.entries));
                self.entries += 1;
                out.push(WITH_INDEXING | NAME_PATH);
                string(rpc.path().as_bytes(), out);
            }
        }
        let with_token = usize::from(self.token.is_some());
        if let Some(before) = self.common {
            for entry in before..before + 3 + with_token {
                self.index(entry, out);
            }
            return;
        }
        self.common = Some(self.entries);
        self.entries += 3 + with_token;
        out.push(WITH_INDEXING | NAME_AUTHORITY);
        string(self.authority.as_bytes(), out);
        out.push(WITH_INDEXING | NAME_CONTENT_TYPE);
        string(b"application/grpc", out);
        out.push(WITH_INDEXING);
        string(b"te", out);
        string(b"trailers", out);
        if let Some(token) = &self.token {
            out.push(WITH_INDEXING);
            string(b"token", out);
            string(token, out);
        }
    }

    /// Appends the index of the entry that `before` entries precede.
    fn index(&self, before: usize, out: &mut Vec<u8>) {
        // The newest entry has the lowest index; all indexes fit into one byte.
        out.push(INDEXED | (DYNAMIC + self.entries - 1 - before) as u8);
    }
}

/// Appends a string without Huffman coding, because each is sent only once.
fn string(text: &[u8], out: &mut Vec<u8>) {
    if text.len() < 0x7f {
        out.push(text.len() as u8);
    } else {
        out.push(0x7f);
        let mut rest = text.len() - 0x7f;
        while rest >= 0x80 {
            out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
    }
    out.extend_from_slice(text);
}

/// The error for a malformed header block. It ends the connection, because the tables of both sides
/// may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("header block is malformed ({0})")]
pub(super) struct Malformed(&'static str);

/// Decodes the headers of responses.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// The dynamic table, newest entry first.
    table: VecDeque<(Vec<u8>, Vec<u8>)>,
    table_bytes: usize,
    /// Number of bytes by which the peer has made the table smaller than [`DEFAULT_TABLE_BYTES`].
    unused_bytes: usize,
}

impl Decoder {
    /// Calls `field` with the name and value of each field of a block.
    pub(super) fn read(
        &mut self,
        mut block: &[u8],
        mut field: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Malformed> {
        while let [first, ..] = *block {
            if first & INDEXED != 0 {
                let index = integer(&mut block, 7)?;
                let (name, value) = self.entry(index)?;
                field(name, value);
            } else if first & 0xe0 == 0x20 {
                let bytes = integer(&mut block, 5)?;
                self.unused_bytes = DEFAULT_TABLE_BYTES
                    .checked_sub(bytes)
                    .ok_or(Malformed("table larger than allowed"))?;
                self.evict();
            } else {
                let with_indexing = first & WITH_INDEXING != 0;
                let name = match integer(&mut block, if with_indexing { 6 } else { 4 })? {
                    0 => read_string(&mut block)?,
                    index => self.entry(index)?.0.to_vec(),
                };
                let value = read_string(&mut block)?;
                field(&name, &value);
                if with_indexing {
                    self.table_bytes += ENTRY_BYTES + name.len() + value.len();
                    self.table.push_front((name, value));
                    self.evict();
                }
            }
        }
        Ok(())
    }

    fn entry(&self, index: usize) -> Result<(&[u8], &[u8]), Malformed> {
        let missing = Malformed("index without an entry");
        if let Some(dynamic) = index.checked_sub(DYNAMIC) {
            let (name, value) = self.table.get(dynamic).ok_or(missing)?;
            return Ok((name, value));
        }
        let fixed = index.checked_sub(1).and_then(|i| STATIC.get(i));
        fixed
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
            .ok_or(missing)
    }

    fn evict(&mut self) {
        while self.table_bytes > DEFAULT_TABLE_BYTES - self.unused_bytes {
            let Some((name, value)) = self.table.pop_back() else {
                unreachable!("an empty table takes no bytes");
            };
            self.table_bytes -= ENTRY_BYTES + name.len() + value.len();
        }
    }
}

/// Reads an integer with a prefix of `bits` bits (RFC 7541, section 5.1).
fn integer(block: &mut &[u8], bits: u32) -> Result<usize, Malformed> {
    let cut = Malformed("cut short");
    let (&first, mut rest) = block.split_first().ok_or(cut)?;
    let most = (1usize << bits) - 1;
    let mut value = usize::from(first) & most;
    if value == most {
        for shift in (0..).step_by(7) {
            let (&byte, tail) = rest.split_first().ok_or(cut)?;
            rest = tail;
            // Valid lengths and indexes are far below 2^28.
            if shift > 21 {
                return Err(Malformed("integer too large"));
            }
            value += usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
    }
    *block = rest;
    Ok(value)
}

fn read_string(block: &mut &[u8]) -> Result<Vec<u8>, Malformed> {
    let coded = block.first().is_some_and(|first| first & 0x80 != 0);
    let len = integer(block, 7)?;
    let (text, rest) = block.split_at_checked(len).ok_or(Malformed("cut short"))?;
    *block = rest;
    if coded {
        huffman::decode(text).ok_or(Malformed("bad Huffman code"))
    } else {
        Ok(text.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<(String, String)>, Malformed> {
        let mut seen = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("ASCII");
        decoder.read(block, |name, value| seen.push((text(name), text(value))))?;
        Ok(seen)
    }

    #[test]
    fn repeated_requests_are_encoded_as_indexes() {
        let token = vec![b't'; 300];
        let mut encoder = Encoder::new(false, "127.0.0.1:2379", Some(&token));
        let mut decoder = Decoder::default();
        for (rpc, most_bytes) in [
            (Rpc::Range, 500),
            (Rpc::Range, 7),
            (Rpc::Put, 40),
            (Rpc::Range, 7),
            (Rpc::Put, 7),
        ] {
            let mut block = Vec::new();
            encoder.write(rpc, &mut block);
            assert!(block.len() <= most_bytes, "{} bytes", block.len());
            let fields = read(&mut decoder, &block).expect("well-formed");
            let find = |name| fields.iter().find(|f| f.0 == name).map(|f| f.1.as_str());
            assert_eq!(find(":method"), Some("POST"));
            assert_eq!(find(":scheme"), Some("http"));
            assert_eq!(find(":path"), Some(rpc.path()));
            assert_eq!(find(":authority"), Some("127.0.0.1:2379"));
            assert_eq!(find("content-type"), Some("application/grpc"));
            assert_eq!(find("te"), Some("trailers"));
            assert_eq!(find("token").map(str::len), Some(300));
        }
        assert!(decoder.table_bytes <= encoder.table_bytes());
    }

    /// RFC 7541, C.6: three responses with a table of 256 bytes, including evictions.
    #[test]
    fn the_rfc_examples_of_responses_are_decoded() {
        let mut decoder = Decoder::default();
        read(&mut decoder, &[0x3f, 0xe1, 0x01]).expect("a table of 256 bytes");
        let first: &[u8] = &[
            0x48, 0x82, 0x64, 0x02, 0x58, 0x85, 0xae, 0xc3, 0x77, 0x1a, 0x4b, 0x61, 0x96, 0xd0,
            0x7a, 0xbe, 0x94, 0x10, 0x54, 0xd4, 0x44, 0xa8, 0x20, 0x05, 0x95, 0x04, 0x0b, 0x81,
            0x66, 0xe0, 0x82, 0xa6, 0x2d, 0x1b, 0xff, 0x6e, 0x91, 0x9d, 0x29, 0xad, 0x17, 0x18,
            0x63, 0xc7, 0x8f, 0x0b, 0x97, 0xc8, 0xe9, 0xae, 0x82, 0xae, 0x43, 0xd3,
        ];
        let seen = read(&mut decoder, first).expect("well-formed");
        assert_eq!(seen[0], (":status".into(), "302".into()));
        assert_eq!(seen[3].1, "https://www.example.com");
        let seen = read(
            &mut decoder,
            &[0x48, 0x83, 0x64, 0x0e, 0xff, 0xc1, 0xc0, 0xbf],
        );
        let seen = seen.expect("well-formed");
        assert_eq!(seen[0], (":status".into(), "307".into()));
        assert_eq!(seen[3].1, "https://www.example.com");
        assert_eq!(decoder.table_bytes, 222, "the first :status was evicted");
    }

    #[test]
    fn malformed_blocks_are_rejected() {
        for block in [
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0x0f][..],
            &[0x80],
            &[INDEXED | 62],
            &[0x40, 0x05, b'a'],
            &[0x3f, 0xff, 0xff, 0x03],
        ] {
            assert!(read(&mut Decoder::default(), block).is_err(), "{block:?}");
        }
    }
}
