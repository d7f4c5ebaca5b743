//! Protobuf objects as the JSON that an apiserver would print for them.
//!
//! Transcodes by the [`crate::schema`], without building the object: fields in the order of Go's
//! structs, zero values by the rule of each field, strings escaped as Go's encoder does with HTML
//! escaping on (as Kubernetes' serializer does).
//!
//! - [`writer`]: the state of a transcoding; [`message`]: the fields of a message; [`value`]: the
//!   values of fields; [`canonicalize`]: messages whose fields are in another order
//! - [`text`]: the output buffer; [`escape`]: escapes of strings
//! - [`delta_writer`]: many objects whose neighbours are alike; [`field_map`]: where the fields of
//!   an object are, on both wires; [`diff`]: compares objects, with a [`patch`] for each
//!   difference; [`predicted_diff`]: tries the differences of the object before first

mod canonicalize;
mod delta_writer;
mod diff;
mod escape;
mod field_map;
mod message;
mod patch;
mod predicted_diff;
pub(crate) mod text;
mod value;
mod writer;

use self::field_map::NoFieldMap;
use self::writer::Writer;
use crate::protobuf::Malformed;
use crate::schema::{Field, Message};
pub use delta_writer::JsonDeltaWriter;
pub use escape::put_string;

/// An object that could not be transcoded to JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToJsonError {
    /// The bytes are no protobuf.
    #[error("{message}: {source}")]
    Malformed {
        /// The message type that was being read.
        message: &'static str,
        /// Where and why.
        source: Malformed,
    },
    /// A field has a wire type that does not fit its kind.
    #[error("{message}: field `{field}` has another wire type than its kind")]
    WireType {
        /// The message type that was being read.
        message: &'static str,
        /// The field's JSON name.
        field: &'static str,
    },
}

/// Appends an object of type `message`, encoded in `bytes`, as JSON. `head` is written first inside
/// its braces (`"kind":"Pod","apiVersion":"v1"` for a single object, empty for an item of a list).
///
/// Fields that the schema does not have are left out, as by an older apiserver. `fieldsV1` is
/// assumed to be the compact JSON that an apiserver stored and is not parsed. Costs one allocation.
///
/// # Errors
/// [`ToJsonError`] when `bytes` are no such object; `out` then has the part before the error.
pub fn to_json(
    message: &'static Message,
    bytes: &[u8],
    head: &str,
    out: &mut Vec<u8>,
) -> Result<(), ToJsonError> {
    Writer::new(out, NoFieldMap).object(message, bytes, head)
}

// === impl ToJsonError ===

impl ToJsonError {
    #[cold]
    fn malformed(message: &'static Message, source: Malformed) -> Self {
        Self::Malformed {
            message: message.name(),
            source,
        }
    }

    /// Returns the error of a field's value; `None` stands for a wire type that does not fit.
    #[cold]
    fn misfit(message: &'static Message, field: &'static Field, error: Option<Self>) -> Self {
        error.unwrap_or(Self::WireType {
            message: message.name(),
            field: field.name(),
        })
    }
}

impl From<Malformed> for ToJsonError {
    fn from(source: Malformed) -> Self {
        Self::Malformed {
            message: "value",
            source,
        }
    }
}

#[cfg(test)]
mod tests;
