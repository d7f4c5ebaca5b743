//! gRPC framing for the measured calls: message prefix, request decoding, responses.
//!
//! Follows the gRPC over HTTP/2 protocol description. Errors of sizes and encodings have the texts
//! of grpc-go, which etcd's clients match.

use std::io::Read;

use bytes::{BufMut, Bytes, BytesMut};
use flate2::read::MultiGzDecoder;
use http::{HeaderMap, HeaderValue, Response, header};
use http_body_util::BodyExt;
use prost::Message;
use tonic::{Code, Status};

use super::body::ResponseBody;
use super::frame::{Frame, SharedBytes};
use super::trailers::trailers;

/// Size of the prefix of every message, bytes: a compression flag and a big-endian length.
pub const PREFIX_BYTES: usize = 5;

/// The compression flags of the prefix.
const UNCOMPRESSED: u8 = 0;
pub(super) const COMPRESSED: u8 = 1;

/// Maximum message that etcd's server sends (Go's MaxInt32), bytes.
pub const MAX_SEND_BYTES: u64 = i32::MAX as u64;

/// Returns the prefix of an uncompressed message of `len` bytes.
///
/// # Errors
/// `ResourceExhausted` above [`MAX_SEND_BYTES`], with grpc-go's text.
pub fn message_prefix(len: u64) -> Result<[u8; PREFIX_BYTES], Status> {
    if len > MAX_SEND_BYTES {
        return Err(Status::resource_exhausted(format!(
            "grpc: trying to send message larger than max ({len} vs. {MAX_SEND_BYTES})"
        )));
    }
    let mut prefix = [0; PREFIX_BYTES];
    prefix[1..].copy_from_slice(&(len as u32).to_be_bytes());
    Ok(prefix)
}

/// The encoding of the compressed messages of a request: its `grpc-encoding`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// No compression.
    Identity,
    /// gzip, which clients of grpc-go can request.
    Gzip,
}

impl Encoding {
    /// Returns the encoding that the headers of a request name.
    ///
    /// # Errors
    /// `Unimplemented` for any encoding other than gzip, whether or not a message is compressed.
    pub fn of(headers: &HeaderMap) -> Result<Self, Status> {
        let name = headers.get("grpc-encoding").map(HeaderValue::as_bytes);
        match name.unwrap_or_default() {
            b"" | b"identity" => Ok(Self::Identity),
            b"gzip" => Ok(Self::Gzip),
            other => Err(Status::unimplemented(format!(
                "grpc: Decompressor is not installed for grpc-encoding {:?}",
                String::from_utf8_lossy(other)
            ))),
        }
    }

    /// Returns the decompressed message. Stops at `limit_bytes`, even if more would follow.
    fn decompress(self, message: &[u8], limit_bytes: usize) -> Result<Bytes, Status> {
        if self == Self::Identity {
            let text = "grpc: compressed flag set with identity or empty encoding";
            return Err(Status::internal(text));
        }
        let mut out = Vec::new();
        MultiGzDecoder::new(message)
            .take(limit_bytes as u64 + 1)
            .read_to_end(&mut out)
            .map_err(|e| {
                Status::internal(format!("grpc: failed to decompress the message: {e}"))
            })?;
        match out.len() > limit_bytes {
            true => Err(Status::resource_exhausted(format!(
                "grpc: received message after decompression larger than max {limit_bytes}"
            ))),
            false => Ok(out.into()),
        }
    }
}

/// Reads the single message of a unary (or server-streaming) request, and decompresses it if
/// necessary.
///
/// # Errors
/// `ResourceExhausted` above `limit_bytes`, with grpc-go's text, as soon as the prefix is read or
/// that many bytes are decompressed; `Internal` for a malformed message; errors of the body.
pub async fn read_message<B>(
    mut body: B,
    encoding: Encoding,
    limit_bytes: usize,
) -> Result<Bytes, Status>
where
    B: http_body::Body<Data = Bytes, Error = Status> + Unpin,
{
    let mut whole = MessageBuffer::default();
    let mut announced = None;
    while !body.is_end_stream() {
        let Some(frame) = body.frame().await else {
            break;
        };
        let Ok(data) = frame?.into_data() else {
            continue;
        };
        whole.push(data, announced.unwrap_or(0));
        if announced.is_none() {
            announced = message_bytes(whole.bytes(), limit_bytes)?;
        }
        if announced.is_some_and(|len| whole.bytes().len() > PREFIX_BYTES + len) {
            break;
        }
    }
    let held = whole.bytes().len();
    let Some(len) = announced else {
        return Err(Status::internal(format!(
            "request of {held} bytes is shorter than a gRPC message prefix"
        )));
    };
    if held != PREFIX_BYTES + len {
        return Err(Status::internal(format!(
            "gRPC message prefix says {len} bytes, body holds {}",
            held - PREFIX_BYTES
        )));
    }
    let is_compressed = whole.bytes()[0] == COMPRESSED;
    let message = whole.into_bytes().slice(PREFIX_BYTES..);
    match is_compressed {
        true => encoding.decompress(&message, limit_bytes),
        false => Ok(message),
    }
}

