//! gRPC by hand for the measured calls: message prefix, request decoding, status trailers.
//!
//! Source: the gRPC over HTTP/2 protocol description; size texts are grpc-go's, which etcd's
//! clients know.

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Response, header};
use http_body_util::BodyExt;
use prost::Message;
use tonic::{Code, Status};

use super::body::ResponseBody;
use super::frame::Frame;

/// Bytes of the prefix of every message: a compression flag and a big-endian length.
pub const PREFIX_BYTES: usize = 5;

/// Largest message that etcd's server sends (Go's MaxInt32), bytes.
pub const MAX_SEND_BYTES: u64 = i32::MAX as u64;

/// The prefix of an uncompressed message of `len` bytes.
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
/// `ResourceExhausted` above `limit_bytes` with grpc-go's text, `Unimplemented` for a compressed
/// message, `Internal` for a broken one.
pub async fn read_message<B>(body: B, limit_bytes: usize) -> Result<Bytes, Status>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let too_large = |len: usize| {
        Status::resource_exhausted(format!(
            "grpc: received message larger than max ({len} vs. {limit_bytes})"
        ))
    };
    let whole = match whole_body(body, limit_bytes).await? {
        Whole::Bytes(whole) => whole,
        Whole::TooLarge(len) => return Err(too_large(len)),
    };
    let Some((prefix, message)) = whole.split_first_chunk::<PREFIX_BYTES>() else {
        return Err(Status::internal(format!(
            "request of {} bytes is shorter than a gRPC message prefix",
            whole.len()
        )));
    };
    if prefix[0] != 0 {
        return Err(Status::unimplemented(
            "compressed requests are not accepted",
        ));
    }
    let len = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
    if len > limit_bytes {
        return Err(too_large(len));
    }
    if message.len() != len {
        return Err(Status::internal(format!(
            "gRPC message prefix says {len} bytes, body holds {}",
            message.len()
        )));
    }
    Ok(whole.slice(PREFIX_BYTES..))
}

/// What a request's body turned out to be.
enum Whole {
    Bytes(Bytes),
    /// Larger than is worth gathering; at least this long.
    TooLarge(usize),
}

/// Gathers a body. Most requests are one DATA frame, which is taken as it is.
async fn whole_body<B>(mut body: B, limit_bytes: usize) -> Result<Whole, Status>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    // Twice the limit and some: enough to say how large a slightly oversized message was without
    // gathering a hostile one.
    let bound = limit_bytes.saturating_mul(2) + PREFIX_BYTES;
    let announced = body.size_hint().lower() as usize;
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    while !body.is_end_stream() {
        let Some(frame) = body.frame().await else {
            break;
        };
        let frame = frame
            .map_err(|e| Status::cancelled(format!("request body ended early: {}", e.into())))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if first.len() + whole.len() + data.len() > bound {
            return Ok(Whole::TooLarge(announced.max(bound)));
        }
        if first.is_empty() && whole.is_empty() {
            first = data;
        } else {
            if whole.is_empty() {
                whole.reserve(announced.min(bound).max(first.len() + data.len()));
                whole.extend_from_slice(&std::mem::take(&mut first));
            }
            whole.extend_from_slice(&data);
        }
    }
    Ok(Whole::Bytes(match whole.is_empty() {
        true => first,
        false => whole.freeze(),
    }))
}

/// Decodes a request message.
///
/// # Errors
/// `Internal` with the decoder's text, as grpc servers answer.
pub fn decode<M: Message + Default>(bytes: Bytes) -> Result<M, Status> {
    M::decode(bytes).map_err(|e| Status::internal(format!("cannot decode request: {e}")))
}

/// One message as a frame: prefix and encoding in one exact allocation.
///
/// # Errors
/// As [`message_prefix`].
pub fn message_frame(message: &impl Message) -> Result<Frame, Status> {
    let len = message.encoded_len();
    let mut out = BytesMut::with_capacity(PREFIX_BYTES + len);
    out.put_slice(&message_prefix(len as u64)?);
    message
        .encode(&mut out)
        .expect("the buffer was sized by encoded_len");
    Ok(out.freeze().into())
}

/// The trailers of a call that ended with `status`.
pub fn trailers(status: Result<(), &Status>) -> HeaderMap {
    let mut map = HeaderMap::with_capacity(2);
    match status {
        Ok(()) => {
            map.insert("grpc-status", HeaderValue::from_static("0"));
        }
        Err(status) => {
            if status.add_header(&mut map).is_err() {
                map.insert("grpc-status", HeaderValue::from(Code::Internal as i32));
            }
        }
    }
    map
}

/// A response with `body` and the headers of a gRPC answer.
pub fn response(body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/grpc"),
    );
    response
}

/// A response that is an error from the start: trailers only.
pub fn error_response(status: &Status) -> Response<ResponseBody> {
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
    async fn a_request_is_read_whole_and_bad_framing_is_told() {
        let ok = read_message(framed(0, 3, b"abc"), 10).await.unwrap();
        assert_eq!(&ok[..], b"abc");
        for (body, code, text) in [
            (
                framed(0, 4, b"abc"),
                Code::Internal,
                "prefix says 4 bytes, body holds 3",
            ),
            (framed(1, 3, b"abc"), Code::Unimplemented, "compressed"),
            (
                framed(0, 11, &[0; 11]),
                Code::ResourceExhausted,
                "grpc: received message larger than max (11 vs. 10)",
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

    #[test]
    fn a_message_above_two_gib_is_refused_in_grpc_gos_words() {
        let status = message_prefix(1 << 31).unwrap_err();
        assert_eq!(
            status.message(),
            "grpc: trying to send message larger than max (2147483648 vs. 2147483647)"
        );
    }
}
