//! Indentation (`pretty`) and compression (`Accept-Encoding: gzip`) of bodies.

use std::io::Write;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderMap;
use http::header::{ACCEPT_ENCODING, USER_AGENT};
use wire::frame::Frame;

use super::negotiation::is_true;
use super::pretty_json::Indenter;
use crate::list::body::ListBody;

/// The size up to which bodies are not compressed.
const COMPRESS_ABOVE_BYTES: usize = 128 * 1024;

/// The clients whose users read the output. They receive indented JSON unless they request
/// otherwise.
const PRETTY_BY_DEFAULT: [&str; 3] = ["curl", "Wget", "Mozilla/5.0"];

/// The encodings of a body that a client requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ContentEncoding {
    /// Whether JSON is indented.
    pub(crate) pretty: bool,
    /// Whether the body is compressed with gzip, if it is large enough.
    pub(crate) gzip: bool,
}

impl ContentEncoding {
    /// Reads the header `Accept-Encoding` and the query parameter `pretty`, or, without that
    /// parameter, the header `User-Agent`.
    pub(crate) fn requested(headers: &HeaderMap, query: &str) -> Self {
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        let pretty = match pairs.find(|(name, value)| name == "pretty" && !value.is_empty()) {
            Some((_, value)) => is_true(&value),
            None => headers
                .get(USER_AGENT)
                .and_then(|agent| agent.to_str().ok())
                .is_some_and(|agent| PRETTY_BY_DEFAULT.iter().any(|name| agent.starts_with(name))),
        };
        Self {
            pretty,
            gzip: accepts_gzip(headers),
        }
    }

    /// Encodes a complete body. Returns the encoded body, and whether it is compressed.
    pub(crate) fn encode(self, mut body: Vec<u8>) -> (Bytes, bool) {
        if self.pretty {
            let mut out = Vec::new();
            Indenter::default().push(&body, &mut out);
            body = out;
        }
        if !self.gzip || body.len() <= COMPRESS_ABOVE_BYTES {
            return (body.into(), false);
        }
        let mut encoder = encoder(body.len() / 4);
        encoder
            .write_all(&body)
            .expect("writing to a vector cannot fail");
        let compressed = encoder.finish().expect("writing to a vector cannot fail");
        (compressed.into(), true)
    }
}

/// Returns whether the client accepts gzip. A weight of 0 refuses it; other weights are ignored.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let mut codings = headers
        .get_all(ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    codings.any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        parts.next() == Some("gzip") && parts.all(|weight| weight.trim_end_matches(".0") != "q=0")
    })
}

/// Returns an encoder with compression level 1, as in kube-apiserver.
fn encoder(expected: usize) -> GzEncoder<Vec<u8>> {
    GzEncoder::new(Vec::with_capacity(expected), Compression::fast())
}

/// A list that is indented, compressed, or both while it is sent.
#[derive(Debug)]
pub struct EncodedList {
    list: ListBody,
    indenter: Option<Indenter>,
    /// The encoder; `None` if the list is not compressed, or its end has been encoded.
    gzip: Option<GzEncoder<Vec<u8>>>,
    /// The first frame, encoded early to decide whether the list is large enough to be compressed.
    first: Option<Frame>,
}

impl EncodedList {
    /// Encodes the first frame, which decides whether the list is compressed: one that fits in 128
    /// KiB is not.
    pub(crate) fn new(mut list: ListBody, content_encoding: ContentEncoding) -> Self {
        let mut indenter = content_encoding.pretty.then(Indenter::default);
        let first = indent(list.next_frame(), indenter.as_mut());
        let size = first.as_ref().map_or(0, Buf::remaining);
        Self {
            gzip: (content_encoding.gzip && size > COMPRESS_ABOVE_BYTES).then(|| encoder(size / 4)),
            list,
            indenter,
            first,
        }
    }

    /// Returns whether the list is compressed.
    pub(crate) fn is_compressed(&self) -> bool {
        self.gzip.is_some()
    }

    /// See [`ListBody::poll_room`].
    pub(crate) fn poll_room(&self, context: &mut Context<'_>) -> Poll<()> {
        match self.first {
            Some(_) => Poll::Ready(()),
            None => self.list.poll_room(context),
        }
    }

    /// Returns the next frame; `None` after the last.
    pub(crate) fn next_frame(&mut self) -> Option<Frame> {
        loop {
            let plain = match self.first.take() {
                Some(first) => Some(first),
                None => indent(self.list.next_frame(), self.indenter.as_mut()),
            };
            let Some(encoder) = &mut self.gzip else {
                return plain;
            };
            let Some(mut plain) = plain else {
                let encoder = self.gzip.take()?;
                let rest = encoder.finish().expect("writing to a vector cannot fail");
                return Some(Frame::from(Bytes::from(rest)));
            };
            while plain.has_remaining() {
                let chunk = plain.chunk();
                encoder
                    .write_all(chunk)
                    .expect("writing to a vector cannot fail");
                let length = chunk.len();
                plain.advance(length);
            }
            // The encoder may retain all of the bytes for now, because they may become part of a
            // match.
            let ready = std::mem::take(encoder.get_mut());
            if !ready.is_empty() {
                return Some(Frame::from(Bytes::from(ready)));
            }
        }
    }
}

fn indent(frame: Option<Frame>, indenter: Option<&mut Indenter>) -> Option<Frame> {
    let mut frame = frame?;
    let Some(indenter) = indenter else {
        return Some(frame);
    };
    let mut out = Vec::new();
    while frame.has_remaining() {
        let chunk = frame.chunk();
        indenter.push(chunk, &mut out);
        let length = chunk.len();
        frame.advance(length);
    }
    Some(Frame::from(Bytes::from(out)))
}