/// Returns the length of the message at the start of `bytes`; `None` before the prefix is complete.
fn message_bytes(bytes: &[u8], limit_bytes: usize) -> Result<Option<usize>, Status> {
    let Some((prefix, _)) = bytes.split_first_chunk::<PREFIX_BYTES>() else {
        return Ok(None);
    };
    match prefix[0] {
        UNCOMPRESSED | COMPRESSED => {}
        format => {
            let text = format!("grpc: received unexpected payload format {format}");
            return Err(Status::internal(text));
        }
    }
    let len = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
    match len > limit_bytes {
        true => Err(too_large(len, limit_bytes)),
        false => Ok(Some(len)),
    }
}

fn too_large(len: usize, limit_bytes: usize) -> Status {
    Status::resource_exhausted(format!(
        "grpc: received message larger than max ({len} vs. {limit_bytes})"
    ))
}

/// Converts tonic's error for a message that is too large to grpc-go's code and text.
pub fn into_grpc_go_status(status: Status) -> Status {
    if status.code() != Code::OutOfRange {
        return status;
    }
    let mut numbers = status
        .message()
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|number| number.parse().ok());
    match (numbers.next(), numbers.next()) {
        (Some(len), Some(limit_bytes)) => too_large(len, limit_bytes),
        _ => status,
    }
}

/// The received part of a body. Most requests are one DATA frame, which is not copied.
#[derive(Default)]
struct MessageBuffer {
    first: Bytes,
    more: BytesMut,
}

impl MessageBuffer {
    /// Appends a frame; `expected` is the total size, if known.
    fn push(&mut self, data: Bytes, expected: usize) {
        if self.bytes().is_empty() {
            self.first = data;
            return;
        }
        if self.more.is_empty() {
            let room = (PREFIX_BYTES + expected).max(self.first.len() + data.len());
            self.more.reserve(room);
            self.more
                .extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.more.extend_from_slice(&data);
    }

    fn bytes(&self) -> &[u8] {
        match self.more.is_empty() {
            true => &self.first,
            false => &self.more,
        }
    }

    fn into_bytes(self) -> Bytes {
        match self.more.is_empty() {
            true => self.first,
            false => self.more.freeze(),
        }
    }
}

/// Decodes a request message.
///
/// # Errors
/// `Internal` with the decoder's text, as gRPC servers return.
pub fn decode<M: Message + Default>(bytes: Bytes) -> Result<M, Status> {
    M::decode(bytes).map_err(|e| Status::internal(format!("cannot decode request: {e}")))
}

/// Returns a message as a frame: prefix and encoding in one exact allocation.
///
/// # Errors
/// As [`message_prefix`].
pub fn message_frame<S>(message: &impl Message) -> Result<Frame<S>, Status> {
    let len = message.encoded_len();
    // Checked before memory is reserved.
    let prefix = message_prefix(len as u64)?;
    let mut out = BytesMut::with_capacity(PREFIX_BYTES + len);
    out.put_slice(&prefix);
    message
        .encode(&mut out)
        .expect("the buffer was sized by encoded_len");
    Ok(out.freeze().into())
}

/// Returns a response with `body` and the headers of gRPC.
pub fn response<S>(body: ResponseBody<S>) -> Response<ResponseBody<S>> {
    let mut response = Response::new(body);
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/grpc"),
    );
    response
}

