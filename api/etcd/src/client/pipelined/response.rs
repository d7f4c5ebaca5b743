//! Reads responses in place, without building structs per object.

use tonic::{Code, Status};

use crate::client::list_validator::{Object, fields};
use crate::error::Error;

/// Size of the prefix of a gRPC message: a compression flag and a big-endian length.
pub(super) const PREFIX_BYTES: usize = 5;

/// The fields of a `RangeResponse` that are needed to read one key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RangeResult<'a> {
    /// Header revision.
    pub revision: i64,
    /// Number of keys in the interval.
    pub count: i64,
    /// The first object, if there is one.
    pub object: Option<Object<'a>>,
}

/// Parses the message of a `RangeResponse`; returns `None` if it is malformed.
pub fn parse_range_response(message: &[u8]) -> Option<RangeResult<'_>> {
    let mut result = RangeResult::default();
    let mut rest = message;
    while !rest.is_empty() {
        let (head, payload) = fields::next_field(&mut rest)?;
        match (head.field, head.wire_type) {
            (1, 2) => result.revision = fields::parse_header(payload)?.0.revision,
            (2, 2) => {
                let object = fields::parse_object(payload)?;
                result.object.get_or_insert(object);
            }
            (4, 0) => result.count = head.value.cast_signed(),
            _ => {}
        }
    }
    Some(result)
}

/// Returns the header revision of a `PutResponse`; `None` if it is malformed.
pub fn parse_put_response(message: &[u8]) -> Option<i64> {
    let mut revision = 0;
    let mut rest = message;
    while !rest.is_empty() {
        let (head, payload) = fields::next_field(&mut rest)?;
        if (head.field, head.wire_type) == (1, 2) {
            revision = fields::parse_header(payload)?.0.revision;
        }
    }
    Some(revision)
}

/// Returns the message in the body of a call that ended with status OK.
pub(super) fn message(body: &[u8]) -> Result<&[u8], Error> {
    let bad = |text: String| Err(Error::Protocol(text));
    let Some((prefix, message)) = body.split_first_chunk::<PREFIX_BYTES>() else {
        return bad(format!(
            "a response of {} bytes has no message prefix",
            body.len()
        ));
    };
    let [flag, len @ ..] = *prefix;
    if flag != 0 {
        return bad(format!("response has compression flag {flag}"));
    }
    let len = u32::from_be_bytes(len) as usize;
    if message.len() != len {
        return bad(format!(
            "message prefix says {len} bytes, response has {}",
            message.len()
        ));
    }
    Ok(message)
}

/// Returns the error for a response that is larger than the client accepts.
pub(super) fn too_large(limit_bytes: usize) -> Error {
    Error::from(Status::new(
        Code::ResourceExhausted,
        format!("response is larger than {limit_bytes} bytes"),
    ))
}

/// Returns the gRPC status for a stream that was reset with this HTTP/2 error code (gRPC over
/// HTTP/2, "Errors").
pub(super) fn status_of_reset(code: u32) -> Code {
    match code {
        7 => Code::Unavailable,
        8 => Code::Cancelled,
        0xb => Code::ResourceExhausted,
        0xc => Code::PermissionDenied,
        _ => Code::Internal,
    }
}
