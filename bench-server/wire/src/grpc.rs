//! gRPC framing for the measured calls: message prefix, request decoding, responses.
//!
//! Follows the gRPC over HTTP/2 protocol description; texts of size errors are grpc-go's, which
//! etcd's clients match.

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderValue, Response, header};
use http_body_util::BodyExt;
use prost::Message;
use tonic::{Code, Status};

use super::body::ResponseBody;
use super::frame::{Frame, SharedBytes};
use super::trailers::trailers;

/// Bytes of the prefix of every message: a compression flag and a big-endian length.
pub const PREFIX_BYTES: usize = 5;

/// Largest message that etcd's server sends (Go's MaxInt32), bytes.
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

/// Reads the single message of a unary (or server-streaming) request.
///
/// # Errors
/// `ResourceExhausted` above `limit_bytes` with grpc-go's text, as soon as the prefix is read;
/// `Unimplemented` for a compressed message, `Internal` for a malformed one.
pub async fn read_message<B>(mut body: B, limit_bytes: usize) -> Result<Bytes, Status>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut whole = MessageBuffer::default();
    let mut announced = None;
    while !body.is_end_stream() {
        let Some(frame) = body.frame().await else {
            break;
        };
        let frame = frame
            .map_err(|e| Status::cancelled(format!("request body ended early: {}", e.into())))?;
        let Ok(data) = frame.into_data() else {
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
    Ok(whole.into_bytes().slice(PREFIX_BYTES..))
}

/// Returns the length of the message at the start of `bytes`; `None` before the prefix is complete.
fn message_bytes(bytes: &[u8], limit_bytes: usize) -> Result<Option<usize>, Status> {
    let Some((prefix, _)) = bytes.split_first_chunk::<PREFIX_BYTES>() else {
        return Ok(None);
    };
    match prefix[0] {
        0 => {}
        1 => {
            let text = "compressed requests are not accepted";
            return Err(Status::unimplemented(text));
        }
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
    // Before memory is reserved.
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

    fn framed(flag: u8, len: u32, message: &[u8]) -> Full<Bytes> {
        let mut out = vec![flag];
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(message);
        Full::new(Bytes::from(out))
    }

    #[tokio::test]
    async fn a_request_is_read_whole_and_malformed_framing_is_an_error() {
        let ok = read_message(framed(0, 3, b"abc"), 10).await.unwrap();
        assert_eq!(&ok[..], b"abc");
        for (body, code, text) in [
            (
                framed(0, 4, b"abc"),
                Code::Internal,
                "prefix says 4 bytes, body holds 3",
            ),
            (framed(1, 3, b"abc"), Code::Unimplemented, "compressed"),
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
                Full::new(Bytes::new()),
                Code::Internal,
                "request of 0 bytes",
            ),
        ] {
            let status = read_message(body, 10).await.unwrap_err();
            assert_eq!(status.code(), code);
            assert!(status.message().contains(text), "{}", status.message());
        }
    }

    /// Everything that follows was once gathered first, up to twice the limit, and then said to be
    /// as long as that.
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
        let status = read_message(body, 2_097_152).await.unwrap_err();
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
        assert_eq!(&read_message(body, 10).await.unwrap()[..], b"abcdef");
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
