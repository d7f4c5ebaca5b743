//! Encodes and decodes HTTP/2 frames (RFC 9113, sections 4 and 6).

/// Length of a frame header, bytes.
pub(super) const FRAME_HEAD_BYTES: usize = 9;

/// Longest accepted header block, bytes.
pub(super) const MAX_HEADER_BLOCK_BYTES: usize = 64 * 1024;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Initial flow-control window of a connection, bytes.
pub(super) const DEFAULT_WINDOW: u32 = 65_535;

const END_STREAM: u8 = 0x1;
const ACK: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH: u8 = 5;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

/// Identifiers of SETTINGS parameters.
pub(super) mod setting {
    pub(in crate::client::pipelined::h2_min) const HEADER_TABLE_SIZE: u16 = 1;
    pub(in crate::client::pipelined::h2_min) const ENABLE_PUSH: u16 = 2;
    pub(in crate::client::pipelined::h2_min) const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub(in crate::client::pipelined::h2_min) const INITIAL_WINDOW_SIZE: u16 = 4;
    pub(in crate::client::pipelined::h2_min) const MAX_FRAME_SIZE: u16 = 5;
}

/// Error code CANCEL (RFC 9113, section 7).
const CANCEL: u32 = 8;

/// The type of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameKind {
    Data,
    Headers,
    Reset,
    Settings,
    Push,
    Ping,
    GoAway,
    WindowUpdate,
    Continuation,
    /// PRIORITY and unknown types, which are ignored.
    Other,
}

/// A frame header.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameHead {
    pub(super) len: usize,
    pub(super) kind: FrameKind,
    flags: u8,
    pub(super) stream: u32,
}

impl FrameHead {
    /// Reads the header at the start of `input`; returns it and the bytes that follow.
    pub(super) fn read(input: &[u8]) -> Option<(Self, &[u8])> {
        let (&[a, b, c, kind, flags, s0, s1, s2, s3], rest) =
            input.split_first_chunk::<FRAME_HEAD_BYTES>()?;
        let head = Self {
            len: u32::from_be_bytes([0, a, b, c]) as usize,
            kind: match kind {
                DATA => FrameKind::Data,
                HEADERS => FrameKind::Headers,
                RESET => FrameKind::Reset,
                SETTINGS => FrameKind::Settings,
                PUSH => FrameKind::Push,
                PING => FrameKind::Ping,
                GO_AWAY => FrameKind::GoAway,
                WINDOW_UPDATE => FrameKind::WindowUpdate,
                CONTINUATION => FrameKind::Continuation,
                _ => FrameKind::Other,
            },
            flags,
            stream: u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]),
        };
        Some((head, rest))
    }

    /// Returns the rule that a frame of this type violates by its stream id or length (RFC 9113,
    /// section 6).
    pub(super) fn violation(self) -> Option<&'static str> {
        let of_connection = match self.kind {
            FrameKind::Data
            | FrameKind::Headers
            | FrameKind::Continuation
            | FrameKind::Reset
            | FrameKind::Push => false,
            FrameKind::Settings | FrameKind::Ping | FrameKind::GoAway => true,
            // WINDOW_UPDATE may have any stream id, and for unknown types there is no rule.
            FrameKind::WindowUpdate | FrameKind::Other => self.stream == 0,
        };
        if of_connection != (self.stream == 0) {
            return Some("a frame on a stream where it has no place");
        }
        let fits = match self.kind {
            FrameKind::Settings if self.is_ack() => self.len == 0,
            FrameKind::Settings => self.len.is_multiple_of(6),
            FrameKind::Ping => self.len == 8,
            FrameKind::WindowUpdate | FrameKind::Reset => self.len == 4,
            FrameKind::GoAway => self.len >= 8,
            _ => true,
        };
        (!fits).then_some("a frame of a length that its kind does not have")
    }

    pub(super) fn ends_stream(self) -> bool {
        self.flags & END_STREAM != 0
    }

    pub(super) fn is_ack(self) -> bool {
        self.flags & ACK != 0
    }

    pub(super) fn ends_block(self) -> bool {
        self.flags & END_HEADERS != 0
    }

    /// Returns the payload without padding; `None` if the padding is longer than the payload.
    pub(super) fn unpadded(self, payload: &[u8]) -> Option<&[u8]> {
        if self.flags & PADDED == 0 {
            return Some(payload);
        }
        let (&padding, rest) = payload.split_first()?;
        rest.get(..rest.len().checked_sub(usize::from(padding))?)
    }

    /// Returns the header block of a HEADERS frame.
    pub(super) fn block(self, payload: &[u8]) -> Option<&[u8]> {
        let block = self.unpadded(payload)?;
        let skip = if self.flags & PRIORITY != 0 { 5 } else { 0 };
        block.get(skip..)
    }
}

