//! Tracks the position of a connection's output and input within their HTTP/2 frames.

/// Length of a frame header, bytes: length (3), type, flags, stream (4). RFC 9113, section 4.1.
const HEADER_BYTES: usize = 9;

/// Types of frames. RFC 9113, section 6.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PUSH_PROMISE: u8 = 5;
const CONTINUATION: u8 = 9;

/// The flag of the frame that ends a head. RFC 9113, section 6.2.
const END_HEADERS: u8 = 4;

/// The first bytes of a client that uses HTTP/2. RFC 9113, section 3.4.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The protocol and position of a connection's output.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Output {
    /// Nothing was written yet.
    #[default]
    Unknown,
    /// HTTP/2, with the position between two frames or within one.
    Http2(Position),
    /// HTTP/1.1, recognized by the first byte: its responses begin with a letter, whereas HTTP/2's
    /// first frame, SETTINGS, begins with a zero.
    Http1,
}

/// A position in a sequence of HTTP/2 frames.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Position {
    header: [u8; HEADER_BYTES],
    /// Bytes of the header that were read.
    seen: usize,
    /// Remaining bytes of the frame, once its header was read.
    left: usize,
}

impl Output {
    /// Advances by `bytes`. O(number of frames that begin in them).
    pub(super) fn advance(&mut self, bytes: &[u8]) {
        if let Self::Unknown = self
            && let Some(first) = bytes.first()
        {
            *self = match first.is_ascii_alphabetic() {
                true => Self::Http1,
                false => Self::Http2(Position::default()),
            };
        }
        if let Self::Http2(position) = self {
            position.advance(bytes, |_, _| {});
        }
    }

    /// Returns the remaining bytes of the current DATA frame; 0 at the end of a frame and within
    /// other frames.
    pub(super) fn left_of_data(&self) -> usize {
        match self {
            Self::Http2(position) if position.header[3] == DATA => position.left,
            _ => 0,
        }
    }

    /// Advances by `count` bytes of the current DATA frame, at most [`Self::left_of_data`].
    pub(super) fn skip_data(&mut self, count: usize) {
        if let Self::Http2(position) = self {
            position.left = position.left.saturating_sub(count);
        }
    }
}

/// The protocol and position of a connection's input.
#[derive(Debug, Clone, Copy)]
pub(super) enum Input {
    /// So many bytes of HTTP/2's preface were read.
    Preface(usize),
    /// HTTP/2: the position, and the size of the head that is being read, bytes.
    Http2(Position, usize),
    /// Another protocol.
    Other,
}

impl Default for Input {
    fn default() -> Self {
        Self::Preface(0)
    }
}

impl Input {
    /// Advances by `bytes`. O(number of frames that begin in them).
    pub(super) fn advance(&mut self, mut bytes: &[u8]) {
        if let Self::Preface(read) = *self {
            let count = (PREFACE.len() - read).min(bytes.len());
            let (preface, rest) = bytes.split_at(count);
            bytes = rest;
            *self = match PREFACE[read..].starts_with(preface) {
                false => Self::Other,
                true if read + count == PREFACE.len() => Self::Http2(Position::default(), 0),
                true => Self::Preface(read + count),
            };
        }
        if let Self::Http2(position, head) = self {
            position.advance(bytes, |frame, count| {
                // h2 reads the head of a PUSH_PROMISE before it rejects it.
                if let HEADERS | PUSH_PROMISE | CONTINUATION = frame.header[3] {
                    *head += count;
                    if frame.left == 0 && frame.header[4] & END_HEADERS != 0 {
                        *head = 0;
                    }
                }
            });
        }
    }

    /// Returns the size of the head that is being read, bytes: frame headers, and all fragments so
    /// far. It is 0 between heads.
    pub(super) fn unfinished_head_bytes(&self) -> usize {
        match self {
            Self::Http2(_, head) => *head,
            _ => 0,
        }
    }
}

impl Position {
    /// Advances by `bytes`. Calls `passed` for each header of a frame and each part of its content
    /// in them, with the position behind it and its size.
    fn advance(&mut self, mut bytes: &[u8], mut passed: impl FnMut(&Self, usize)) {
        while !bytes.is_empty() {
            if self.left > 0 {
                let count = self.left.min(bytes.len());
                self.left -= count;
                bytes = &bytes[count..];
                passed(self, count);
                continue;
            }
            let count = (HEADER_BYTES - self.seen).min(bytes.len());
            self.header[self.seen..self.seen + count].copy_from_slice(&bytes[..count]);
            self.seen += count;
            bytes = &bytes[count..];
            if self.seen == HEADER_BYTES {
                let [high, middle, low, ..] = self.header;
                self.seen = 0;
                self.left = u32::from_be_bytes([0, high, middle, low]) as usize;
                passed(self, HEADER_BYTES);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SETTINGS without entries, DATA of 300 bytes, a HEADERS frame of 5.
    fn frames() -> Vec<u8> {
        let mut bytes = vec![0, 0, 0, 4, 0, 0, 0, 0, 0];
        bytes.extend([0, 1, 44, 0, 0, 0, 0, 0, 1]);
        bytes.extend([7; 300]);
        bytes.extend([0, 0, 5, 1, 5, 0, 0, 0, 1, 1, 2, 3, 4, 5]);
        bytes
    }

    #[test]
    fn the_rest_of_a_data_frame_does_not_depend_on_chunking() {
        let bytes = frames();
        for step in [1, 2, 7, 9, 100, 1000] {
            let mut output = Output::default();
            let mut at = 0;
            for part in bytes.chunks(step) {
                output.advance(part);
                at += part.len();
                let expected = if (18..318).contains(&at) { 318 - at } else { 0 };
                assert_eq!(output.left_of_data(), expected, "behind {at} bytes");
            }
        }
    }

    /// A head of two frames, the second of which ends it, and one in a single frame.
    #[test]
    fn a_head_is_unfinished_until_its_last_fragment() {
        let mut bytes = PREFACE.to_vec();
        bytes.extend(frames());
        let begins = bytes.len();
        bytes.extend([0, 0, 3, HEADERS, 1, 0, 0, 0, 3, 1, 2, 3]);
        bytes.extend([0, 0, 2, CONTINUATION, END_HEADERS, 0, 0, 0, 3, 4, 5]);
        let ends = bytes.len();
        bytes.extend(frames());
        for step in [1, 2, 7, 9, 100, 1000] {
            let mut input = Input::default();
            let mut at = 0;
            let mut largest = 0;
            for part in bytes.chunks(step) {
                input.advance(part);
                at += part.len();
                let head = input.unfinished_head_bytes();
                if (begins + 9..ends).contains(&at) {
                    assert!(head >= 9, "behind {at} bytes");
                }
                largest = largest.max(head);
            }
            assert_eq!(input.unfinished_head_bytes(), 0);
            assert!(largest <= ends - begins);
        }
    }

    #[test]
    fn input_of_http_1_has_no_heads_of_http_2() {
        let mut input = Input::default();
        input.advance(b"PROPFIND / HTTP/1.1\r\n");
        input.advance(&[0, 64, 0, HEADERS, 0, 0, 0, 0, 1]);
        assert_eq!(input.unfinished_head_bytes(), 0);
    }

    #[test]
    fn http_1_has_no_frames() {
        let mut output = Output::default();
        output.advance(b"HTTP/1.1 200 OK\r\n");
        output.advance(&frames());
        assert_eq!(output.left_of_data(), 0);
    }
}
