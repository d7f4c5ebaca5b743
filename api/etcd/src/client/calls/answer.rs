//! Answers read in place: what a generator checks, without building objects.

use tonic::{Code, Status};

use crate::client::walk::{Object, fields};
use crate::error::Error;

/// Bytes before a gRPC message: a compression flag and a big-endian length.
pub(super) const PREFIX_BYTES: usize = 5;

/// What the answer of a Range holds, as far as single keys need it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RangeAnswer<'a> {
    /// Header revision.
    pub revision: i64,
    /// Keys in the interval.
    pub count: i64,
    /// The first key, if there is one.
    pub object: Option<Object<'a>>,
}

/// Reads the message of a `RangeResponse`; `None` when it is malformed.
pub fn range_answer(message: &[u8]) -> Option<RangeAnswer<'_>> {
    let mut answer = RangeAnswer::default();
    let mut rest = message;
    while !rest.is_empty() {
        let (scan, payload) = fields::next_field(&mut rest)?;
        match (scan.field, scan.wire_type) {
            (1, 2) => answer.revision = fields::parse_header(payload)?.0.revision,
            (2, 2) => {
                let object = fields::parse_object(payload)?;
                answer.object.get_or_insert(object);
            }
            (4, 0) => answer.count = scan.value.cast_signed(),
            _ => {}
        }
    }
    Some(answer)
}

/// Reads the header revision of a `PutResponse`; `None` when it is malformed.
pub fn put_answer(message: &[u8]) -> Option<i64> {
    let mut revision = 0;
    let mut rest = message;
    while !rest.is_empty() {
        let (scan, payload) = fields::next_field(&mut rest)?;
        if (scan.field, scan.wire_type) == (1, 2) {
            revision = fields::parse_header(payload)?.0.revision;
        }
    }
    Some(revision)
}

/// The message in the body of a call that ended OK.
pub(super) fn message(body: &[u8]) -> Result<&[u8], Error> {
    let bad = |text: String| Err(Error::Protocol(text));
    let Some((prefix, message)) = body.split_first_chunk::<PREFIX_BYTES>() else {
        return bad(format!(
            "an answer of {} bytes has no message prefix",
            body.len()
        ));
    };
    let [flag, len @ ..] = *prefix;
    if flag != 0 {
        return bad(format!("answer has compression flag {flag}"));
    }
    let len = u32::from_be_bytes(len) as usize;
    if message.len() != len {
        return bad(format!(
            "message prefix says {len} bytes, answer holds {}",
            message.len()
        ));
    }
    Ok(message)
}

/// An answer larger than the client accepts.
pub(super) fn too_large(limit_bytes: usize) -> Error {
    Error::from(Status::new(
        Code::ResourceExhausted,
        format!("answer is larger than {limit_bytes} bytes"),
    ))
}