/// Reads the 32-bit number at the start of a payload.
pub(super) fn number(payload: &[u8]) -> Option<u32> {
    payload
        .first_chunk()
        .map(|bytes| u32::from_be_bytes(*bytes))
}

/// Returns the parameters of a SETTINGS payload.
pub(super) fn settings(payload: &[u8]) -> impl Iterator<Item = (u16, u32)> {
    let (pairs, _) = payload.as_chunks::<6>();
    pairs
        .iter()
        .map(|&[a, b, c, d, e, f]| (u16::from_be_bytes([a, b]), u32::from_be_bytes([c, d, e, f])))
}

fn head(out: &mut Vec<u8>, len: usize, kind: u8, flags: u8, stream: u32) {
    let [_, a, b, c] = (len as u32).to_be_bytes();
    out.extend_from_slice(&[a, b, c, kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
}

/// Appends the first bytes that a client sends: preface, SETTINGS and the connection's window.
pub(super) fn open(out: &mut Vec<u8>, stream_window: u32, connection_window: u32, frame: u32) {
    out.extend_from_slice(PREFACE);
    let pairs = [
        (setting::ENABLE_PUSH, 0),
        (setting::INITIAL_WINDOW_SIZE, stream_window),
        (setting::MAX_FRAME_SIZE, frame),
    ];
    head(out, pairs.len() * 6, SETTINGS, 0, 0);
    for (name, value) in pairs {
        out.extend_from_slice(&name.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
    if let Some(more @ 1..) = connection_window.checked_sub(DEFAULT_WINDOW) {
        window_update(out, 0, more);
    }
}

pub(super) fn settings_ack(out: &mut Vec<u8>) {
    head(out, 0, SETTINGS, ACK, 0);
}

pub(super) fn pong(out: &mut Vec<u8>, payload: &[u8]) {
    head(out, payload.len(), PING, ACK, 0);
    out.extend_from_slice(payload);
}

pub(super) fn window_update(out: &mut Vec<u8>, stream: u32, credit: u32) {
    head(out, 4, WINDOW_UPDATE, 0, stream);
    out.extend_from_slice(&credit.to_be_bytes());
}

pub(super) fn cancel(out: &mut Vec<u8>, stream: u32) {
    head(out, 4, RESET, 0, stream);
    out.extend_from_slice(&CANCEL.to_be_bytes());
}

/// Appends a HEADERS frame that contains the block that `block` appends.
pub(super) fn headers(out: &mut Vec<u8>, stream: u32, block: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    head(out, 0, HEADERS, END_HEADERS, stream);
    block(out);
    let len = (out.len() - start - FRAME_HEAD_BYTES) as u32;
    out[start..start + 3].copy_from_slice(&len.to_be_bytes()[1..]);
}

/// Appends the header of a DATA frame of `len` bytes.
pub(super) fn data_head(out: &mut Vec<u8>, stream: u32, len: usize, last: bool) {
    head(out, len, DATA, if last { END_STREAM } else { 0 }, stream);
}