/// Returns an error response: trailers only.
pub fn error_response<S: SharedBytes>(status: &Status) -> Response<ResponseBody<S>> {
    let mut response = response(ResponseBody::empty());
    response.headers_mut().extend(trailers(Err(status)));
    response
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;
    use crate::message_gate::MessageGate;

    fn framed(flag: u8, len: u32, message: &[u8]) -> MessageGate<Full<Bytes>> {
        let mut out = vec![flag];
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(message);
        MessageGate::unary(Full::new(Bytes::from(out)), 10)
    }

    #[tokio::test]
    async fn a_request_is_read_whole_and_malformed_framing_is_an_error() {
        let ok = read_message(framed(0, 3, b"abc"), Encoding::Identity, 10).await;
        assert_eq!(&ok.unwrap()[..], b"abc");
        for (body, code, text) in [
            (
                framed(0, 4, b"abc"),
                Code::Internal,
                "prefix says 4 bytes, body holds 3",
            ),
            (
                framed(1, 3, b"abc"),
                Code::Internal,
                "compressed flag set with identity or empty encoding",
            ),
            (framed(2, 3, b"abc"), Code::Internal, "payload format 2"),
            (
                framed(0, 11, &[0; 11]),
                Code::ResourceExhausted,
                "grpc: received message larger than max (11 vs. 10)",
            ),
            (
                framed(0, 10_000_008, &[0; 11]),
                Code::ResourceExhausted,
                "grpc: received message larger than max (10000008 vs. 10)",
            ),
            (
                framed(0, 2, b"abc"),
                Code::Internal,
                "prefix says 2 bytes, body holds 3",
            ),
            (
                MessageGate::unary(Full::new(Bytes::new()), 10),
                Code::Internal,
                "request of 0 bytes",
            ),
        ] {
            let status = read_message(body, Encoding::Identity, 10).await;
            let status = status.unwrap_err();
            assert_eq!(status.code(), code);
            assert!(status.message().contains(text), "{}", status.message());
        }
    }

    /// The error is returned as soon as the prefix is read, and its text has the length from the
    /// prefix. The rest of the body is not read.
    #[tokio::test]
    async fn a_message_that_is_too_large_is_rejected_by_its_prefix() {
        let frames = [
            &[0, 0][..],
            &[0x98, 0x96, 0x88],
            b"nobody asks for this any more",
        ];
        let mut frames = frames.into_iter().map(Bytes::from_static);
        let mut left = frames.len();
        let body = std::iter::from_fn(|| {
            left -= 1;
            frames
                .next()
                .map(|data| Ok::<_, Status>(http_body::Frame::data(data)))
        });
        let body = http_body_util::StreamBody::new(futures::stream::iter(body));
        let status = read_message(body, Encoding::Identity, 2_097_152).await;
        let status = status.unwrap_err();
        assert_eq!(
            (status.code(), status.message()),
            (
                Code::ResourceExhausted,
                "grpc: received message larger than max (10000008 vs. 2097152)"
            )
        );
        assert_eq!(left, 1, "the rest was left alone");
    }

    #[tokio::test]
    async fn a_message_in_many_frames_is_joined() {
        let frames = [&[0, 0, 0][..], &[0, 6], b"ab", b"", b"cdef"];
        let frames =
            frames.map(|data| Ok::<_, Status>(http_body::Frame::data(Bytes::from_static(data))));
        let body = http_body_util::StreamBody::new(futures::stream::iter(frames));
        let joined = read_message(body, Encoding::Identity, 10).await.unwrap();
        assert_eq!(&joined[..], b"abcdef");
    }

    fn gzip(message: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut encoder, message).unwrap();
        encoder.finish().unwrap()
    }

    #[tokio::test]
    async fn a_compressed_message_is_decompressed_up_to_the_limit() {
        let read = async |message: &[u8], limit_bytes| {
            let body = framed(1, message.len() as u32, message);
            read_message(body, Encoding::Gzip, limit_bytes).await
        };
        // A message of a hundred bytes, and one of a megabyte that compresses to about a thousand.
        let small = gzip(&[7; 100]);
        assert_eq!(read(&small, 100).await.unwrap(), [7; 100][..]);
        // Without its end, which must not be reached.
        let bomb = gzip(&[0; 1 << 20]);
        let bomb = &bomb[..bomb.len() - 9];
        for (message, limit_bytes, code, text) in [
            (
                bomb,
                4000,
                Code::ResourceExhausted,
                "grpc: received message after decompression larger than max 4000",
            ),
            (
                &small[..small.len() - 9],
                100,
                Code::Internal,
                "grpc: failed to decompress the message: ",
            ),
            (
                b"no gzip",
                100,
                Code::Internal,
                "grpc: failed to decompress the message: ",
            ),
        ] {
            let status = read(message, limit_bytes).await.unwrap_err();
            assert_eq!(status.code(), code);
            assert!(status.message().starts_with(text), "{}", status.message());
        }
        // A message may be uncompressed in spite of the request's encoding.
        let body = framed(0, 3, b"abc");
        let ok = read_message(body, Encoding::Gzip, 10).await.unwrap();
        assert_eq!(&ok[..], b"abc");
    }

    #[test]
    fn an_unknown_encoding_has_grpc_gos_error() {
        let of = |name: Option<&'static str>| {
            let headers = name.map(|name| ("grpc-encoding", name));
            let headers = headers.map(|(name, value)| (name.parse(), value.parse()));
            let headers = headers.map(|(name, value)| (name.unwrap(), value.unwrap()));
            Encoding::of(&headers.into_iter().collect())
        };
        assert_eq!(of(None).unwrap(), Encoding::Identity);
        assert_eq!(of(Some("identity")).unwrap(), Encoding::Identity);
        assert_eq!(of(Some("gzip")).unwrap(), Encoding::Gzip);
        let status = of(Some("snappy")).unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented);
        assert_eq!(
            status.message(),
            "grpc: Decompressor is not installed for grpc-encoding \"snappy\""
        );
    }

    #[test]
    fn a_message_above_two_gib_has_grpc_gos_error() {
        let status = message_prefix(1 << 31).unwrap_err();
        assert_eq!(
            status.message(),
            "grpc: trying to send message larger than max (2147483648 vs. 2147483647)"
        );
    }
}
