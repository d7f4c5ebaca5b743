//! Tracks the position of a connection's output within its HTTP/2 frames.

/// Length of a frame header, bytes: length (3), type, flags, stream (4). RFC 9113, section 4.1.
const HEADER_BYTES: usize = 9;

/// The type of DATA frames. RFC 9113, section 6.1.
const DATA: u8 = 0;

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
            position.advance(bytes);
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

impl Position {
    fn advance(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.left > 0 {
                let count = self.left.min(bytes.len());
                self.left -= count;
                bytes = &bytes[count..];
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

    #[test]
    fn http_1_has_no_frames() {
        let mut output = Output::default();
        output.advance(b"HTTP/1.1 200 OK\r\n");
        output.advance(&frames());
        assert_eq!(output.left_of_data(), 0);
    }
}
