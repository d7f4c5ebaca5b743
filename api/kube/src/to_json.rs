//! Transcodes protobuf objects to the JSON that an apiserver would print for them.
//!
//! The [`crate::schema`] drives this, and no object is built: fields are in the order of Go's
//! structs, zero values follow the rule of each field, and strings are escaped as Go's encoder does
//! with HTML escaping on (as Kubernetes' serializer does).
//!
//! - [`writer`]: the state of a transcoding; [`message`]: writes the fields of a message;
//!   [`value`]: writes the values of fields; [`canonicalize`]: sorts the fields of messages that
//!   another encoder wrote
//! - [`text`]: the output buffer; [`escape`]: escapes strings
//! - [`delta_writer`]: writes many objects of which neighbours are similar; [`field_map`]: the
//!   positions of an object's fields in protobuf and JSON; [`diff`]: compares objects and returns a
//!   [`patch`] for each difference; [`predicted_diff`]: first tries the differences of the
//!   preceding object

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

/// The error for an object that cannot be transcoded to JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToJsonError {
    /// The bytes are not a protobuf message.
    #[error("{message}: {source}")]
    Malformed {
        /// The message type that was being read.
        message: &'static str,
        /// Position and reason.
        source: Malformed,
    },
    /// The wire type of a field does not match its kind.
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
/// Fields that the schema does not have are omitted, as by an older apiserver. `fieldsV1` is
/// assumed to be the compact JSON that an apiserver stored and is not parsed. Costs one allocation.
///
/// # Errors
/// [`ToJsonError`] when `bytes` are not such an object; `out` then contains the part before the
/// error.
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

    /// Returns the error for a field's value; `None` stands for a wire type that does not match.
    #[cold]
    fn field_error(message: &'static Message, field: &'static Field, error: Option<Self>) -> Self {
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
