//! Compression of watches: each piece is a gzip member of its own, so that a client sees an event when it
//! happens; decoders of gzip read several members as one text.

use std::io::Write;

use bytes::{Buf, Bytes};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::wire::frame::Frame;

/// The piece as a gzip member.
pub(super) fn member(mut frame: Frame) -> Frame {
    let plain = frame.remaining();
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain / 4 + 64), Compression::fast());
    while frame.has_remaining() {
        let chunk = frame.chunk();
        encoder.write_all(chunk).expect("a vector takes everything");
        let length = chunk.len();
        frame.advance(length);
    }
    let member = encoder.finish().expect("a vector takes everything");
    Frame::from(Bytes::from(member))
}
