//! Compresses watches. Each chunk of the body ends a gzip member, so that a client sees an event
//! when it happens. Decoders read several members as one text.
//!
//! Go's decoder returns the end of a member only after it has read the header of the next one. Each
//! chunk therefore includes the header of the next member, and the body ends with an empty member.

use std::io::Write;

use bytes::{Buf, Bytes};
use flate2::Compression;
use flate2::write::GzEncoder;
use wire::frame::Frame;

/// The number of bytes before the compressed data of a member without name, comment or extra field.
const HEADER: usize = 10;

/// The gzip members of one body.
#[derive(Debug, Default)]
pub(super) struct GzipMembers {
    /// Whether the header of the next member has been sent.
    begun: bool,
}

impl GzipMembers {
    /// Returns the chunk as a member, followed by the header of the next one.
    pub(super) fn piece(&mut self, mut frame: Frame) -> Frame {
        let plain = frame.remaining();
        let room = Vec::with_capacity(plain / 4 + 64);
        let mut encoder = GzEncoder::new(room, Compression::fast());
        while frame.has_remaining() {
            let chunk = frame.chunk();
            encoder
                .write_all(chunk)
                .expect("writing to a vector cannot fail");
            let length = chunk.len();
            frame.advance(length);
        }
        let mut out = encoder.finish().expect("writing to a vector cannot fail");
        out.extend_from_within(..HEADER);
        let sent = if self.begun { HEADER } else { 0 };
        self.begun = true;
        Frame::from(Bytes::from(out).slice(sent..))
    }

    /// Returns the rest of the last member. `None` if no member has begun, or if the rest has been
    /// returned already.
    pub(super) fn end(&mut self) -> Option<Frame> {
        let begun = std::mem::take(&mut self.begun);
        begun.then(|| {
            let empty = GzEncoder::new(Vec::new(), Compression::fast());
            let member = empty.finish().expect("writing to a vector cannot fail");
            Frame::from(Bytes::from(member).slice(HEADER..))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::MultiGzDecoder;

    use super::*;

    fn bytes(mut frame: Frame) -> Vec<u8> {
        frame.copy_to_bytes(frame.remaining()).to_vec()
    }

    #[test]
    fn each_piece_is_read_when_it_arrives_and_the_whole_is_gzip() {
        let mut members = GzipMembers::default();
        let mut sent = Vec::new();
        for so_far in ["one\n", "one\ntwo\n"] {
            let piece = Frame::from(Bytes::from(so_far[so_far.len() - 4..].to_owned()));
            sent.extend(bytes(members.piece(piece)));
            let mut read = vec![0; so_far.len()];
            let mut decoder = MultiGzDecoder::new(&sent[..]);
            decoder.read_exact(&mut read).expect("all of it is there");
            assert_eq!(read, so_far.as_bytes());
            let header = &sent[sent.len() - HEADER..];
            assert!(
                header.starts_with(&[0x1f, 0x8b, 8, 0]),
                "the next one's header"
            );
        }
        sent.extend(bytes(members.end().expect("a member was begun")));
        assert!(members.end().is_none());
        let mut text = String::new();
        let mut decoder = MultiGzDecoder::new(&sent[..]);
        decoder.read_to_string(&mut text).expect("whole members");
        assert_eq!(text, "one\ntwo\n");
    }
}
